//! The DQN on planted markets: what its tests share.

mod evaluate;
mod gpu;
mod lanes;
mod network;
mod precision;
mod replay;
mod update;

use super::{Dqn, Settings};
use crate::engine::backend::{Backend, Data, LaneIdx, Session, Tables};
use crate::engine::cpu::Cpu;
use crate::engine::env::Costs;
use crate::engine::graph::{Builder, DType, Graph, NodeId, Shape};
use crate::engine::op::{Effect, StateId};
use crate::engine::program::{Init, Program, Section};
use crate::market::features::{Scaler, builtin};
use crate::market::split::Fold;
use crate::market::synthetic::Planted;
use crate::market::tables::{Flatten, env_table, feature_table};
use crate::market::{BarLength, Calendar};
use crate::models::{MarketShape, RunInput, TABLE_ENVIRONMENT, TABLE_FEATURES, Trainer, catalogue};
use crate::study::{Params, Value};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

/// The reference backend.
fn cpu() -> Cpu<f32> {
    Cpu::new(NonZeroUsize::new(2).unwrap())
}

/// The oracle.
fn oracle() -> Cpu<f64> {
    Cpu::new(NonZeroUsize::new(2).unwrap())
}

/// A market made ready for training.
struct Market {
    shape: MarketShape,
    folds: Vec<Fold>,
    costs: Costs<f64>,
    environment: Vec<f64>,
    features: Vec<f32>,
}

impl Market {
    fn tables(&self, program: &Program) -> Tables {
        let mut tables = Tables::default();
        let features = Arc::new(Data::F32(self.features.clone()));
        tables.insert(program.table_named(TABLE_FEATURES).unwrap(), features);
        let environment = Arc::new(Data::F64(self.environment.clone()));
        tables.insert(program.table_named(TABLE_ENVIRONMENT).unwrap(), environment);
        tables
    }
}

/// A market of daily bars with two folds, of 16 validation bars each.
fn market(planted: Planted) -> Market {
    let bars = planted.bars();
    let (bar, calendar) = (BarLength::Day, Calendar::UsEquity);
    let table = builtin(&bars, bar, calendar);
    let train_end = bars.len() - 40;
    let fold = |start: usize| Fold {
        train: table.warmup_bars..start - 2,
        validation: start..start + 16,
    };
    let folds = vec![fold(train_end), fold(train_end + 16)];
    let scalers: Vec<Scaler> = folds
        .iter()
        .map(|fold| Scaler::fit(&table, fold.train.clone()))
        .collect();
    Market {
        shape: MarketShape::new(&table, folds.len(), 16),
        environment: env_table(&bars, bar, calendar, Flatten::Auto, 1e6),
        features: feature_table(&table, &scalers),
        costs: Costs::from_bp(0.5, 0.5, 0.1),
        folds,
    }
}

/// A configuration: the catalogue's defaults, `preset`, a small loop, then `changes`.
fn params(preset: &str, changes: &[(&str, f64)]) -> Params {
    let schema = &catalogue()[0];
    let defaults = schema
        .params
        .iter()
        .map(|param| (param.name, param.default.clone()));
    let mut params: Params = defaults
        .map(|(name, value)| (name.to_owned(), value))
        .collect();
    let preset = schema.preset(preset).unwrap_or(SMALL_NETWORK);
    params.extend(
        preset
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone())),
    );
    for (name, value) in SMALL_LOOP.iter().chain(changes) {
        let value = match &params[*name] {
            Value::Int(_) => Value::Int(*value as i64),
            Value::Float(_) => Value::Float(*value),
            Value::Bool(_) => Value::Bool(*value != 0.0),
            Value::Text(_) => panic!("{name} is a text"),
        };
        params.insert((*name).to_owned(), value);
    }
    params
}

const SMALL_NETWORK: &[(&str, Value)] = &[
    ("model.trunk_width", Value::Int(16)),
    ("model.head_width", Value::Int(8)),
    ("model.atoms", Value::Int(11)),
    ("model.v_max", Value::Float(5.0)),
];

