//! Effects on a backend against the oracle: every kind, guards, order, states as of the start.

use super::case::oracle;
use super::compare::agree;
use crate::engine::backend::{Backend, Data, LaneIdx, StateValues, Tables};
use crate::engine::graph::{Builder, DType, NodeId};
use crate::engine::op::samples::{Tolerance, draw};
use crate::engine::op::{Effect, Matrix, StateId};
use crate::engine::program::{Init, Program, Section};
use std::sync::Arc;

/// A program with its first values, and how close its states must come.
struct Trial {
    program: Program,
    values: StateValues,
    tolerance: Tolerance,
}

/// Runs every trial for five cycles.
pub(super) fn run(backend: &dyn Backend) {
    let nothing = NodeId(0);
    let mut kind = Some(Effect::Store {
        state: StateId(0),
        value: nothing,
        guard: None,
    });
    while let Some(effect) = kind {
        let (trials, next) = of_effect(&effect);
        for trial in trials {
            let (got, expected) = (trial.states(backend), trial.states(&oracle()));
            for (k, (got, expected)) in got.iter().zip(&expected).enumerate() {
                agree(
                    &format!("state {k} after {effect:?}"),
                    got,
                    expected,
                    trial.tolerance,
                );
            }
        }
        kind = next;
    }
}

/// The trials of one kind of effect, and the kind after it.
fn of_effect(effect: &Effect) -> (Vec<Trial>, Option<Effect>) {
    let none = NodeId(0);
    let id = StateId(0);
    match effect {
        Effect::Store { .. } => {
            let next = Effect::RingPush {
                state: id,
                row: none,
                value: none,
                guard: None,
            };
            (vec![stores()], Some(next))
        }
        Effect::RingPush { .. } => {
            let next = Effect::Adam {
                param: id,
                m: id,
                v: id,
                target: None,
                grad: none,
                grad_scale: none,
                step: none,
                lr: none,
                beta1: none,
                beta2: none,
                eps: none,
                weight_decay: none,
                guard: None,
            };
            (vec![pushes()], Some(next))
        }
        Effect::Adam { .. } => {
            let next = Effect::SpectralNorm {
                param: id,
                u: id,
                v: id,
                matrices: Vec::new(),
                sigma_max: none,
                n_iterations: 1,
                guard: None,
            };
            (vec![adam(false), adam(true)], Some(next))
        }
        Effect::SpectralNorm { .. } => (vec![spectral(10.0), spectral(0.5)], None),
    }
}

impl Trial {
    fn states(&self, backend: &dyn Backend) -> Vec<Data> {
        let plan = Arc::new(backend.lower(&self.program));
        let mut session = backend
            .open(plan, &Tables::default(), 1)
            .expect("trials are small");
        session
            .load(LaneIdx(0), &self.values)
            .expect("every state has its values");
        session.set_live(LaneIdx(0), true);
        session.train(5).expect("the device works");
        let n_states = u32::try_from(self.program.states.len()).expect("few states");
        (0..n_states)
            .map(|id| session.read(LaneIdx(0), StateId(id)).expect("a state"))
            .collect()
    }
}

/// Adds a state with drawn values.
fn drawn(program: &mut Program, values: &mut StateValues, name: &str, n: usize) -> StateId {
    let id = program.state(name, [n], DType::F32, Init::Host);
    let elements = draw(name, n, -1.0, 1.0)
        .into_iter()
        .map(|value| value as f32)
        .collect();
    values.insert(id, Data::F32(elements));
    id
}

/// Two states swap; a third is stored by guards 1, 0, −0 and NaN in turn; integers count.
fn stores() -> Trial {
    let (mut program, mut values) = (Program::default(), StateValues::new());
    let a = drawn(&mut program, &mut values, "a", 5);
    let b_ = drawn(&mut program, &mut values, "b", 5);
    let count = program.state("count", [], DType::I32, Init::Zero);
    let guarded: Vec<StateId> = (0..4)
        .map(|k| program.state(&format!("guarded {k}"), [5], DType::F32, Init::Zero))
        .collect();
    program.phase(Section::Cycle, "stores", 1, |p, b| {
        let (x, y, n) = (p.read(b, a), p.read(b, b_), p.read(b, count));
        let next = b.increment(n);
        let mut effects = vec![
            Effect::Store {
                state: a,
                value: y,
                guard: None,
            },
            Effect::Store {
                state: b_,
                value: x,
                guard: None,
            },
            Effect::Store {
                state: count,
                value: next,
                guard: None,
            },
        ];
        for (state, guard) in guarded.iter().zip([1.0, 0.0, -0.0, f64::NAN]) {
            let guard = Some(b.scalar(guard));
            effects.push(Effect::Store {
                state: *state,
                value: x,
                guard,
            });
        }
        effects
    });
    Trial {
        program,
        values,
        tolerance: Tolerance::Ulp(0),
    }
}

