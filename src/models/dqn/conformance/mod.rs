//! What a DQN must do on every backend: gates against the oracle, and packing that changes no bit.
//!
//! # Invariants
//! - A backend passes or a function panics with the arm and the figure.
#![expect(clippy::unwrap_used, reason = "a suite: a panic is the report")]

pub(super) mod lanes;
pub(super) mod precision;

use super::{Dqn, Settings};
use crate::engine::backend::{Backend, Data, LaneIdx, Session, Tables};
use crate::engine::cpu::Cpu;
use crate::engine::env::Costs;
use crate::engine::graph::DType;
use crate::engine::op::StateId;
use crate::engine::program::{Program, Section};
use crate::market::features::{Scaler, builtin};
use crate::market::split::Fold;
use crate::market::synthetic::Planted;
use crate::market::tables::{Flatten, env_table, feature_table};
use crate::market::{BarLength, Calendar};
use crate::models::{MarketShape, RunInput, TABLE_ENVIRONMENT, TABLE_FEATURES, Trainer, catalogue};
use crate::study::{Params, Value};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Puts a backend through one update in each arm, against the oracle.
///
/// # Panics
/// If loss or gradient leave the gates.
pub fn one_step(backend: &dyn Backend) {
    let changes = [precision::BARE, &[("train.batch_size", 256.0)]].concat();
    precision::check_one_step(backend, params("ref-dqn", &changes), 100);
}

/// Puts a backend through a hundred updates in F32 and BF16, against the oracle.
///
/// # Panics
/// If losses or weights part.
pub fn a_hundred_steps(backend: &dyn Backend) {
    precision::check_hundred_steps(backend, &[("train.batch_size", 256.0)]);
}

/// Trains packs of the given sizes, with dead, poisoned and refilled lanes, in each arm.
///
/// - `n_cycles`: updates an epoch; a run has two.
///
/// # Panics
/// If a lane differs in any bit from its run alone.
pub fn packs(backend: &dyn Backend, n_cycles: usize, sizes: &[usize]) {
    let full = [
        ("train.batch_size", 256.0),
        ("train.replay_capacity_max", 100_000.0),
    ];
    lanes::packs_equal_runs_alone(backend, &full, n_cycles, sizes);
}

/// Lowers the reference workload in an arm, with the tables and lanes to run it.
///
/// Returns the session with its replay warm, and the index of the learning phase.
///
/// # Panics
/// If the backend cannot open it.
pub fn reference(backend: &dyn Backend, dtype: DType, n_lanes: usize) -> (Box<dyn Session>, usize) {
    let changes = [
        ("train.batch_size", 256.0),
        ("train.environments", 16.0),
        ("train.replay_capacity", 100_000.0),
        ("train.replay_capacity_max", 100_000.0),
        ("train.replay_warmup", 1_000.0),
    ];
    let setup = Setup::new(
        market(Planted::new(3_000, 3)),
        params("ref-dqn", &changes),
        &[],
    );
    let program = setup.model.program().with_precision(dtype, dtype);
    let mut session = setup.open(backend, &program, n_lanes);
    for lane in 0..n_lanes {
        let run = setup.run(&setup.params, 100 + lane as u64);
        setup.load(&mut *session, lane, &run);
    }
    session.train(100).unwrap();
    let mut phases = session.plan().section(Section::Cycle).iter();
    let learn = phases.position(|phase| phase.name == "learn").unwrap();
    (session, learn)
}

/// The reference workload as a program in an arm.
pub fn reference_program(dtype: DType) -> Program {
    let changes = [("train.batch_size", 256.0)];
    let setup = Setup::new(
        market(Planted::new(400, 3)),
        params("ref-dqn", &changes),
        &[],
    );
    setup.model.program().with_precision(dtype, dtype)
}

/// The reference backend.
pub(super) fn cpu() -> Cpu<f32> {
    Cpu::new(NonZeroUsize::new(2).unwrap())
}

/// The oracle.
pub(super) fn oracle() -> Cpu<f64> {
    Cpu::new(NonZeroUsize::new(2).unwrap())
}

