//! `hyperopt compare`: the precision arms of a study.

use super::{args::CompareArgs, error::CliError, output::Output};
use crate::store::Store;

/// The columns of the view.
const SHOWN: &[&str] = &[
    "study",
    "reference",
    "arm",
    "n_pairs",
    "n_lost_reference",
    "n_lost_arm",
    "epoch_ms_reference",
    "epoch_ms_arm",
    "epoch_time_ratio",
    "ratio_lo",
    "ratio_hi",
    "bytes_ratio",
    "sharpe_delta_mean",
    "sharpe_delta_median",
    "sharpe_delta_lo",
    "sharpe_delta_hi",
    "reseed_delta_sd",
    "p_signed_rank",
    "verdict",
    "pairs_needed",
    "same_winner",
    "timing_note",
    "note",
];
const DISTRIBUTION_SHOWN: &[&str] = &[
    "arm",
    "n",
    "n_failed",
    "n_degenerate",
    "n_scored",
    "sharpe_mean",
    "sharpe_sd",
    "sharpe_p05",
    "sharpe_p50",
    "sharpe_p95",
];

pub(super) async fn run(args: &CompareArgs, store: &Store) -> Result<(), CliError> {
    let mut output = Output::stdout(args.format.json);
    print(store, &args.study, &mut output).await
}

/// Prints how each arm compares with the reference, and below it the spread of each arm.
///
/// As JSON the comparison alone.
///
/// # Errors
/// Those of the store and of writing.
pub(super) async fn print(store: &Store, study: &str, output: &mut Output) -> Result<(), CliError> {
    store.study(study).await?; // says so where there is none
    let rows = store.precision_comparison(study).await?;
    output.records(
        &rows,
        SHOWN,
        "nothing to compare: the study has one precision arm",
    )?;
    if !output.is_json() {
        let arms = store.precision_distribution(study).await?;
        output.line("")?;
        output.table(&arms, DISTRIBUTION_SHOWN, "no arms")?;
    }
    Ok(())
}
