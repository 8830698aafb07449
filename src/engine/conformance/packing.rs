//! Bits that must not depend on fusion, on neighbours, or on the position of a lane.

use super::compare::bits;
use super::graphs::{self, Dice};
use crate::engine::backend::{Backend, LaneIdx, Session, StateValues, Tables};
use crate::engine::graph::DType;
use crate::engine::op::StateId;
use crate::engine::plan::{LowerOptions, Plan, lower};
use crate::engine::program::Program;
use std::collections::HashMap;
use std::sync::Arc;

/// Epochs that a pack runs; lanes are refilled between them.
const N_EPOCHS: usize = 3;
/// Most lanes of a pack.
const N_LANES_MAX: usize = 9;

/// Every state of a lane.
pub(super) type LaneBits = Vec<Vec<u64>>;

/// Runs a random program with and without fused regions.
pub(super) fn fusion_changes_no_bit(backend: &dyn Backend, number: u64, dtype: DType) {
    let program = graphs::program(number).with_precision(dtype, dtype);
    let fused = backend.lower(&program);
    let options = LowerOptions {
        elements: fused.elements,
        expand: false,
        fuse: false,
        waves: false,
    };
    let values = graphs::values(&program, number, false);
    let [fused, plain] = [fused, lower(&program, options)]
        .map(|plan| alone(backend, &program, &Arc::new(plan), &values, 2));
    assert_same(
        &program,
        &fused,
        &plain,
        &format!("program {number}, fused against unfused"),
    );
}

/// Runs a random pack of a random program: dead lanes, poisoned lanes, lanes refilled between
/// epochs. Every run must end with the bits that it has alone.
pub(super) fn packing_changes_no_bit(backend: &dyn Backend, number: u64, dtype: DType) {
    let program = graphs::program(number).with_precision(dtype, dtype);
    let values = |run: u64| graphs::values(&program, run, run % 5 == 4);
    pack(backend, &program, &Tables::default(), number, &values);
}

/// Runs `program` packed, with choices drawn from `number`, and compares each run with itself
/// alone.
///
/// - `values`: first values of a run.
pub(super) fn pack(
    backend: &dyn Backend,
    program: &Program,
    tables: &Tables,
    number: u64,
    values: &dyn Fn(u64) -> StateValues,
) {
    let plan = Arc::new(backend.lower(program));
    let mut dice = Dice::new(!number);
    let n_lanes = 1 + dice.below(N_LANES_MAX);
    let mut session = backend
        .open(plan.clone(), tables, n_lanes)
        .expect("packs are small");
    // Per lane: the run in it and the epochs it has had; `None` is a lane never loaded.
    let mut lanes: Vec<Option<(u64, usize)>> = vec![None; n_lanes];
    let mut is_live = vec![false; n_lanes];
    let mut next_run = 10 * number;
    let mut known: HashMap<(u64, usize), LaneBits> = HashMap::new();
    for epoch in 0..N_EPOCHS {
        for k in 0..n_lanes {
            // A quarter of the lanes is refilled, a quarter dies, the rest goes on.
            let choice = if epoch == 0 {
                dice.below(2)
            } else {
                dice.below(4)
            };
            if choice == 0 {
                session
                    .load(LaneIdx(k), &values(next_run))
                    .expect("values fit");
                lanes[k] = Some((next_run, 0));
                next_run += 1;
            }
            is_live[k] = lanes[k].is_some() && choice != 1;
            session.set_live(LaneIdx(k), is_live[k]);
        }
        session.train(program.n_cycles).expect("the device works");
        session.evaluate().expect("the device works");
        for (lane, _) in lanes.iter_mut().zip(&is_live).filter(|(_, live)| **live) {
            lane.as_mut().expect("live lanes are loaded").1 += 1;
        }
        for (k, lane) in lanes.iter().enumerate() {
            let Some((run, n_epochs)) = *lane else {
                continue;
            };
            let expected = known.entry((run, n_epochs)).or_insert_with(|| {
                let one = backend
                    .open(plan.clone(), tables, 1)
                    .expect("packs are small");
                epochs(one, program, &values(run), n_epochs)
            });
            let label =
                format!("program {number}, run {run} in lane {k} of {n_lanes}, epoch {epoch}");
            assert_same(program, &states(&*session, program, k), expected, &label);
        }
    }
}

fn alone(
    backend: &dyn Backend,
    program: &Program,
    plan: &Arc<Plan>,
    values: &StateValues,
    n_epochs: usize,
) -> LaneBits {
    let session = backend
        .open(plan.clone(), &Tables::default(), 1)
        .expect("packs are small");
    epochs(session, program, values, n_epochs)
}

fn epochs(
    mut session: Box<dyn Session>,
    program: &Program,
    values: &StateValues,
    n_epochs: usize,
) -> LaneBits {
    session.load(LaneIdx(0), values).expect("values fit");
    session.set_live(LaneIdx(0), true);
    for _ in 0..n_epochs {
        session.train(program.n_cycles).expect("the device works");
        session.evaluate().expect("the device works");
    }
    states(&*session, program, 0)
}

fn states(session: &dyn Session, program: &Program, lane: usize) -> LaneBits {
    let n_states = u32::try_from(program.states.len()).expect("few states");
    (0..n_states)
        .map(|id| {
            bits(
                &session
                    .read(LaneIdx(lane), StateId(id))
                    .expect("the device works"),
            )
        })
        .collect()
}

fn assert_same(program: &Program, got: &LaneBits, expected: &LaneBits, label: &str) {
    for (state, (got, expected)) in program.states.iter().zip(got.iter().zip(expected)) {
        assert_eq!(got, expected, "{label}: state {}", state.name);
    }
}
