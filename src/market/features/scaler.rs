//! The train-fitted scaler: median and interquartile range, clipped.
//!
//! # Invariants
//! - Fitted on training rows only; the caller names the range.
//! - A column without spread on the training rows scales to 0 everywhere.

use std::ops::Range;

use super::FeatureTable;

/// Bound of scaled features, in either direction.
pub const SCALED_MAX: f64 = 5.0;
/// Interquartile range below which, relative to the quartiles, a column has no spread.
const NO_SPREAD_RELATIVE: f64 = 1e-12;

/// Median and interquartile range of each column.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaler {
    /// `[n_columns]`.
    pub median: Vec<f64>,
    /// `[n_columns]`; 0 where a column has no spread.
    pub iqr: Vec<f64>,
}

impl Scaler {
    /// Fits on the rows `train` of a table.
    ///
    /// Quantiles interpolate linearly between order statistics.
    ///
    /// # Panics
    /// If the range is empty or reaches into the warm-up, which is a bug of the caller.
    #[must_use]
    pub fn fit(table: &FeatureTable, train: Range<usize>) -> Self {
        assert!(!train.is_empty() && table.warmup_bars <= train.start && train.end <= table.n_bars);
        let mut scaler = Self {
            median: Vec::with_capacity(table.n_columns),
            iqr: Vec::with_capacity(table.n_columns),
        };
        for idx in 0..table.n_columns {
            let mut column: Vec<f64> = train.clone().map(|t| table.row(t)[idx]).collect();
            column.sort_by(f64::total_cmp);
            let [q1, q2, q3] = [0.25, 0.5, 0.75].map(|p| quantile(&column, p));
            let spread = q3 - q1;
            let has_spread = spread > NO_SPREAD_RELATIVE * q1.abs().max(q3.abs());
            scaler.median.push(q2);
            scaler.iqr.push(if has_spread { spread } else { 0.0 });
        }
        scaler
    }

    /// Scales one value of column `idx` and narrows it to F32.
    #[must_use]
    pub fn apply(&self, idx: usize, value: f64) -> f32 {
        if self.iqr[idx] > 0.0 {
            let scaled = (value - self.median[idx]) / self.iqr[idx];
            scaled.clamp(-SCALED_MAX, SCALED_MAX) as f32
        } else {
            0.0
        }
    }
}

/// Quantile of sorted values, linear between order statistics.
fn quantile(sorted: &[f64], p: f64) -> f64 {
    let at = p * (sorted.len() - 1) as f64;
    let low = at.floor() as usize;
    let high = (low + 1).min(sorted.len() - 1);
    sorted[low] + (at - low as f64) * (sorted[high] - sorted[low])
}
