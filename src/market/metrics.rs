//! Every statistic of returns, in F64, once for all backends and models.
//!
//! # Invariants
//! - One return basis: net simple returns per bar, flat bars included.
//! - No ratio is ever infinite or NaN: what cannot be scored says why.
//! - Kurtosis is raw (a normal has 3); standard deviations of a Sharpe ratio have ddof 1.

use chrono::Datelike;

use super::bars::Bars;
use super::calendar::{BarLength, Calendar};
use crate::engine::env::TRADE_MIN;

/// Standard deviation below which returns count as constant.
const DEVIATION_MIN: f64 = 1e-12;
/// Days that a daily aggregation needs.
const DAYS_MIN: usize = 60;

/// What a strategy did at each decision of a block, `[T]` each.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// Return after costs.
    pub net: Vec<f64>,
    /// Return before costs.
    pub gross: Vec<f64>,
    /// Costs, as a fraction of equity.
    pub cost: Vec<f64>,
    /// Traded value, as a fraction of equity.
    pub turnover: Vec<f64>,
    /// Position held, as a fraction of equity.
    pub position: Vec<f64>,
}

/// How returns aggregate to years.
#[derive(Debug, Clone, PartialEq)]
pub struct ReturnClock {
    /// Bars of a year.
    pub bars_per_year: f64,
    /// Where intraday returns aggregate to days: days of a year, and the day of each return.
    pub daily: Option<(f64, Vec<i32>)>,
}

impl ReturnClock {
    /// The clock of the decisions `range`.
    ///
    /// A return belongs to the day of bar `t + 1`, at whose open it begins.
    #[must_use]
    pub fn new(
        bars: &Bars,
        bar: BarLength,
        calendar: Calendar,
        range: std::ops::Range<usize>,
    ) -> Self {
        let daily = match calendar.days_per_year() {
            Some(days) if bar.is_intraday() => Some((
                days,
                range
                    .map(|t| bars.local[t + 1].date().num_days_from_ce())
                    .collect(),
            )),
            Some(_) | None => None,
        };
        Self {
            bars_per_year: calendar.bars_per_year(bar),
            daily,
        }
    }
}

/// Why a block has no value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Degenerate {
    /// Returns do not vary, or there are fewer than two.
    ZeroVariance,
    /// A return is NaN or infinite.
    NotFinite,
}

/// Figures of a block.
#[derive(Debug, Clone, PartialEq)]
pub struct Figures {
    /// Sharpe ratio per period; `None` if degenerate.
    pub sharpe_period: Option<f64>,
    /// Annualised Sharpe ratio; `None` if degenerate.
    pub sharpe_annual: Option<f64>,
    /// Why there is none.
    pub degenerate: Option<Degenerate>,
    /// Periods: days where returns were aggregated to days, else bars.
    pub n_observations: usize,
    /// Whether periods are days of intraday bars.
    pub is_daily_aggregated: bool,
    /// Skewness of the period returns; 0 if they do not vary.
    pub skew: f64,
    /// Raw kurtosis of the period returns; 0 if they do not vary.
    pub kurtosis: f64,
    /// Largest loss from a peak, 0 to 1.
    pub drawdown_max: f64,
    /// Traded value over equity, summed over the block.
    pub turnover: f64,
    /// Fills of at least 1 % of equity.
    pub n_trades: usize,
    /// Share of the bars with a position whose net return is positive; 0 without a position.
    pub hit_rate: f64,
    /// Mean absolute position.
    pub exposure: f64,
    /// Costs over the sum of absolute gross returns; 0 where nothing was earned or lost.
    pub cost_share: f64,
    /// Compound net return of the block.
    pub total_return: f64,
}

