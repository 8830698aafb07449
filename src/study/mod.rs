//! The vocabulary of a study: identifiers, parameter values and schemas, trial states, cohorts,
//! the objective and the rules that condense folds, epochs and arms to one value.
//!
//! # Invariants
//! - No I/O, no clock, no entropy, no async.
//! - Nothing here names another module of the crate.

mod cohort;
mod id;
mod objective;
mod param;
mod seed;
mod state;
#[cfg(test)]
mod tests;

pub use cohort::{History, Observation, cohort_of, watermark};
pub use id::{AttemptId, ConfigurationId, ConfigurationNumber, StudyId, TrialId};
pub use objective::{BestEpoch, Direction, FoldScore, Metric, Objective, configuration_value};
pub use param::{Domain, ModelSchema, ParamSchema, Params, Scale, Value, When};
pub use seed::run_seed;
pub use state::{DegenerateReason, FailureKind, Precision, StudyState, TrialState};
