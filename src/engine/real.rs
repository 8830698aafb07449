//! The two floating-point types that the engine computes in.
//!
//! # Invariants
//! - Only `f32` and `f64` are [`Real`]; the trait is sealed.
//! - No operation here depends on thread, time or environment.

use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

use super::math;

mod sealed {
    /// Keeps other crates from adding scalar types.
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

/// A floating-point scalar: `f32` when training, `f64` when evaluating and as the oracle.
///
/// `min` and `max` follow IEEE 754 `minNum`: of a number and NaN they return the number.
pub trait Real:
    sealed::Sealed
    + bytemuck::Pod
    + Send
    + Sync
    + Default
    + Debug
    + Display
    + PartialEq
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + Sum
    + 'static
{
    /// Zero, positive.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// One half.
    const HALF: Self;
    /// Positive infinity.
    const INFINITY: Self;
    /// Negative infinity.
    const NEG_INFINITY: Self;
    /// The quiet NaN that kernels produce.
    const NAN: Self;

    /// Rounds `value` to this type, ties to even.
    fn from_f64(value: f64) -> Self;
    /// Widens to `f64`, exactly.
    fn to_f64(self) -> f64;
    /// Converts to an integer towards zero; saturates, and NaN gives 0.
    fn to_i32(self) -> i32;
    /// Square root, correctly rounded.
    fn sqrt(self) -> Self;
    /// e to the power of `self`; for `f32` [`math::exp`].
    fn exp(self) -> Self;
    /// Natural logarithm; for `f32` [`math::ln`].
    fn ln(self) -> Self;
    /// Hyperbolic tangent; for `f32` [`math::tanh`].
    fn tanh(self) -> Self;
    /// The logistic function 1 / (1 + exp(−self)); for `f32` [`math::sigmoid`].
    fn sigmoid(self) -> Self;
    /// log(1 + exp(self)) without overflow; for `f32` [`math::softplus`].
    fn softplus(self) -> Self;
    /// Absolute value.
    fn abs(self) -> Self;
    /// The smaller of two.
    fn min(self, other: Self) -> Self;
    /// The larger of two.
    fn max(self, other: Self) -> Self;
    /// The largest integer that is not above `self`.
    fn floor(self) -> Self;
    /// Whether `self` is neither NaN nor infinite.
    fn is_finite(self) -> bool;
    /// Whether `self` is NaN.
    fn is_nan(self) -> bool;
    /// Rounds `f32` to the nearest bf16 value ([`math::round_bf16`]); leaves `f64` as it is.
    fn round_bf16(self) -> Self;
    /// Rounds `f32` to the nearest TF32 value ([`math::round_tf32`]); leaves `f64` as it is.
    fn round_tf32(self) -> Self;
}

macro_rules! real {
    ($type:ident, $functions:ident) => {
        impl Real for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const HALF: Self = 0.5;
            const INFINITY: Self = $type::INFINITY;
            const NEG_INFINITY: Self = $type::NEG_INFINITY;
            const NAN: Self = $type::NAN;

            #[inline(always)]
            fn from_f64(value: f64) -> Self {
                value as $type
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            #[inline(always)]
            fn to_i32(self) -> i32 {
                self as i32
            }
            #[inline(always)]
            fn sqrt(self) -> Self {
                $type::sqrt(self)
            }
            #[inline(always)]
            fn exp(self) -> Self {
                $functions::exp(self)
            }
            #[inline(always)]
            fn ln(self) -> Self {
                $functions::ln(self)
            }
            #[inline(always)]
            fn tanh(self) -> Self {
                $functions::tanh(self)
            }
            #[inline(always)]
            fn sigmoid(self) -> Self {
                $functions::sigmoid(self)
            }
            #[inline(always)]
            fn softplus(self) -> Self {
                $functions::softplus(self)
            }
            #[inline(always)]
            fn abs(self) -> Self {
                $type::abs(self)
            }
            #[inline(always)]
            fn min(self, other: Self) -> Self {
                $type::min(self, other)
            }
            #[inline(always)]
            fn max(self, other: Self) -> Self {
                $type::max(self, other)
            }
            #[inline(always)]
            fn floor(self) -> Self {
                $type::floor(self)
            }
            #[inline(always)]
            fn is_finite(self) -> bool {
                $type::is_finite(self)
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                $type::is_nan(self)
            }
            #[inline(always)]
            fn round_bf16(self) -> Self {
                $functions::round_bf16(self)
            }
            #[inline(always)]
            fn round_tf32(self) -> Self {
                $functions::round_tf32(self)
            }
        }
    };
}

/// The functions of `f64`: the standard library's, and no rounding below it.
mod double {
    #[inline(always)]
    pub(super) fn exp(x: f64) -> f64 {
        x.exp()
    }
    #[inline(always)]
    pub(super) fn ln(x: f64) -> f64 {
        x.ln()
    }
    #[inline(always)]
    pub(super) fn tanh(x: f64) -> f64 {
        x.tanh()
    }
    #[inline(always)]
    pub(super) fn sigmoid(x: f64) -> f64 {
        let e = (-x.abs()).exp();
        let numerator = if x < 0.0 { e } else { 1.0 };
        numerator / (1.0 + e)
    }
    #[inline(always)]
    pub(super) fn softplus(x: f64) -> f64 {
        let positive = if x > 0.0 { x } else { 0.0 };
        positive + (-x.abs()).exp().ln_1p()
    }
    #[inline(always)]
    pub(super) fn round_bf16(x: f64) -> f64 {
        x
    }
    #[inline(always)]
    pub(super) fn round_tf32(x: f64) -> f64 {
        x
    }
}

real!(f32, math);
real!(f64, double);
