//! Whole steps in each precision against the F64 oracle.

use super::*;
use crate::models::dqn::conformance::precision::{BARE, check_hundred_steps, check_one_step};

#[test]
fn one_step_is_within_the_gates_on_the_reference_structure() {
    check_one_step(
        &cpu(),
        params("ref-dqn", &[BARE, &[("train.batch_size", 64.0)]].concat()),
        20,
    );
}

#[test]
#[cfg(feature = "slow")]
fn one_step_is_within_the_gates_on_the_reference_workload() {
    check_one_step(
        &cpu(),
        params("ref-dqn", &[BARE, &[("train.batch_size", 256.0)]].concat()),
        100,
    );
}

#[test]
fn a_hundred_steps_stay_together() {
    check_hundred_steps(
        &cpu(),
        &[
            ("model.trunk_width", 64.0),
            ("model.head_width", 32.0),
            ("train.batch_size", 64.0),
        ],
    );
}

#[test]
#[cfg(feature = "slow")]
fn a_hundred_steps_stay_together_on_the_reference_workload() {
    check_hundred_steps(&cpu(), &[("train.batch_size", 256.0)]);
}
