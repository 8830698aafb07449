//! The host tables that the engine uploads once per device.
//!
//! # Invariants
//! - Row `t` of either table belongs to decision bar `t`, in every fold.
//! - Features are scaled before they are narrowed; prices never leave F64 but as ratios.

use super::bars::Bars;
use super::calendar::{BarLength, Calendar};
use super::features::{FeatureTable, SIGMA_FAST_HALF_LIFE, Scaler, ew_sigma};
use crate::engine::env;

/// Capital that orders are sized by unless the study says otherwise, in the quote currency.
pub const CAPITAL_DEFAULT: f64 = 1_000_000.0;
/// Bars of the trailing mean volume that participation is measured against.
const VOLUME_BARS: usize = 20;
/// Floor of σ: after a long run of flat bars returns over σ must stay finite.
const SIGMA_MIN: f64 = 1e-6;
/// Participation where no bar of the window has any volume: the order is all of it.
const PARTICIPATION_NO_VOLUME: f64 = 1.0;

/// When positions are closed by force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flatten {
    /// At session ends and data gaps for intraday bars, never for daily ones.
    Auto,
    /// Never.
    Never,
}

/// Width of an uploaded feature row: the columns, padded to a multiple of 8.
#[must_use]
pub fn padded_width(n_columns: usize) -> usize {
    n_columns.next_multiple_of(8)
}

/// Scales features by fold and stacks them.
///
/// - `scalers`: one a fold, each fitted on that fold's training bars.
///
/// Returns `[n_folds, n_bars, padded_width(n_columns)]`, row-major. Padding and warm-up rows are
/// zero; nothing reads the latter, because folds begin after them.
#[must_use]
pub fn feature_table(table: &FeatureTable, scalers: &[Scaler]) -> Vec<f32> {
    let width = padded_width(table.n_columns);
    let mut out = vec![0.0; scalers.len() * table.n_bars * width];
    for (fold, scaler) in scalers.iter().enumerate() {
        for t in table.warmup_bars..table.n_bars {
            let start = (fold * table.n_bars + t) * width;
            for (idx, value) in table.row(t).iter().enumerate() {
                out[start + idx] = scaler.apply(idx, *value);
            }
        }
    }
    out
}

/// Computes what the environment reads of each bar.
///
/// - `capital`: what an exposure of 1 is worth, in the quote currency.
///
/// Returns `[n_bars, ENV_COLUMNS]`, row-major. The last two rows lack the opens that they would
/// need and hold neutral values (no return, no range); no range of decisions includes them.
#[must_use]
pub fn env_table(
    bars: &Bars,
    bar: BarLength,
    calendar: Calendar,
    flatten: Flatten,
    capital: f64,
) -> Vec<f64> {
    let sigma = ew_sigma(&bars.close, SIGMA_FAST_HALF_LIFE);
    let breaks = match flatten {
        Flatten::Auto => calendar.breaks_after(bars, bar),
        Flatten::Never => vec![false; bars.len()],
    };
    let mut out = vec![0.0; bars.len() * env::ENV_COLUMNS];
    for (t, row) in out.chunks_exact_mut(env::ENV_COLUMNS).enumerate() {
        row[env::ROW_SIGMA] = sigma[t].max(SIGMA_MIN);
        row[env::ROW_TIME_TO_CLOSE] = calendar.time_to_close(bars, bar, t);
        row[env::ROW_CLOSE] = 1.0;
        row[env::ROW_LOW] = 1.0;
        row[env::ROW_HIGH] = 1.0;
        if t + 2 >= bars.len() {
            continue;
        }
        let open = bars.open[t + 1];
        let volume = &bars.volume[(t + 1).saturating_sub(VOLUME_BARS)..=t];
        let volume_mean = volume.iter().sum::<f64>() / volume.len() as f64;
        row[env::ROW_OPEN_RETURN] = bars.open[t + 2] / open - 1.0;
        row[env::ROW_CLOSE] = bars.close[t] / open;
        row[env::ROW_LOW] = (bars.low[t + 1] / open).min(1.0);
        row[env::ROW_HIGH] = (bars.high[t + 1] / open).max(1.0);
        row[env::ROW_PARTICIPATION] = if volume_mean > 0.0 {
            capital / (open * volume_mean)
        } else {
            PARTICIPATION_NO_VOLUME
        };
        row[env::ROW_FORCED_FLAT] = if breaks[t + 1] { 1.0 } else { 0.0 };
    }
    out
}

#[cfg(test)]
mod tests;
