//! What the toy must do, and the published values of its parts.

use super::program::{Lane, N_BATCHES, PASSES_MAX, Ppo, clipped_objective, gae};
use crate::engine::backend::{Backend, LaneIdx, Session, Tables};
use crate::engine::conformance::case::{Case, oracle};
use crate::engine::conformance::compare::norm_apart;
use crate::engine::conformance::packing;
use crate::engine::cpu::Cpu;
use crate::engine::graph::{DType, Shape};
use crate::engine::op::StateId;
use crate::engine::op::samples::Input;
use std::num::NonZeroUsize;
use std::sync::Arc;

fn cpu() -> Cpu<f32> {
    Cpu::new(NonZeroUsize::new(2).expect("two"))
}

fn real(shape: &[usize], values: &[f64]) -> Input {
    Input {
        shape: Shape(shape.to_vec()),
        dtype: DType::F32,
        values: values.to_vec(),
        is_table: false,
    }
}

/// A run that never stops early.
fn lane(seed: u32) -> Lane {
    Lane {
        seed,
        lr: 0.02,
        target_kl: 1e9,
        n_passes: PASSES_MAX as f32,
    }
}

fn open(backend: &dyn Backend, ppo: &Ppo, lanes: &[Lane]) -> Box<dyn Session> {
    let plan = Arc::new(backend.lower(&ppo.program));
    let mut session = backend
        .open(plan, &Tables::default(), lanes.len())
        .expect("it is small");
    for (k, lane) in lanes.iter().enumerate() {
        session
            .load(LaneIdx(k), &ppo.values(*lane))
            .expect("values fit");
        session.set_live(LaneIdx(k), true);
    }
    session
}

fn read(session: &dyn Session, lane: usize, state: StateId) -> Vec<f64> {
    session
        .read(LaneIdx(lane), state)
        .expect("the CPU works")
        .to_f64()
}

/// Advantages of one environment.
fn advantages(reward: &[f64], done: &[f64], value: &[f64], [gamma, lambda]: [f64; 2]) -> Vec<f64> {
    let n = reward.len();
    let inputs = [
        real(&[n, 1], reward),
        real(&[n, 1], done),
        real(&[n, 1], &value[..n]),
        real(&[1], &value[n..]),
    ];
    let case = Case::new(&inputs, |b, x| {
        let (gamma, lambda) = (b.scalar(gamma), b.scalar(lambda));
        vec![gae(b, [x[0], x[1], x[2]], x[3], gamma, lambda)]
    });
    case.run(&oracle())[0].to_f64()
}

#[test]
fn advantages_are_the_published_ones() {
    let value = [1.0, 4.0, -3.0, -2.0, -1.0, -1.0];
    let found = advantages(&[0.0, 0.0, 1.0, 0.0, -0.5], &[0.0; 5], &value, [0.99, 0.7]);
    let expected = [-0.676980, -5.248167, 2.484608, 0.670430, -0.49];
    for (got, expected) in found.iter().zip(expected) {
        // Published to six decimals.
        assert!((got - expected).abs() < 1e-6, "{found:?}");
    }
}

#[test]
fn a_sequence_split_at_its_end_is_two_sequences() {
    let (reward, value) = ([0.3, -0.2, 1.0, 0.5], [0.1, 0.7, -0.4, 0.2, 0.9]);
    let whole = advantages(&reward, &[0.0, 1.0, 0.0, 0.0], &value, [0.9, 0.8]);
    let second = advantages(&reward[2..], &[0.0; 2], &value[2..], [0.9, 0.8]);
    // The value behind a terminal step does not matter: any will do.
    let first = advantages(&reward[..2], &[0.0, 1.0], &[0.1, 0.7, 55.0], [0.9, 0.8]);
    assert_eq!(whole, [first, second].concat());
}

#[test]
fn the_clipped_objective_is_the_published_one() {
    let ratio = [1.0, 1.0, 0.135_335];
    for (sign, expected) in [(1.0, -0.171_177_8), (-1.0, 0.193_333_3)] {
        let advantage = [0.3 * sign, 0.2 * sign, 0.1 * sign];
        let case = Case::new(&[real(&[3], &ratio), real(&[3], &advantage)], |b, x| {
            let eps = b.scalar(0.2);
            vec![clipped_objective(b, x[0], x[1], eps)]
        });
        let loss = -case.run(&oracle())[0].to_f64()[0];
        // Published to seven decimals, from operands in F32.
        assert!((loss - expected).abs() < 1e-6, "{loss}");
    }
}

