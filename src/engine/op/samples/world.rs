//! Samples of replay, environment and random numbers.

use super::{Input, Sample, drawn, real, table_of, whole, wide};
use crate::engine::env::{ACCOUNT_WIDTH, ACTION_SIZES, ENV_COLUMNS};
use crate::engine::graph::Shape;
use crate::engine::op::{EnvOp, Op, Random, Replay};
use crate::engine::rng::stream_id;

/// Samples of one replay op, and the op after it.
pub(super) fn of_replay(op: &Replay) -> (Vec<Sample>, Option<Replay>) {
    match op {
        Replay::Sample { .. } => {
            let op = Op::Replay(Replay::Sample {
                n_env: 3,
                n_step_max: 2,
            });
            let sample = |size, head, capacity| {
                let uniform = drawn("replay", [17], 0.0, 1.0);
                let counters = [size, head, capacity].map(|count| whole([], &[count]));
                let inputs = [uniform].into_iter().chain(counters).collect();
                Sample::rough(op.clone(), inputs)
            };
            // Empty, too short for two steps, filling, full and wrapped.
            let samples = vec![
                sample(0, 0, 5),
                sample(1, 1, 5),
                sample(4, 4, 5),
                sample(5, 2, 5),
            ];
            (samples, Some(Replay::NStep { n_step_max: 1 }))
        }
        Replay::NStep { .. } => {
            let end = [0, 0, 1, 0, 2, 0, 0, 0, 0, 0];
            let sample = |n: i32, capacity: i32| {
                let inputs = vec![
                    drawn("ring", [5, 2], -1.0, 1.0),
                    whole([5, 2], &end),
                    whole([6], &[0, 1, 2, 3, 5, 7]),
                    whole([], &[capacity]),
                    whole([], &[n]),
                    real([], &[f64::from(0.9_f32)]),
                ];
                Sample::rough(Op::Replay(Replay::NStep { n_step_max: 3 }), inputs)
            };
            (vec![sample(1, 5), sample(3, 5), sample(3, 4)], None)
        }
    }
}

/// Samples of one environment op, and the op after it.
pub(super) fn of_env(op: &EnvOp) -> (Vec<Sample>, Option<EnvOp>) {
    let inputs = || vec![accounts(), whole([4], &[0, 1, 2, 2]), bars(), costs()];
    let in_f64 = |op: EnvOp, mut inputs: Vec<Input>| {
        inputs[0] = wide(inputs[0].clone());
        Sample::rough(Op::Env(op), inputs)
    };
    match op {
        EnvOp::Observe => {
            let samples = vec![
                Sample::rough(Op::Env(EnvOp::Observe), inputs()),
                in_f64(EnvOp::Observe, inputs()),
            ];
            (samples, Some(EnvOp::Step))
        }
        EnvOp::Step => {
            let mut samples = Vec::new();
            for lambda in [0.0, 0.5] {
                for flip in [false, true] {
                    let mut inputs = inputs();
                    inputs.push(actions(flip));
                    inputs.push(real([], &[lambda]));
                    samples.push(in_f64(EnvOp::Step, inputs.clone()));
                    samples.push(Sample::rough(Op::Env(EnvOp::Step), inputs));
                }
            }
            (samples, None)
        }
    }
}

/// Fresh, long, short and ruined.
fn accounts() -> Input {
    let rows: [[f64; ACCOUNT_WIDTH]; 4] = [
        [0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [0.5, 1.25, 1.5, 0.03125, 4.0, 0.5, 0.0, 0.0],
        [-1.0, 0.75, 1.0, -0.0625, 9.0, -1.0, 0.0, 0.0],
        [0.0, 0.0625, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    ];
    real([4, ACCOUNT_WIDTH], &rows.concat())
}

/// A rising bar, a falling one that a limit order fills in, and one that forces flat.
fn bars() -> Input {
    let rows: [[f64; ENV_COLUMNS]; 3] = [
        [0.02, 0.01, 0.999, 0.99, 1.03, 0.001, 0.0, 0.0],
        [-0.015, 0.012, 1.002, 0.97, 1.01, 0.002, 0.0, 0.5],
        [0.01, 0.02, 1.0, 0.98, 1.02, 0.001, 1.0, 0.25],
    ];
    table_of(wide(real([3, ENV_COLUMNS], &rows.concat())))
}

fn costs() -> Input {
    wide(real([4], &[5e-5, 4e-5, 5e-5, 0.1]))
}

/// Every branch takes its first and last value somewhere.
fn actions(flip: bool) -> Input {
    let last = ACTION_SIZES.map(|n| i32::try_from(n - 1).expect("branches are few"));
    let [a, b, c] = if flip { [0; 3] } else { last };
    let [x, y, z] = if flip { last } else { [0; 3] };
    whole([4, 3], &[a, b, c, x, y, z, a, y, c, x, b, z])
}

/// Samples of one random op, and the op after it.
pub(super) fn of_random(op: &Random) -> (Vec<Sample>, Option<Random>) {
    match op {
        Random::Uniform { .. } => {
            let sample = |shape: &[usize], words: [i32; 2], step| {
                let random = Random::Uniform {
                    stream: stream_id("sample"),
                    shape: Shape(shape.to_vec()),
                };
                Sample::rough(
                    Op::Random(random),
                    vec![whole([2], &words), whole([], &[step])],
                )
            };
            let samples = vec![
                sample(&[], [1, 2], 0),
                sample(&[3, 7], [-1, i32::MIN], 1),
                sample(&[64], [5, 0], i32::MAX),
            ];
            (samples, None)
        }
    }
}
