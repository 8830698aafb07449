//! Seeded markets with a known answer: a planted signal, its oracle, and shuffled controls.
//!
//! # Invariants
//! - The same settings give the same bars, bit for bit, on one platform.
//! - The only thing to learn in the planted market is the last one-bar return.

use std::ops::Range;

use chrono::{Datelike, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Weekday};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::bars::{Bars, digest_hex};
use super::error::MarketError;
use super::metrics::Series;
use super::simulate::{market_order, simulate};
use crate::engine::env::Costs;

/// Price of the first bar's open.
const PRICE_START: f64 = 100.0;
/// Median volume and its log standard deviation.
const VOLUME_MEDIAN: f64 = 1e6;
const VOLUME_LOG_DEVIATION: f64 = 0.5;
/// How far high and low reach beyond open and close, in σ.
const WICK_SIGMAS: f64 = 0.25;

/// A market whose log returns follow `r_t = ρ r_{t−1} + ε_t`: daily bars on weekdays, each open
/// equal to the close before, volume lognormal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Planted {
    /// Bars to make.
    pub n_bars: usize,
    /// Seed of all draws.
    pub seed: u64,
    /// Strength of the signal: autocorrelation of one-bar log returns, −1 to 1.
    pub rho: f64,
    /// Standard deviation of one-bar log returns.
    pub sigma: f64,
}

impl Planted {
    /// The market of stated strength: ρ = 0.2, σ = 1 % a bar.
    #[must_use]
    pub fn new(n_bars: usize, seed: u64) -> Self {
        Self {
            n_bars,
            seed,
            rho: 0.2,
            sigma: 0.01,
        }
    }

    /// Checks settings that come from a file.
    ///
    /// # Errors
    /// [`MarketError::SyntheticInvalid`] unless `|ρ| < 1` and `0 < σ ≤ 0.5`.
    pub fn check(&self) -> Result<(), MarketError> {
        let invalid = |setting, value, expected| {
            Err(MarketError::SyntheticInvalid {
                setting,
                value,
                expected,
            })
        };
        if self.rho.is_nan() || self.rho.abs() >= 1.0 {
            return invalid("rho", self.rho, "above -1 and below 1, for instance 0.2");
        }
        if !(self.sigma > 0.0 && self.sigma <= 0.5) {
            return invalid("sigma", self.sigma, "above 0 up to 0.5, for instance 0.01");
        }
        Ok(())
    }

    /// Draws the bars. The settings have passed [`Planted::check`].
    #[must_use]
    pub fn bars(&self) -> Bars {
        let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
        let mut normal = || -> f64 { StandardNormal.sample(&mut rng) };
        let innovation = self.sigma * (1.0 - self.rho * self.rho).sqrt();
        let mut log_return = self.sigma * normal();
        let mut open = PRICE_START;
        let mut bars = Bars {
            digest: digest_hex(format!("{self:?}").as_bytes()),
            ..Bars::default()
        };
        for local in weekdays(self.n_bars) {
            let close = open * log_return.exp();
            let wick = WICK_SIGMAS * self.sigma;
            bars.high
                .push(open.max(close) * (wick * normal().abs()).exp());
            bars.low
                .push(open.min(close) * (-wick * normal().abs()).exp());
            bars.volume
                .push(VOLUME_MEDIAN * (VOLUME_LOG_DEVIATION * normal()).exp());
            bars.open.push(open);
            bars.close.push(close);
            bars.local.push(local);
            bars.time_utc_ms.push(local.and_utc().timestamp_millis());
            open = close;
            log_return = self.rho * log_return + innovation * normal();
        }
        bars
    }

    /// Walks the oracle: fully long or short by the sign of the conditional mean `ρ r_t`.
    ///
    /// - `table`: the environment table of [`Planted::bars`].
    #[must_use]
    pub fn oracle(
        &self,
        bars: &Bars,
        table: &[f64],
        range: Range<usize>,
        costs: &Costs<f64>,
    ) -> Series {
        simulate(table, range, costs, |t, _| {
            let expected = self.rho * bars.log_return(t);
            market_order(if expected > 0.0 {
                1.0
            } else if expected < 0.0 {
                -1.0
            } else {
                0.0
            })
        })
    }
}

/// Shuffles the bars' returns, keeping each bar's shape and volume together: the control in which
/// there is nothing to learn.
///
/// The first bar and all times stay; the rest is rebuilt from the permuted ratios to the close
/// before.
#[must_use]
pub fn shuffled(bars: &Bars, seed: u64) -> Bars {
    let mut order: Vec<usize> = (1..bars.len()).collect();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    for at in (1..order.len()).rev() {
        order.swap(at, rng.random_range(0..=at));
    }
    let mut out = bars.clone();
    out.digest = digest_hex(format!("shuffled {seed} {}", bars.digest).as_bytes());
    for (idx, &from) in order.iter().enumerate() {
        let t = idx + 1;
        let scale = out.close[t - 1] / bars.close[from - 1];
        out.open[t] = bars.open[from] * scale;
        out.high[t] = bars.high[from] * scale;
        out.low[t] = bars.low[from] * scale;
        out.close[t] = bars.close[from] * scale;
        out.volume[t] = bars.volume[from];
    }
    out
}

/// The first `n` weekdays of the calendar of synthetic bars, from Monday 2000-01-03 on.
fn weekdays(n: usize) -> impl Iterator<Item = NaiveDateTime> {
    let start = NaiveDate::from_ymd_opt(2000, 1, 3).expect("2000-01-03 is a date");
    (0_i64..)
        .map(move |day| start + TimeDelta::days(day))
        .filter(|date| !matches!(date.weekday(), Weekday::Sat | Weekday::Sun))
        .map(|date| date.and_time(NaiveTime::MIN))
        .take(n)
}

#[cfg(test)]
mod tests;
