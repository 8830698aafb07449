//! Softmax and cross-entropy over the rows of a padded matrix.
//!
//! # Invariants
//! - Only the first `n_valid` entries of a row are read; padding in an output is exactly +0.
//! - Sums have the written order of [`super::sum`].
//! - A row that holds NaN, +∞ or nothing but −∞ becomes NaN; other rows do not.
//! - Masks are −1e30 before the exponential, never −∞: a target of 0 times an infinite
//!   distance would be NaN.

use super::simd::{self, kernel};
use super::sum::{N_PARTIALS, add_all, add_all_products, fold, fold_tree, sum_kernel, tree};
use super::{Rows, check_len};
use crate::engine::real::Real;

/// Entries of a row handled at a time where no output can hold them; a multiple of the partials.
const N_BUFFER: usize = 8 * N_PARTIALS;
/// Elements of an output that are handled in one tile.
const N_TILE: usize = 1024;

impl Rows {
    /// Elements of as many whole rows, at least one, as stay in the nearest cache.
    fn n_tile(self) -> usize {
        self.width * (N_TILE / self.width).max(1)
    }
}

/// Softmax of each row: subtract the maximum, exponentiate, sum, divide.
///
/// - `x`, `out`: `[n, width]`.
pub(crate) fn softmax<R: Real>(x: &[R], out: &mut [R], rows: Rows) {
    rows.check();
    check_len("x", x.len(), rows.len());
    check_len("out", out.len(), rows.len());
    simd::run(Softmax { x, out, rows });
}

/// Cross-entropy of each row with a target distribution.
///
/// - `logits`, `target`: `[n, width]`; `out`: `[n]`.
///
/// `out = Σ target · (lse − logit)` with `lse = max + ln Σ exp(logit − max)`, which is
/// −Σ target · log softmax. The target need not sum to 1.
pub(crate) fn cross_entropy<R: Real>(logits: &[R], target: &[R], out: &mut [R], rows: Rows) {
    rows.check();
    check_len("logits", logits.len(), rows.len());
    check_len("target", target.len(), rows.len());
    check_len("out", out.len(), rows.n);
    simd::run(CrossEntropy {
        logits,
        target,
        out,
        rows,
    });
}

/// Gradient of [`cross_entropy`] with respect to the logits:
/// `grad_out · (softmax · Σ target − target)`.
///
/// - `logits`, `target`, `out`: `[n, width]`; `grad_out`: `[n]`.
pub(crate) fn cross_entropy_grad<R: Real>(
    logits: &[R],
    target: &[R],
    grad_out: &[R],
    out: &mut [R],
    rows: Rows,
) {
    rows.check();
    check_len("logits", logits.len(), rows.len());
    check_len("target", target.len(), rows.len());
    check_len("grad_out", grad_out.len(), rows.n);
    check_len("out", out.len(), rows.len());
    simd::run(CrossEntropyGrad {
        logits,
        target,
        grad_out,
        out,
        rows,
    });
}

kernel!(Softmax<'a, R> { x: &'a [R], out: &'a mut [R], rows: Rows } -> () = softmax_kernel);
kernel!(CrossEntropy<'a, R> {
    logits: &'a [R], target: &'a [R], out: &'a mut [R], rows: Rows,
} -> () = cross_entropy_kernel);
kernel!(CrossEntropyGrad<'a, R> {
    logits: &'a [R], target: &'a [R], grad_out: &'a [R], out: &'a mut [R], rows: Rows,
} -> () = cross_entropy_grad_kernel);

#[inline(always)]
fn softmax_kernel<R: Real>(x: &[R], out: &mut [R], rows: Rows) {
    let n_tile = rows.n_tile();
    for (x, out) in x.chunks(n_tile).zip(out.chunks_mut(n_tile)) {
        exponentials(x, out, rows);
        for out in out.chunks_exact_mut(rows.width) {
            // The zeros of the padding add nothing.
            let sum = sum_kernel(out);
            for e in &mut out[..rows.n_valid] {
                *e /= sum;
            }
        }
    }
}

#[inline(always)]
fn cross_entropy_kernel<R: Real>(logits: &[R], target: &[R], out: &mut [R], rows: Rows) {
    let mut buffer = [R::ZERO; N_BUFFER];
    let row_pairs = logits
        .chunks_exact(rows.width)
        .zip(target.chunks_exact(rows.width))
        .zip(out);
    for ((x, t), out) in row_pairs {
        let (x, t) = (&x[..rows.n_valid], &t[..rows.n_valid]);
        let top = row_max(x);
        let mut partials = [R::ZERO; N_PARTIALS];
        for x in x.chunks(N_BUFFER) {
            let e = &mut buffer[..x.len().next_multiple_of(8)];
            for (e, &x) in e.iter_mut().zip(x) {
                *e = x - top;
            }
            for e in e.iter_mut() {
                *e = e.exp();
            }
            add_all(&mut partials, &e[..x.len()]);
        }
        let lse = top + tree(partials).ln();
        let mut partials = [R::ZERO; N_PARTIALS];
        for (x, t) in x.chunks(N_BUFFER).zip(t.chunks(N_BUFFER)) {
            let distance = &mut buffer[..x.len()];
            for (d, &x) in distance.iter_mut().zip(x) {
                *d = lse - x;
            }
            add_all_products(&mut partials, t, distance);
        }
        *out = tree(partials);
    }
}

#[inline(always)]
fn cross_entropy_grad_kernel<R: Real>(
    logits: &[R],
    target: &[R],
    grad_out: &[R],
    out: &mut [R],
    rows: Rows,
) {
    let n_tile = rows.n_tile();
    let tiles = logits
        .chunks(n_tile)
        .zip(target.chunks(n_tile))
        .zip(out.chunks_mut(n_tile))
        .zip(grad_out.chunks(n_tile / rows.width));
    for (((x, t), out), grad_out) in tiles {
        exponentials(x, out, rows);
        let row_pairs = out
            .chunks_exact_mut(rows.width)
            .zip(t.chunks_exact(rows.width))
            .zip(grad_out);
        for ((out, t), &grad_out) in row_pairs {
            let t = &t[..rows.n_valid];
            let sum = sum_kernel(out);
            let mass = sum_kernel(t);
            for (out, &t) in out.iter_mut().zip(t) {
                *out = grad_out * (*out / sum * mass - t);
            }
        }
    }
}

/// Largest entry of a row; NaN may or may not be passed over, since it reaches the sum anyway.
#[inline(always)]
fn row_max<R: Real>(x: &[R]) -> R {
    let larger = |top, x| if x > top { x } else { top };
    let mut tops = [R::NEG_INFINITY; N_PARTIALS];
    fold(&mut tops, x, larger);
    fold_tree(tops, larger)
}

/// Writes `exp(x − max x)` for each row of a tile, and 0 to its padding.
///
/// One loop takes the exponentials of all rows: row by row, the ends of rows would cost as much
/// as the rest.
#[inline(always)]
fn exponentials<R: Real>(x: &[R], out: &mut [R], rows: Rows) {
    let row_pairs = x
        .chunks_exact(rows.width)
        .zip(out.chunks_exact_mut(rows.width));
    for (x, out) in row_pairs {
        let x = &x[..rows.n_valid];
        let top = row_max(x);
        for (e, &x) in out.iter_mut().zip(x) {
            *e = x - top;
        }
        out[rows.n_valid..].fill(R::ZERO);
    }
    for e in out.iter_mut() {
        *e = e.exp();
    }
    for out in out.chunks_exact_mut(rows.width) {
        out[rows.n_valid..].fill(R::ZERO);
    }
}

#[cfg(test)]
mod tests;
