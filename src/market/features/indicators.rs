//! Named indicators under pinned conventions.
//!
//! # Invariants
//! - Slot `t` of a result reads slots up to `t` of its inputs, in one forward pass.
//! - Slots before an indicator's first full window hold its neutral value, not a guess.

use super::rolling;

/// Exponential moving average with `α = 2 / (n + 1)`, started at the first value.
#[must_use]
pub fn ema(values: &[f64], n: usize) -> Vec<f64> {
    let alpha = 2.0 / (n as f64 + 1.0);
    let mut state = None;
    values
        .iter()
        .map(|&x| {
            let next = state.map_or(x, |previous: f64| previous + alpha * (x - previous));
            state = Some(next);
            next
        })
        .collect()
}

/// Wilder's mean, `α = 1 / n`, started as the plain mean of the first `n` values.
///
/// Slots before that hold the plain mean so far.
#[must_use]
pub fn wilder_mean(values: &[f64], n: usize) -> Vec<f64> {
    let mut out = Vec::with_capacity(values.len());
    let mut sum = 0.0;
    let mut state = 0.0;
    for (t, &x) in values.iter().enumerate() {
        if t < n {
            sum += x;
            state = sum / (t + 1) as f64;
        } else {
            state = (state * (n as f64 - 1.0) + x) / n as f64;
        }
        out.push(state);
    }
    out
}

/// Wilder's relative strength index, 0 to 100.
///
/// 50 for a flat price and for the first `n` bars.
///
/// Source: Wilder 1978.
#[must_use]
pub fn rsi_wilder(close: &[f64], n: usize) -> Vec<f64> {
    let changes: Vec<f64> = close.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let gains: Vec<f64> = changes.iter().map(|x| x.max(0.0)).collect();
    let losses: Vec<f64> = changes.iter().map(|x| (-x).max(0.0)).collect();
    let (gains, losses) = (wilder_mean(&gains, n), wilder_mean(&losses, n));
    (0..close.len())
        .map(|t| {
            if t < n {
                return 50.0;
            }
            let (gain, loss) = (gains[t - 1], losses[t - 1]);
            if gain + loss > 0.0 {
                100.0 * gain / (gain + loss)
            } else {
                50.0
            }
        })
        .collect()
}

/// True range: the bar's range, stretched to the close before; the plain range for the first bar.
#[must_use]
pub fn true_range(high: &[f64], low: &[f64], close: &[f64]) -> Vec<f64> {
    (0..close.len())
        .map(|t| {
            let range = high[t] - low[t];
            if t == 0 {
                return range;
            }
            let before = close[t - 1];
            range
                .max((high[t] - before).abs())
                .max((low[t] - before).abs())
        })
        .collect()
}

/// Bollinger bands.
#[derive(Debug, Clone, PartialEq)]
pub struct Bollinger {
    /// Rolling mean.
    pub middle: Vec<f64>,
    /// Mean plus `k` deviations.
    pub upper: Vec<f64>,
    /// Mean minus `k` deviations.
    pub lower: Vec<f64>,
}

/// Bollinger bands of `n` bars and `k` standard deviations (ddof 0).
#[must_use]
pub fn bollinger(close: &[f64], n: usize, k: f64) -> Bollinger {
    let middle = rolling::map(close, n, rolling::mean);
    let deviation = rolling::map(close, n, rolling::deviation);
    let band = |sign: f64| -> Vec<f64> {
        middle
            .iter()
            .zip(&deviation)
            .map(|(m, d)| m + sign * k * d)
            .collect()
    };
    let (upper, lower) = (band(1.0), band(-1.0));
    Bollinger {
        middle,
        upper,
        lower,
    }
}

/// Moving average convergence divergence.
#[derive(Debug, Clone, PartialEq)]
pub struct Macd {
    /// Fast EMA minus slow EMA.
    pub line: Vec<f64>,
    /// EMA of the line.
    pub signal: Vec<f64>,
    /// Line minus signal.
    pub histogram: Vec<f64>,
}

/// MACD from EMAs that start at the first value.
#[must_use]
pub fn macd(close: &[f64], fast: usize, slow: usize, signal: usize) -> Macd {
    let difference =
        |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(x, y)| x - y).collect() };
    let line = difference(&ema(close, fast), &ema(close, slow));
    let signal = ema(&line, signal);
    let histogram = difference(&line, &signal);
    Macd {
        line,
        signal,
        histogram,
    }
}

/// EW standard deviation of one-bar log returns around zero.
///
/// Weights halve every `half_life` bars and sum to one from the first return on; 0 before it.
#[must_use]
pub fn ew_sigma(close: &[f64], half_life: f64) -> Vec<f64> {
    let decay = 0.5_f64.powf(1.0 / half_life);
    let (mut squares, mut weight) = (0.0, 0.0);
    (0..close.len())
        .map(|t| {
            if t == 0 {
                return 0.0;
            }
            let r = (close[t] / close[t - 1]).ln();
            squares = decay * squares + r * r;
            weight = decay * weight + 1.0;
            (squares / weight).sqrt()
        })
        .collect()
}
