//! Running a loop under an instruction set chosen at run time.
//!
//! # Invariants
//! - The instruction set is detected once and never changes within a process.
//! - It changes speed alone: kernels keep their written order and contain no contraction, so
//!   the bits are those of the baseline.

use pulp::WithSimd;

/// Runs `kernel` compiled for the instruction set that suits short rows best.
///
/// On x86-64 that is AVX2, even where AVX-512 is at hand: our rows are some 50 elements long,
/// and ends shorter than a vector would cost more than the wider vectors gain.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn run<K: WithSimd>(kernel: K) -> K::Output {
    use pulp::x86::V3;
    use pulp::{Scalar, Simd};

    // The processor is asked once: the crate keeps the answer.
    match V3::try_new() {
        Some(avx2) => Simd::vectorize(avx2, kernel),
        None => Simd::vectorize(Scalar, kernel),
    }
}

/// Runs `kernel` compiled for the widest instruction set found at run time.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(crate) fn run<K: WithSimd>(kernel: K) -> K::Output {
    pulp::Arch::new().dispatch(kernel)
}

/// Declares the argument pack of an `#[inline(always)]` function so that [`run`] can compile it
/// once per instruction set: a closure would not be sure to be inlined there.
///
/// `kernel!(Name<'a, R> { argument: Type, … } -> Output = function)`, arguments in order.
macro_rules! kernel {
    ($name:ident<'a, R> { $($field:ident: $type:ty),* $(,)? } -> $output:ty = $body:ident) => {
        struct $name<'a, R> {
            $($field: $type,)*
        }

        impl<'a, R: $crate::engine::real::Real> pulp::WithSimd for $name<'a, R> {
            type Output = $output;

            #[inline(always)]
            fn with_simd<S: pulp::Simd>(self, _: S) -> $output {
                $body($(self.$field),*)
            }
        }
    };
}
pub(crate) use kernel;
