//! The end of a trial: its outcome with results and weights, in one transaction.
//!
//! # Invariants
//! - A trial's end, its results and its artifacts appear together or not at all.
//! - Only the running attempt can end its trial.

use super::attempt::{Claim, claim, end_attempt};
use super::connect::Store;
use super::error::StoreError;
use super::kind::Kind;
use super::retry::persist;
use crate::study::{AttemptId, DegenerateReason, FailureKind, TrialState};
use serde::Serialize;
use sha2::{Digest, Sha256};
use sqlx::{Connection, PgConnection};

/// Why an attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What the retry policy goes by.
    pub kind: FailureKind,
    /// The cause in plain words.
    pub text: String,
    /// After `out_of_memory`: what the device was asked for.
    pub bytes_asked: Option<u64>,
    /// After `out_of_memory`: what the device had.
    pub bytes_free: Option<u64>,
}

/// How a trial ended.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialEnd {
    /// Trained to the end. A value that is not finite is stored as degenerate, `not_finite`.
    Complete {
        /// Objective at the best epoch.
        value: f64,
        /// 0-based.
        best_epoch: u32,
    },
    /// Trained to the end, with nothing to rank.
    Degenerate {
        /// Why.
        reason: DegenerateReason,
    },
    /// Ended by the pruner.
    Pruned {
        /// Objective at the best epoch so far, and that epoch, 0-based.
        best: Option<(f64, u32)>,
    },
    /// Failed for good.
    Failed(Failure),
}

/// Which bars a result is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// What the run trained on.
    Train,
    /// What chooses.
    Validation,
    /// What is opened once.
    Holdout,
}

/// Figures of one fold and split, at the trial's best epoch, net of costs.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultRow {
    /// 0-based.
    pub fold: u32,
    /// Which bars.
    pub split: Split,
    /// Per period, ddof 1; `None`, with `sharpe_annual`, where the returns have no variance.
    pub sharpe: Option<f64>,
    /// Annualised.
    pub sharpe_annual: Option<f64>,
    /// Returns that the ratio rests on.
    pub n_observations: u64,
    /// Third standardised moment.
    pub skew: Option<f64>,
    /// Fourth standardised moment, raw: 3 for a normal distribution.
    pub kurtosis: Option<f64>,
    /// Compounded net return.
    pub total_return: Option<f64>,
    /// Largest loss from a peak, a positive fraction.
    pub max_drawdown: Option<f64>,
    /// Traded value over equity, summed over the block.
    pub turnover: Option<f64>,
    /// Fills of at least 1 % of equity.
    pub n_trades: u64,
    /// Share of the bars with a position whose net return is positive.
    pub hit_rate: Option<f64>,
    /// Mean absolute position, as a fraction of equity.
    pub exposure: Option<f64>,
    /// Sum of all costs, a fraction of equity.
    pub cost: Option<f64>,
    /// `[bars]`: net return of each bar.
    pub net_returns: Vec<f64>,
}

/// A file that a run left: the weights of its best epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactRow {
    /// 0-based.
    pub fold: u32,
    /// safetensors.
    pub content: Vec<u8>,
}

/// A trial's end with all that belongs to it.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialOutcome {
    /// The execution that reports.
    pub attempt_id: AttemptId,
    /// How it ended.
    pub end: TrialEnd,
    /// One row per fold and split.
    pub results: Vec<ResultRow>,
    /// Best weights, one per fold.
    pub artifacts: Vec<ArtifactRow>,
}

impl Store {
    /// Ends a trial, with its results and artifacts, in one transaction.
    ///
    /// Says whether it did: `false`, logged, for a fenced attempt, of which nothing is stored.
    ///
    /// # Errors
    /// [`StoreError::Statement`] if the database refuses the outcome.
    pub async fn finish_trial(&self, outcome: &TrialOutcome) -> Result<bool, StoreError> {
        persist!(self, "finish a trial", self.try_finish_trial(outcome))
    }

