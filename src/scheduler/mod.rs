//! Runs a study: samples cohorts, feeds executors, records what they report.
//!
//! ```text
//! history ─ sampler ─ cohort ─ store ─ Pool ─ events ─ store ─ history
//! ```
//!
//! # Invariants
//! - Configurations come in cohorts; cohort c is sampled when every configuration up to cohort
//!   c − 2 has ended, so the sample depends on no timing.
//! - Every change of state is in the store before anything acts on it.
//! - A wall limit cuts by configuration number: what is complete is a prefix.

mod error;
mod open;
mod record;
mod run;
mod state;
#[cfg(test)]
mod tests;

pub use error::SchedulerError;
pub use open::{Opened, StudyChange, open};
pub use run::{Ended, Machine, Progress, Scheduler, Summary};
