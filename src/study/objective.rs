//! The target of a study, and how folds, epochs and arms are condensed to one value.

use super::DegenerateReason;
use serde::{Deserialize, Serialize};

/// Which way is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Larger is better.
    Maximize,
    /// Smaller is better.
    Minimize,
}

impl Direction {
    /// Decides whether `a` is strictly better than `b`; NaN is never better.
    pub fn is_better(self, a: f64, b: f64) -> bool {
        match self {
            Self::Maximize => a > b,
            Self::Minimize => a < b,
        }
    }
}

/// How the folds' annualised validation Sharpe ratios become one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Metric {
    /// Mean over the folds.
    #[serde(rename = "validation.sharpe")]
    ValidationSharpe,
    /// Mean minus half a standard error; needs two folds or more.
    #[serde(rename = "validation.sharpe_lower")]
    ValidationSharpeLower,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Self; 2] = [Self::ValidationSharpeLower, Self::ValidationSharpe];

    /// Returns the name used in sweep files and in the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ValidationSharpe => "validation.sharpe",
            Self::ValidationSharpeLower => "validation.sharpe_lower",
        }
    }

    /// Returns the fewest folds for which the metric is defined.
    pub fn n_folds_min(self) -> usize {
        match self {
            Self::ValidationSharpe => 1,
            Self::ValidationSharpeLower => 2,
        }
    }

    /// Condenses the folds of one epoch.
    ///
    /// - `sharpes`: `[folds]` annualised; `None` where a fold has no Sharpe ratio.
    ///
    /// `None` if any fold is `None`, if there are too few folds, or if the result is not finite.
    /// The standard error is sd (ddof 1) / √folds.
    pub fn aggregate(self, sharpes: &[Option<f64>]) -> Option<f64> {
        let values = sharpes.iter().copied().collect::<Option<Vec<f64>>>()?;
        if values.len() < self.n_folds_min() {
            return None;
        }
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let value = match self {
            Self::ValidationSharpe => mean,
            Self::ValidationSharpeLower => {
                let squares = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>();
                mean - 0.5 * (squares / (n - 1.0)).sqrt() / n.sqrt()
            }
        };
        value.is_finite().then_some(value)
    }
}

/// What a study ranks by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objective {
    /// Aggregate over the folds.
    pub metric: Metric,
    /// Which way is better.
    pub direction: Direction,
    /// Fewest trades, all validation folds together, for a value to count.
    pub min_trades: u64,
}

/// One fold's validation at one epoch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FoldScore {
    /// Annualised Sharpe ratio; `None` where the returns have no variance.
    pub sharpe: Option<f64>,
    /// Number of trades.
    pub n_trades: u64,
}

/// A trial's best epoch and its value there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BestEpoch {
    /// 0-based position in the list of epochs.
    pub epoch_idx: usize,
    /// The aggregate there.
    pub value: f64,
}

impl Objective {
    /// Condenses the folds of one epoch to the trial's value there.
    ///
    /// - `folds`: `[folds]`, all of the same epoch.
    ///
    /// # Errors
    /// The [`DegenerateReason`] why the epoch has no value: the caller records it and goes on.
    pub fn epoch_value(&self, folds: &[FoldScore]) -> Result<f64, DegenerateReason> {
        if folds.iter().any(|fold| fold.sharpe.is_none()) {
            return Err(DegenerateReason::ZeroVariance);
        }
        let n_trades: u64 = folds.iter().map(|fold| fold.n_trades).sum();
        if n_trades < self.min_trades {
            return Err(DegenerateReason::TooFewTrades);
        }
        let sharpes: Vec<_> = folds.iter().map(|fold| fold.sharpe).collect();
        self.metric
            .aggregate(&sharpes)
            .ok_or(DegenerateReason::NotFinite)
    }

    /// Finds a trial's best epoch by the aggregate; of equal ones the earliest.
    ///
    /// - `epochs`: `[epochs]`, what [`Objective::epoch_value`] returned, in order.
    ///
    /// # Errors
    /// The reason of the last epoch if none has a value: the trial is degenerate.
    /// [`DegenerateReason::NotFinite`] if there are no epochs.
    pub fn best_epoch(
        &self,
        epochs: &[Result<f64, DegenerateReason>],
    ) -> Result<BestEpoch, DegenerateReason> {
        let mut best: Option<BestEpoch> = None;
        let mut reason = DegenerateReason::NotFinite;
        for (epoch_idx, epoch) in epochs.iter().enumerate() {
            match *epoch {
                Err(why) => reason = why,
                Ok(value) if best.is_none_or(|b| self.direction.is_better(value, b.value)) => {
                    best = Some(BestEpoch { epoch_idx, value });
                }
                Ok(_) => {}
            }
        }
        best.ok_or(reason)
    }
}

/// Condenses a configuration's trials to the value that sampler and pruner see.
///
/// - `trials`: `[arms × replicates]`; `None` for a failed or degenerate trial.
///
/// The mean over all of them, so that the choice favours no arm. `None` if any trial has no
/// value, or if there is none.
pub fn configuration_value(trials: &[Option<f64>]) -> Option<f64> {
    let values = trials.iter().copied().collect::<Option<Vec<f64>>>()?;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    mean.is_finite().then_some(mean)
}
