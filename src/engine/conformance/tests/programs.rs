//! Random programs beyond those of the suite, and what a phase promises.

use super::cpu;
use crate::engine::backend::{Backend, Data, LaneIdx, StateValues, Tables};
use crate::engine::conformance::{graphs, packing};
use crate::engine::graph::DType;
use crate::engine::op::{Effect, StateId};
use crate::engine::program::{Init, Program, Section};
use proptest::prelude::*;
use std::sync::Arc;

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn fusion_changes_no_bit(number: u64, is_narrow: bool) {
        let dtype = if is_narrow { DType::Bf16 } else { DType::F32 };
        packing::fusion_changes_no_bit(&cpu(), number, dtype);
    }

    #[test]
    fn packing_changes_no_bit(number: u64, is_narrow: bool) {
        let dtype = if is_narrow { DType::Bf16 } else { DType::F32 };
        packing::packing_changes_no_bit(&cpu(), number >> 8, dtype);
    }
}

/// Runs one lane for some epochs and returns its states.
fn run(program: &Program, values: &StateValues, n_epochs: usize) -> Vec<Data> {
    let backend = cpu();
    let plan = Arc::new(backend.lower(program));
    let mut session = backend.open(plan, &Tables::default(), 1).expect("small");
    session.load(LaneIdx(0), values).expect("values fit");
    session.set_live(LaneIdx(0), true);
    for _ in 0..n_epochs {
        session.train(program.n_cycles).expect("the CPU works");
    }
    (0..u32::try_from(program.states.len()).expect("few"))
        .map(|id| {
            session
                .read(LaneIdx(0), StateId(id))
                .expect("the CPU works")
        })
        .collect()
}

#[test]
fn random_programs_compute_finite_numbers_that_change() {
    // Otherwise the comparisons of bits above would compare NaN with NaN.
    for number in 0..24 {
        let program = graphs::program(number);
        let values = graphs::values(&program, number, false);
        let [early, late] = [1, 2].map(|n_epochs| run(&program, &values, n_epochs));
        let all = late.iter().flat_map(Data::to_f64).collect::<Vec<_>>();
        let n_finite = all.iter().filter(|value| value.is_finite()).count();
        assert!(
            n_finite == all.len(),
            "program {number}: {n_finite} of {} are finite",
            all.len()
        );
        assert_ne!(early, late, "program {number} stands still");
    }
}

#[test]
fn a_phase_reads_states_as_of_its_start_and_commits_in_order() {
    let mut program = Program::default();
    program.n_cycles = 1;
    let [a, c, sum] =
        ["a", "c", "sum"].map(|name| program.state(name, [2], DType::F32, Init::Host));
    program.phase(Section::Cycle, "swap", 3, |p, b| {
        let (x, y) = (p.read(b, a), p.read(b, c));
        let total = b.add(x, y);
        vec![
            Effect::Store {
                state: a,
                value: y,
                guard: None,
            },
            Effect::Store {
                state: c,
                value: x,
                guard: None,
            },
            Effect::Store {
                state: sum,
                value: x,
                guard: None,
            },
            // The later of two stores into one state wins.
            Effect::Store {
                state: sum,
                value: total,
                guard: None,
            },
        ]
    });
    let pair = |x: f32, y: f32| Data::F32(vec![x, y]);
    let values: StateValues = [
        (a, pair(1.0, 2.0)),
        (c, pair(3.0, 4.0)),
        (sum, pair(0.0, 0.0)),
    ]
    .into();
    let found = run(&program, &values, 1);
    // Three swaps are one swap.
    assert_eq!(found, [pair(3.0, 4.0), pair(1.0, 2.0), pair(4.0, 6.0)]);
}

