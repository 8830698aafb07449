//! An executor's life: pack after pack until the queue ends.

use super::message::{Event, TrialEnd, TrialFailure, TrialReport};
use super::pack::Pack;
use super::pool::Shared;
use super::prepare::{Prepared, PreparedPlan};
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
            let mut pack = match Pack::open(shared, &plan, n_lanes) {
                Ok(pack) => pack,
                Err(cause @ EngineError::OutOfMemory { .. }) if n_lanes > 1 => {
                    debug!(%cause, n_lanes, "the pack does not fit, halving it");
                    n_lanes /= 2;
                    continue;
                }
                Err(cause) => {
                    for trial in shared.take(plan.key(), 1) {
                        fail(shared, &trial, &failure_of(&cause));
                    }
                    break;
                }
            };
            let is_warm = !warmed.insert(plan.key().to_owned());
            let outcome = catch_unwind(AssertUnwindSafe(|| pack.run(is_warm)));
            match outcome {
                Ok(Ok(())) => {}
                Ok(Err(cause)) => {
                    error!(%cause, "a pack is lost");
                    pack.fail_all(&failure_of(&cause));
                }
                Err(panic) => {
                    let text = panic_text(panic.as_ref());
                    error!(%text, "a pack is lost to a defect of the program");
                    pack.fail_all(&TrialFailure { kind: FailureKind::Bug, text, bytes: None });
                }
            }
            break;
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

fn fail(shared: &Shared, trial: &Prepared, failure: &TrialFailure) {
    let report = TrialReport {
        trial_id: trial.request.trial_id,
        end: TrialEnd::Failed(failure.clone()),
        folds: Vec::new(),
    };
    // The receiver is gone only when the study is over.
    let _ = shared.events.blocking_send(Event::Done(Box::new(report)));
}

fn failure_of(cause: &EngineError) -> TrialFailure {
    match cause {
        EngineError::OutOfMemory { asked_bytes, free_bytes, .. } => TrialFailure {
            kind: FailureKind::OutOfMemory,
            text: cause.to_string(),
            bytes: Some((*asked_bytes, *free_bytes)),
        },
        EngineError::BadValues { .. } => {
            TrialFailure { kind: FailureKind::Bug, text: cause.to_string(), bytes: None }
        }
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("a panic without a message").to_owned()
}

/// Keeps a plan alive as long as a pack runs it.
pub(super) type SharedPlan = Arc<PreparedPlan>;
