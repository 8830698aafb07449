//! Which features there are, in their order, and what each is made of.
//!
//! # Invariants
//! - Names, order and windows never change without a new name: stored trials depend on them.

use std::f64::consts::{LN_2, TAU};

use chrono::Datelike;

use super::super::bars::Bars;
use super::super::calendar::{BarLength, Calendar, minute_of_day};
use super::indicators::{bollinger, ema, ew_sigma, macd, rsi_wilder, true_range, wilder_mean};
use super::rolling::{self, ratio};
use super::{SIGMA_FAST_HALF_LIFE, SIGMA_SLOW_HALF_LIFE};

/// Built-in features without the recent returns.
pub const N_BUILTIN: usize = 32;
/// Recent one-bar returns, the newest first.
pub const N_RECENT_RETURNS: usize = 6;
/// Bars before the first that has every feature: 60 returns need 61 closes.
pub const WARMUP_BARS: usize = 60;

/// Names of the built-in features, in column order.
pub const FEATURE_NAMES: [&str; N_BUILTIN] = [
    "return_1",
    "return_5",
    "return_15",
    "return_60",
    "close_open",
    "range",
    "gap",
    "parkinson_20",
    "rsi_14",
    "macd_line",
    "macd_signal",
    "macd_histogram",
    "atr_14",
    "bollinger_b",
    "bollinger_width",
    "volume_z_20",
    "volume_z_60",
    "volume_change",
    "sigma_fast",
    "sigma_slow",
    "sigma_ratio",
    "vwap_distance",
    "amihud_20",
    "autocorrelation_20",
    "skew_60",
    "ema_cross_8_21",
    "ema_cross_21_55",
    "day_sin",
    "day_cos",
    "week_sin",
    "week_cos",
    "time_to_close",
];

/// Names of all columns, the recent returns last.
pub(super) fn names() -> Vec<String> {
    let recent = (0..N_RECENT_RETURNS).map(|lag| format!("recent_return_{lag}"));
    FEATURE_NAMES
        .iter()
        .map(|name| (*name).to_owned())
        .chain(recent)
        .collect()
}

/// Shared intermediate columns.
struct Base<'a> {
    bars: &'a Bars,
    returns: Vec<f64>,
    sigma: Vec<f64>,
    atr: Vec<f64>,
}

impl Base<'_> {
    fn column(&self, value: impl Fn(usize) -> f64) -> Vec<f64> {
        (0..self.bars.len()).map(value).collect()
    }

    /// A column that needs `n` earlier bars; NaN before.
    fn lagged(&self, n: usize, value: impl Fn(usize) -> f64) -> Vec<f64> {
        self.column(|t| if t < n { f64::NAN } else { value(t) })
    }

    /// Divides by ATR 14, 0 where that is zero.
    fn per_atr(&self, values: &[f64]) -> Vec<f64> {
        self.column(|t| ratio(values[t], self.atr[t]))
    }
}

/// All columns, `[n_columns][n_bars]`, in the order of [`names`].
pub(super) fn all(bars: &Bars, bar: BarLength, calendar: Calendar) -> Vec<Vec<f64>> {
    let range = true_range(&bars.high, &bars.low, &bars.close);
    let base = Base {
        bars,
        returns: (0..bars.len()).map(|t| bars.log_return(t)).collect(),
        sigma: ew_sigma(&bars.close, SIGMA_FAST_HALF_LIFE),
        atr: wilder_mean(&range, 14),
    };
    let mut columns = Vec::with_capacity(N_BUILTIN + N_RECENT_RETURNS);
    columns.extend(returns(&base));
    columns.extend(shape(&base));
    columns.extend(oscillators(&base));
    columns.extend(volume(&base));
    columns.extend(volatility(&base));
    columns.extend(liquidity(&base));
    columns.extend(moments(&base));
    columns.extend(crosses(&base));
    columns.extend(clock(&base, bar, calendar));
    columns.extend(
        (0..N_RECENT_RETURNS)
            .map(|lag| base.lagged(lag, |t| ratio(base.returns[t - lag], base.sigma[t]))),
    );
    columns
}

/// Log returns over 1, 5, 15 and 60 bars, over the fast σ.
fn returns(base: &Base<'_>) -> Vec<Vec<f64>> {
    let close = &base.bars.close;
    [1, 5, 15, 60]
        .into_iter()
        .map(|n| base.lagged(n, |t| ratio((close[t] / close[t - n]).ln(), base.sigma[t])))
        .collect()
}

/// Shape of the bar over the fast σ, and Parkinson's volatility over 20 bars.
fn shape(base: &Base<'_>) -> Vec<Vec<f64>> {
    let bars = base.bars;
    let squares = base.column(|t| (bars.high[t] / bars.low[t]).ln().powi(2) / (4.0 * LN_2));
    vec![
        base.column(|t| ratio((bars.close[t] / bars.open[t]).ln(), base.sigma[t])),
        base.column(|t| ratio((bars.high[t] / bars.low[t]).ln(), base.sigma[t])),
        base.lagged(1, |t| {
            ratio((bars.open[t] / bars.close[t - 1]).ln(), base.sigma[t])
        }),
        rolling::map(&squares, 20, |window| rolling::mean(window).sqrt()),
    ]
}

