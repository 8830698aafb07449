//! Devices, their executors and the queue that feeds them.

use super::lanes::Lanes;
use super::message::{Event, FoldResult, StartedPack, TrialEnd, TrialReport};
use super::prepare::{Prepared, PreparedPlan, Preparer};
use super::queue::{ExecutorId, Queue};
use super::thread;
use crate::engine::backend::Backend;
use crate::engine::plan::Plan;
use crate::study::{Objective, TrialId};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::mpsc::Sender;
use tokio::sync::oneshot;

/// How trials run. Nothing here but objective and epochs changes a result.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoolOptions {
    /// Executor threads of each device.
    pub n_per_device: NonZeroUsize,
    /// Lanes of a pack.
    pub lanes: Lanes,
    /// Whether packs run side by side on a device, which makes their times incomparable.
    pub overlap: bool,
    /// What trials are scored by.
    pub objective: Objective,
    /// Epochs of a run.
    pub n_epochs: u32,
}

impl PoolOptions {
    /// Returns what one executor's pack may take of a device's memory, bytes.
    pub fn memory_share_bytes(&self, device: &PoolDevice) -> u64 {
        device.memory_bytes_max / self.n_per_device.get() as u64
    }

    /// Returns the lanes of a plan's packs on a device.
    pub fn n_lanes(&self, device: &PoolDevice, plan: &Plan) -> usize {
        self.lanes.choose(self.memory_share_bytes(device), |n| {
            device.backend.bytes(plan, n)
        })
    }
}

/// A device of a pool.
#[derive(Clone)]
pub struct PoolDevice {
    /// The device.
    pub backend: Arc<dyn Backend>,
    /// Bytes that all its packs together may take.
    pub memory_bytes_max: u64,
}

impl std::fmt::Debug for PoolDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PoolDevice")
            .field("id", &self.backend.info().id)
            .field("memory_bytes_max", &self.memory_bytes_max)
            .finish_non_exhaustive()
    }
}

/// What executors of a pool share.
pub(super) struct Shared {
    pub(super) preparer: Arc<Preparer>,
    pub(super) options: PoolOptions,
    pub(super) events: Sender<Event>,
    pub(super) queue: Queue,
    devices: Vec<PoolDevice>,
    /// Per device: held for the duration of an epoch, so that its device time is its own.
    turns: Vec<Mutex<()>>,
}

/// What attempts record of a session.
#[derive(Debug, Clone)]
pub(super) struct Footprint {
    pub(super) n_lanes: usize,
    pub(super) arena_bytes: u64,
    pub(super) kernel_digest: String,
}

impl Shared {
    pub(super) fn device(&self, me: ExecutorId) -> &PoolDevice {
        &self.devices[me.device]
    }

    pub(super) fn backend(&self, me: ExecutorId) -> &dyn Backend {
        &*self.devices[me.device].backend
    }

    /// Returns the trials whose runs fill so many lanes.
    pub(super) fn n_trials(&self, n_lanes: usize) -> usize {
        n_lanes.div_ceil(self.preparer.market().folds.len())
    }

    /// Announces taken trials and waits until their start is durable; returns those that may run.
    pub(super) fn begin(
        &self,
        me: ExecutorId,
        plan: &PreparedPlan,
        footprint: &Footprint,
        taken: Vec<Prepared>,
    ) -> Vec<Prepared> {
        if taken.is_empty() {
            return taken;
        }
        let backend = self.backend(me);
        let (accepted, answer) = oneshot::channel();
        let start = StartedPack {
            trials: taken.iter().map(|trial| trial.request.trial_id).collect(),
            plan_key: plan.key().to_owned(),
            device: backend.class(),
            driver: backend.driver(),
            kernel_digest: footprint.kernel_digest.clone(),
            n_lanes: u32::try_from(footprint.n_lanes).expect("few lanes"),
            arena_bytes: footprint.arena_bytes,
            bytes_per_lane: plan.plan.lane_bytes as u64,
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
    pub(super) fn end(
        &self,
        me: ExecutorId,
        trial_id: TrialId,
        end: TrialEnd,
        folds: Vec<FoldResult>,
    ) {
        let report = TrialReport {
            trial_id,
            executor: me,
            end,
            folds,
        };
        // As above: nobody listens only when the study is over.
        let _ = self.events.blocking_send(Event::Done(Box::new(report)));
    }

    /// Waits for the executor's device; `None` where packs run side by side.
    pub(super) fn turn(&self, me: ExecutorId) -> Option<MutexGuard<'_, ()>> {
        let turn = &self.turns[me.device];
        // A pack that panicked in its turn is lost, and the device is the next one's all the same.
        let wait = || turn.lock().unwrap_or_else(PoisonError::into_inner);
        (!self.options.overlap).then(wait)
    }
}

/// Executors of devices of one class.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts the executors.
    ///
    /// - `devices`: all of the class that plans are prepared for.
    /// - `events`: where they report; when it is full they wait.
    ///
    /// # Errors
    /// [`std::io::Error`] if the system starts no thread.
    ///
    /// # Panics
    /// If a device is of another class: results would depend on where a trial runs.
    pub fn start(
        preparer: Arc<Preparer>,
        devices: Vec<PoolDevice>,
        options: PoolOptions,
        events: Sender<Event>,
    ) -> Result<Self, std::io::Error> {
        let class = preparer.backend().class();
        let is_of_class = |device: &PoolDevice| device.backend.class() == class;
        assert!(devices.iter().all(is_of_class), "every device is a {class}");
        let n_per_device = options.n_per_device.get();
        let shared = Arc::new(Shared {
            preparer,
            options,
            events,
            queue: Queue::new(devices.len(), n_per_device),
            turns: devices.iter().map(|_| Mutex::new(())).collect(),
            devices,
        });
        let mut pool = Self {
            shared,
            threads: Vec::new(),
        };
        for executor in 0..n_per_device {
            for device in 0..pool.shared.devices.len() {
                let me = ExecutorId { device, executor };
                if let Err(error) = pool.spawn(me) {
                    pool.stop();
                    return Err(error);
                }
            }
        }
        Ok(pool)
    }

    fn spawn(&mut self, me: ExecutorId) -> Result<(), std::io::Error> {
        let shared = self.shared.clone();
        let name = format!("executor-{}-{}", me.device, me.executor);
        let builder = std::thread::Builder::new().name(name);
        self.threads
            .push(builder.spawn(move || thread::run(&shared, me))?);
        Ok(())
    }

    /// Adds trials; executors take them in this order.
    pub fn submit(&self, trials: Vec<Prepared>) {
        self.shared.queue.submit(trials);
    }

    /// Takes back the trials that no executor has taken and of which `keeps` says no.
    pub fn withdraw(&self, keeps: impl Fn(&Prepared) -> bool) {
        self.shared.queue.retain(keeps);
    }

    /// Says that no trial will follow: executors end once the queue is empty.
    pub fn close(&self) {
        self.shared.queue.close();
    }

    /// Ends executors at the next epoch boundary; what they run is given up.
    pub fn stop(&self) {
        self.shared.queue.stop();
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
