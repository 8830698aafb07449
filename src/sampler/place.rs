//! From a uniform word to a value of a domain.

use crate::study::{Domain, Scale, Value};

/// Maps a uniform 64-bit word to a value; 0 gives the low end, `u64::MAX` the high end.
///
/// Monotone in the word. Integer and choice indices are exact in 64 bits on the linear scale. A
/// stepped range is an integer grid: on a logarithmic scale each cell has the mass of the scale
/// within half a step of it.
pub(super) fn place(domain: &Domain, word: u64) -> Value {
    match domain {
        Domain::Choice(values) => {
            let at = index(word, values.len() as u128);
            values[usize::try_from(at).expect("an index of a list")].clone()
        }
        Domain::Float {
            low,
            high,
            scale,
            step: None,
        } => Value::Float(along(*low, *high, *scale, word)),
        Domain::Float {
            low,
            high,
            scale,
            step: Some(step),
        } => {
            let n_cells = ((high - low) / step).round();
            let at = match scale {
                Scale::Linear => index(word, n_cells as u128 + 1) as f64,
                Scale::Log | Scale::LogOneMinus => {
                    let (first, last) = half_cells(*low, *high, *step, *scale);
                    ((along(first, last, *scale, word) - low) / step).round()
                }
            };
            let at = at.clamp(0.0, n_cells);
            Value::Float((low + at * step).min(*high))
        }
        Domain::Int {
            low,
            high,
            scale,
            step,
        } => Value::Int(place_int(*low, *high, *scale, step.unwrap_or(1), word)),
    }
}

fn place_int(low: i64, high: i64, scale: Scale, step: i64, word: u64) -> i64 {
    let width = i128::from(high) - i128::from(low);
    let n_cells = width / i128::from(step);
    let at = match scale {
        Scale::Linear => {
            let n = n_cells.unsigned_abs() + 1;
            i128::try_from(index(word, n)).expect("an index of at most 64 bits")
        }
        Scale::Log | Scale::LogOneMinus => {
            // Wide ranges lose precision here, as the logarithm spreads them anyway; the result
            // stays on the grid and inside.
            let (first, last) = half_cells(low as f64, high as f64, step as f64, scale);
            let value = along(first, last, scale, word);
            ((value - low as f64) / step as f64).round() as i128
        }
    };
    let value = i128::from(low) + at.clamp(0, n_cells) * i128::from(step);
    i64::try_from(value).expect("between two 64-bit ends")
}

/// Returns ⌊word · n / 2⁶⁴⌋, uniform over `0..n` for `n` up to 2⁶⁴.
fn index(word: u64, n: u128) -> u128 {
    let n = n.min(1 << 64);
    if n == 1 << 64 {
        return u128::from(word);
    }
    (u128::from(word) * n) >> 64
}

/// Widens a range by half a step at each end, at most half way to where its scale ends.
fn half_cells(low: f64, high: f64, step: f64, scale: Scale) -> (f64, f64) {
    let half = step / 2.0;
    match scale {
        Scale::Linear => (low - half, high + half),
        Scale::Log => ((low - half).max(low / 2.0), high + half),
        Scale::LogOneMinus => (low - half, (high + half).min((high + 1.0) / 2.0)),
    }
}

/// Goes from `low` to `high` along a scale.
fn along(low: f64, high: f64, scale: Scale, word: u64) -> f64 {
    // 53 bits, divided so that both 0 and 1 are reached.
    let share = (word >> 11) as f64 / ((1_u64 << 53) - 1) as f64;
    if share == 0.0 {
        return low;
    }
    if share == 1.0 {
        return high;
    }
    let mix = |a: f64, b: f64| a * (1.0 - share) + b * share;
    let value = match scale {
        Scale::Linear => mix(low, high),
        Scale::Log => mix(low.ln(), high.ln()).exp(),
        Scale::LogOneMinus => -mix((-low).ln_1p(), (-high).ln_1p()).exp_m1(),
    };
    value.clamp(low, high)
}
