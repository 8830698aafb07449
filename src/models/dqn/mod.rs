//! Branching dueling C51 double DQN.
//!
//! Data flow of a cycle: `collect` acts once in every environment and pushes transitions into
//! the replay rings; `learn` samples, learns and updates the target, `updates_per_env_step` times.
//! `evaluate` walks the validation block bar by bar.
//!
//! # Invariants
//! - The replay stores bar indices, never features: no index leaves the train range.
//! - What depends on data (replay not yet warm, non-finite gradient) is a guard.

mod act;
mod collect;
#[doc(hidden)]
pub mod conformance;
mod evaluate;
mod lane;
mod learn;
mod network;
mod schema;
mod settings;
#[cfg(test)]
mod tests;

pub use network::{Heads, Network};
pub use schema::schema;
pub use settings::{Settings, Switch};

use super::layers::ParamLayout;
use super::{
    EVALUATION_COLUMNS, EpochMetrics, MarketShape, Readout, RunInput, TABLE_ENVIRONMENT,
    TABLE_FEATURES, Trainer,
};
use crate::engine::backend::{Data, StateValues};
use crate::engine::env::{ACCOUNT_WIDTH, ENV_COLUMNS, OBSERVED_WIDTH};
use crate::engine::graph::{DType, Shape};
use crate::engine::op::{StateId, TableId};
use crate::engine::program::{Init, Program, Section};
use crate::study::Params;

/// Sums and maxima kept in the metrics state.
const N_METRICS: usize = 7;

/// Ids of the program's states.
#[derive(Debug, Clone, Copy)]
struct States {
    theta: StateId,
    target: StateId,
    m: StateId,
    v: StateId,
    spectral: Option<[StateId; 2]>,
    seed: StateId,
    n_updates: StateId,
    learn_step: StateId,
    collect_step: StateId,
    diverged: StateId,
    metrics: StateId,
    account: StateId,
    bar: StateId,
    ring: Rings,
    evaluation: StateId,
    evaluation_account: StateId,
    evaluation_bar: StateId,
    evaluation_count: StateId,
    lane: LaneStates,
}

/// Replay rings, each `[rows, environments, …]`.
#[derive(Debug, Clone, Copy)]
struct Rings {
    bar: StateId,
    observed: StateId,
    next_observed: StateId,
    action: StateId,
    reward: StateId,
    end: StateId,
    head: StateId,
    size: StateId,
}

/// Values that a configuration, seed or fold sets.
#[derive(Debug, Clone, Copy)]
struct LaneStates {
    lr: StateId,
    beta1: StateId,
    beta2: StateId,
    adam_eps: StateId,
    weight_decay: StateId,
    max_grad_norm: StateId,
    gamma: StateId,
    tau: StateId,
    v_max: StateId,
    sigma_max: StateId,
    epsilon_start: StateId,
    epsilon_end: StateId,
    epsilon_updates: StateId,
    risk_lambda: StateId,
    double: StateId,
    n_step: StateId,
    capacity_rows: StateId,
    warmup_rows: StateId,
    table_base: StateId,
    train_start: StateId,
    train_end: StateId,
    validation_start: StateId,
    n_validation: StateId,
    costs: StateId,
}

/// The DQN with its structure fixed.
#[derive(Debug, Clone)]
pub struct Dqn {
    settings: Settings,
    market: MarketShape,
    network: Network,
    states: States,
    features: TableId,
    environment: TableId,
    program: Program,
}

impl Dqn {
    /// Builds the program.
    ///
    /// # Panics
    /// If an epoch is no whole number of cycles: the sweep file was checked for this.
    pub fn new(settings: &Settings, market: MarketShape) -> Self {
        assert_eq!(settings.steps_per_epoch % settings.updates_per_env_step, 0);
        let natural = (market.n_features + OBSERVED_WIDTH).next_multiple_of(8);
        let network = Network::new(settings, settings.state_width.max(natural));
        let mut program = Program::new(settings.steps_per_epoch / settings.updates_per_env_step);
        let rows = market.n_folds * market.n_bars;
        let features = program.table(TABLE_FEATURES, [rows, market.feature_width], DType::F32);
        let environment =
            program.table(TABLE_ENVIRONMENT, [market.n_bars, ENV_COLUMNS], DType::F64);
        let states = declare(&mut program, settings, &network, market.n_evaluate_max);
        program.blocks = vec![states.theta, states.target];
        let mut model = Self {
            settings: *settings,
            market,
            network,
            states,
            features,
            environment,
            program: Program::default(),
        };
        model.init_phases(&mut program);
        model.begin_phase(&mut program);
        program.acting_phase(Section::Cycle, "collect", 1, |program, b| {
            model.collect(program, b)
        });
        program.phase(
            Section::Cycle,
            "learn",
            settings.updates_per_env_step,
            |program, b| model.learn(program, b),
        );
        model.evaluate_phases(&mut program);
        model.program = program;
        model
    }

