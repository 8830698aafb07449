//! Names of enum values in the database.
//!
//! # Invariants
//! - A test compares each list with the labels of the Postgres type.

use super::outcome::Split;
use crate::study::{DegenerateReason, Direction, FailureKind, Precision, StudyState, TrialState};
use std::fmt;

/// An enum with the labels of a Postgres type.
pub(super) trait Kind: Sized + Copy + 'static {
    /// The Postgres type.
    const TYPE: &'static str;
    /// Every value.
    const EVERY: &'static [Self];

    /// Returns the label.
    fn label(self) -> &'static str;

    /// Reads a label.
    fn parse(label: &str) -> Result<Self, sqlx::Error> {
        let found = Self::EVERY.iter().find(|kind| kind.label() == label);
        found.copied().ok_or_else(|| {
            sqlx::Error::Decode(Box::new(UnknownLabel {
                kind: Self::TYPE,
                label: label.to_owned(),
            }))
        })
    }

    /// Reads a label that may be NULL.
    fn parse_option(label: Option<&str>) -> Result<Option<Self>, sqlx::Error> {
        label.map(Self::parse).transpose()
    }
}

/// A label that this program does not know.
#[derive(Debug)]
struct UnknownLabel {
    kind: &'static str,
    label: String,
}

impl fmt::Display for UnknownLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown {} {:?}", self.kind, self.label)
    }
}

impl std::error::Error for UnknownLabel {}

impl Kind for Precision {
    const TYPE: &'static str = "precision_arm";
    const EVERY: &'static [Self] = &[Self::F32, Self::Tf32, Self::Bf16];

    fn label(self) -> &'static str {
        self.as_str()
    }
}

impl Kind for Direction {
    const TYPE: &'static str = "objective_direction";
    const EVERY: &'static [Self] = &[Self::Maximize, Self::Minimize];

    fn label(self) -> &'static str {
        match self {
            Self::Maximize => "maximize",
            Self::Minimize => "minimize",
        }
    }
}

impl Kind for StudyState {
    const TYPE: &'static str = "study_state";
    const EVERY: &'static [Self] = &[Self::Running, Self::Stopped, Self::Complete];

    fn label(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Complete => "complete",
        }
    }
}

impl Kind for TrialState {
    const TYPE: &'static str = "trial_state";
    const EVERY: &'static [Self] = &Self::ALL;

    fn label(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Complete => "complete",
            Self::Pruned => "pruned",
            Self::Failed => "failed",
        }
    }
}

impl Kind for FailureKind {
    const TYPE: &'static str = "failure_kind";
    const EVERY: &'static [Self] = &[
        Self::Diverged,
        Self::OutOfMemory,
        Self::Device,
        Self::Cancelled,
        Self::Bug,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Diverged => "diverged",
            Self::OutOfMemory => "out_of_memory",
            Self::Device => "device",
            Self::Cancelled => "cancelled",
            Self::Bug => "bug",
        }
    }
}

impl Kind for DegenerateReason {
    const TYPE: &'static str = "degenerate_reason";
    const EVERY: &'static [Self] = &[Self::ZeroVariance, Self::TooFewTrades, Self::NotFinite];

    fn label(self) -> &'static str {
        match self {
            Self::ZeroVariance => "zero_variance",
            Self::TooFewTrades => "too_few_trades",
            Self::NotFinite => "not_finite",
        }
    }
}

impl Kind for Split {
    const TYPE: &'static str = "split_kind";
    const EVERY: &'static [Self] = &[Self::Train, Self::Validation, Self::Holdout];

    fn label(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Validation => "validation",
            Self::Holdout => "holdout",
        }
    }
}
