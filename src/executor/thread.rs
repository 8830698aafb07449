//! An executor's life: pack after pack until the queue ends or the device is lost.
//!
//! # Invariants
//! - A session outlives its pack: the next pack of the plan refills its lanes. One session at a
//!   time, so that an executor never takes more memory than for its largest pack.

use super::message::{DeviceLoss, Event, TrialEnd, TrialFailure};
use super::pack::{Pack, Resident};
use super::pool::{Footprint, Shared};
use super::prepare::{Prepared, PreparedPlan};
use super::queue::{Claim, ExecutorId};
use crate::engine::backend::EngineError;
use crate::study::FailureKind;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tracing::{debug, error};

/// Runs packs until no trial will come.
pub(super) fn run(shared: &Shared, me: ExecutorId) {
    // Dropped last: when it is told that the device is lost, nothing of the executor is there.
    let _leaving = Leaving { shared, me };
    let mut executor = Executor {
        shared,
        me,
        warmed: HashSet::new(),
        resident: None,
    };
    while let Some(claim) = executor.claim() {
        executor.serve(claim);
    }
}

struct Executor<'s> {
    shared: &'s Shared,
    me: ExecutorId,
    /// Plans of which this executor has run an epoch.
    warmed: HashSet<String>,
    resident: Option<Resident>,
}

impl Executor<'_> {
    fn claim(&self) -> Option<Claim> {
        let shared = self.shared;
        let prefers = self.resident.as_ref().map(|resident| resident.plan.key());
        let n_max = |plan: &PreparedPlan| {
            let device = shared.device(self.me);
            shared.n_trials(shared.options.n_lanes(device, &plan.plan))
        };
        shared.queue.claim(self.me, prefers, n_max)
    }

    /// Runs a pack of claimed trials, and what joins them, to its end.
    fn serve(&mut self, claim: Claim) {
        let Claim { plan, mut trials } = claim;
        let resident = self.resident.take();
        // What is there of another plan is dropped before anything new is asked for.
        let resident = resident.filter(|resident| resident.plan.key() == plan.key());
        let resident = match resident.map_or_else(|| self.open(&plan), Ok) {
            Ok(resident) => resident,
            Err(fault) => return self.refuse(&plan, trials, &fault),
        };
        // A pack that was halved has lanes for fewer.
        let n_kept = self.shared.n_trials(resident.footprint.n_lanes);
        let surplus = trials.split_off(n_kept.min(trials.len()));
        self.shared.queue.give_back(surplus);
        let mut pack = Pack::new(self.shared, self.me, resident, trials);
        match guarded(|| pack.run(&mut self.warmed)) {
            Ok(()) => self.resident = Some(pack.into_resident()),
            Err(fault) => {
                error!(kind = ?fault.failure.kind, cause = fault.failure.text, "a pack is lost");
                // First, so that nobody of this device takes what goes back to waiting.
                self.retire(&fault);
                pack.fail_all(&fault.end());
            }
        }
    }

    /// Opens a session, halved until it fits.
    fn open(&self, plan: &Arc<PreparedPlan>) -> Result<Resident, Fault> {
        let device = self.shared.device(self.me);
        let mut n_lanes = self.shared.options.n_lanes(device, &plan.plan);
        loop {
            let fault = match guarded(|| Resident::open(self.shared, self.me, plan, n_lanes)) {
                Ok(resident) => return Ok(resident),
                Err(fault) => fault,
            };
            if fault.failure.kind != FailureKind::OutOfMemory || n_lanes == 1 {
                return Err(fault);
            }
            let cause = fault.failure.text;
            debug!(cause, n_lanes, "the pack does not fit, halving it");
            n_lanes /= 2;
        }
    }

    /// Fails the first of the trials for which no session can be had; the others wait again. On
    /// a lost device all of them do, and so do those that may fit another device's memory.
    fn refuse(&self, plan: &PreparedPlan, trials: Vec<Prepared>, fault: &Fault) {
        self.retire(fault);
        let is_out_of_memory = fault.failure.kind == FailureKind::OutOfMemory;
        let may_fit = is_out_of_memory && self.shared.queue.has_other(self.me.device);
        let (mut failing, mut others) = (Vec::new(), Vec::new());
        for mut trial in trials {
            if may_fit && trial.shuns.is_none() {
                trial.shuns = Some(self.me);
                others.push(trial);
            } else if fault.lost.is_none() && failing.is_empty() {
                failing.push(trial);
            } else {
                others.push(trial);
            }
        }
        self.shared.queue.give_back(others);
        let backend = self.shared.backend(self.me);
        let digest = guarded(|| Ok(backend.kernel_digest(&plan.plan)));
        let footprint = Footprint {
            n_lanes: 1,
            arena_bytes: backend.bytes(&plan.plan, 1),
            kernel_digest: digest.unwrap_or_else(|_| "unknown".to_owned()),
        };
        for trial in self.shared.begin(self.me, plan, &footprint, failing) {
            let trial_id = trial.request.trial_id;
            self.shared.end(self.me, trial_id, fault.end(), Vec::new());
        }
    }

    fn retire(&self, fault: &Fault) {
        if let Some(cause) = &fault.lost {
            self.shared.queue.retire(self.me.device, cause);
        }
    }
}

/// Takes the executor off the list, however it ends.
struct Leaving<'s> {
    shared: &'s Shared,
    me: ExecutorId,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let departure = self.shared.queue.leave(self.me);
        let event = if std::thread::panicking() {
            Event::ExecutorLost
        } else if let Some(cause) = departure.lost {
            Event::DeviceLost(DeviceLoss {
                device: self.shared.backend(self.me).info().id,
                cause: cause.to_string(),
                n_devices_left: departure.n_devices_left,
            })
        } else {
            return;
        };
        // Nobody listens only when the study is over.
        let _ = self.shared.events.blocking_send(event);
    }
}

/// What went wrong with a pack.
#[derive(Debug, Clone)]
struct Fault {
    failure: TrialFailure,
    /// The error, if every session of the device is lost with it.
    lost: Option<Box<EngineError>>,
}

impl Fault {
    /// How it ends a trial that has begun.
    fn end(&self) -> TrialEnd {
        match self.lost {
            Some(_) => TrialEnd::Lost(self.failure.clone()),
            None => TrialEnd::Failed(self.failure.clone()),
        }
    }
}

/// Does a pack's work; what goes wrong, a panic included, is a failure of its trials.
fn guarded<T>(work: impl FnOnce() -> Result<T, EngineError>) -> Result<T, Fault> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(cause)) => Err(fault_of(cause)),
        Err(panic) => Err(Fault {
            failure: TrialFailure {
                kind: FailureKind::Bug,
                text: panic_text(panic.as_ref()),
                bytes: None,
            },
            lost: None,
        }),
    }
}

fn fault_of(cause: EngineError) -> Fault {
    let (kind, bytes) = match cause {
        EngineError::OutOfMemory {
            asked_bytes,
            free_bytes,
            ..
        } => (FailureKind::OutOfMemory, Some((asked_bytes, free_bytes))),
        EngineError::Device { .. } => (FailureKind::Device, None),
        EngineError::BadValues { .. } => (FailureKind::Bug, None),
    };
    let text = cause.to_string();
    let is_lost = matches!(
        cause,
        EngineError::Device {
            is_sticky: true,
            ..
        }
    );
    Fault {
        failure: TrialFailure { kind, text, bytes },
        lost: is_lost.then(|| Box::new(cause)),
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}
