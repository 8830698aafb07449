//! `hyperopt show`: one study, once or until it ends.

use super::{args::ShowArgs, best, error::CliError, output::Output};
use crate::{
    store::{Store, StoreError, StudyProgress},
    study::StudyState,
};
use std::time::Duration;

/// Pause between two looks at a study that is followed.
const FOLLOW_EVERY: Duration = Duration::from_secs(2);
/// How many configurations stand below the figures.
const BEST_SHOWN: u32 = 3;

const SHOWN: &[&str] = &[
    "study",
    "series",
    "state",
    "stop_reason",
    "metric",
    "direction",
    "arms",
    "n_configurations",
    "n_trials",
    "n_sampled",
    "n_waiting",
    "n_running",
    "n_complete",
    "n_degenerate",
    "n_pruned",
    "n_failed",
    "best_value",
    "created_at",
    "ended_at",
];

pub(super) async fn run(args: &ShowArgs, store: &Store) -> Result<(), CliError> {
    let mut output = Output::stdout(args.format.json);
    let mut progress = store.study_progress(&args.study).await?;
    if args.follow {
        let mut last_line = String::new();
        while progress.state == StudyState::Running {
            let now = line(&progress);
            if now != last_line {
                output.line(&now)?;
                last_line = now;
            }
            if is_abandoned(store, &args.study).await? {
                output.line("its process is gone; `hyperopt run` on the same file goes on")?;
                break;
            }
            tokio::time::sleep(FOLLOW_EVERY).await;
            progress = store.study_progress(&args.study).await?;
        }
    }
    output.records(&[progress], SHOWN, "")?;
    if !output.is_json() {
        output.line("")?;
        best::print(store, &args.study, BEST_SHOWN, &mut output).await?;
    }
    Ok(())
}

/// Whether nobody runs a study that is unfinished: then its lock is free.
async fn is_abandoned(store: &Store, study: &str) -> Result<bool, CliError> {
    match store.lock_study(study).await {
        Ok(lock) => {
            lock.release().await;
            Ok(store.study_progress(study).await?.state == StudyState::Running)
        }
        Err(StoreError::StudyLocked { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Tells how far a study is, in one line.
fn line(study: &StudyProgress) -> String {
    let n_ended = study.n_complete + study.n_pruned + study.n_failed;
    let best = match study.best_value {
        Some(value) => format!(", best {value:.4}"),
        None => String::new(),
    };
    format!(
        "{n_ended} of {} trials, {} running, {} failed{best}",
        study.n_trials, study.n_running, study.n_failed
    )
}