/// A market made ready for training.
pub(super) struct Market {
    pub(super) shape: MarketShape,
    pub(super) folds: Vec<Fold>,
    pub(super) costs: Costs<f64>,
    pub(super) environment: Vec<f64>,
    pub(super) features: Vec<f32>,
}

impl Market {
    pub(super) fn tables(&self, program: &Program) -> Tables {
        let mut tables = Tables::default();
        let features = Arc::new(Data::F32(self.features.clone()));
        tables.insert(program.table_named(TABLE_FEATURES).unwrap(), features);
        let environment = Arc::new(Data::F64(self.environment.clone()));
        tables.insert(program.table_named(TABLE_ENVIRONMENT).unwrap(), environment);
        tables
    }
}

/// A market of daily bars with two folds, of 16 validation bars each.
pub(super) fn market(planted: Planted) -> Market {
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
pub(super) fn params(preset: &str, changes: &[(&str, f64)]) -> Params {
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

pub(super) const SMALL_NETWORK: &[(&str, Value)] = &[
    ("model.trunk_width", Value::Int(16)),
    ("model.head_width", Value::Int(8)),
    ("model.atoms", Value::Int(11)),
    ("model.v_max", Value::Float(5.0)),
];

pub(super) const SMALL_LOOP: &[(&str, f64)] = &[
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
pub(super) struct Setup {
    pub(super) market: Market,
    pub(super) model: Dqn,
    pub(super) params: Params,
}

impl Setup {
    pub(super) fn new(market: Market, params: Params, searched: &[&str]) -> Self {
        let searched: BTreeSet<String> = searched.iter().map(|name| (*name).to_owned()).collect();
        let model = Dqn::new(&Settings::new(&params, &searched), market.shape);
        Self {
            market,
            model,
            params,
        }
    }

    /// A run of `params` on the first fold, with 100 updates.
    pub(super) fn run<'a>(&self, params: &'a Params, seed: u64) -> RunInput<'a> {
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
    pub(super) fn open(
        &self,
        backend: &dyn Backend,
        program: &Program,
        n_lanes: usize,
    ) -> Box<dyn Session> {
        let plan = Arc::new(backend.lower(program));
        backend
            .open(plan, &self.market.tables(program), n_lanes)
            .unwrap()
    }

    /// Opens one live lane of the model's program with the setup's own configuration.
    pub(super) fn start(&self, backend: &dyn Backend, dtype: DType) -> Box<dyn Session> {
        let program = self.model.program().with_precision(dtype, dtype);
        let mut session = self.open(backend, &program, 1);
        self.load(&mut *session, 0, &self.run(&self.params, 7));
        session
    }

    pub(super) fn load(&self, session: &mut dyn Session, lane: usize, run: &RunInput<'_>) {
        session.load(LaneIdx(lane), &self.model.lane(run)).unwrap();
        session.set_live(LaneIdx(lane), true);
    }

    /// A program with the model's states and tables and no phase.
    pub(super) fn states_only(&self) -> Program {
        let model = self.model.program();
        let mut program = Program::new(1);
        program.states.clone_from(&model.states);
        program.tables.clone_from(&model.tables);
        program.blocks.clone_from(&model.blocks);
        program
    }
}

pub(super) fn read(session: &dyn Session, lane: usize, state: StateId) -> Vec<f64> {
    session.read(LaneIdx(lane), state).unwrap().to_f64()
}

/// Every state of a lane, bit for bit.
pub(super) fn bits(session: &dyn Session, lane: usize) -> Vec<Vec<u64>> {
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
pub(super) fn copy(from: &dyn Session, to: &mut dyn Session) {
    for state in (0..u32::try_from(from.plan().states.len()).unwrap()).map(StateId) {
        to.write(LaneIdx(0), state, &from.read(LaneIdx(0), state).unwrap())
            .unwrap();
    }
}

/// ‖a − b‖ / ‖b‖.
pub(super) fn distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len());
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    norm(&mut a.iter().zip(b).map(|(a, b)| a - b)) / norm(&mut b.iter().copied())
}
