//! Packing changes no bit, and everything of a configuration is a lane value.

use super::*;
use crate::models::dqn::conformance::lanes::packs_equal_runs_alone;

#[test]
fn packs_equal_runs_alone_on_the_reference_structure() {
    packs_equal_runs_alone(&cpu(), &[], 6, &[1, 2, 5, 9]);
}

#[test]
#[cfg(feature = "slow")]
fn packs_of_every_size_equal_runs_alone() {
    let small = [
        ("model.trunk_width", 64.0),
        ("model.head_width", 32.0),
        ("model.state_width", 0.0),
    ];
    packs_equal_runs_alone(&cpu(), &small, 12, &[1, 2, 3, 4, 5, 6, 7, 8, 9]);
}

#[test]
#[cfg(feature = "slow")]
fn packs_equal_runs_alone_on_the_reference_workload() {
    let full = [
        ("train.batch_size", 256.0),
        ("train.replay_capacity_max", 100_000.0),
    ];
    packs_equal_runs_alone(&cpu(), &full, 6, &[9]);
}
