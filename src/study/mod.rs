//! The vocabulary of a study: identifiers, parameter values and schemas, trial states.
//!
//! # Invariants
//! - No I/O, no clock, no entropy, no async.
//! - Nothing here names another module of the crate.

mod param;
mod state;

pub use param::{Domain, ModelSchema, ParamSchema, Params, Scale, Value, When};
pub use state::{DegenerateReason, FailureKind, Precision, StudyState, TrialState};
