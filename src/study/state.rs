//! States of studies and trials, and why a trial ended as it did.

use serde::{Deserialize, Serialize};

/// Arithmetic of an arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// IEEE single precision throughout.
    F32,
    /// GEMM inputs rounded to a 10-bit mantissa.
    Tf32,
    /// GEMM inputs and weights rounded to bfloat16.
    Bf16,
}

impl Precision {
    /// Returns the name used in sweep files and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
        }
    }
}

/// State of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StudyState {
    /// Unfinished; `hyperopt run` on the same file goes on.
    Running,
    /// The wall limit or a person ended it early.
    Stopped,
    /// Every configuration of the budget ended.
    Complete,
}

/// State of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrialState {
    /// Sampled, not started.
    Waiting,
    /// An attempt holds it.
    Running,
    /// Ended with a value or a degenerate reason.
    Complete,
    /// Ended by the pruner.
    Pruned,
    /// Ended with a failure.
    Failed,
}

impl TrialState {
    /// Every state.
    pub const ALL: [Self; 5] = [
        Self::Waiting,
        Self::Running,
        Self::Complete,
        Self::Pruned,
        Self::Failed,
    ];

    /// Decides whether a trial in this state may go to `next`.
    ///
    /// A running trial returns to waiting when its attempt is lost, a failed one when it is
    /// retried, a complete one when the study's epochs are extended. A waiting trial ends without
    /// running when its configuration is pruned or the study is cancelled. Pruned is final.
    pub fn can_become(self, next: Self) -> bool {
        match self {
            Self::Waiting => matches!(next, Self::Running | Self::Pruned | Self::Failed),
            Self::Running => next != Self::Running,
            Self::Complete | Self::Failed => next == Self::Waiting,
            Self::Pruned => false,
        }
    }

    /// Decides whether the trial has ended.
    pub fn is_final(self) -> bool {
        match self {
            Self::Waiting | Self::Running => false,
            Self::Complete | Self::Pruned | Self::Failed => true,
        }
    }
}

/// Why a trial failed; retry depends on this alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// Loss or weights became NaN or infinite.
    Diverged,
    /// The device had too little memory.
    OutOfMemory,
    /// The device or its driver failed.
    Device,
    /// Somebody stopped it.
    Cancelled,
    /// A defect of this program.
    Bug,
}

/// Why a complete trial has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DegenerateReason {
    /// The returns of a fold have no variance.
    ZeroVariance,
    /// Fewer trades than `min_trades`.
    TooFewTrades,
    /// The metric is not finite.
    NotFinite,
}
