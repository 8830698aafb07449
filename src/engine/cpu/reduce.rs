//! Reductions over one axis of a tensor seen as `[outer, n, inner]`.
//!
//! # Invariants
//! - [`sum`] has the written order of [`super::sum`] per output element, whatever the axis.
//! - [`max`] has no order: it never returns −0, and any NaN gives [`Real::NAN`].
//! - [`argmax`] returns the lowest index among equals; NaN wins only if all are NaN.

use super::simd::{self, kernel};
use super::sum::{N_PARTIALS, fold, fold_tree, sum_kernel};
use super::{Axis, check_len};
use crate::engine::real::Real;

/// Columns handled at a time when the axis is not the last.
const N_COLUMNS: usize = 64;

/// Sums over the axis.
///
/// - `x`: `[outer, n, inner]`; `out`: `[outer, inner]`.
///
/// Element `i` of the axis goes to partial `i % 32`, then the tree, as [`super::sum`] says; an
/// axis of 32 or fewer is the tree alone (over elements that were added to +0).
pub(crate) fn sum<R: Real>(x: &[R], out: &mut [R], axis: Axis) {
    check_len("x", x.len(), axis.len());
    check_len("out", out.len(), axis.reduced());
    if axis.inner == 1 {
        simd::run(SumLast { x, out, n: axis.n });
    } else {
        simd::run(SumMiddle { x, out, axis });
    }
}

/// Takes the largest value along the axis.
///
/// - `x`: `[outer, n, inner]`, `n` at least 1; `out`: `[outer, inner]`.
///
/// Any NaN gives [`Real::NAN`]; the largest of −0 and +0, or of −0 alone, is +0. So the result
/// does not depend on the order in which elements are compared.
pub(crate) fn max<R: Real>(x: &[R], out: &mut [R], axis: Axis) {
    check_len("x", x.len(), axis.len());
    check_len("out", out.len(), axis.reduced());
    assert!(axis.n > 0, "the maximum of an empty axis does not exist");
    if axis.inner == 1 {
        simd::run(MaxLast { x, out, n: axis.n });
    } else {
        simd::run(MaxMiddle { x, out, axis });
    }
}

/// Finds the index of the largest value along the axis.
///
/// - `x`: `[outer, n, inner]`, `n` at least 1; `out`: `[outer, inner]`.
///
/// The lowest index wins among equals (−0 equals +0). NaN never wins unless all are NaN; then
/// the index is 0.
pub(crate) fn argmax<R: Real>(x: &[R], out: &mut [i32], axis: Axis) {
    check_len("x", x.len(), axis.len());
    check_len("out", out.len(), axis.reduced());
    let Axis { n, inner, .. } = axis;
    assert!(n > 0, "the maximum of an empty axis does not exist");
    if x.is_empty() {
        return;
    }
    for (x, out) in x.chunks_exact(n * inner).zip(out.chunks_exact_mut(inner)) {
        for (column, best) in out.iter_mut().enumerate() {
            let mut top = x[column];
            *best = 0;
            for i in 1..n {
                let value = x[i * inner + column];
                if value > top || (top.is_nan() && !value.is_nan()) {
                    top = value;
                    *best = i as i32;
                }
            }
        }
    }
}

kernel!(SumLast<'a, R> { x: &'a [R], out: &'a mut [R], n: usize } -> () = sum_last);
kernel!(SumMiddle<'a, R> { x: &'a [R], out: &'a mut [R], axis: Axis } -> () = sum_middle);
kernel!(MaxLast<'a, R> { x: &'a [R], out: &'a mut [R], n: usize } -> () = max_last);
kernel!(MaxMiddle<'a, R> { x: &'a [R], out: &'a mut [R], axis: Axis } -> () = max_middle);

#[inline(always)]
fn sum_last<R: Real>(x: &[R], out: &mut [R], n: usize) {
    for (row, sum) in out.iter_mut().enumerate() {
        *sum = sum_kernel(&x[row * n..(row + 1) * n]);
    }
}

#[inline(always)]
fn sum_middle<R: Real>(x: &[R], out: &mut [R], axis: Axis) {
    let Axis { outer, n, inner } = axis;
    let n_live = n.min(N_PARTIALS);
    let mut partials = [[R::ZERO; N_COLUMNS]; N_PARTIALS];
    for o in 0..outer {
        for start in (0..inner).step_by(N_COLUMNS) {
            let width = N_COLUMNS.min(inner - start);
            let out = &mut out[o * inner + start..][..width];
            if n == 0 {
                out.fill(R::ZERO);
                continue;
            }
            let row = |i: usize| &x[(o * n + i) * inner + start..][..width];
            for (j, partial) in partials.iter_mut().enumerate().take(n_live) {
                // The first element is added to +0.
                for (p, &x) in partial.iter_mut().zip(row(j)) {
                    *p = R::ZERO + x;
                }
                for i in (j + N_PARTIALS..n).step_by(N_PARTIALS) {
                    for (p, &x) in partial.iter_mut().zip(row(i)) {
                        *p += x;
                    }
                }
            }
            tree_of_rows(&mut partials, n_live, width);
            out.copy_from_slice(&partials[0][..width]);
        }
    }
}

/// Sums the first `n_live` partial rows into row 0 in the order of the tree of 32.
///
/// Rows from `n_live` on count as +0: adding them changes no bit, so they are passed over.
#[inline(always)]
fn tree_of_rows<R: Real>(partials: &mut [[R; N_COLUMNS]; N_PARTIALS], n_live: usize, width: usize) {
    for half in [16, 8, 4, 2, 1] {
        let (low, high) = partials.split_at_mut(half);
        let n_pairs = n_live.saturating_sub(half).min(half);
        for (p, q) in low.iter_mut().zip(high.iter()).take(n_pairs) {
            for (p, &q) in p[..width].iter_mut().zip(q) {
                *p += q;
            }
        }
    }
}

#[inline(always)]
fn max_last<R: Real>(x: &[R], out: &mut [R], n: usize) {
    for (row, max) in out.iter_mut().enumerate() {
        let mut tops = [R::NEG_INFINITY; N_PARTIALS];
        fold(&mut tops, &x[row * n..(row + 1) * n], larger);
        *max = canonical(fold_tree(tops, larger));
    }
}

#[inline(always)]
fn max_middle<R: Real>(x: &[R], out: &mut [R], axis: Axis) {
    let Axis { n, inner, .. } = axis;
    if x.is_empty() {
        return;
    }
    for (x, out) in x.chunks_exact(n * inner).zip(out.chunks_exact_mut(inner)) {
        out.fill(R::NEG_INFINITY);
        for row in x.chunks_exact(inner) {
            for (max, &x) in out.iter_mut().zip(row) {
                *max = larger(*max, x);
            }
        }
        for max in out {
            *max = canonical(*max);
        }
    }
}

/// The larger of two; NaN if either is.
#[inline(always)]
fn larger<R: Real>(top: R, x: R) -> R {
    if x > top || x.is_nan() { x } else { top }
}

/// Turns −0 into +0 and every NaN into the same one.
#[inline(always)]
fn canonical<R: Real>(x: R) -> R {
    if x.is_nan() { R::NAN } else { x + R::ZERO }
}

#[cfg(test)]
mod tests;