/// Scores a block.
///
/// Intraday returns are compounded to days if the calendar knows days and there are at least 60;
/// otherwise the periods are bars.
#[must_use]
pub fn evaluate(series: &Series, clock: &ReturnClock) -> Figures {
    let days = clock.daily.as_ref().and_then(|(days_per_year, days)| {
        let returns = aggregate_daily(&series.net, days);
        (returns.len() >= DAYS_MIN).then_some((*days_per_year, returns))
    });
    let is_daily_aggregated = days.is_some();
    let (periods_per_year, periods) = days.unwrap_or((clock.bars_per_year, series.net.clone()));
    let sharpe = sharpe_period(&periods);
    let n_held = series.position.iter().filter(|p| **p != 0.0).count();
    let n_won = series
        .position
        .iter()
        .zip(&series.net)
        .filter(|(p, r)| **p != 0.0 && **r > 0.0)
        .count();
    let gross_moved: f64 = series.gross.iter().map(|r| r.abs()).sum();
    Figures {
        sharpe_period: sharpe.ok(),
        sharpe_annual: sharpe.ok().map(|ratio| ratio * periods_per_year.sqrt()),
        degenerate: sharpe.err(),
        n_observations: periods.len(),
        is_daily_aggregated,
        skew: standardised_moment(&periods, 3),
        kurtosis: standardised_moment(&periods, 4),
        drawdown_max: drawdown_max(&series.net),
        turnover: series.turnover.iter().sum(),
        n_trades: series.turnover.iter().filter(|x| **x >= TRADE_MIN).count(),
        hit_rate: share(n_won as f64, n_held as f64),
        exposure: share(
            series.position.iter().map(|p| p.abs()).sum(),
            series.position.len() as f64,
        ),
        cost_share: share(series.cost.iter().sum(), gross_moved),
        total_return: series.net.iter().fold(1.0, |equity, r| equity * (1.0 + r)) - 1.0,
    }
}

/// Annualised Sharpe ratio.
///
/// - `returns`: `[T]` simple returns per period (0.01 is one percent).
/// - `periods_per_year`: 252.0 for daily returns.
///
/// `None` where there is no ratio: `T < 2`, a flat curve, a return that is not finite. Divides by
/// `T − 1`.
///
/// Source: Sharpe 1994, risk-free rate taken as zero.
#[must_use]
pub fn sharpe(returns: &[f64], periods_per_year: f64) -> Option<f64> {
    let ratio = sharpe_period(returns).ok()?;
    Some(ratio * periods_per_year.sqrt())
}

/// Sharpe ratio per period, or why there is none.
///
/// # Errors
/// [`Degenerate::NotFinite`] if a return is NaN or infinite; [`Degenerate::ZeroVariance`] for
/// fewer than two returns or a standard deviation below `1e-12`.
pub fn sharpe_period(returns: &[f64]) -> Result<f64, Degenerate> {
    if returns.iter().any(|r| !r.is_finite()) {
        return Err(Degenerate::NotFinite);
    }
    if returns.len() < 2 {
        return Err(Degenerate::ZeroVariance);
    }
    let centre = mean(returns);
    let ratio = centre / deviation(returns, 1.0);
    if deviation(returns, 1.0) < DEVIATION_MIN {
        Err(Degenerate::ZeroVariance)
    } else if ratio.is_finite() {
        Ok(ratio)
    } else {
        Err(Degenerate::NotFinite)
    }
}

/// Largest loss from a peak of compound equity, 0 to 1; the start counts as a peak.
#[must_use]
pub fn drawdown_max(returns: &[f64]) -> f64 {
    let (mut equity, mut peak, mut worst) = (1.0_f64, 1.0_f64, 0.0_f64);
    for r in returns {
        equity *= 1.0 + r;
        peak = peak.max(equity);
        worst = worst.max(1.0 - equity / peak);
    }
    worst
}

/// Standardised central moment with ddof 0: 3 gives the skewness, 4 the raw kurtosis.
///
/// 0 where returns do not vary or are not finite.
#[must_use]
pub fn standardised_moment(returns: &[f64], order: i32) -> f64 {
    if returns.is_empty() {
        return 0.0;
    }
    let (centre, deviation) = (mean(returns), deviation(returns, 0.0));
    let is_usable = deviation.is_finite() && deviation >= DEVIATION_MIN;
    if !is_usable {
        return 0.0;
    }
    returns
        .iter()
        .map(|r| ((r - centre) / deviation).powi(order))
        .sum::<f64>()
        / returns.len() as f64
}

/// Compounds returns of equal, adjoining days.
fn aggregate_daily(returns: &[f64], days: &[i32]) -> Vec<f64> {
    assert_eq!(returns.len(), days.len(), "one day for each return");
    let mut out: Vec<f64> = Vec::new();
    let mut last = None;
    for (r, day) in returns.iter().zip(days) {
        match out.last_mut() {
            Some(total) if last == Some(day) => *total = (1.0 + *total) * (1.0 + r) - 1.0,
            Some(_) | None => out.push(*r),
        }
        last = Some(day);
    }
    out
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64], ddof: f64) -> f64 {
    let centre = mean(values);
    let squares: f64 = values.iter().map(|x| (x - centre) * (x - centre)).sum();
    (squares / (values.len() as f64 - ddof)).sqrt()
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests;
