//! `hyperopt best`: the leaderboard of a study.

use super::{args::BestArgs, error::CliError, output::Output};
use crate::store::Store;

const SHOWN: &[&str] = &[
    "rank",
    "number",
    "value",
    "reference_value",
    "n_trials",
    "params",
];

pub(super) async fn run(args: &BestArgs, store: &Store) -> Result<(), CliError> {
    let mut output = Output::stdout(args.format.json);
    print(store, &args.study, args.top, &mut output).await
}

/// Prints the best `top` configurations of a study.
///
/// # Errors
/// Those of the store and of writing.
pub(super) async fn print(
    store: &Store,
    study: &str,
    top: u32,
    output: &mut Output,
) -> Result<(), CliError> {
    let study_id = store.study(study).await?.study_id;
    let rows = store.leaderboard(study_id, top).await?;
    output.table(&rows, SHOWN, "no configuration has a value in every arm")
}