    /// Returns the network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Returns the structural parameters.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

impl Trainer for Dqn {
    fn program(&self) -> &Program {
        &self.program
    }

    fn readout(&self) -> Readout {
        Readout {
            metrics: self.states.metrics,
            diverged: self.states.diverged,
            evaluation: self.states.evaluation,
            params: self.states.theta,
        }
    }

    fn n_updates(&self, params: &Params, n_epochs: u64) -> u64 {
        let n_cycles = n_epochs * self.n_cycles() as u64;
        let n_warmup = lane::warmup_rows(params, &self.settings) as u64;
        // The cycle that fills the last row of the warm-up is the first to learn.
        (n_cycles + 1).saturating_sub(n_warmup) * self.settings.updates_per_env_step as u64
    }

    fn lane(&self, run: &RunInput<'_>) -> StateValues {
        lane::values(self, run)
    }

    fn metrics(&self, data: &Data) -> EpochMetrics {
        learn::explain(&data.to_f64(), self.n_cycles() * self.settings.environments)
    }

    fn layout(&self) -> &ParamLayout {
        &self.network.layout
    }
}

// tidy: long, because it is the list of the program's states.
fn declare(
    program: &mut Program,
    settings: &Settings,
    network: &Network,
    n_evaluate_max: usize,
) -> States {
    let n_params = network.layout.len();
    let n_env = settings.environments;
    let rows = settings.replay_rows_max;
    let mut block = |name: &str, init| program.state(name, [n_params], DType::F32, init);
    let theta = block("theta", Init::Host);
    let target = block("target", Init::Zero);
    let m = block("m", Init::Zero);
    let v = block("v", Init::Zero);
    let spectral = settings.spectral_norm.then(|| {
        let (_, n_u, n_v) = network.layout.matrices();
        [
            program.state("spectral_u", [n_u], DType::F32, Init::Host),
            program.state("spectral_v", [n_v], DType::F32, Init::Zero),
        ]
    });
    let seed = program.state("seed", [2], DType::I32, Init::Host);
    let mut counter = |name: &str| program.state(name, Shape::default(), DType::I32, Init::Zero);
    let (n_updates, learn_step) = (counter("n_updates"), counter("learn_step"));
    let collect_step = counter("collect_step");
    let (head, size) = (counter("replay_head"), counter("replay_size"));
    let evaluation_count = counter("evaluation_count");
    let diverged = program.state("diverged", Shape::default(), DType::F32, Init::Zero);
    let ring = Rings {
        bar: program.state("replay_bar", [rows, n_env], DType::I32, Init::Zero),
        observed: program.state(
            "replay_observed",
            [rows, n_env, OBSERVED_WIDTH],
            DType::F32,
            Init::Zero,
        ),
        next_observed: program.state(
            "replay_next_observed",
            [rows, n_env, OBSERVED_WIDTH],
            DType::F32,
            Init::Zero,
        ),
        action: program.state("replay_action", [rows, n_env, 3], DType::I32, Init::Zero),
        reward: program.state("replay_reward", [rows, n_env], DType::F32, Init::Zero),
        end: program.state("replay_end", [rows, n_env], DType::I32, Init::Zero),
        head,
        size,
    };
    States {
        theta,
        target,
        m,
        v,
        spectral,
        seed,
        n_updates,
        learn_step,
        collect_step,
        diverged,
        metrics: program.state("metrics", [N_METRICS], DType::F32, Init::Zero),
        account: program.state("account", [n_env, ACCOUNT_WIDTH], DType::F32, Init::Zero),
        bar: program.state("bar", [n_env], DType::I32, Init::Zero),
        ring,
        evaluation: program.state(
            "evaluation",
            [n_evaluate_max, EVALUATION_COLUMNS],
            DType::F64,
            Init::Zero,
        ),
        evaluation_account: program.state(
            "evaluation_account",
            [1, ACCOUNT_WIDTH],
            DType::F64,
            Init::Zero,
        ),
        evaluation_bar: program.state("evaluation_bar", [1], DType::I32, Init::Zero),
        evaluation_count,
        lane: lane::declare(program),
    }
}
