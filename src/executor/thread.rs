//! An executor's life: pack after pack until the queue ends.

use super::message::{TrialEnd, TrialFailure};
use super::pack::Pack;
use super::pool::Shared;
use super::prepare::PreparedPlan;
use crate::engine::backend::EngineError;
use crate::study::FailureKind;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tracing::{debug, error};

/// Runs packs until no trial will come.
pub(super) fn run(shared: &Shared) {
    // Plans of which this executor has run an epoch.
    let mut warmed: HashSet<String> = HashSet::new();
    while let Some(plan) = shared.next_plan() {
        let Some(mut pack) = open(shared, &plan) else {
            continue;
        };
        if let Err(failure) = guarded(|| pack.run(&mut warmed)) {
            error!(kind = ?failure.kind, cause = failure.text, "a pack is lost");
            pack.fail_all(&failure);
        }
    }
}

/// Opens a pack, halved until it fits. Where not even one lane can be had, the trial that waits
/// for it fails.
fn open<'s>(shared: &'s Shared, plan: &Arc<PreparedPlan>) -> Option<Pack<'s>> {
    let mut n_lanes = shared.options.lanes_that_fit(plan.plan.lane_bytes);
    loop {
        let failure = match guarded(|| Pack::open(shared, plan, n_lanes)) {
            Ok(pack) => return Some(pack),
            Err(failure) => failure,
        };
        if failure.kind == FailureKind::OutOfMemory && n_lanes > 1 {
            debug!(
                cause = failure.text,
                n_lanes, "the pack does not fit, halving it"
            );
            n_lanes /= 2;
            continue;
        }
        let taken = shared.take(plan.key(), 1);
        for trial in shared.begin(plan, n_lanes, taken) {
            shared.end(
                trial.request.trial_id,
                TrialEnd::Failed(failure.clone()),
                vec![],
            );
        }
        return None;
    }
}

/// Does a pack's work; what goes wrong, a panic included, is a failure of its trials.
fn guarded<T>(work: impl FnOnce() -> Result<T, EngineError>) -> Result<T, TrialFailure> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(cause)) => Err(failure_of(&cause)),
        Err(panic) => {
            let text = panic_text(panic.as_ref());
            Err(TrialFailure {
                kind: FailureKind::Bug,
                text,
                bytes: None,
            })
        }
    }
}

fn failure_of(cause: &EngineError) -> TrialFailure {
    match cause {
        EngineError::OutOfMemory {
            asked_bytes,
            free_bytes,
            ..
        } => TrialFailure {
            kind: FailureKind::OutOfMemory,
            text: cause.to_string(),
            bytes: Some((*asked_bytes, *free_bytes)),
        },
        EngineError::Device { .. } => TrialFailure {
            kind: FailureKind::Device,
            text: cause.to_string(),
            bytes: None,
        },
        EngineError::BadValues { .. } => TrialFailure {
            kind: FailureKind::Bug,
            text: cause.to_string(),
            bytes: None,
        },
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}
