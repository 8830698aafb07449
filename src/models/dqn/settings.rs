//! Structural parameters of the DQN.

use crate::models::{count, number};
use crate::study::{Params, Value};
use std::collections::BTreeSet;

/// A switch that all lanes of a pack share, or that each lane sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Switch {
    /// The same in every lane.
    Fixed(bool),
    /// A lane value.
    Lane,
}

/// Everything that shapes the DQN's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Units of each shared layer.
    pub trunk_width: usize,
    /// Number of shared layers.
    pub trunk_layers: usize,
    /// Hidden units of each head.
    pub head_width: usize,
    /// Atoms of the return distribution.
    pub atoms: usize,
    /// Width of the state; 0 for the natural one.
    pub state_width: usize,
    /// Largest n-step of any lane.
    pub n_step_max: usize,
    /// Whether the online network selects the target's action.
    pub double: Switch,
    /// Whether weight matrices are projected.
    pub spectral_norm: bool,
    /// Transitions per update.
    pub batch_size: usize,
    /// Copies of the market stepped together.
    pub environments: usize,
    /// Updates between two steps of all environments.
    pub updates_per_env_step: usize,
    /// Updates an epoch.
    pub steps_per_epoch: usize,
    /// Rows that memory is laid out for.
    pub replay_rows_max: usize,
}

impl Settings {
    /// Reads the structural parameters of a configuration.
    ///
    /// - `searched`: names that other lanes may set otherwise.
    pub fn new(params: &Params, searched: &BTreeSet<String>) -> Self {
        let environments = count(params, "train.environments");
        let double = match params.get("model.double") {
            _ if searched.contains("model.double") => Switch::Lane,
            Some(Value::Bool(is_on)) => Switch::Fixed(*is_on),
            _absent => Switch::Fixed(true),
        };
        let n_step_max = count(params, "model.n_step_max");
        let replay_max = count(params, "train.replay_capacity_max");
        Self {
            trunk_width: count(params, "model.trunk_width"),
            trunk_layers: count(params, "model.trunk_layers"),
            head_width: count(params, "model.head_width"),
            atoms: count(params, "model.atoms"),
            state_width: count(params, "model.state_width"),
            n_step_max,
            double,
            spectral_norm: number(params, "model.sigma_max") > 0.0,
            batch_size: count(params, "train.batch_size"),
            environments,
            updates_per_env_step: count(params, "train.updates_per_env_step"),
            steps_per_epoch: count(params, "train.steps_per_epoch"),
            replay_rows_max: rows_of(replay_max, environments, n_step_max),
        }
    }
}

/// Rows of a replay that keeps `transitions`, at least enough for one n-step sample.
pub(crate) fn rows_of(transitions: usize, environments: usize, n_step_max: usize) -> usize {
    transitions.div_ceil(environments).max(n_step_max + 1)
}
