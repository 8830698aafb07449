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
    let mut warmed: HashSet<String> = HashSet::new();
    while let Some(plan) = shared.next_plan() {
        let mut n_lanes = lanes_that_fit(shared, &plan);
        // The queue's first trial waits until it is taken, so this ends.
        loop {
            let mut pack = match guarded(|| Pack::open(shared, &plan, n_lanes)) {
                Ok(pack) => pack,
                Err(failure) if failure.kind == FailureKind::OutOfMemory && n_lanes > 1 => {
                    debug!(
                        cause = failure.text,
                        n_lanes, "the pack does not fit, halving it"
                    );
                    n_lanes /= 2;
                    continue;
                }
                Err(failure) => {
                    let taken = shared.take(plan.key(), 1);
                    for trial in shared.begin(&plan, n_lanes, taken) {
                        shared.end(
                            trial.request.trial_id,
                            TrialEnd::Failed(failure.clone()),
                            vec![],
                        );
                    }
                    break;
                }
            };
            let is_warm = !warmed.insert(plan.key().to_owned());
            if let Err(failure) = guarded(|| pack.run(is_warm)) {
                error!(kind = ?failure.kind, cause = failure.text, "a pack is lost");
                pack.fail_all(&failure);
            }
            break;
        }
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

/// Lanes of a pack: what was asked for, halved until every executor's pack fits the budget.
fn lanes_that_fit(shared: &Shared, plan: &PreparedPlan) -> usize {
    let options = &shared.options;
    let share = options.memory_bytes_max / options.n_executors.get() as u64;
    let mut n_lanes = options.n_lanes.get();
    while n_lanes > 1 && (n_lanes * plan.plan.lane_bytes) as u64 > share {
        n_lanes /= 2;
    }
    n_lanes
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

/// Keeps a plan alive as long as a pack runs it.
pub(super) type SharedPlan = Arc<PreparedPlan>;
