//! The two floating-point types that the engine computes in.
//!
//! # Invariants
//! - Only `f32` and `f64` are [`Real`]; the trait is sealed.
//! - No operation here depends on thread, time or environment.

use std::fmt::{Debug, Display};
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

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

    /// Rounds `value` to this type, ties to even.
    fn from_f64(value: f64) -> Self;
    /// Widens to `f64`, exactly.
    fn to_f64(self) -> f64;
    /// Square root, correctly rounded.
    fn sqrt(self) -> Self;
    /// e to the power of `self`.
    fn exp(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// Hyperbolic tangent.
    fn tanh(self) -> Self;
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
}

macro_rules! real {
    ($type:ty) => {
        impl Real for $type {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const HALF: Self = 0.5;

            #[inline]
            fn from_f64(value: f64) -> Self {
                value as $type
            }
            #[inline]
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            #[inline]
            fn sqrt(self) -> Self {
                <$type>::sqrt(self)
            }
            #[inline]
            fn exp(self) -> Self {
                <$type>::exp(self)
            }
            #[inline]
            fn ln(self) -> Self {
                <$type>::ln(self)
            }
            #[inline]
            fn tanh(self) -> Self {
                <$type>::tanh(self)
            }
            #[inline]
            fn abs(self) -> Self {
                <$type>::abs(self)
            }
            #[inline]
            fn min(self, other: Self) -> Self {
                <$type>::min(self, other)
            }
            #[inline]
            fn max(self, other: Self) -> Self {
                <$type>::max(self, other)
            }
            #[inline]
            fn floor(self) -> Self {
                <$type>::floor(self)
            }
            #[inline]
            fn is_finite(self) -> bool {
                <$type>::is_finite(self)
            }
        }
    };
}

real!(f32);
real!(f64);