#[test]
fn a_guard_of_zero_stores_nothing_and_a_nan_stores() {
    let mut program = Program::default();
    program.n_cycles = 1;
    let guard = program.state("guard", [], DType::F32, Init::Host);
    let out = program.state("out", [1], DType::F32, Init::Fill(7.0_f64.to_bits()));
    program.phase(Section::Cycle, "guarded", 1, |p, b| {
        let value = b.constant([1].into(), &[1.0], DType::F32);
        vec![Effect::Store {
            state: out,
            value,
            guard: Some(p.read(b, guard)),
        }]
    });
    // A guard is a number: only zero of either sign is false, so a NaN stores. Guards against
    // NaN are made with `is_finite`.
    for (given, expected) in [
        (0.0, 7.0),
        (-0.0, 7.0),
        (1.0, 1.0),
        (-0.5, 1.0),
        (f32::NAN, 1.0),
    ] {
        let found = run(&program, &[(guard, Data::F32(vec![given]))].into(), 1);
        assert_eq!(found[1], Data::F32(vec![expected]), "guard {given}");
    }
}

#[test]
fn rows_are_pushed_where_they_say() {
    let mut program = Program::default();
    program.n_cycles = 4;
    let ring = program.state("ring", [3, 2], DType::F32, Init::Fill((-1.0_f64).to_bits()));
    let row = program.state("row", [], DType::I32, Init::Zero);
    program.phase(Section::Cycle, "push", 1, |p, b| {
        let (rows, at) = (p.read(b, ring), p.read(b, row));
        // The row to write is itself read: its old values plus 10.
        let old = b.rows(rows, at);
        let ten = b.scalar(10.0);
        let value = b.add(old, ten);
        let next = b.increment(at);
        let three = b.constant([].into(), &[3.0], DType::I32);
        let zero = b.constant([].into(), &[0.0], DType::I32);
        let fits = b.less(next, three);
        let next = b.select(fits, next, zero);
        vec![
            Effect::RingPush {
                state: ring,
                row: at,
                value,
                guard: None,
            },
            Effect::Store {
                state: row,
                value: next,
                guard: None,
            },
        ]
    });
    let found = run(&program, &StateValues::new(), 1);
    assert_eq!(found[0], Data::F32(vec![19.0, 19.0, 9.0, 9.0, 9.0, 9.0]));
    assert_eq!(found[1], Data::I32(vec![1]));
}

#[test]
fn a_row_may_be_pushed_onto_itself() {
    let mut program = Program::default();
    program.n_cycles = 1;
    let ring = program.state("ring", [2, 2], DType::F32, Init::Host);
    program.phase(Section::Cycle, "push", 1, |p, b| {
        let rows = p.read(b, ring);
        let last = b.slice(rows, 0, 1, 1);
        let value = b.reshape(last, [2]);
        let row = b.constant([].into(), &[1.0], DType::I32);
        vec![Effect::RingPush {
            state: ring,
            row,
            value,
            guard: None,
        }]
    });
    let data = Data::F32(vec![1.0, 2.0, 3.0, 4.0]);
    assert_eq!(run(&program, &[(ring, data.clone())].into(), 1)[0], data);
}

#[test]
fn a_scalar_of_a_table_may_guard() {
    let mut program = Program::default();
    program.n_cycles = 1;
    let table = program.table("switch", [], DType::F32);
    let out = program.state("out", [], DType::F32, Init::Zero);
    program.phase(Section::Cycle, "guarded", 1, |p, b| {
        let guard = p.read_table(b, table);
        vec![Effect::Store {
            state: out,
            value: guard,
            guard: Some(guard),
        }]
    });
    let backend = cpu();
    let mut tables = Tables::default();
    tables.insert(table, Arc::new(Data::F32(vec![3.0])));
    let mut session = backend
        .open(Arc::new(backend.lower(&program)), &tables, 1)
        .expect("small");
    session
        .load(LaneIdx(0), &StateValues::new())
        .expect("nothing is needed");
    session.set_live(LaneIdx(0), true);
    session.train(1).expect("the CPU works");
    assert_eq!(session.read(LaneIdx(0), out), Ok(Data::F32(vec![3.0])));
}

