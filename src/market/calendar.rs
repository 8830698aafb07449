//! Sessions, gaps and annualisation.
//!
//! # Invariants
//! - Session times of `us_equity` are those of New York, whatever zone the file is in.
//! - Holidays and half days come from the bars themselves: a session ends where the next bar is
//!   of another day. The scheduled close stays 16:00.
//! - Minutes to close and time of day use only the bar's own timestamp.

use chrono::{DateTime, Datelike, NaiveDateTime, NaiveTime, Timelike, Weekday};
use chrono_tz::America::New_York;

use super::bars::Bars;
use super::error::MarketError;

/// Minutes of a regular `us_equity` session, 09:30 to 16:00.
const SESSION_MINUTES: f64 = 390.0;
const SESSION_OPEN_MINUTE: u32 = 9 * 60 + 30;
const SESSION_CLOSE_MINUTE: u32 = 16 * 60;
/// Trading days of a year.
const DAYS_PER_YEAR: f64 = 252.0;
/// A bar that begins more than this many bar lengths after the one before follows a data gap;
/// a few minutes without a trade are no gap.
const GAP_BARS: i64 = 5;
const MINUTE_MS: i64 = 60_000;

/// Length of a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BarLength {
    /// One bar a trading day.
    Day,
    /// Minutes, 1 to 720; hours are multiples of 60.
    Minutes(u32),
}

impl BarLength {
    /// Reads `"1d"`, `"1h"`, `"5m"` and the like.
    ///
    /// # Errors
    /// [`MarketError::BarLengthInvalid`] for anything else.
    pub fn parse(text: &str) -> Result<Self, MarketError> {
        let invalid = || MarketError::BarLengthInvalid {
            text: text.to_owned(),
        };
        if text == "1d" {
            return Ok(Self::Day);
        }
        let (digits, unit) = text
            .char_indices()
            .last()
            .map(|(at, unit)| (&text[..at], unit))
            .ok_or_else(invalid)?;
        let count: u32 = digits.parse().map_err(|_| invalid())?;
        let minutes = match unit {
            'm' => Some(count),
            'h' => count.checked_mul(60),
            _ => None,
        };
        match minutes {
            Some(minutes @ 1..=720) => Ok(Self::Minutes(minutes)),
            _ => Err(invalid()),
        }
    }

    /// Whether several bars make a day.
    #[must_use]
    pub fn is_intraday(self) -> bool {
        match self {
            Self::Day => false,
            Self::Minutes(_) => true,
        }
    }
}

impl std::fmt::Display for BarLength {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Day => f.write_str("1d"),
            Self::Minutes(minutes) if minutes % 60 == 0 => write!(f, "{}h", minutes / 60),
            Self::Minutes(minutes) => write!(f, "{minutes}m"),
        }
    }
}

/// When a market is open, and how many bars make a year.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Calendar {
    /// 09:30 to 16:00 in New York, 252 days a year.
    UsEquity,
    /// No sessions; only data gaps interrupt it.
    Custom {
        /// Bars of a year, for annualisation.
        bars_per_year: f64,
    },
}

impl Calendar {
    /// Makes a calendar without sessions.
    ///
    /// # Errors
    /// [`MarketError::BarsPerYearInvalid`] unless the number is positive and finite.
    pub fn custom(bars_per_year: f64) -> Result<Self, MarketError> {
        if bars_per_year.is_finite() && bars_per_year > 0.0 {
            Ok(Self::Custom { bars_per_year })
        } else {
            Err(MarketError::BarsPerYearInvalid {
                value: bars_per_year,
            })
        }
    }

    /// Bars of a year: the `q` of annualisation by `√q`.
    #[must_use]
    pub fn bars_per_year(self, bar: BarLength) -> f64 {
        match (self, bar) {
            (Self::UsEquity, BarLength::Day) => DAYS_PER_YEAR,
            (Self::UsEquity, BarLength::Minutes(minutes)) => {
                DAYS_PER_YEAR * SESSION_MINUTES / f64::from(minutes)
            }
            (Self::Custom { bars_per_year }, _) => bars_per_year,
        }
    }

    /// Trading days of a year; `None` where the calendar knows no days.
    #[must_use]
    pub fn days_per_year(self) -> Option<f64> {
        match self {
            Self::UsEquity => Some(DAYS_PER_YEAR),
            Self::Custom { .. } => None,
        }
    }