#[test]
fn the_first_minibatch_has_the_plain_policy_gradient() {
    let ppo = Ppo::new();
    // A rate of 0 keeps the weights, so the probe at the end sees those of the rollout.
    let lanes = [Lane { lr: 0.0, ..lane(3) }];
    let [ratio, clipped, plain] = ppo.probe;
    for (backend, apart_max) in [(&oracle() as &dyn Backend, 0.0), (&cpu(), 1e-5)] {
        let mut session = open(backend, &ppo, &lanes);
        session.train(1).expect("the CPU works");
        session.evaluate().expect("the CPU works");
        let ratio = read(&*session, 0, ratio);
        let ones = vec![1.0; ratio.len()];
        // In F64 a row's product does not depend on the number of rows; in F32 it may.
        assert!(norm_apart(&ratio, &ones) <= apart_max, "{ratio:?}");
        let (clipped, plain) = (read(&*session, 0, clipped), read(&*session, 0, plain));
        assert!(
            plain.iter().any(|grad| grad.abs() > 1e-3),
            "a gradient arrives"
        );
        // Two derivations of one number: roundings of F64, then of F32.
        let apart = norm_apart(&clipped, &plain);
        assert!(apart <= f64::max(apart_max, 1e-14), "{apart:e} apart");
    }
}

#[test]
fn it_learns_to_wait_for_the_better_state() {
    let ppo = Ppo::new();
    let lanes: Vec<Lane> = (0..5).map(lane).collect();
    for dtype in [DType::F32, DType::Bf16] {
        let mut narrow = Ppo::new();
        narrow.program = ppo.program.with_precision(dtype, dtype);
        let mut session = open(&cpu(), &narrow, &lanes);
        session.train(1).expect("the CPU works");
        let reward = || -> Vec<f64> {
            (0..5)
                .map(|k| read(&*session, k, ppo.mean_reward)[0])
                .collect()
        };
        let before = median(&mut reward());
        session.train(60).expect("the CPU works");
        let mut reward: Vec<f64> = (0..5)
            .map(|k| read(&*session, k, ppo.mean_reward)[0])
            .collect();
        let after = median(&mut reward);
        // Chance earns 0.3; always staying in state 0 earns 0.2; the best policy about 0.8, since
        // an episode of ten steps spends its first one or two in state 0.
        assert!(before < 0.5, "{dtype:?}: {before} before training");
        assert!(
            after > 0.65,
            "{dtype:?}: {after} after training, {reward:?}"
        );
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn the_guard_stops_the_passes() {
    let ppo = Ppo::new();
    let all = (PASSES_MAX * N_BATCHES) as f64;
    let lanes = [
        lane(1),
        Lane {
            n_passes: 2.0,
            ..lane(1)
        },
        Lane {
            target_kl: 0.003,
            ..lane(1)
        },
        // A divergence is never negative, so nothing ever passes.
        Lane {
            target_kl: -1.0,
            ..lane(1)
        },
    ];
    let mut session = open(&cpu(), &ppo, &lanes);
    let start = read(&*session, 3, ppo.block);
    session.train(1).expect("the CPU works");
    let n_updates: Vec<f64> = (0..4)
        .map(|k| read(&*session, k, ppo.n_updates)[0])
        .collect();
    let stops: Vec<f64> = (0..4).map(|k| read(&*session, k, ppo.stop)[0]).collect();
    assert_eq!(n_updates[..2], [all, 2.0 * N_BATCHES as f64]);
    assert!(0.0 < n_updates[2] && n_updates[2] < all, "{n_updates:?}");
    assert_eq!((n_updates[3], &stops[..]), (0.0, &[0.0, 0.0, 1.0, 1.0][..]));
    assert_eq!(read(&*session, 3, ppo.block), start, "nothing was stored");
    assert_ne!(read(&*session, 2, ppo.block), read(&*session, 0, ppo.block));
}

#[test]
fn packing_changes_no_bit_whatever_the_number_of_passes() {
    let ppo = Ppo::new();
    let values = |run: u64| {
        let seed = u32::try_from(run).expect("few runs");
        let target_kl = [1e9, 0.001, 0.003, -1.0, f32::NAN][seed as usize % 5];
        let n_passes = (1 + seed % 4) as f32;
        ppo.values(Lane {
            target_kl,
            n_passes,
            ..lane(seed)
        })
    };
    for (number, dtype) in [
        (1, DType::F32),
        (2, DType::Bf16),
        (3, DType::F32),
        (4, DType::Bf16),
    ] {
        let program = ppo.program.with_precision(dtype, dtype);
        packing::pack(&cpu(), &program, &Tables::default(), number, &values);
    }
}
