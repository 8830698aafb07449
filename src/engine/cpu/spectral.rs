//! Largest singular value by power iteration, and the projection below a bound.
//!
//! # Invariants
//! - `Wᵀu` adds rows in index order; `Wv` and norms have the order of [`super::sum`].
//! - Both products read the matrix row by row.
//! - A matrix at or below the bound, or with a NaN estimate, keeps every bit.

use super::check_len;
use super::simd::{self, kernel};
use super::sum::dot_kernel;
use crate::engine::real::Real;

/// Norms below this do not divide.
const EPS: f64 = 1e-12;

/// How to iterate and whether to project.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spectral<R> {
    /// Upper bound of the spectral norm.
    pub sigma_max: R,
    /// Power iterations, at least 1.
    pub n_iterations: usize,
    /// Whether `w` is scaled when it is above the bound.
    pub project: bool,
}

/// Estimates the spectral norm of `w` and returns it; with `project` scales `w` by
/// `sigma_max / σ`, only if `σ > sigma_max`.
///
/// - `w`: `[rows, cols]`, in place.
/// - `u`: `[rows]`, kept from one call to the next; `v`: `[cols]`, overwritten.
///
/// Each iteration: `v ← Wᵀu / max(‖Wᵀu‖, 1e-12)`, `σ ← ‖Wv‖`, `u ← Wv / max(σ, 1e-12)`.
/// The estimate is that before scaling, and never above the true norm but for rounding.
///
/// Source: Miyato et al. 2018, Algorithm 1, as a projection in place, not differentiated.
pub(crate) fn spectral_norm<R: Real>(w: &mut [R], u: &mut [R], v: &mut [R], how: Spectral<R>) -> R {
    check_len("w", w.len(), u.len() * v.len());
    assert!(how.n_iterations > 0, "no iteration gives no estimate");
    if w.is_empty() {
        return R::ZERO;
    }
    simd::run(SpectralNorm { w, u, v, how })
}

kernel!(SpectralNorm<'a, R> {
    w: &'a mut [R], u: &'a mut [R], v: &'a mut [R], how: Spectral<R>,
} -> R = spectral_norm_kernel);

#[inline(always)]
fn spectral_norm_kernel<R: Real>(w: &mut [R], u: &mut [R], v: &mut [R], how: Spectral<R>) -> R {
    let mut sigma = R::ZERO;
    for _ in 0..how.n_iterations {
        transposed_product(w, u, v);
        let norm = dot_kernel(v, v).sqrt();
        normalize(v, norm);
        for (u, row) in u.iter_mut().zip(w.chunks_exact(v.len())) {
            *u = dot_kernel(row, v);
        }
        sigma = dot_kernel(u, u).sqrt();
        normalize(u, sigma);
    }
    if how.project && sigma > how.sigma_max {
        let scale = how.sigma_max / sigma;
        for w in w {
            *w *= scale;
        }
    }
    sigma
}

/// `v ← Wᵀu`, rows added in index order, four at a time to spare passes over `v`.
#[inline(always)]
fn transposed_product<R: Real>(w: &[R], u: &[R], v: &mut [R]) {
    let n_cols = v.len();
    v.fill(R::ZERO);
    let (fours, rest) = u.as_chunks::<4>();
    let (w_fours, w_rest) = w.split_at(fours.len() * 4 * n_cols);
    for (u, rows) in fours.iter().zip(w_fours.chunks_exact(4 * n_cols)) {
        let (first, second) = rows.split_at(2 * n_cols);
        let (r0, r1) = first.split_at(n_cols);
        let (r2, r3) = second.split_at(n_cols);
        for ((((v, &a), &b), &c), &d) in v.iter_mut().zip(r0).zip(r1).zip(r2).zip(r3) {
            *v = (((*v + u[0] * a) + u[1] * b) + u[2] * c) + u[3] * d;
        }
    }
    for (&u, row) in rest.iter().zip(w_rest.chunks_exact(n_cols)) {
        for (v, &w) in v.iter_mut().zip(row) {
            *v += u * w;
        }
    }
}

/// Divides by the norm, or by 1e-12 if the norm is below that; a NaN norm gives NaN.
#[inline(always)]
fn normalize<R: Real>(x: &mut [R], norm: R) {
    let eps = R::from_f64(EPS);
    let divisor = if norm < eps { eps } else { norm };
    for x in x {
        *x /= divisor;
    }
}

#[cfg(test)]
mod tests;
