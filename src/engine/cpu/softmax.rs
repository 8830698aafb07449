//! Softmax and cross-entropy over the rows of a padded matrix.
//!
//! # Invariants
//! - Only the first `n_valid` entries of a row are read; padding in an output is exactly +0.
//! - Sums have the written order of [`super::sum`].
//! - A row that holds NaN, +∞ or nothing but −∞ becomes NaN; other rows do not.
//! - Masks are −1e30 before the exponential, never −∞: a target of 0 times an infinite
//!   distance would be NaN.

use super::simd::{self, kernel};
use super::sum::{N_PARTIALS, add, add_products, dot_kernel, padded, sum_kernel, tree};
use super::{Rows, check_len};
use crate::engine::real::Real;

/// Softmax of each row: subtract the maximum, exponentiate, sum, divide.
///
/// - `x`, `out`: `[n, width]`.
pub(crate) fn softmax<R: Real>(x: &[R], out: &mut [R], rows: Rows) {
    rows.check();
    check_len("x", x.len(), rows.len());
    check_len("out", out.len(), rows.len());
    simd::run(Softmax { x, out, rows });
}

/// Gradient of [`softmax`] with respect to its input: `p · (g − Σ g p)`.
///
/// - `p`: `[n, width]`, the softmax; `g`, `out`: `[n, width]`.
pub(crate) fn softmax_grad<R: Real>(p: &[R], g: &[R], out: &mut [R], rows: Rows) {
    rows.check();
    check_len("p", p.len(), rows.len());
    check_len("g", g.len(), rows.len());
    check_len("out", out.len(), rows.len());
    simd::run(SoftmaxGrad { p, g, out, rows });
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
kernel!(SoftmaxGrad<'a, R> {
    p: &'a [R], g: &'a [R], out: &'a mut [R], rows: Rows,
} -> () = softmax_grad_kernel);
kernel!(CrossEntropy<'a, R> {
    logits: &'a [R], target: &'a [R], out: &'a mut [R], rows: Rows,
} -> () = cross_entropy_kernel);
kernel!(CrossEntropyGrad<'a, R> {
    logits: &'a [R], target: &'a [R], grad_out: &'a [R], out: &'a mut [R], rows: Rows,
} -> () = cross_entropy_grad_kernel);

#[inline(always)]
fn softmax_kernel<R: Real>(x: &[R], out: &mut [R], rows: Rows) {
    let row_pairs = x
        .chunks_exact(rows.width)
        .zip(out.chunks_exact_mut(rows.width));
    for (x, out) in row_pairs {
        let (out, padding) = out.split_at_mut(rows.n_valid);
        let sum = exponentials(&x[..rows.n_valid], out);
        for value in out {
            *value /= sum;
        }
        padding.fill(R::ZERO);
    }
}

#[inline(always)]
fn softmax_grad_kernel<R: Real>(p: &[R], g: &[R], out: &mut [R], rows: Rows) {
    let row_pairs = p
        .chunks_exact(rows.width)
        .zip(g.chunks_exact(rows.width))
        .zip(out.chunks_exact_mut(rows.width));
    for ((p, g), out) in row_pairs {
        let (p, g) = (&p[..rows.n_valid], &g[..rows.n_valid]);
        let (out, padding) = out.split_at_mut(rows.n_valid);
        let mean = dot_kernel(g, p);
        for ((out, &p), &g) in out.iter_mut().zip(p).zip(g) {
            *out = p * (g - mean);
        }
        padding.fill(R::ZERO);
    }
}

