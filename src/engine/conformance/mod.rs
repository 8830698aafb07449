//! One suite for every backend: ops, gradients, effects, fusion, packing.
//!
//! # Invariants
//! - The yardstick is the CPU in F64, which runs the definitions of fused ops and rounds nothing.
//! - A backend passes or the suite panics with the op, its operands and the element.
//! - What is random here is a function of a number in a message, so that a failure repeats.

mod answers;
mod case;
mod compare;
mod effects;
pub(crate) mod graphs;
mod ops;
mod packing;

#[cfg(test)]
mod ppo;
#[cfg(test)]
mod tests;

use super::backend::Backend;
use super::graph::DType;

/// Random programs that [`run`] tries.
const N_PROGRAMS: u64 = 24;

/// Puts a backend through the suite.
///
/// # Panics
/// If the backend deviates.
pub fn run(backend: &dyn Backend) {
    answers::run(backend);
    ops::forwards(backend);
    ops::gradients(backend);
    ops::precisions(backend);
    ops::roundings(backend);
    effects::run(backend);
    for number in 0..N_PROGRAMS {
        let dtype = if number % 2 == 0 {
            DType::F32
        } else {
            DType::Bf16
        };
        packing::fusion_changes_no_bit(backend, number, dtype);
        packing::packing_changes_no_bit(backend, number, dtype);
    }
}
