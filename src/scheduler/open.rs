//! Opening a study: new, unchanged, or changed in ways that are allowed.

use super::SchedulerError;
use crate::spec::{StudySpec, changes, digest};
use crate::store::{NewStudy, OpenedStudy, Store, StudyRow};
use crate::study::{Precision, TrialId};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What is stored of a sweep: the file's meaning and the bytes that it was run on.
#[derive(Debug, Serialize, Deserialize)]
struct StoredSweep {
    spec: StudySpec,
    data_digest: String,
}

/// A difference that a study cannot go on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StudyChange {
    /// Full key.
    pub key: String,
    /// Stored value.
    pub old: Option<String>,
    /// Value at hand.
    pub new: Option<String>,
}

impl StudyChange {
    /// Why a change of the epochs is refused although they may change as such.
    fn explain_epochs(mut self, spans_run: Option<&str>) -> Self {
        if let (true, Some(name)) = (self.key == "budget.epochs", spans_run) {
            let new = self.new.unwrap_or_default();
            self.new = Some(format!("{new} ({name} is a fraction of the whole run)"));
        }
        self
    }
}

impl fmt::Display for StudyChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let absent = "nothing";
        let old = self.old.as_deref().unwrap_or(absent);
        let new = self.new.as_deref().unwrap_or(absent);
        write!(f, "{} from {old} to {new}", self.key)
    }
}

/// A study ready to run.
#[derive(Debug)]
pub struct Opened {
    /// As stored now.
    pub row: StudyRow,
    /// Whether it is new.
    pub is_new: bool,
    /// Trials that a dead process had left running.
    pub requeued: Vec<TrialId>,
    /// Complete trials that run again, since they train for more epochs now.
    pub reopened: Vec<TrialId>,
}

/// Opens a study under its lock.
///
/// - `data_digest`: of the bytes of its bars.
/// - `auto`: what the arm `"auto"` stands for.
///
/// # Errors
/// [`SchedulerError::Changed`] if the file or its data differ in what identifies the study;
/// [`SchedulerError::Store`] if the store fails.
// tidy: long, because it is one statement with a field per column and what follows from its answer.
pub async fn open(
    store: &Store,
    spec: &StudySpec,
    data_digest: &str,
    auto: Precision,
) -> Result<Opened, SchedulerError> {
    let stored = StoredSweep {
        spec: spec.clone(),
        data_digest: data_digest.to_owned(),
    };
    let json = serde_json::to_string(&stored).expect("a spec is plain data");
    let spec_digest = digest(spec);
    let opened = store
        .open_study(&NewStudy {
            name: &spec.name,
            series: spec.series.as_deref(),
            seed: spec.seed,
            spec: &json,
            digest: &spec_digest,
            metric: spec.objective.metric,
            direction: spec.objective.direction,
            arms: &spec.arms(auto),
            n_configurations: spec.budget.configurations,
            n_replicates: spec.budget.replicates,
        })
        .await?;
    let row = match opened {
        OpenedStudy::Created(row) => {
            let (requeued, reopened) = (Vec::new(), Vec::new());
            return Ok(Opened {
                row,
                is_new: true,
                requeued,
                reopened,
            });
        }
        OpenedStudy::Existing(row) => row,
    };
    let old: StoredSweep =
        serde_json::from_str(&row.spec).map_err(|source| SchedulerError::Unreadable {
            name: spec.name.clone(),
            source,
        })?;
    let refused = refused(&old, &stored);
    if !refused.is_empty() {
        return Err(SchedulerError::Changed {
            name: spec.name.clone(),
            changes: refused,
        });
    }
    let requeued = store.requeue_running(row.study_id).await?;
    let runs_longer = old.spec.budget.epochs != spec.budget.epochs;
    let reopened = if runs_longer {
        store.reopen_complete(row.study_id).await?
    } else {
        Vec::new()
    };
    if json != row.spec {
        let n = spec.budget.configurations;
        store
            .update_spec(row.study_id, &json, &spec_digest, n)
            .await?;
    }
    let row = store.study(&spec.name).await?;
    Ok(Opened {
        row,
        is_new: false,
        requeued,
        reopened,
    })
}

fn refused(old: &StoredSweep, new: &StoredSweep) -> Vec<StudyChange> {
    let mut refused: Vec<StudyChange> = changes(&old.spec, &new.spec)
        .into_iter()
        .filter(|change| !change.allowed)
        .map(|change| StudyChange {
            key: change.key,
            old: change.old,
            new: change.new,
        })
        .map(|change| change.explain_epochs(new.spec.spans_run.as_deref()))
        .collect();
    if old.data_digest != new.data_digest {
        refused.push(StudyChange {
            key: "the bytes of the data".to_owned(),
            old: Some(old.data_digest.clone()),
            new: Some(new.data_digest.clone()),
        });
    }
    refused
}
