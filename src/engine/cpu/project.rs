//! Projection of a shifted and scaled categorical distribution back onto its support.
//!
//! # Invariants
//! - Mass is kept to rounding; the mean too unless an atom was clamped.
//! - Each output sums over source atoms in index order.
//! - NaN in a row's inputs puts NaN into that row and no other.

use super::simd::{self, kernel};
use super::{Rows, check_len};
use crate::engine::real::Real;

/// Source atoms whose positions are computed at a time.
const N_ATOMS: usize = 64;

/// Evenly spaced atoms from `z_min` to `z_max`, `Δz = (z_max − z_min) / (n_valid − 1)` apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Support<R> {
    /// Lowest atom.
    pub z_min: R,
    /// Highest atom, above `z_min`.
    pub z_max: R,
}

impl<R: Real> Support<R> {
    /// The support from −`v_max` to `v_max`.
    pub(crate) fn symmetric(v_max: R) -> Self {
        Self {
            z_min: -v_max,
            z_max: v_max,
        }
    }
}

/// Projects the distribution of `reward + discount · z` onto the support of `z`.
///
/// - `p`, `out`: `[n, width]`, probabilities over `n_valid` atoms (at least 2).
/// - `reward`, `discount`: `[n]`; a discount of 0 puts all mass at the reward.
///
/// With atoms `z_j = z_min + j·Δz` and their moves in atoms `s_j = clamp((reward + (discount −
/// 1)·z_j) / Δz, −j, n_valid − 1 − j)`: `out_i = Σ_j p_j · max(0, 1 − |s_j + (j − i)|)`, j
/// ascending. Moves are small where positions are large: the shares keep all their bits.
///
/// Source: Bellemare, Dabney and Munos 2017, eq. 7, in the form of a triangular kernel,
/// of which only the two neighbours of each `j + s_j` are computed: the other weights are 0.
pub(crate) fn project<R: Real>(
    p: &[R],
    reward: &[R],
    discount: &[R],
    support: Support<R>,
    out: &mut [R],
    rows: Rows,
) {
    rows.check();
    assert!(
        rows.n_valid >= 2,
        "a support needs 2 atoms, got {}",
        rows.n_valid
    );
    check_len("p", p.len(), rows.len());
    check_len("reward", reward.len(), rows.n);
    check_len("discount", discount.len(), rows.n);
    check_len("out", out.len(), rows.len());
    simd::run(Project {
        p,
        reward,
        discount,
        support,
        out,
        rows,
    });
}

kernel!(Project<'a, R> {
    p: &'a [R], reward: &'a [R], discount: &'a [R], support: Support<R>, out: &'a mut [R],
    rows: Rows,
} -> () = project_kernel);

#[inline(always)]
fn project_kernel<R: Real>(
    p: &[R],
    reward: &[R],
    discount: &[R],
    support: Support<R>,
    out: &mut [R],
    rows: Rows,
) {
    let Support { z_min, z_max } = support;
    let last = R::from_f64((rows.n_valid - 1) as f64);
    let spacing = (z_max - z_min) / last;
    let last_pair = rows.n_valid as i32 - 2;
    let nothing = Atom {
        low: 0,
        share_low: R::ZERO,
        share_high: R::ZERO,
    };
    let mut atoms = [nothing; N_ATOMS];
    let row_pairs = p
        .chunks_exact(rows.width)
        .zip(out.chunks_exact_mut(rows.width))
        .zip(reward.iter().zip(discount));
    for ((p, out), (&reward, &discount)) in row_pairs {
        let (out, padding) = out.split_at_mut(rows.n_valid);
        out.fill(R::ZERO);
        padding.fill(R::ZERO);
        for (chunk, p) in p[..rows.n_valid].chunks(N_ATOMS).enumerate() {
            for (j, (atom, &p)) in atoms.iter_mut().zip(p).enumerate() {
                let at = index::<R>(chunk * N_ATOMS + j);
                let z = z_min + at * spacing;
                let s = clamp((reward + (discount - R::ONE) * z) / spacing, -at, last - at);
                // NaN stays at its own atom, where its weights are NaN.
                let low = (chunk * N_ATOMS + j) as i32 + s.floor().to_i32();
                atom.low = low.min(last_pair);
                let move_low = R::from_f64(f64::from(atom.low)) - at;
                atom.share_low = p * (R::ONE - (s - move_low));
                atom.share_high = p * (R::ONE - (move_low + R::ONE - s));
            }
            for atom in &atoms[..p.len()] {
                let low = atom.low as usize;
                out[low] += atom.share_low;
                out[low + 1] += atom.share_high;
            }
        }
    }
}

/// What a source atom gives to its two neighbours; all other weights of the definition are 0.
#[derive(Clone, Copy)]
struct Atom<R> {
    low: i32,
    share_low: R,
    share_high: R,
}

/// An atom's index as a number; exact for every count of atoms in use.
#[inline(always)]
fn index<R: Real>(i: usize) -> R {
    R::from_f64(i as f64)
}

/// Clamps `x`, letting NaN through.
#[inline(always)]
fn clamp<R: Real>(x: R, low: R, high: R) -> R {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

#[cfg(test)]
mod tests;