/// RSI, MACD over ATR, ATR over close, Bollinger %b and bandwidth.
fn oscillators(base: &Base<'_>) -> Vec<Vec<f64>> {
    let close = &base.bars.close;
    let rsi = rsi_wilder(close, 14);
    let macd = macd(close, 12, 26, 9);
    let bands = bollinger(close, 20, 2.0);
    vec![
        base.column(|t| rsi[t] / 50.0 - 1.0),
        base.per_atr(&macd.line),
        base.per_atr(&macd.signal),
        base.per_atr(&macd.histogram),
        base.column(|t| base.atr[t] / close[t]),
        base.column(|t| {
            let width = bands.upper[t] - bands.lower[t];
            if width > 0.0 {
                (close[t] - bands.lower[t]) / width
            } else {
                0.5
            }
        }),
        base.column(|t| (bands.upper[t] - bands.lower[t]) / bands.middle[t]),
    ]
}

/// Volume z-scores over 20 and 60 bars, and the log ratio to the bar before (0 if either is 0).
fn volume(base: &Base<'_>) -> Vec<Vec<f64>> {
    let volume = &base.bars.volume;
    vec![
        rolling::map(volume, 20, rolling::z_score),
        rolling::map(volume, 60, rolling::z_score),
        base.lagged(1, |t| {
            if volume[t] > 0.0 && volume[t - 1] > 0.0 {
                (volume[t] / volume[t - 1]).ln()
            } else {
                0.0
            }
        }),
    ]
}

/// EW σ fast, slow, and their ratio (1 where the slow one is zero).
fn volatility(base: &Base<'_>) -> Vec<Vec<f64>> {
    let slow = ew_sigma(&base.bars.close, SIGMA_SLOW_HALF_LIFE);
    let ratios = base.column(|t| {
        if slow[t] > 0.0 {
            base.sigma[t] / slow[t]
        } else {
            1.0
        }
    });
    vec![base.sigma.clone(), slow, ratios]
}

/// Distance to the rolling VWAP over σ, and Amihud's illiquidity, both over 20 bars.
///
/// Bars without volume count for neither; where no bar of the window has any, the distance is to
/// the plain mean of typical prices and the illiquidity is 0.
fn liquidity(base: &Base<'_>) -> Vec<Vec<f64>> {
    const WINDOW: usize = 20;
    let bars = base.bars;
    let typical = base.column(|t| (bars.high[t] + bars.low[t] + bars.close[t]) / 3.0);
    let distance = base.column(|t| {
        let window = (t + 1).saturating_sub(WINDOW)..t + 1;
        let volume: f64 = bars.volume[window.clone()].iter().sum();
        let vwap = if volume > 0.0 {
            window
                .map(|at| typical[at] * (bars.volume[at] / volume))
                .sum()
        } else {
            rolling::mean(&typical[window])
        };
        ratio((bars.close[t] / vwap).ln(), base.sigma[t])
    });
    let amihud = base.column(|t| {
        let (mut sum, mut n) = (0.0, 0.0);
        for at in (t + 1).saturating_sub(WINDOW)..=t {
            let traded = bars.close[at] * bars.volume[at];
            if traded > 0.0 {
                sum += base.returns[at].abs() / traded;
                n += 1.0;
            }
        }
        ratio(sum, n)
    });
    vec![distance, amihud]
}

/// Autocorrelation at lag 1 over 20 bars, and skew over 60, of one-bar returns.
fn moments(base: &Base<'_>) -> Vec<Vec<f64>> {
    vec![
        rolling::map(&base.returns, 20, rolling::autocorrelation),
        rolling::map(&base.returns, 60, rolling::skew),
    ]
}

/// EMA crosses 8/21 and 21/55 over ATR.
fn crosses(base: &Base<'_>) -> Vec<Vec<f64>> {
    let [fast, middle, slow] = [8, 21, 55].map(|n| ema(&base.bars.close, n));
    let cross = |a: &[f64], b: &[f64]| base.column(|t| ratio(a[t] - b[t], base.atr[t]));
    vec![cross(&fast, &middle), cross(&middle, &slow)]
}

/// Time of day and weekday on the circle, and the share of the session that is left.
fn clock(base: &Base<'_>, bar: BarLength, calendar: Calendar) -> Vec<Vec<f64>> {
    let local = &base.bars.local;
    let day = |t: usize| TAU * minute_of_day(local[t].time()) / 1_440.0;
    let week = |t: usize| TAU * f64::from(local[t].weekday().num_days_from_monday()) / 7.0;
    vec![
        base.column(|t| day(t).sin()),
        base.column(|t| day(t).cos()),
        base.column(|t| week(t).sin()),
        base.column(|t| week(t).cos()),
        base.column(|t| calendar.time_to_close(base.bars, bar, t)),
    ]
}