    /// Checks that bars have the declared length and lie inside the sessions.
    ///
    /// # Errors
    /// [`MarketError::BarLengthMismatch`] if two bars are closer than `bar`;
    /// [`MarketError::OutsideSession`] for intraday bars outside the sessions.
    pub fn check(self, bars: &Bars, bar: BarLength) -> Result<(), MarketError> {
        for t in 1..bars.len() {
            let too_close = match bar {
                BarLength::Day => bars.local[t].date() == bars.local[t - 1].date(),
                BarLength::Minutes(minutes) => {
                    bars.time_utc_ms[t] - bars.time_utc_ms[t - 1] < i64::from(minutes) * MINUTE_MS
                }
            };
            // An hour grid restarts at each session open: 15:30 is followed by 09:30, never by less.
            if too_close {
                return Err(MarketError::BarLengthMismatch {
                    bar_idx: t,
                    at: bars.local[t].to_string(),
                    bar: bar.to_string(),
                });
            }
        }
        if self != Self::UsEquity || !bar.is_intraday() {
            return Ok(());
        }
        let outside: Vec<usize> = (0..bars.len())
            .filter(|t| !is_in_session(exchange_time(bars, *t)))
            .collect();
        match outside.first() {
            None => Ok(()),
            Some(&first) => Err(MarketError::OutsideSession {
                n_outside: outside.len(),
                bar_idx: first,
                at: exchange_time(bars, first).to_string(),
            }),
        }
    }

    /// Whether bar `t` is the last one before a session end or a data gap; `[N]`.
    ///
    /// Always false for daily bars, and for the last bar of the file, which nothing follows.
    #[must_use]
    pub fn breaks_after(self, bars: &Bars, bar: BarLength) -> Vec<bool> {
        let BarLength::Minutes(minutes) = bar else {
            return vec![false; bars.len()];
        };
        let gap_ms = GAP_BARS * i64::from(minutes) * MINUTE_MS;
        (0..bars.len())
            .map(|t| {
                if t + 1 == bars.len() {
                    return false;
                }
                let is_gap = bars.time_utc_ms[t + 1] - bars.time_utc_ms[t] > gap_ms;
                let is_session_end = match self {
                    Self::UsEquity => {
                        exchange_time(bars, t).date() != exchange_time(bars, t + 1).date()
                    }
                    Self::Custom { .. } => false,
                };
                is_gap || is_session_end
            })
            .collect()
    }

    /// Share of the session that is left at the end of bar `t`, 0 to 1; 0 without sessions.
    #[must_use]
    pub fn time_to_close(self, bars: &Bars, bar: BarLength, t: usize) -> f64 {
        match (self, bar) {
            (Self::UsEquity, BarLength::Minutes(minutes)) => {
                let end = minute_of_day(exchange_time(bars, t).time()) + f64::from(minutes);
                ((f64::from(SESSION_CLOSE_MINUTE) - end) / SESSION_MINUTES).clamp(0.0, 1.0)
            }
            (Self::UsEquity, BarLength::Day) | (Self::Custom { .. }, _) => 0.0,
        }
    }
}

/// Factor that annualises a per-period Sharpe ratio of autocorrelated returns.
///
/// - `q`: periods of a year.
/// - `autocorrelations`: `ρ_1 …`; lags beyond the end count as zero, lags from `q` on are unused.
///
/// `q / √(q + 2 Σ_{k<q} (q − k) ρ_k)`, which is `√q` without autocorrelation.
///
/// Source: Lo 2002, equation 20.
#[must_use]
pub fn lo_factor(q: usize, autocorrelations: &[f64]) -> f64 {
    let weighted: f64 = autocorrelations
        .iter()
        .take(q.saturating_sub(1))
        .enumerate()
        .map(|(idx, rho)| (q - (idx + 1)) as f64 * rho)
        .sum();
    q as f64 / (q as f64 + 2.0 * weighted).sqrt()
}

/// Minutes since midnight.
#[must_use]
pub fn minute_of_day(time: NaiveTime) -> f64 {
    f64::from(time.num_seconds_from_midnight()) / 60.0
}

/// Local time of bar `t` in New York.
fn exchange_time(bars: &Bars, t: usize) -> NaiveDateTime {
    DateTime::from_timestamp_millis(bars.time_utc_ms[t]).map_or(bars.local[t], |time| {
        time.with_timezone(&New_York).naive_local()
    })
}

fn is_in_session(time: NaiveDateTime) -> bool {
    let minute = time.hour() * 60 + time.minute();
    let is_weekday = !matches!(time.weekday(), Weekday::Sat | Weekday::Sun);
    is_weekday && (SESSION_OPEN_MINUTE..SESSION_CLOSE_MINUTE).contains(&minute)
}

#[cfg(test)]
mod tests;
