//! The suite on the CPU, and what only the oracle can tell: differences against gradients.

use super::run;
use crate::engine::cpu::Cpu;
use std::num::NonZeroUsize;

#[test]
fn the_cpu_passes() {
    // Two threads, so that lanes really run beside each other.
    run(&Cpu::<f32>::new(NonZeroUsize::new(2).expect("two")));
}
