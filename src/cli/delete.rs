//! `hyperopt delete`: a study with everything that it recorded.

use super::{args::DeleteArgs, error::CliError, output::Output};
use crate::store::Store;
use std::io::{self, IsTerminal, Write};

pub(super) async fn run(args: &DeleteArgs, store: &Store) -> Result<(), CliError> {
    let study = store.study_progress(&args.study).await?;
    if !args.yes {
        let question = format!(
            "delete study {} with {} trials? [y/N] ",
            args.study, study.n_trials
        );
        if !confirm(&question)? {
            return Err(CliError::NotConfirmed {
                study: args.study.clone(),
            });
        }
    }
    store.delete_study(&args.study).await?;
    Output::stdout(false).line(&format!("deleted {}", args.study))?;
    Ok(())
}

/// Asks on a terminal; without one the answer is no.
fn confirm(question: &str) -> io::Result<bool> {
    if !io::stdin().is_terminal() {
        return Ok(false);
    }
    let mut stderr = io::stderr();
    stderr.write_all(question.as_bytes())?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes" | "Yes"))
}
