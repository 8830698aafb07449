//! Cohorts of configurations and the history that a cohort may see.

use super::{ConfigurationNumber, Params, TrialState};
use serde::{Deserialize, Serialize};

/// Returns the 0-based cohort of a configuration.
///
/// - `cohort_size`: configurations per cohort, at least 1; a constant of the study.
pub fn cohort_of(number: ConfigurationNumber, cohort_size: u32) -> u32 {
    assert!(cohort_size > 0, "a cohort holds at least one configuration");
    number.0 / cohort_size
}

/// Returns how many configurations, counted from number 0, a suggestion may learn from.
///
/// Cohort `c` is suggested from the whole cohorts up to `c - 2`, so cohorts 0 and 1 see nothing.
/// A configuration is visible exactly if its number is below the returned count.
pub fn watermark(number: ConfigurationNumber, cohort_size: u32) -> u32 {
    cohort_of(number, cohort_size).saturating_sub(1) * cohort_size
}

/// What became of one configuration, as sampler and pruner see it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Which configuration.
    pub number: ConfigurationNumber,
    /// The sampled parameters that were active.
    pub params: Params,
    /// How it ended, or that it has not.
    pub state: TrialState,
    /// Mean over its trials; `None` while running, after a failure, or where degenerate.
    pub value: Option<f64>,
}

/// What a suggestion may learn from; the order of the entries means nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// One entry per configuration below the watermark.
    pub observations: Vec<Observation>,
}
