//! The suite on the CPU, and what only the oracle can tell: differences against gradients.

mod casts;
mod gradient;
mod programs;
mod recur;

use super::run;
use crate::engine::cpu::Cpu;
use std::num::NonZeroUsize;

/// The F32 backend on two threads, so that lanes really run beside each other.
fn cpu() -> Cpu<f32> {
    Cpu::new(NonZeroUsize::new(2).expect("two"))
}

#[test]
fn the_cpu_passes() {
    run(&cpu());
}
