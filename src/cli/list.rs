//! `hyperopt list`: the studies, newest first.

use super::{args::ListArgs, error::CliError, output::Output};
use crate::store::Store;

const SHOWN: &[&str] = &[
    "study",
    "state",
    "n_trials",
    "n_complete",
    "n_degenerate",
    "n_failed",
    "best_value",
    "created_at",
];

pub(super) async fn run(args: &ListArgs, store: &Store) -> Result<(), CliError> {
    let studies = store.list_studies().await?;
    let empty = "no studies yet; start one with: hyperopt run SWEEP.toml";
    Output::stdout(args.format.json).table(&studies, SHOWN, empty)
}
