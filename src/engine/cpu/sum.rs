//! Sums of vectors in the one written order.
//!
//! Element `i` is added, in index order, to partial `i % 32`; then the partials meet in a tree,
//! `p[j] += p[j + 16]` for `j < 16`, then 8, 4, 2 and 1 apart. Partials start at +0, so a sum
//! is never −0, and adding the partials that no element reached changes nothing.
//!
//! # Invariants
//! - Every sum in this backend has this order (matrix products and the scan over rows in
//!   [`spectral`](super::spectral) apart, which write their own).
//! - Equal inputs give equal bits on every instruction set.

#[cfg(test)]
use super::check_len;
#[cfg(test)]
use super::simd::{self, kernel};
use crate::engine::real::Real;

/// Number of partial sums.
pub(crate) const N_PARTIALS: usize = 32;

/// Partial results, one per residue of the element index.
pub(super) type Partials<R> = [R; N_PARTIALS];

/// Sum of `x`.
///
/// - `x`: `[N]`; an empty sum is 0.
#[cfg(test)]
pub(crate) fn sum_ordered<R: Real>(x: &[R]) -> R {
    simd::run(Sum { x })
}

/// Sum of the squares of `x`.
///
/// - `x`: `[N]`.
#[cfg(test)]
pub(crate) fn sum_squares_ordered<R: Real>(x: &[R]) -> R {
    simd::run(Dot { x, y: x })
}

/// Sum of the products of `x` and `y`, each product rounded before it is added.
///
/// - `x`, `y`: `[N]`.
#[cfg(test)]
pub(crate) fn dot_ordered<R: Real>(x: &[R], y: &[R]) -> R {
    check_len("y", y.len(), x.len());
    simd::run(Dot { x, y })
}

#[cfg(test)]
kernel!(Sum<'a, R> { x: &'a [R] } -> R = sum_kernel);
#[cfg(test)]
kernel!(Dot<'a, R> { x: &'a [R], y: &'a [R] } -> R = dot_kernel);

#[inline(always)]
pub(super) fn sum_kernel<R: Real>(x: &[R]) -> R {
    let mut partials = [R::ZERO; N_PARTIALS];
    add_all(&mut partials, x);
    tree(partials)
}

#[inline(always)]
pub(super) fn dot_kernel<R: Real>(x: &[R], y: &[R]) -> R {
    let mut partials = [R::ZERO; N_PARTIALS];
    add_all_products(&mut partials, x, y);
    tree(partials)
}

/// Adds `x` to the partials; element 0 goes to partial 0.
#[inline(always)]
pub(super) fn add_all<R: Real>(partials: &mut Partials<R>, x: &[R]) {
    fold(partials, x, |p, x| p + x);
}

/// Folds `x` into the partials: element `i` into partial `i % 32`, in index order.
#[inline(always)]
pub(super) fn fold<R: Real>(partials: &mut Partials<R>, x: &[R], combine: impl Fn(R, R) -> R) {
    let (blocks, tail) = x.as_chunks::<N_PARTIALS>();
    for block in blocks {
        for (p, &x) in partials.iter_mut().zip(block) {
            *p = combine(*p, x);
        }
    }
    for (p, &x) in partials.iter_mut().zip(tail) {
        *p = combine(*p, x);
    }
}

/// Adds the products of `x` and `y` to the partials; element 0 goes to partial 0.
#[inline(always)]
pub(super) fn add_all_products<R: Real>(partials: &mut Partials<R>, x: &[R], y: &[R]) {
    let (x_blocks, x_tail) = x.as_chunks::<N_PARTIALS>();
    let (y_blocks, y_tail) = y.as_chunks::<N_PARTIALS>();
    for (x, y) in x_blocks.iter().zip(y_blocks) {
        for ((p, &x), &y) in partials.iter_mut().zip(x).zip(y) {
            *p += x * y;
        }
    }
    for ((p, &x), &y) in partials.iter_mut().zip(x_tail).zip(y_tail) {
        *p += x * y;
    }
}

/// Sums the partials: `p[j] += p[j + half]` for half = 16, 8, 4, 2, 1.
#[inline(always)]
pub(super) fn tree<R: Real>(partials: Partials<R>) -> R {
    fold_tree(partials, |p, q| p + q)
}

/// Combines the partials in the order of the tree.
#[inline(always)]
pub(super) fn fold_tree<R: Real>(mut p: Partials<R>, combine: impl Fn(R, R) -> R) -> R {
    for half in [16, 8, 4, 2, 1] {
        for j in 0..half {
            p[j] = combine(p[j], p[j + half]);
        }
    }
    p[0]
}

#[cfg(test)]
mod tests;
