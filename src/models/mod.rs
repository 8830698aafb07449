//! Models: what each kind can be told, and the training program that it builds.
//!
//! # Invariants
//! - A kind is known to the rest of the program through its schema and its [`Trainer`] alone.
//! - A program holds no value of a configuration: structural parameters shape it, all others are
//!   lane states that [`Trainer::lane`] fills.
//! - Nothing model-specific touches validation or holdout data.

pub mod dqn;
pub mod layers;

use crate::engine::backend::{Data, StateValues};
use crate::engine::env::Costs;
use crate::engine::op::StateId;
use crate::engine::program::Program;
use crate::market::features::FeatureTable;
use crate::market::metrics::Series;
use crate::study::{ModelSchema, Params, Value};
use layers::ParamLayout;
use std::collections::BTreeSet;
use std::ops::Range;

/// Name of the table of scaled features, `[folds · bars, width]` F32.
pub const TABLE_FEATURES: &str = "features";
/// Name of the table that the environment reads, `[bars, ENV_COLUMNS]` F64.
pub const TABLE_ENVIRONMENT: &str = "environment";

/// Columns of the evaluation state, one row a bar.
pub const EVALUATION_COLUMNS: usize = 5;

/// What a program must know of the market; the same for every run of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarketShape {
    /// Bars of the file.
    pub n_bars: usize,
    /// Folds, each with a feature table of its own.
    pub n_folds: usize,
    /// Feature columns.
    pub n_features: usize,
    /// Columns of an uploaded row, padding included.
    pub feature_width: usize,
    /// Longest validation block.
    pub n_evaluate_max: usize,
}

impl MarketShape {
    /// Describes a feature table.
    ///
    /// - `n_evaluate_max`: longest validation block.
    pub fn new(table: &FeatureTable, n_folds: usize, n_evaluate_max: usize) -> Self {
        Self {
            n_bars: table.n_bars,
            n_folds,
            n_features: table.n_columns,
            feature_width: crate::market::tables::padded_width(table.n_columns),
            n_evaluate_max,
        }
    }
}

/// One run: a trial on a fold.
#[derive(Debug, Clone, PartialEq)]
pub struct RunInput<'a> {
    /// Every parameter of the configuration, defaults filled in.
    pub params: &'a Params,
    /// Seed of the run, without the arm.
    pub seed: u64,
    /// Fold, the index of its feature table.
    pub fold: usize,
    /// Decision bars to train on.
    pub train: Range<usize>,
    /// Decision bars to evaluate on.
    pub validation: Range<usize>,
    /// Trading costs.
    pub costs: Costs<f64>,
    /// Updates of the whole run, for schedules.
    pub n_updates: u64,
}

/// Where a program leaves what the host reads after an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Readout {
    /// Sums and maxima of the epoch; [`Trainer::metrics`] explains them.
    pub metrics: StateId,
    /// 1 once a loss or gradient was not finite.
    pub diverged: StateId,
    /// `[n_evaluate_max, EVALUATION_COLUMNS]` F64: net return, gross return, cost, turnover,
    /// position; [`series`] reads it.
    pub evaluation: StateId,
    /// Flat parameter block.
    pub params: StateId,
}

/// What an epoch of one run measured.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct EpochMetrics {
    /// Updates that were made.
    pub n_updates: u64,
    /// Simulator ticks over all environments.
    pub n_env_steps: u64,
    /// Mean loss.
    pub loss: f64,
    /// Mean global gradient norm before clipping.
    pub grad_norm: f64,
    /// Mean greedy value of the next states.
    pub q_mean: f64,
    /// Largest greedy value.
    pub q_max: f64,
    /// Mean absolute difference of expected target and prediction.
    pub td_error: f64,
    /// Mean target mass on the two edge atoms.
    pub edge_atom_mass: f64,
}

/// A model kind with its structure fixed: one program, any number of runs.
pub trait Trainer: Send + Sync {
    /// Returns the program in F32; [`Program::with_precision`] gives an arm's.
    fn program(&self) -> &Program;

    /// Returns where results are read.
    fn readout(&self) -> Readout;

    /// Returns cycles an epoch.
    fn n_cycles(&self) -> usize {
        self.program().n_cycles
    }

    /// Returns how many updates a run of `n_epochs` makes.
    fn n_updates(&self, params: &Params, n_epochs: u64) -> u64;

    /// Fills the states of a lane for a run.
    fn lane(&self, run: &RunInput<'_>) -> StateValues;

    /// Explains the metrics state.
    fn metrics(&self, data: &Data) -> EpochMetrics;

    /// Describes the flat parameter block.
    fn layout(&self) -> &ParamLayout;
}

/// Reads the first `n_bars` rows of an evaluation state.
pub fn series(evaluation: &Data, n_bars: usize) -> Series {
    let values = evaluation.to_f64();
    let rows = values.chunks_exact(EVALUATION_COLUMNS).take(n_bars);
    let column = |i: usize| rows.clone().map(|row| row[i]).collect();
    Series {
        net: column(0),
        gross: column(1),
        cost: column(2),
        turnover: column(3),
        position: column(4),
    }
}

/// Lists every model kind with its parameters.
pub fn catalogue() -> Vec<ModelSchema> {
    vec![dqn::schema()]
}

/// Builds the trainer of a configuration.
///
/// - `params`: every parameter, defaults filled in; structural ones shape the program.
/// - `searched`: names that other lanes of the pack may set otherwise, so that their part of the
///   graph must be there.
///
/// # Panics
/// For a kind that the catalogue does not list: the sweep file was checked against it.
pub fn trainer(
    kind: &str,
    params: &Params,
    searched: &BTreeSet<String>,
    market: MarketShape,
) -> Box<dyn Trainer> {
    match kind {
        "dqn" => Box::new(dqn::Dqn::new(&dqn::Settings::new(params, searched), market)),
        other => panic!("model kind {other} is not in the catalogue"),
    }
}

/// Reads a number; the catalogue's default where a conditional parameter is absent.
pub(crate) fn number(params: &Params, name: &str) -> f64 {
    match lookup(params, name) {
        Value::Float(value) => value,
        Value::Int(value) => value as f64,
        Value::Bool(value) => f64::from(u8::from(value)),
        Value::Text(value) => panic!("{name} is the text {value:?}, not a number"),
    }
}

/// Reads a count.
pub(crate) fn count(params: &Params, name: &str) -> usize {
    match lookup(params, name) {
        Value::Int(value) => usize::try_from(value).expect("the schema admits no negative count"),
        other => panic!("{name} is {other}, not a count"),
    }
}

/// Reads a text.
pub(crate) fn text(params: &Params, name: &str) -> String {
    match lookup(params, name) {
        Value::Text(value) => value,
        other => panic!("{name} is {other}, not a text"),
    }
}

fn lookup(params: &Params, name: &str) -> Value {
    if let Some(value) = params.get(name) {
        return value.clone();
    }
    let default = catalogue()
        .into_iter()
        .flat_map(|schema| schema.params)
        .find(|param| param.name == name)
        .map(|param| param.default);
    default.unwrap_or_else(|| panic!("{name} is not in the catalogue"))
}
