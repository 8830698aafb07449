//! The DQN on planted markets.

mod evaluate;
mod gpu;
mod lanes;
mod network;
mod precision;
mod replay;
mod update;

use super::conformance::*;
use super::{Dqn, Settings};
use crate::engine::backend::{Backend, Data, LaneIdx, Session, Tables};
use crate::engine::graph::{Builder, DType, Graph, NodeId, Shape};
use crate::engine::op::{Effect, StateId};
use crate::engine::program::{Init, Program, Section};
use crate::market::features::{Scaler, builtin};
use crate::market::synthetic::Planted;
use crate::market::{BarLength, Calendar};
use crate::models::{RunInput, Trainer, catalogue};
use crate::study::Params;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

impl Setup {
    /// The small model on 400 bars.
    fn small(changes: &[(&str, f64)]) -> Self {
        Self::new(market(Planted::new(400, 3)), params("", changes), &[])
    }

    /// The scaled features of every fold and bar.
    fn features(&self, program: &Program) -> Arc<Data> {
        self.market
            .tables(program)
            .get(self.model.features)
            .unwrap()
            .clone()
    }
}

/// Computes values from the states of a training lane, at any moment.
struct Probe {
    session: Box<dyn Session>,
    outputs: Vec<StateId>,
}

impl Probe {
    fn new(
        setup: &Setup,
        backend: &dyn Backend,
        dtype: DType,
        build: impl Fn(&Program, &mut Builder<'_>) -> Vec<NodeId>,
    ) -> Self {
        let mut program = setup.states_only();
        let outputs = append(&mut program, Section::Evaluate, build);
        let program = program.with_precision(dtype, dtype);
        let mut session = setup.open(backend, &program, 1);
        setup.load(&mut *session, 0, &setup.run(&setup.params, 0));
        Self { session, outputs }
    }

    fn copy(&mut self, from: &dyn Session) {
        copy(from, &mut *self.session);
    }

    fn compute(&mut self) -> Vec<Vec<f64>> {
        self.session.evaluate().unwrap();
        self.outputs
            .iter()
            .map(|output| read(&*self.session, 0, *output))
            .collect()
    }
}

/// Appends a phase that keeps what `build` computes in new states.
fn append(
    program: &mut Program,
    section: Section,
    build: impl Fn(&Program, &mut Builder<'_>) -> Vec<NodeId>,
) -> Vec<StateId> {
    let mut graph = Graph::default();
    let nodes = build(program, &mut Builder::new(&mut graph));
    let outputs: Vec<StateId> = nodes
        .iter()
        .enumerate()
        .map(|(i, node)| {
            let node = graph.node(*node);
            program.state(
                &format!("output.{i}"),
                node.shape.clone(),
                node.dtype,
                Init::Zero,
            )
        })
        .collect();
    program.phase(section, "compute", 1, |program, b| {
        let store = |(state, value): (&StateId, NodeId)| Effect::Store {
            state: *state,
            value,
            guard: None,
        };
        outputs.iter().zip(build(program, b)).map(store).collect()
    });
    outputs
}

/// Evaluates a graph on given inputs.
fn compute(
    backend: &dyn Backend,
    inputs: &[(Shape, Data)],
    build: impl Fn(&mut Builder<'_>, &[NodeId]) -> Vec<NodeId>,
) -> Vec<Vec<f64>> {
    let mut program = Program::new(1);
    let declare = |(i, (shape, data)): (usize, &(Shape, Data))| {
        let dtype = if matches!(data, Data::I32(_)) {
            DType::I32
        } else {
            DType::F32
        };
        program.state(&format!("input.{i}"), shape.clone(), dtype, Init::Host)
    };
    let ids: Vec<StateId> = inputs.iter().enumerate().map(declare).collect();
    let outputs = append(&mut program, Section::Init, |program, b| {
        let nodes: Vec<NodeId> = ids.iter().map(|id| program.read(b, *id)).collect();
        build(b, &nodes)
    });
    let plan = Arc::new(backend.lower(&program));
    let mut session = backend.open(plan, &Tables::default(), 1).unwrap();
    let values = ids
        .iter()
        .zip(inputs)
        .map(|(id, (_, data))| (*id, data.clone()));
    session.load(LaneIdx(0), &values.collect()).unwrap();
    outputs
        .iter()
        .map(|output| read(&*session, 0, *output))
        .collect()
}

/// Reproducible numbers in ±`scale`.
fn noise(stream: &str, n: usize, scale: f32) -> Vec<f32> {
    let mut out = vec![0.0; n];
    crate::engine::rng::fill_uniform(11, 0, crate::engine::rng::stream_id(stream), &mut out);
    out.iter().map(|u| scale * (2.0 * u - 1.0)).collect()
}

fn assert_within(values: &[f64], range: &Range<usize>, what: &str) {
    let (low, high) = (range.start as f64, range.end as f64);
    assert!(
        values.iter().all(|value| low <= *value && *value < high),
        "{what}: {values:?}"
    );
}
