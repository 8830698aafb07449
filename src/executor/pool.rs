//! Executors of a device and the queue that feeds them.

use super::message::{Event, FoldResult, StartedPack, TrialEnd, TrialReport};
use super::prepare::{Prepared, PreparedPlan, Preparer};
use super::thread;
use crate::study::{Objective, TrialId};
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;

/// How trials run. Nothing here but objective and epochs changes a result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoolOptions {
    /// Executor threads.
    pub n_executors: NonZeroUsize,
    /// Lanes of a pack.
    pub n_lanes: NonZeroUsize,
    /// Bytes that all packs together may take.
    pub memory_bytes_max: u64,
    /// Whether packs run side by side, which makes their times incomparable.
    pub overlap: bool,
    /// What trials are scored by.
    pub objective: Objective,
    /// Epochs of a run.
    pub n_epochs: u32,
}

/// What executors of a pool share.
pub(super) struct Shared {
    pub(super) preparer: Arc<Preparer>,
    pub(super) options: PoolOptions,
    pub(super) events: Sender<Event>,
    /// Held for the duration of an epoch, so that its device time is its own.
    turn: Mutex<()>,
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Prepared>,
    is_closed: bool,
    is_stopping: bool,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("no thread panics holding it")
    }

    /// Waits for a trial; `None` once there will be none.
    pub(super) fn next_plan(&self) -> Option<Arc<PreparedPlan>> {
        let mut queue = self.queue();
        loop {
            if queue.is_stopping {
                return None;
            }
            if let Some(first) = queue.waiting.front() {
                return Some(first.plan.clone());
            }
            if queue.is_closed {
                return None;
            }
            queue = self
                .changed
                .wait(queue)
                .expect("no thread panics holding it");
        }
    }

    /// Takes up to `n_max` waiting trials of a plan key, oldest first.
    pub(super) fn take(&self, key: &str, n_max: usize) -> Vec<Prepared> {
        let mut queue = self.queue();
        if queue.is_stopping {
            return Vec::new();
        }
        let mut taken = Vec::new();
        let mut kept = VecDeque::with_capacity(queue.waiting.len());
        for trial in queue.waiting.drain(..) {
            if taken.len() < n_max && trial.plan.key() == key {
                taken.push(trial);
            } else {
                kept.push_back(trial);
            }
        }
        queue.waiting = kept;
        taken
    }

    /// Announces taken trials and waits until their start is durable; returns those that may run.
    pub(super) fn begin(
        &self,
        plan: &PreparedPlan,
        n_lanes: usize,
        taken: Vec<Prepared>,
    ) -> Vec<Prepared> {
        if taken.is_empty() {
            return taken;
        }
        let bytes_per_lane = plan.plan.lane_bytes as u64;
        let (accepted, answer) = oneshot::channel();
        let start = StartedPack {
            trials: taken.iter().map(|trial| trial.request.trial_id).collect(),
            plan_key: plan.key().to_owned(),
            n_lanes: u32::try_from(n_lanes).expect("few lanes"),
            arena_bytes: bytes_per_lane * n_lanes as u64,
            bytes_per_lane,
            accepted,
        };
        // Nobody listens only when the study is over; then nothing may start.
        let is_sent = self.events.blocking_send(Event::Start(start)).is_ok();
        let answer = if is_sent {
            answer.blocking_recv().unwrap_or_default()
        } else {
            Vec::new()
        };
        let accepted = taken
            .into_iter()
            .zip(answer)
            .filter(|(_, is_accepted)| *is_accepted);
        accepted.map(|(trial, _)| trial).collect()
    }

    /// Reports the end of a trial that has begun.
    pub(super) fn end(&self, trial_id: TrialId, end: TrialEnd, folds: Vec<FoldResult>) {
        let report = TrialReport {
            trial_id,
            end,
            folds,
        };
        // As above: nobody listens only when the study is over.
        let _ = self.events.blocking_send(Event::Done(Box::new(report)));
    }

    /// Waits for the device; `None` where packs run side by side.
    pub(super) fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        // A pack that panicked in its turn is lost, and the device is the next one's all the same.
        let wait = || self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        (!self.options.overlap).then(wait)
    }

    /// Whether executors end at the next epoch boundary.
    pub(super) fn is_stopping(&self) -> bool {
        self.queue().is_stopping
    }
}

/// Executors of one device.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts the executors.
    ///
    /// - `events`: where they report; when it is full they wait.
    ///
    /// # Errors
    /// [`std::io::Error`] if the system starts no thread.
    pub fn start(
        preparer: Arc<Preparer>,
        options: PoolOptions,
        events: Sender<Event>,
    ) -> Result<Self, std::io::Error> {
        let shared = Arc::new(Shared {
            preparer,
            options,
            events,
            turn: Mutex::new(()),
            queue: Mutex::default(),
            changed: Condvar::new(),
        });
        let mut pool = Self {
            shared,
            threads: Vec::new(),
        };
        for idx in 0..options.n_executors.get() {
            let shared = pool.shared.clone();
            let builder = std::thread::Builder::new().name(format!("executor-{idx}"));
            pool.threads
                .push(builder.spawn(move || thread::run(&shared))?);
        }
        Ok(pool)
    }

    /// Adds trials; executors take them in this order.
    pub fn submit(&self, trials: Vec<Prepared>) {
        self.shared.queue().waiting.extend(trials);
        self.shared.changed.notify_all();
    }

    /// Takes back the trials that no executor has begun and of which `keeps` says no.
    pub fn withdraw(&self, keeps: impl Fn(&Prepared) -> bool) {
        self.shared.queue().waiting.retain(keeps);
    }

    /// Says that no trial will follow: executors end once the queue is empty.
    pub fn close(&self) {
        self.shared.queue().is_closed = true;
        self.shared.changed.notify_all();
    }

    /// Ends executors at the next epoch boundary; what they run is given up.
    pub fn stop(&self) {
        self.shared.queue().is_stopping = true;
        self.shared.changed.notify_all();
    }

    /// Waits until every executor has ended. Blocks; the receiver of events must be drained or
    /// dropped meanwhile.
    pub fn join(self) {
        for thread in self.threads {
            // An executor catches the panics of its packs; one of its own was logged by the hook.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
