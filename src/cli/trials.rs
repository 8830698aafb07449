//! `hyperopt trials`: the trials of a study, and what became of them.

use super::{
    args::{PrecisionArg, TrialStateArg, TrialsArgs},
    error::CliError,
    output::Output,
};
use crate::{
    store::Store,
    study::{Precision, TrialState},
};

const SHOWN: &[&str] = &[
    "trial_id",
    "number",
    "precision",
    "state",
    "value",
    "best_epoch",
    "sharpe",
    "max_drawdown",
    "n_trades",
    "degenerate_reason",
    "failure_kind",
    "failure_text",
];

pub(super) async fn run(args: &TrialsArgs, store: &Store) -> Result<(), CliError> {
    let study_id = store.study(&args.study).await?.study_id;
    let mut trials = store.trials(study_id).await?;
    trials.retain(|trial| {
        args.state.is_none_or(|state| trial.state == state.into())
            && args
                .precision
                .is_none_or(|arm| trial.precision == arm.into())
    });
    Output::stdout(args.format.json).table(&trials, SHOWN, "no such trials")
}

impl From<PrecisionArg> for Precision {
    fn from(arm: PrecisionArg) -> Self {
        match arm {
            PrecisionArg::F32 => Self::F32,
            PrecisionArg::Tf32 => Self::Tf32,
            PrecisionArg::Bf16 => Self::Bf16,
        }
    }
}

impl From<TrialStateArg> for TrialState {
    fn from(state: TrialStateArg) -> Self {
        match state {
            TrialStateArg::Waiting => Self::Waiting,
            TrialStateArg::Running => Self::Running,
            TrialStateArg::Complete => Self::Complete,
            TrialStateArg::Pruned => Self::Pruned,
            TrialStateArg::Failed => Self::Failed,
        }
    }
}