#[test]
fn uniforms_follow_seed_step_and_name_but_not_the_lane() {
    let mut program = Program::default();
    program.n_cycles = 1;
    let seed = program.state("seed", [2], DType::I32, Init::Host);
    let tick = program.state("tick", [], DType::I32, Init::Zero);
    let [first, other] =
        ["first", "other"].map(|name| program.state(name, [8], DType::F32, Init::Zero));
    program.phase(Section::Cycle, "draw", 1, |p, b| {
        let (words, step) = (p.read(b, seed), p.read(b, tick));
        let x = b.uniform("first", words, step, [8]);
        let y = b.uniform("other", words, step, [8]);
        let next = b.increment(step);
        vec![
            Effect::Store {
                state: first,
                value: x,
                guard: None,
            },
            Effect::Store {
                state: other,
                value: y,
                guard: None,
            },
            Effect::Store {
                state: tick,
                value: next,
                guard: None,
            },
        ]
    });
    let backend = cpu();
    let plan = Arc::new(backend.lower(&program));
    let mut session = backend.open(plan, &Tables::default(), 3).expect("small");
    for (lane, word) in [5, 6, 5].into_iter().enumerate() {
        session
            .load(LaneIdx(lane), &[(seed, Data::I32(vec![word, 0]))].into())
            .expect("a seed");
        session.set_live(LaneIdx(lane), true);
    }
    session.train(1).expect("the CPU works");
    let read = |session: &dyn crate::engine::backend::Session, lane, id| {
        session.read(LaneIdx(lane), id).expect("the CPU works")
    };
    let start = read(&*session, 0, first);
    assert_eq!(
        start,
        read(&*session, 2, first),
        "equal seeds in different lanes"
    );
    assert_ne!(start, read(&*session, 1, first), "another seed");
    assert_ne!(start, read(&*session, 0, other), "another stream");
    session.train(1).expect("the CPU works");
    assert_ne!(start, read(&*session, 0, first), "another step");
}

/// A program of one phase whose effects may not fit.
fn misfit(effects: impl FnOnce(&Program, &mut crate::engine::graph::Builder<'_>) -> Vec<Effect>) {
    let mut program = Program::default();
    program.state("out", [2], DType::F32, Init::Zero);
    program.phase(Section::Cycle, "bad", 1, effects);
}

#[test]
#[should_panic(expected = "bad: the value of a store is F32[3], expected F32[2]")]
fn a_store_of_another_shape_is_a_defect() {
    misfit(|_, b| {
        let value = b.constant([3].into(), &[0.0; 3], DType::F32);
        vec![Effect::Store {
            state: StateId(0),
            value,
            guard: None,
        }]
    });
}

#[test]
#[should_panic(expected = "bad: the guard is F32[2], expected F32[]")]
fn a_guard_is_one_number() {
    misfit(|p, b| {
        let value = p.read(b, StateId(0));
        vec![Effect::Store {
            state: StateId(0),
            value,
            guard: Some(value),
        }]
    });
}

#[test]
#[should_panic(expected = "bad: the value of a store is Bf16[2], expected F32[2]")]
fn a_narrow_value_is_widened_before_it_is_stored() {
    misfit(|p, b| {
        let value = p.read(b, StateId(0));
        let value = b.cast(value, DType::Bf16);
        vec![Effect::Store {
            state: StateId(0),
            value,
            guard: None,
        }]
    });
}

#[test]
#[should_panic(expected = "bad: out is")]
fn a_state_is_read_as_it_is_declared() {
    misfit(|_, b| {
        let value = b.state(StateId(0), &[1, 2].into(), DType::F32);
        let value = b.flatten(value);
        vec![Effect::Store {
            state: StateId(0),
            value,
            guard: None,
        }]
    });
}

#[test]
fn the_oracle_takes_back_what_it_gives_out() {
    let program = graphs::program(0);
    let oracle = crate::engine::conformance::case::oracle();
    let plan = Arc::new(oracle.lower(&program));
    let mut session = oracle.open(plan, &Tables::default(), 1).expect("small");
    session
        .load(LaneIdx(0), &graphs::values(&program, 0, false))
        .expect("values fit");
    let third = Data::F64(vec![1.0 / 3.0; 3]);
    let id = program.state_named("tensor 3").expect("declared");
    session
        .write(LaneIdx(0), id, &third)
        .expect("F64 suits the oracle");
    assert_eq!(
        session.read(LaneIdx(0), id),
        Ok(third.clone()),
        "nothing is rounded"
    );
    let plan = Arc::new(cpu().lower(&program));
    let mut session = cpu().open(plan, &Tables::default(), 1).expect("small");
    assert!(
        session.write(LaneIdx(0), id, &third).is_err(),
        "F32 would round it"
    );
}