    async fn try_finish_trial(&self, outcome: &TrialOutcome) -> Result<bool, sqlx::Error> {
        let columns = EndColumns::new(&outcome.end);
        let attempt_id = outcome.attempt_id;
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin().await?;
        let trial_id = match claim(&mut transaction, attempt_id, columns.state.label()).await? {
            Claim::Open(trial_id) => trial_id,
            // Stored by an earlier try whose answer was lost.
            Claim::AlreadyEnded => return Ok(true),
            Claim::Fenced => return Ok(false),
        };
        end_attempt(
            &mut transaction,
            attempt_id,
            columns.state.label(),
            columns.failure,
        )
        .await?;
        sqlx::query!(
            "UPDATE trial
            SET state = $2::text::trial_state, value = $3, best_epoch = $4,
                degenerate_reason = $5::text::degenerate_reason,
                failure_kind = $6::text::failure_kind, failure_text = $7, ended_at = now()
            WHERE trial_id = $1",
            trial_id,
            columns.state.label(),
            columns.value,
            columns.best_epoch,
            columns.degenerate_reason.map(Kind::label),
            columns.failure.map(|failure| failure.kind.label()),
            columns.failure.map(|failure| failure.text.as_str()),
        )
        .execute(&mut *transaction)
        .await?;
        for result in &outcome.results {
            insert_result(&mut transaction, trial_id, result).await?;
        }
        for artifact in &outcome.artifacts {
            insert_artifact(&mut transaction, trial_id, artifact).await?;
        }
        transaction.commit().await?;
        Ok(true)
    }
}

/// The columns of `trial` that an end sets.
struct EndColumns<'a> {
    state: TrialState,
    value: Option<f64>,
    best_epoch: Option<i32>,
    degenerate_reason: Option<DegenerateReason>,
    failure: Option<&'a Failure>,
}

impl<'a> EndColumns<'a> {
    fn new(end: &'a TrialEnd) -> Self {
        let mut columns = Self {
            state: TrialState::Complete,
            value: None,
            best_epoch: None,
            degenerate_reason: None,
            failure: None,
        };
        match end {
            TrialEnd::Complete { value, best_epoch } if value.is_finite() => {
                columns.value = Some(*value);
                columns.best_epoch = Some(best_epoch.cast_signed());
            }
            TrialEnd::Complete { best_epoch, .. } => {
                columns.best_epoch = Some(best_epoch.cast_signed());
                columns.degenerate_reason = Some(DegenerateReason::NotFinite);
            }
            TrialEnd::Degenerate { reason } => columns.degenerate_reason = Some(*reason),
            TrialEnd::Pruned { best } => {
                let best = best.filter(|(value, _)| value.is_finite());
                columns.state = TrialState::Pruned;
                columns.value = best.map(|(value, _)| value);
                columns.best_epoch = best.map(|(_, epoch)| epoch.cast_signed());
            }
            TrialEnd::Failed(failure) => {
                columns.state = TrialState::Failed;
                columns.failure = Some(failure);
            }
        }
        columns
    }
}

async fn insert_result(
    connection: &mut PgConnection,
    trial_id: i64,
    result: &ResultRow,
) -> Result<(), sqlx::Error> {
    let is_defined = |sharpe: Option<f64>| sharpe.is_some_and(f64::is_finite);
    let has_sharpe = is_defined(result.sharpe) && is_defined(result.sharpe_annual);
    sqlx::query!(
        "INSERT INTO result (
            trial_id, fold, split, sharpe, sharpe_annual, n_observations, skew, kurtosis,
            total_return, max_drawdown, turnover, n_trades, hit_rate, exposure, cost, net_returns
        )
        VALUES (
            $1, $2, $3::text::split_kind, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16
        )",
        trial_id,
        result.fold.cast_signed(),
        result.split.label(),
        result.sharpe.filter(|_| has_sharpe),
        result.sharpe_annual.filter(|_| has_sharpe),
        result.n_observations.cast_signed(),
        result.skew,
        result.kurtosis,
        result.total_return,
        result.max_drawdown,
        result.turnover,
        result.n_trades.cast_signed(),
        result.hit_rate,
        result.exposure,
        result.cost,
        &result.net_returns,
    )
    .execute(connection)
    .await
    .map(drop)
}

async fn insert_artifact(
    connection: &mut PgConnection,
    trial_id: i64,
    artifact: &ArtifactRow,
) -> Result<(), sqlx::Error> {
    let digest = Sha256::digest(&artifact.content);
    sqlx::query!(
        "INSERT INTO artifact (trial_id, fold, kind, sha256, content)
        VALUES ($1, $2, 'best_weights', $3, $4)",
        trial_id,
        artifact.fold.cast_signed(),
        &digest[..],
        &artifact.content,
    )
    .execute(connection)
    .await
    .map(drop)
}