const SMALL_LOOP: &[(&str, f64)] = &[
    ("model.n_step", 1.0),
    ("model.n_step_max", 4.0),
    ("train.batch_size", 16.0),
    ("train.environments", 4.0),
    ("train.updates_per_env_step", 1.0),
    ("train.steps_per_epoch", 8.0),
    ("train.replay_capacity", 256.0),
    ("train.replay_capacity_max", 256.0),
    ("train.replay_warmup", 20.0),
];

/// A model with its market.
struct Setup {
    market: Market,
    model: Dqn,
    params: Params,
}

impl Setup {
    fn new(market: Market, params: Params, searched: &[&str]) -> Self {
        let searched: BTreeSet<String> = searched.iter().map(|name| (*name).to_owned()).collect();
        let model = Dqn::new(&Settings::new(&params, &searched), market.shape);
        Self {
            market,
            model,
            params,
        }
    }

    /// The small model on 400 bars.
    fn small(changes: &[(&str, f64)]) -> Self {
        Self::new(market(Planted::new(400, 3)), params("", changes), &[])
    }

    /// A run of `params` on the first fold, with 100 updates.
    fn run<'a>(&self, params: &'a Params, seed: u64) -> RunInput<'a> {
        let fold = &self.market.folds[0];
        RunInput {
            params,
            seed,
            fold: 0,
            train: fold.train.clone(),
            validation: fold.validation.clone(),
            costs: self.market.costs,
            n_updates: 100,
        }
    }

    /// Opens dead, empty lanes of a program.
    fn open(&self, backend: &dyn Backend, program: &Program, n_lanes: usize) -> Box<dyn Session> {
        let plan = Arc::new(backend.lower(program));
        backend
            .open(plan, &self.market.tables(program), n_lanes)
            .unwrap()
    }

    /// Opens one live lane of the model's program with the setup's own configuration.
    fn start(&self, backend: &dyn Backend, dtype: DType) -> Box<dyn Session> {
        let program = self.model.program().with_precision(dtype, dtype);
        let mut session = self.open(backend, &program, 1);
        self.load(&mut *session, 0, &self.run(&self.params, 7));
        session
    }

    fn load(&self, session: &mut dyn Session, lane: usize, run: &RunInput<'_>) {
        session.load(LaneIdx(lane), &self.model.lane(run)).unwrap();
        session.set_live(LaneIdx(lane), true);
    }

    /// A program with the model's states and tables and no phase.
    fn states_only(&self) -> Program {
        let model = self.model.program();
        let mut program = Program::new(1);
        program.states.clone_from(&model.states);
        program.tables.clone_from(&model.tables);
        program.blocks.clone_from(&model.blocks);
        program
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

fn read(session: &dyn Session, lane: usize, state: StateId) -> Vec<f64> {
    session.read(LaneIdx(lane), state).unwrap().to_f64()
}

/// Every state of a lane, bit for bit.
fn bits(session: &dyn Session, lane: usize) -> Vec<Vec<u64>> {
    let states = 0..u32::try_from(session.plan().states.len()).unwrap();
    let elements = |state| read(session, lane, StateId(state));
    states
        .map(|state| {
            elements(state)
                .iter()
                .map(|value| value.to_bits())
                .collect()
        })
        .collect()
}

/// Takes over every state of the lane of a training session.
fn copy(from: &dyn Session, to: &mut dyn Session) {
    for state in (0..u32::try_from(from.plan().states.len()).unwrap()).map(StateId) {
        to.write(LaneIdx(0), state, &from.read(LaneIdx(0), state).unwrap())
            .unwrap();
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

/// ‖a − b‖ / ‖b‖.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    norm(&mut a.iter().zip(b).map(|(a, b)| a - b)) / norm(&mut b.iter().copied())
}

fn assert_within(values: &[f64], range: &Range<usize>, what: &str) {
    let (low, high) = (range.start as f64, range.end as f64);
    assert!(
        values.iter().all(|value| low <= *value && *value < high),
        "{what}: {values:?}"
    );
}