/// A ring of three rows is pushed round; each row is the last one, doubled, from the ring itself.
fn pushes() -> Trial {
    let (mut program, mut values) = (Program::default(), StateValues::new());
    let ring = program.state("ring", [3, 2], DType::F32, Init::Host);
    values.insert(ring, Data::F32(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    let row = program.state("row", [], DType::I32, Init::Zero);
    program.phase(Section::Cycle, "pushes", 1, |p, b| {
        let (rows, at) = (p.read(b, ring), p.read(b, row));
        let last = b.slice(rows, 0, 2, 1);
        let last = b.reshape(last, [2]);
        let doubled = b.add(last, last);
        let next = b.increment(at);
        let three = b.constant([].into(), &[3.0], DType::I32);
        let zero = b.constant([].into(), &[0.0], DType::I32);
        let inside = b.less(next, three);
        let next = b.select(inside, next, zero);
        vec![
            Effect::RingPush {
                state: ring,
                row: at,
                value: doubled,
                guard: None,
            },
            Effect::RingPush {
                state: ring,
                row: zero,
                value: last,
                guard: Some(inside),
            },
            Effect::Store {
                state: row,
                value: next,
                guard: None,
            },
        ]
    });
    Trial {
        program,
        values,
        tolerance: Tolerance::Ulp(0),
    }
}

/// Five steps on a gradient that is the weights themselves.
fn adam(has_target: bool) -> Trial {
    let (mut program, mut values) = (Program::default(), StateValues::new());
    let [param, m, v, average] =
        ["param", "m", "v", "average"].map(|name| drawn(&mut program, &mut values, name, 70));
    // A second moment is never negative.
    let positive = draw("v", 70, 0.0, 1.0)
        .into_iter()
        .map(|value| value as f32)
        .collect();
    values.insert(v, Data::F32(positive));
    let count = program.state("count", [], DType::I32, Init::Zero);
    program.phase(Section::Cycle, "adam", 1, |p, b| {
        let (grad, n) = (p.read(b, param), p.read(b, count));
        let step = b.increment(n);
        let mut scalar = |value: f64| b.scalar(value);
        let target = has_target.then(|| (average, scalar(0.05)));
        let effect = Effect::Adam {
            param,
            m,
            v,
            target,
            grad,
            grad_scale: scalar(0.5),
            step,
            lr: scalar(0.01),
            beta1: scalar(0.9),
            beta2: scalar(0.999),
            eps: scalar(1e-8),
            weight_decay: scalar(0.1),
            guard: None,
        };
        vec![
            effect,
            Effect::Store {
                state: count,
                value: step,
                guard: None,
            },
        ]
    });
    // Five steps of a dozen roundings each.
    Trial {
        program,
        values,
        tolerance: Tolerance::Norm(1e-5),
    }
}

/// Two matrices of one block, above or below the bound.
fn spectral(sigma_max: f64) -> Trial {
    let (mut program, mut values) = (Program::default(), StateValues::new());
    let param = drawn(&mut program, &mut values, "param", 4 * 6 + 5 * 3);
    let u = drawn(&mut program, &mut values, "u", 4 + 5);
    let v = drawn(&mut program, &mut values, "v", 6 + 3);
    let matrices = vec![
        Matrix {
            offset: 0,
            rows: 4,
            cols: 6,
            u_offset: 0,
            v_offset: 0,
        },
        Matrix {
            offset: 24,
            rows: 5,
            cols: 3,
            u_offset: 4,
            v_offset: 6,
        },
    ];
    program.phase(Section::Cycle, "spectral", 1, |_, b: &mut Builder<'_>| {
        let sigma_max = b.scalar(sigma_max);
        vec![Effect::SpectralNorm {
            param,
            u,
            v,
            matrices,
            sigma_max,
            n_iterations: 3,
            guard: None,
        }]
    });
    // The iteration converges, so roundings do not add up.
    Trial {
        program,
        values,
        tolerance: Tolerance::Norm(1e-5),
    }
}