#[inline(always)]
fn cross_entropy_kernel<R: Real>(logits: &[R], target: &[R], out: &mut [R], rows: Rows) {
    let row_pairs = logits
        .chunks_exact(rows.width)
        .zip(target.chunks_exact(rows.width))
        .zip(out);
    for ((x, t), out) in row_pairs {
        let (x_blocks, x_tail) = x[..rows.n_valid].as_chunks::<N_PARTIALS>();
        let (t_blocks, t_tail) = t[..rows.n_valid].as_chunks::<N_PARTIALS>();
        // Read once: a partial block is costly to load.
        let tails = (!x_tail.is_empty())
            .then(|| (padded(x_tail, R::NEG_INFINITY), padded(t_tail, R::ZERO)));
        let top = row_max(x_blocks, tails.as_ref().map(|(x, _)| x));
        let mut partials = [R::ZERO; N_PARTIALS];
        for block in x_blocks.iter().chain(tails.as_ref().map(|(x, _)| x)) {
            add(&mut partials, &exp_block(block, top));
        }
        let lse = top + tree(partials).ln();
        let mut partials = [R::ZERO; N_PARTIALS];
        for (x, t) in x_blocks.iter().zip(t_blocks) {
            add_products(&mut partials, t, &x.map(|x| lse - x));
        }
        if let Some((x, t)) = &tails {
            // Beyond the row x is −∞ and its distance must not meet the target's 0.
            let mut distance = [R::ZERO; N_PARTIALS];
            for (j, (d, &x)) in distance.iter_mut().zip(x).enumerate() {
                *d = if j < x_tail.len() { lse - x } else { R::ZERO };
            }
            add_products(&mut partials, t, &distance);
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
    let row_pairs = logits
        .chunks_exact(rows.width)
        .zip(target.chunks_exact(rows.width))
        .zip(out.chunks_exact_mut(rows.width))
        .zip(grad_out);
    for (((x, t), out), &grad_out) in row_pairs {
        let t = &t[..rows.n_valid];
        let (out, padding) = out.split_at_mut(rows.n_valid);
        let sum = exponentials(&x[..rows.n_valid], out);
        let mass = sum_kernel(t);
        for (out, &t) in out.iter_mut().zip(t) {
            *out = grad_out * (*out / sum * mass - t);
        }
        padding.fill(R::ZERO);
    }
}

/// Writes `exp(x − max x)` to `out` and returns its sum.
#[inline(always)]
fn exponentials<R: Real>(x: &[R], out: &mut [R]) -> R {
    let (x_blocks, x_tail) = x.as_chunks::<N_PARTIALS>();
    let (out_blocks, out_tail) = out.as_chunks_mut::<N_PARTIALS>();
    let tail = (!x_tail.is_empty()).then(|| padded(x_tail, R::NEG_INFINITY));
    let top = row_max(x_blocks, tail.as_ref());
    let mut partials = [R::ZERO; N_PARTIALS];
    for (x, out) in x_blocks.iter().zip(out_blocks) {
        *out = exp_block(x, top);
        add(&mut partials, out);
    }
    if let Some(x) = &tail {
        // exp(−∞) is 0, so the entries beyond the row add nothing.
        let e = exp_block(x, top);
        out_tail.copy_from_slice(&e[..out_tail.len()]);
        add(&mut partials, &e);
    }
    tree(partials)
}

/// Largest entry of a row; NaN may or may not be passed over, since it reaches the sum anyway.
#[inline(always)]
fn row_max<R: Real>(blocks: &[[R; N_PARTIALS]], tail: Option<&[R; N_PARTIALS]>) -> R {
    let mut tops = [R::NEG_INFINITY; N_PARTIALS];
    for block in blocks.iter().chain(tail) {
        for (top, &x) in tops.iter_mut().zip(block) {
            *top = if x > *top { x } else { *top };
        }
    }
    for half in [16, 8, 4, 2, 1] {
        for j in 0..half {
            tops[j] = if tops[j + half] > tops[j] {
                tops[j + half]
            } else {
                tops[j]
            };
        }
    }
    tops[0]
}

/// `exp(x − top)`, entry by entry.
#[inline(always)]
fn exp_block<R: Real>(x: &[R; N_PARTIALS], top: R) -> [R; N_PARTIALS] {
    let mut e = [R::ZERO; N_PARTIALS];
    for (e, &x) in e.iter_mut().zip(x) {
        *e = (x - top).exp();
    }
    e
}

#[cfg(test)]
mod tests;
