//! Rounding of tensors to the narrower types that the precision arms emulate.
//!
//! # Invariants
//! - `f64` passes unchanged: the oracle rounds nowhere.
//! - Rounding twice changes nothing.

use super::check_len;
use super::simd::{self, kernel};
use crate::engine::real::Real;

/// Rounds to bf16, ties to even, as [`crate::engine::math::round_bf16`].
///
/// - `x`, `out`: `[N]`.
pub(crate) fn bf16<R: Real>(x: &[R], out: &mut [R]) {
    check_len("out", out.len(), x.len());
    simd::run(Bf16 { x, out });
}

/// Rounds to TF32, ties away from zero, as [`crate::engine::math::round_tf32`].
///
/// - `x`, `out`: `[N]`.
pub(crate) fn tf32<R: Real>(x: &[R], out: &mut [R]) {
    check_len("out", out.len(), x.len());
    simd::run(Tf32 { x, out });
}

kernel!(Bf16<'a, R> { x: &'a [R], out: &'a mut [R] } -> () = bf16_kernel);
kernel!(Tf32<'a, R> { x: &'a [R], out: &'a mut [R] } -> () = tf32_kernel);

#[inline(always)]
fn bf16_kernel<R: Real>(x: &[R], out: &mut [R]) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out = x.round_bf16();
    }
}

#[inline(always)]
fn tf32_kernel<R: Real>(x: &[R], out: &mut [R]) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out = x.round_tf32();
    }
}

#[cfg(test)]
mod tests;
