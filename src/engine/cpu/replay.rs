//! Uniform sampling from a replay ring and n-step returns out of it.
//!
//! The ring holds `capacity` rows of `n_env` transitions, one per environment; row `r` of
//! environment `e` has the flat index `r * n_env + e`. Rows are written in turn, so the row
//! after one is the next step of the same environments.
//!
//! # Invariants
//! - A sampled index always starts `n_step_max` rows that were written in order.
//! - No index is out of range, whatever the uniforms.

use super::check_len;
use crate::engine::op::replay::{END_NONE, END_TERMINAL};
use crate::engine::real::Real;

/// Shape of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    /// Number of rows.
    pub capacity: usize,
    /// Environments, each a column.
    pub n_env: usize,
}

/// How far a ring is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fill {
    /// Valid rows, at most the capacity; the newest is row `head − 1`.
    pub size: usize,
    /// Row that is written next.
    pub head: usize,
}

/// What an n-step return over a batch gives, each `[B]`.
pub(crate) struct NStep<'a, R> {
    /// Discounted sum of the rewards.
    pub returns: &'a mut [R],
    /// Factor on the value after the last transition: γ^steps, 0 after a terminal one.
    pub discount: &'a mut [R],
    /// Flat index of the last transition in the sum.
    pub last: &'a mut [i32],
}

/// Draws flat indices, uniformly over environments and the rows that `n_step_max` steps can
/// start from: all valid ones but the newest `n_step_max − 1`.
///
/// - `uniform`: `[B]`, from [0, 1); 1 and above count as the last pair, NaN as the first.
/// - `out`: `[B]`.
///
/// Pair `k = ⌊uniform · n_rows · n_env⌋` is row `k / n_env`, counted from the oldest, of
/// environment `k % n_env`. While no row qualifies every index is 0: the phase's guard discards
/// what is computed from it.
pub(crate) fn sample(uniform: &[f32], ring: Ring, fill: Fill, n_step_max: usize, out: &mut [i32]) {
    let Ring { capacity, n_env } = ring;
    let Fill { size, head } = fill;
    assert!(
        size <= capacity && head < capacity && n_step_max > 0,
        "{fill:?} does not fit {ring:?}, or n_step_max {n_step_max} is 0"
    );
    check_len("out", out.len(), uniform.len());
    let n_pairs = (size + 1).saturating_sub(n_step_max) * n_env;
    if n_pairs == 0 {
        out.fill(0);
        return;
    }
    let oldest = (head + capacity - size) % capacity;
    for (out, &u) in out.iter_mut().zip(uniform) {
        // 24 bits times fewer than 2²⁹ pairs is exact in f64; the cast takes the floor.
        let k = ((f64::from(u) * n_pairs as f64) as usize).min(n_pairs - 1);
        let row = (oldest + k / n_env) % capacity;
        *out = (row * n_env + k % n_env) as i32;
    }
}

/// Sums up to `n` discounted rewards from each sampled transition on.
///
/// - `reward`, `end`: `[capacity, n_env]`; `end` holds [`END_NONE`], [`END_TERMINAL`] or
///   [`END_TIME_LIMIT`].
/// - `index`: `[B]` flat indices, as [`sample`] gives them for an `n_step_max` of at least `n`.
/// - `n`: at least 1; `gamma`: discount per step.
///
/// The sum stops after the first transition whose end is not 0. Powers of γ by repeated
/// multiplication, rewards added in time order.
pub(crate) fn n_step<R: Real>(
    reward: &[R],
    end: &[i32],
    ring: Ring,
    index: &[i32],
    n: usize,
    gamma: R,
    out: NStep<'_, R>,
) {
    let Ring { capacity, n_env } = ring;
    assert!(
        1 <= n && n <= capacity,
        "{n} steps in a ring of {capacity} rows"
    );
    check_len("reward", reward.len(), capacity * n_env);
    check_len("end", end.len(), capacity * n_env);
    check_len("returns", out.returns.len(), index.len());
    check_len("discount", out.discount.len(), index.len());
    check_len("last", out.last.len(), index.len());
    let n_flat = capacity * n_env;
    for (b, &start) in index.iter().enumerate() {
        let mut at = match usize::try_from(start) {
            Ok(at) if at < n_flat => at,
            _ => panic!("index {start} is outside 0..{n_flat}"),
        };
        let mut total = reward[at];
        let mut factor = gamma;
        for _ in 1..n {
            if end[at] != END_NONE {
                break;
            }
            at += n_env;
            if at >= n_flat {
                at -= n_flat;
            }
            total += factor * reward[at];
            factor *= gamma;
        }
        out.returns[b] = total;
        out.discount[b] = if end[at] == END_TERMINAL {
            R::ZERO
        } else {
            factor
        };
        out.last[b] = at as i32;
    }
}

#[cfg(test)]
mod tests;
