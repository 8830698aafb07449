//! Why a study did not run.

use super::open::StudyChange;
use crate::store::StoreError;
use crate::study::TrialId;

/// Why a study did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    /// The store failed.
    #[error("the study cannot go on")]
    Store(#[from] StoreError),
    /// The study exists with another sweep file or other data.
    #[error("study {name} was begun with another sweep; changed since: {}", list(.changes))]
    Changed {
        /// Its name.
        name: String,
        /// What differs and may not.
        changes: Vec<StudyChange>,
    },
    /// What is stored of the study is not readable by this program.
    #[error("study {name} was stored by another version of this program")]
    Unreadable {
        /// Its name.
        name: String,
        /// What does not fit.
        source: serde_json::Error,
    },
    /// An executor ended before its time, which is a defect of this program.
    #[error("an executor ended before the study did")]
    ExecutorsLost,
    /// Every device failed for good; the study can go on where there is one.
    #[error("no device is left to run the study: {device} was lost: {cause}")]
    DevicesLost {
        /// The last one, by its name in a sweep file.
        device: String,
        /// Its cause.
        cause: String,
    },
    /// The store refused what only another owner of the study can cause.
    #[error("trial {trial_id} was taken by another process, although this one held the study")]
    Fenced {
        /// Which trial.
        trial_id: TrialId,
    },
    /// No thread could be started.
    #[error("cannot start an executor thread")]
    Thread {
        /// Why not.
        source: std::io::Error,
    },
}

fn list(changes: &[StudyChange]) -> String {
    let parts: Vec<String> = changes.iter().map(ToString::to_string).collect();
    parts.join("; ")
}
