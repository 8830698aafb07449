//! Executors of a device and the queue that feeds them.

use super::message::Event;
use super::prepare::{Prepared, PreparedPlan, Preparer};
use super::thread;
use crate::study::Objective;
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use tokio::sync::mpsc::Sender;

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
    /// Updates an epoch.
    pub steps_per_epoch: u64,
}

/// What executors of a pool share.
pub(super) struct Shared {
    pub(super) preparer: Arc<Preparer>,
    pub(super) options: PoolOptions,
    pub(super) events: Sender<Event>,
    /// Held for the duration of an epoch, so that its device time is its own.
    pub(super) turn: Mutex<()>,
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
            queue = self.changed.wait(queue).expect("no thread panics holding it");
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
        let mut pool = Self { shared, threads: Vec::new() };
        for idx in 0..options.n_executors.get() {
            let shared = pool.shared.clone();
            let builder = std::thread::Builder::new().name(format!("executor-{idx}"));
            pool.threads.push(builder.spawn(move || thread::run(&shared))?);
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
