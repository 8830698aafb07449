//! Statistics over a trailing window, computed anew for each bar.
//!
//! Running sums would be faster, but they drift, and a window of equal values would then have a
//! variance of rounding noise.
//!
//! # Invariants
//! - Slot `t` of a result reads slots up to `t` of its input; windows are shorter at the start.
//! - A window whose spread is rounding noise counts as constant.

/// Spread below which, relative to the largest magnitude, a window counts as constant.
const CONSTANT_RELATIVE: f64 = 1e-12;

/// Applies `statistic` to the last `n` values through each slot.
pub(super) fn map(values: &[f64], n: usize, statistic: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    (0..values.len())
        .map(|t| statistic(&values[(t + 1).saturating_sub(n)..=t]))
        .collect()
}

pub(super) fn mean(window: &[f64]) -> f64 {
    window.iter().sum::<f64>() / window.len() as f64
}

/// Standard deviation, ddof 0; exactly 0 for a constant window.
pub(super) fn deviation(window: &[f64]) -> f64 {
    let centre = mean(window);
    let variance = window
        .iter()
        .map(|x| (x - centre) * (x - centre))
        .sum::<f64>()
        / window.len() as f64;
    let largest = window.iter().fold(0.0_f64, |a, x| a.max(x.abs()));
    let deviation = variance.sqrt();
    if deviation <= CONSTANT_RELATIVE * largest {
        0.0
    } else {
        deviation
    }
}

/// z-score of the last value within its window; 0 for a constant one.
pub(super) fn z_score(window: &[f64]) -> f64 {
    let last = window[window.len() - 1];
    ratio(last - mean(window), deviation(window))
}

/// Skewness `m₃ / m₂^{3/2}`; 0 for a constant window.
pub(super) fn skew(window: &[f64]) -> f64 {
    let deviation = deviation(window);
    if deviation == 0.0 {
        return 0.0;
    }
    let centre = mean(window);
    window
        .iter()
        .map(|x| ((x - centre) / deviation).powi(3))
        .sum::<f64>()
        / window.len() as f64
}

/// Autocorrelation at lag 1 around the window's mean; 0 for a constant window.
pub(super) fn autocorrelation(window: &[f64]) -> f64 {
    let deviation = deviation(window);
    if deviation == 0.0 {
        return 0.0;
    }
    let centre = mean(window);
    let product: f64 = window
        .windows(2)
        .map(|pair| (pair[0] - centre) * (pair[1] - centre))
        .sum();
    product / (deviation * deviation * window.len() as f64)
}

/// `numerator / denominator`, or 0 where the denominator is not above zero.
pub(super) fn ratio(numerator: f64, denominator: f64) -> f64 {
    if denominator > 0.0 {
        numerator / denominator
    } else {
        0.0
    }
}
