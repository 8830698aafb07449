//! Running a loop under the widest instruction set that the machine has.
//!
//! # Invariants
//! - The instruction set is detected once and never changes within a process.
//! - It changes speed alone: kernels keep their written order and contain no contraction, so
//!   the bits are those of the baseline.

use std::sync::OnceLock;

use pulp::{Arch, WithSimd};

/// Runs `kernel` compiled for the widest instruction set found at run time.
#[inline]
pub(crate) fn run<K: WithSimd>(kernel: K) -> K::Output {
    static ARCH: OnceLock<Arch> = OnceLock::new();
    ARCH.get_or_init(Arch::new).dispatch(kernel)
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
