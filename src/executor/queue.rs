//! Trials that wait, and which executor may take them.
//!
//! # Invariants
//! - An executor takes from the oldest cohort that it may take from, never past it: the next one
//!   is sampled when an earlier one has ended, and a wall limit finds few configurations begun.
//! - An idle executor leaves a trial to a less busy device only if that device has an idle
//!   executor that may take it. So somebody always takes, and nobody waits for what is lost.

use super::prepare::{Prepared, PreparedPlan};
use crate::engine::backend::EngineError;
use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// An executor of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ExecutorId {
    /// Index of its device.
    pub device: usize,
    /// Index among those of its device.
    pub executor: usize,
}

/// What an executor shall do at an epoch boundary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    GoOn,
    Stop,
    /// The device is lost, for this cause.
    Leave(EngineError),
}

/// What a leaving executor leaves behind.
pub(super) struct Departure {
    /// Cause, if it was the last one of a device that is lost.
    pub(super) lost: Option<EngineError>,
    /// Devices that still run trials.
    pub(super) n_devices_left: usize,
}

/// Trials of one plan that an executor has taken.
pub(super) struct Claim {
    pub(super) plan: Arc<PreparedPlan>,
    pub(super) trials: Vec<Prepared>,
}

#[derive(Default)]
struct Device {
    /// Executors that have not ended.
    executors: BTreeSet<usize>,
    /// Those of them that have trials.
    busy: BTreeSet<usize>,
    lost: Option<EngineError>,
}

impl Device {
    fn is_live(&self) -> bool {
        self.lost.is_none() && !self.executors.is_empty()
    }

    fn has_idle(&self) -> bool {
        self.busy.len() < self.executors.len()
    }
}

struct State {
    waiting: VecDeque<Prepared>,
    devices: Vec<Device>,
    is_closed: bool,
    is_stopping: bool,
}

impl State {
    /// Whether another device runs trials.
    fn has_other(&self, device: usize) -> bool {
        let mut devices = self.devices.iter().enumerate();
        devices.any(|(idx, other)| idx != device && other.is_live())
    }

    /// Whether an executor may take a trial: not on the device that failed it, nor where that is
    /// the only one by the same executor, unless nobody else is left.
    fn may_take(&self, trial: &Prepared, me: ExecutorId) -> bool {
        let Some(shunned) = trial.shuns else {
            return true;
        };
        if self.has_other(shunned.device) {
            return me.device != shunned.device;
        }
        me != shunned || self.devices[shunned.device].executors.len() <= 1
    }

    /// Returns the trials that an executor may take, in order.
    fn takeable(&self, me: ExecutorId) -> impl Iterator<Item = &Prepared> {
        let mine = move |trial: &&Prepared| self.may_take(trial, me);
        let oldest = self.waiting.iter().filter(mine);
        let oldest = oldest.map(|trial| trial.request.cohort).min();
        let of_oldest = move |trial: &&Prepared| Some(trial.request.cohort) == oldest;
        self.waiting.iter().filter(mine).filter(of_oldest)
    }

    /// Whether a device that is less busy than the executor's has somebody for the trial.
    fn is_for_another(&self, trial: &Prepared, me: ExecutorId) -> bool {
        let n_busy = self.devices[me.device].busy.len();
        let is_shunned = |device| trial.shuns.is_some_and(|shunned| shunned.device == device);
        self.devices.iter().enumerate().any(|(idx, device)| {
            idx != me.device
                && device.is_live()
                && device.has_idle()
                && device.busy.len() < n_busy
                && !is_shunned(idx)
        })
    }

    /// Returns the plan that an idle executor shall run now.
    fn next_plan(&self, me: ExecutorId, prefers: Option<&str>) -> Option<Arc<PreparedPlan>> {
        let preferred = |trial: &&Prepared| Some(trial.plan.key()) == prefers;
        let trial = self.takeable(me).find(preferred);
        let trial = trial.or_else(|| self.takeable(me).next())?;
        (!self.is_for_another(trial, me)).then(|| trial.plan.clone())
    }

    /// Takes up to `n_max` trials of a plan.
    fn remove(&mut self, key: &str, n_max: usize, me: ExecutorId) -> Vec<Prepared> {
        let taken: BTreeSet<_> = self
            .takeable(me)
            .filter(|trial| trial.plan.key() == key)
            .take(n_max)
            .map(|trial| trial.request.trial_id)
            .collect();
        let waiting = std::mem::take(&mut self.waiting);
        let (taken, kept) = waiting
            .into_iter()
            .partition::<VecDeque<_>, _>(|trial| taken.contains(&trial.request.trial_id));
        self.waiting = kept;
        taken.into()
    }
}

