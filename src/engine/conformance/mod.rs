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
    for part in 0..N_PARTS {
        run_part(backend, part);
    }
}

/// Parts of the suite, for those who run them side by side.
pub const N_PARTS: u64 = 6 + N_PROGRAMS;

/// Puts a backend through one part of the suite.
///
/// # Panics
/// If the backend deviates.
pub fn run_part(backend: &dyn Backend, part: u64) {
    match part {
        0 => answers::run(backend),
        1 => ops::forwards(backend),
        2 => ops::gradients(backend),
        3 => ops::precisions(backend),
        4 => ops::roundings(backend),
        5 => effects::run(backend),
        program => {
            let number = program - 6;
            let dtype = if number.is_multiple_of(2) {
                DType::F32
            } else {
                DType::Bf16
            };
            packing::fusion_changes_no_bit(backend, number, dtype);
            packing::packing_changes_no_bit(backend, number, dtype);
        }
    }
}
