//! The built-in features: 32 columns and the last six one-bar returns.
//!
//! # Invariants
//! - Row `t` reads bars up to `t` only: features of a prefix are the prefix of the features, bit
//!   for bit.
//! - Every number after the warm-up is finite, with zero volume and flat bars too.
//! - Warm-up rows are NaN and are never filled; [`FeatureTable::warmup_bars`] says how many.
//! - Windows and conventions are constants: they belong to the meaning of a stored trial.

mod columns;
mod indicators;
mod rolling;
mod scaler;

pub use columns::{FEATURE_NAMES, N_BUILTIN, N_RECENT_RETURNS, WARMUP_BARS};
pub use indicators::{
    Bollinger, Macd, bollinger, ema, ew_sigma, macd, rsi_wilder, true_range, wilder_mean,
};
pub use scaler::{SCALED_MAX, Scaler};

use super::bars::Bars;
use super::calendar::{BarLength, Calendar};

/// Half-life of the fast EW standard deviation, in bars; the σ of returns, rewards and impact.
pub const SIGMA_FAST_HALF_LIFE: f64 = 20.0;
/// Half-life of the slow EW standard deviation, in bars.
pub const SIGMA_SLOW_HALF_LIFE: f64 = 60.0;

/// Features of every bar, row-major.
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureTable {
    /// Column names, `[n_columns]`.
    pub names: Vec<String>,
    /// Rows, one a bar.
    pub n_bars: usize,
    /// Columns.
    pub n_columns: usize,
    /// `[n_bars, n_columns]`; NaN in the warm-up rows.
    pub values: Vec<f64>,
    /// Rows at the start that have no features.
    pub warmup_bars: usize,
}

impl FeatureTable {
    /// Row of bar `t`, `[n_columns]`.
    #[must_use]
    pub fn row(&self, t: usize) -> &[f64] {
        &self.values[t * self.n_columns..(t + 1) * self.n_columns]
    }
}

/// Computes the built-in features and the last six one-bar returns.
#[must_use]
pub fn builtin(bars: &Bars, bar: BarLength, calendar: Calendar) -> FeatureTable {
    let columns = columns::all(bars, bar, calendar);
    let (n_bars, n_columns) = (bars.len(), columns.len());
    let mut values = vec![f64::NAN; n_bars * n_columns];
    for t in WARMUP_BARS.min(n_bars)..n_bars {
        for (idx, column) in columns.iter().enumerate() {
            debug_assert!(column[t].is_finite(), "feature {idx} of bar {t}");
            values[t * n_columns + idx] = column[t];
        }
    }
    FeatureTable {
        names: columns::names(),
        n_bars,
        n_columns,
        values,
        warmup_bars: WARMUP_BARS.min(n_bars),
    }
}

#[cfg(test)]
mod tests;