/// The queue of a pool.
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    /// - `n_executors`: of each device; all count as idle until they claim.
    pub(super) fn new(n_devices: usize, n_executors: usize) -> Self {
        let device = || Device {
            executors: (0..n_executors).collect(),
            ..Device::default()
        };
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                devices: (0..n_devices).map(|_| device()).collect(),
                is_closed: false,
                is_stopping: false,
            }),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is whole before anything in it can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something and wakes who waits for it.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let done = change(&mut self.state());
        self.changed.notify_all();
        done
    }

    /// Adds trials at the end.
    pub(super) fn submit(&self, trials: Vec<Prepared>) {
        self.change(|state| state.waiting.extend(trials));
    }

    /// Puts trials back to where they were taken.
    pub(super) fn give_back(&self, trials: Vec<Prepared>) {
        self.change(|state| {
            for trial in trials.into_iter().rev() {
                state.waiting.push_front(trial);
            }
        });
    }

    /// Drops waiting trials.
    pub(super) fn retain(&self, keeps: impl Fn(&Prepared) -> bool) {
        self.change(|state| state.waiting.retain(keeps));
    }

    /// Lets executors end once nothing waits.
    pub(super) fn close(&self) {
        self.change(|state| state.is_closed = true);
    }

    /// Lets executors end at the next epoch boundary.
    pub(super) fn stop(&self) {
        self.change(|state| state.is_stopping = true);
    }

    /// Says what an executor of a device shall do.
    pub(super) fn order(&self, device: usize) -> Order {
        let state = self.state();
        match &state.devices[device].lost {
            Some(cause) => Order::Leave(cause.clone()),
            None if state.is_stopping => Order::Stop,
            None => Order::GoOn,
        }
    }

    /// Waits for trials of one plan; `None` once there will be none for this executor.
    ///
    /// - `prefers`: the plan key that it has a session of.
    /// - `n_max`: how many trials of a plan it has lanes for.
    pub(super) fn claim(
        &self,
        me: ExecutorId,
        prefers: Option<&str>,
        n_max: impl Fn(&PreparedPlan) -> usize,
    ) -> Option<Claim> {
        self.change(|state| state.devices[me.device].busy.remove(&me.executor));
        let mut state = self.state();
        loop {
            if state.is_stopping || state.devices[me.device].lost.is_some() {
                return None;
            }
            if let Some(plan) = state.next_plan(me, prefers) {
                let trials = state.remove(plan.key(), n_max(&plan).max(1), me);
                state.devices[me.device].busy.insert(me.executor);
                drop(state);
                self.changed.notify_all();
                return Some(Claim { plan, trials });
            }
            if state.is_closed && state.waiting.is_empty() {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes up to `n_max` further trials of a plan.
    pub(super) fn take(&self, me: ExecutorId, key: &str, n_max: usize) -> Vec<Prepared> {
        let mut state = self.state();
        if state.is_stopping || state.devices[me.device].lost.is_some() {
            return Vec::new();
        }
        let taken = state.remove(key, n_max, me);
        drop(state);
        // Who waits for the queue's end looks again.
        self.changed.notify_all();
        taken
    }

    /// Whether another device than this one runs trials.
    pub(super) fn has_other(&self, device: usize) -> bool {
        self.state().has_other(device)
    }

    /// Declares a device lost; the first cause stays.
    pub(super) fn retire(&self, device: usize, cause: &EngineError) {
        self.change(|state| {
            let lost = &mut state.devices[device].lost;
            lost.get_or_insert_with(|| cause.clone());
        });
    }

    /// Takes an executor off the list.
    pub(super) fn leave(&self, me: ExecutorId) -> Departure {
        self.change(|state| {
            let device = &mut state.devices[me.device];
            device.executors.remove(&me.executor);
            device.busy.remove(&me.executor);
            let is_last = device.executors.is_empty();
            let lost = device.lost.clone().filter(|_| is_last);
            let n_devices_left = state.devices.iter().filter(|d| d.is_live()).count();
            Departure {
                lost,
                n_devices_left,
            }
        })
    }
}

#[cfg(test)]
mod tests;
