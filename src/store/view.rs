//! Rows of the views, for the command line.
//!
//! # Invariants
//! - Every figure printed is read from a view, so SQL and program show the same numbers.

use super::configuration::parse_params;
use super::connect::Store;
use super::error::StoreError;
use super::kind::Kind;
use crate::study::{
    ConfigurationNumber, DegenerateReason, Direction, FailureKind, Params, Precision, StudyId,
    StudyState, TrialId, TrialState,
};
use chrono::{DateTime, Utc};
use serde::Serialize;

/// How far a study is: a row of `study_progress`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StudyProgress {
    /// Name of the study.
    pub study: String,
    /// Joins the nights of a dated sweep.
    pub series: Option<String>,
    /// Where it stands.
    pub state: StudyState,
    /// Why it stopped early.
    pub stop_reason: Option<String>,
    /// What ranks.
    pub metric: String,
    /// Which way is better.
    pub direction: Direction,
    /// Precisions, the reference first.
    pub arms: Vec<Precision>,
    /// Budget of configurations.
    pub n_configurations: i64,
    /// Budget of trials.
    pub n_trials: i64,
    /// Configurations sampled so far.
    pub n_sampled: i64,
    /// Trials that wait.
    pub n_waiting: i64,
    /// Trials that run.
    pub n_running: i64,
    /// Trials trained to the end, degenerate ones included.
    pub n_complete: i64,
    /// Complete trials without a value.
    pub n_degenerate: i64,
    /// Trials that the pruner ended.
    pub n_pruned: i64,
    /// Trials that failed.
    pub n_failed: i64,
    /// Best value of a single trial.
    pub best_value: Option<f64>,
    /// When it was first run.
    pub created_at: DateTime<Utc>,
    /// When it stopped or was complete.
    pub ended_at: Option<DateTime<Utc>>,
}

/// A trial with its figures: a row of `trial_overview`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrialOverview {
    /// Name of the study.
    pub study: String,
    /// 0-based index of the configuration.
    pub number: ConfigurationNumber,
    /// Cohort of the configuration.
    pub cohort: u32,
    /// Key.
    pub trial_id: TrialId,
    /// Arm.
    pub precision: Precision,
    /// 0-based.
    pub replicate: u32,
    /// Where it stands.
    pub state: TrialState,
    /// Objective at the best epoch.
    pub value: Option<f64>,
    /// 0-based.
    pub best_epoch: Option<u32>,
    /// Why it is complete without a value.
    pub degenerate_reason: Option<DegenerateReason>,
    /// Why it failed.
    pub failure_kind: Option<FailureKind>,
    /// The cause in plain words.
    pub failure_text: Option<String>,
    /// Validation folds with a result.
    pub n_folds: i64,
    /// Mean over the folds of the annualised validation Sharpe ratio.
    pub sharpe: Option<f64>,
    /// Worst of the folds.
    pub max_drawdown: Option<f64>,
    /// All validation folds together.
    pub n_trades: Option<i64>,
    /// Executions so far.
    pub n_attempts: i64,
    /// Device of the newest one.
    pub device: Option<String>,
    /// Digest of everything structural.
    pub plan_key: Option<String>,
    /// When the newest execution began.
    pub started_at: Option<DateTime<Utc>>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
    /// Sampled parameters that are active.
    pub params: Params,
}

/// A configuration with its rank: a row of `leaderboard`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LeaderboardRow {
    /// From 1; equal values share a rank.
    pub rank: i64,
    /// 0-based index of the configuration.
    pub number: ConfigurationNumber,
    /// Mean over arms and replicates.
    pub value: f64,
    /// Mean over the replicates of the first arm.
    pub reference_value: Option<f64>,
    /// Trials that the value rests on.
    pub n_trials: i64,
    /// The best of them.
    pub best_trial_id: TrialId,
    /// Sampled parameters that are active.
    pub params: Params,
}

/// An arm against the reference: a row of `precision_comparison`, column by column.
#[expect(
    missing_docs,
    reason = "the view's columns carry their comments in the database"
)]
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PrecisionComparison {
    pub study: String,
    pub reference: Precision,
    pub arm: Precision,
    pub n_pairs: i64,
    pub n_lost_reference: i64,
    pub n_lost_arm: i64,
    pub epoch_ms_reference: Option<f64>,
    pub epoch_ms_arm: Option<f64>,
    pub epoch_time_ratio: Option<f64>,
    pub ratio_lo: Option<f64>,
    pub ratio_hi: Option<f64>,
    pub bytes_ratio: Option<f64>,
    pub sharpe_delta_mean: Option<f64>,
    pub sharpe_delta_median: Option<f64>,
    pub sharpe_delta_lo: Option<f64>,
    pub sharpe_delta_hi: Option<f64>,
    pub reseed_delta_sd: Option<f64>,
    pub p_signed_rank: Option<f64>,
    pub verdict: Option<String>,
    pub pairs_needed: Option<i64>,
    pub same_winner: Option<bool>,
    pub timing_note: Option<String>,
    pub note: Option<String>,
}

/// The spread of an arm: a row of `precision_distribution`, column by column.
#[expect(
    missing_docs,
    reason = "the view's columns carry their comments in the database"
)]
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PrecisionDistribution {
    pub study: String,
    pub reference: Precision,
    pub arm: Precision,
    pub n: i64,
    pub n_unfinished: i64,
    pub n_failed: i64,
    pub n_degenerate: i64,
    pub n_pruned: i64,
    pub n_scored: i64,
    pub sharpe_mean: Option<f64>,
    pub sharpe_sd: Option<f64>,
    pub sharpe_min: Option<f64>,
    pub sharpe_p05: Option<f64>,
    pub sharpe_p25: Option<f64>,
    pub sharpe_p50: Option<f64>,
    pub sharpe_p75: Option<f64>,
    pub sharpe_p95: Option<f64>,
    pub sharpe_max: Option<f64>,
}

/// Which trials to read.
enum Which {
    /// Of a study, by number.
    Study(StudyId),
    /// One.
    Trial(TrialId),
}

impl Store {
    /// Lists every study, the newest first.
    ///
    /// # Errors
    /// [`StoreError::Statement`] if the database does not answer.
    pub async fn list_studies(&self) -> Result<Vec<StudyProgress>, StoreError> {
        self.progress(None).await
    }

    /// Says how far a study is.
    ///
    /// # Errors
    /// [`StoreError::StudyUnknown`] if there is none of that name.
    pub async fn study_progress(&self, name: &str) -> Result<StudyProgress, StoreError> {
        let found = self.progress(Some(name)).await?.into_iter().next();
        found.ok_or_else(|| StoreError::StudyUnknown {
            name: name.to_owned(),
        })
    }

    async fn progress(&self, name: Option<&str>) -> Result<Vec<StudyProgress>, StoreError> {
        let action = "list the studies";
        let rows = sqlx::query!(
            r#"SELECT study AS "study!", series, state::text AS "state!", stop_reason,
                metric AS "metric!", direction::text AS "direction!", arms::text[] AS "arms!",
                n_configurations::bigint AS "n_configurations!", n_trials AS "n_trials!",
                n_sampled AS "n_sampled!", n_waiting AS "n_waiting!", n_running AS "n_running!",
                n_complete AS "n_complete!", n_degenerate AS "n_degenerate!",
                n_pruned AS "n_pruned!", n_failed AS "n_failed!", best_value,
                created_at AS "created_at!", ended_at
            FROM study_progress
            WHERE $1::text IS NULL OR study = $1
            ORDER BY created_at DESC, study_id DESC"#,
            name,
        )
        .fetch_all(self.pool())
        .await
        .map_err(StoreError::at(action))?;
        let rows = rows.into_iter().map(|row| {
            let arms = row.arms.iter().map(|arm| Precision::parse(arm));
            Ok(StudyProgress {
                study: row.study,
                series: row.series,
                state: StudyState::parse(&row.state)?,
                stop_reason: row.stop_reason,
                metric: row.metric,
                direction: Direction::parse(&row.direction)?,
                arms: arms.collect::<Result<_, _>>()?,
                n_configurations: row.n_configurations,
                n_trials: row.n_trials,
                n_sampled: row.n_sampled,
                n_waiting: row.n_waiting,
                n_running: row.n_running,
                n_complete: row.n_complete,
                n_degenerate: row.n_degenerate,
                n_pruned: row.n_pruned,
                n_failed: row.n_failed,
                best_value: row.best_value,
                created_at: row.created_at,
                ended_at: row.ended_at,
            })
        });
        rows.collect::<Result<_, _>>()
            .map_err(StoreError::at(action))
    }

    /// Lists the trials of a study by number, arm and replicate.
    ///
    /// # Errors
    /// [`StoreError::Statement`] if the database does not answer.
    pub async fn trials(&self, study_id: StudyId) -> Result<Vec<TrialOverview>, StoreError> {
        self.overview(Which::Study(study_id)).await
    }

    /// Reads one trial.
    ///
    /// # Errors
    /// [`StoreError::TrialUnknown`] if there is none.
    pub async fn trial(&self, trial_id: TrialId) -> Result<TrialOverview, StoreError> {
        let found = self
            .overview(Which::Trial(trial_id))
            .await?
            .into_iter()
            .next();
        found.ok_or(StoreError::TrialUnknown {
            trial_id: trial_id.0,
        })
    }

    /// Finds the best trials of a study, the best first; of equal ones the older.
    ///
    /// One query by index, whatever the size of the study.
    ///
    /// # Errors
    /// [`StoreError::Statement`] if the database does not answer.
    pub async fn best_trials(
        &self,
        study_id: StudyId,
        direction: Direction,
        n: u32,
    ) -> Result<Vec<TrialId>, StoreError> {
        let n = i64::from(n);
        let found = match direction {
            Direction::Maximize => {
                sqlx::query_scalar!(
                    "SELECT trial_id FROM trial
                    WHERE study_id = $1 AND state = 'complete' AND value IS NOT NULL
                    ORDER BY value DESC, trial_id LIMIT $2",
                    study_id.0,
                    n,
                )
                .fetch_all(self.pool())
                .await
            }
            Direction::Minimize => {
                sqlx::query_scalar!(
                    "SELECT trial_id FROM trial
                    WHERE study_id = $1 AND state = 'complete' AND value IS NOT NULL
                    ORDER BY value, trial_id LIMIT $2",
                    study_id.0,
                    n,
                )
                .fetch_all(self.pool())
                .await
            }
        };
        let found = found.map_err(StoreError::at("find the best trials"))?;
        Ok(found.into_iter().map(TrialId).collect())
    }

    // tidy: long, because the view has many columns.
    async fn overview(&self, which: Which) -> Result<Vec<TrialOverview>, StoreError> {
        let action = "list the trials";
        let (study_id, trial_id) = match which {
            Which::Study(study_id) => (Some(study_id.0), None),
            Which::Trial(trial_id) => (None, Some(trial_id.0)),
        };
        let rows = sqlx::query!(
            r#"SELECT study AS "study!", number AS "number!", cohort AS "cohort!",
                trial_id AS "trial_id!", precision::text AS "precision!",
                replicate AS "replicate!", state::text AS "state!", value, best_epoch,
                degenerate_reason::text, failure_kind::text, failure_text,
                n_folds AS "n_folds!", sharpe, max_drawdown, n_trades,
                n_attempts AS "n_attempts!", device, plan_key, started_at, ended_at,
                params::text AS "params!"
            FROM trial_overview
            WHERE ($1::bigint IS NULL OR study_id = $1) AND ($2::bigint IS NULL OR trial_id = $2)
            ORDER BY study_id, number, precision, replicate"#,
            study_id,
            trial_id,
        )
        .fetch_all(self.pool())
        .await
        .map_err(StoreError::at(action))?;
        let rows = rows.into_iter().map(|row| {
            Ok(TrialOverview {
                study: row.study,
                number: ConfigurationNumber(row.number.cast_unsigned()),
                cohort: row.cohort.cast_unsigned(),
                trial_id: TrialId(row.trial_id),
                precision: Precision::parse(&row.precision)?,
                replicate: row.replicate.cast_unsigned(),
                state: TrialState::parse(&row.state)?,
                value: row.value,
                best_epoch: row.best_epoch.map(i32::cast_unsigned),
                degenerate_reason: DegenerateReason::parse_option(
                    row.degenerate_reason.as_deref(),
                )?,
                failure_kind: FailureKind::parse_option(row.failure_kind.as_deref())?,
                failure_text: row.failure_text,
                n_folds: row.n_folds,
                sharpe: row.sharpe,
                max_drawdown: row.max_drawdown,
                n_trades: row.n_trades,
                n_attempts: row.n_attempts,
                device: row.device,
                plan_key: row.plan_key,
                started_at: row.started_at,
                ended_at: row.ended_at,
                params: parse_params(&row.params)?,
            })
        });
        rows.collect::<Result<_, _>>()
            .map_err(StoreError::at(action))
    }

    /// Ranks the configurations of a study, the best first.
    ///
    /// # Errors
    /// [`StoreError::Statement`] if the database does not answer.
    pub async fn leaderboard(
        &self,
        study_id: StudyId,
        n: u32,
    ) -> Result<Vec<LeaderboardRow>, StoreError> {
        let action = "rank the configurations";
        let rows = sqlx::query!(
            r#"SELECT rank AS "rank!", number AS "number!", value AS "value!", reference_value,
                n_trials AS "n_trials!", best_trial_id AS "best_trial_id!",
                params::text AS "params!"
            FROM leaderboard
            WHERE study_id = $1
            ORDER BY rank, number
            LIMIT $2"#,
            study_id.0,
            i64::from(n),
        )
        .fetch_all(self.pool())
        .await
        .map_err(StoreError::at(action))?;
        let rows = rows.into_iter().map(|row| {
            Ok(LeaderboardRow {
                rank: row.rank,
                number: ConfigurationNumber(row.number.cast_unsigned()),
                value: row.value,
                reference_value: row.reference_value,
                n_trials: row.n_trials,
                best_trial_id: TrialId(row.best_trial_id),
                params: parse_params(&row.params)?,
            })
        });
        rows.collect::<Result<_, _>>()
            .map_err(StoreError::at(action))
    }

    /// Compares each arm of a study with the reference, in the order of the arms.
    ///
    /// # Errors
    /// [`StoreError::Statement`] if the database does not answer.
    pub async fn precision_comparison(
        &self,
        study: &str,
    ) -> Result<Vec<PrecisionComparison>, StoreError> {
        let action = "compare the precisions";
        let rows = sqlx::query!(
            r#"SELECT study AS "study!", reference::text AS "reference!", arm::text AS "arm!",
                n_pairs AS "n_pairs!", n_lost_reference AS "n_lost_reference!",
                n_lost_arm AS "n_lost_arm!", epoch_ms_reference, epoch_ms_arm, epoch_time_ratio,
                ratio_lo, ratio_hi, bytes_ratio, sharpe_delta_mean, sharpe_delta_median,
                sharpe_delta_lo, sharpe_delta_hi, reseed_delta_sd, p_signed_rank, verdict,
                pairs_needed, same_winner, timing_note, note
            FROM precision_comparison
            WHERE study = $1"#,
            study,
        )
        .fetch_all(self.pool())
        .await
        .map_err(StoreError::at(action))?;
        let rows = rows.into_iter().map(|row| {
            Ok(PrecisionComparison {
                study: row.study,
                reference: Precision::parse(&row.reference)?,
                arm: Precision::parse(&row.arm)?,
                n_pairs: row.n_pairs,
                n_lost_reference: row.n_lost_reference,
                n_lost_arm: row.n_lost_arm,
                epoch_ms_reference: row.epoch_ms_reference,
                epoch_ms_arm: row.epoch_ms_arm,
                epoch_time_ratio: row.epoch_time_ratio,
                ratio_lo: row.ratio_lo,
                ratio_hi: row.ratio_hi,
                bytes_ratio: row.bytes_ratio,
                sharpe_delta_mean: row.sharpe_delta_mean,
                sharpe_delta_median: row.sharpe_delta_median,
                sharpe_delta_lo: row.sharpe_delta_lo,
                sharpe_delta_hi: row.sharpe_delta_hi,
                reseed_delta_sd: row.reseed_delta_sd,
                p_signed_rank: row.p_signed_rank,
                verdict: row.verdict,
                pairs_needed: row.pairs_needed,
                same_winner: row.same_winner,
                timing_note: row.timing_note,
                note: row.note,
            })
        });
        rows.collect::<Result<_, _>>()
            .map_err(StoreError::at(action))
    }

    /// Describes the spread of each arm of a study, in the order of the arms.
    ///
    /// # Errors
    /// [`StoreError::Statement`] if the database does not answer.
    pub async fn precision_distribution(
        &self,
        study: &str,
    ) -> Result<Vec<PrecisionDistribution>, StoreError> {
        let action = "describe the precisions";
        let rows = sqlx::query!(
            r#"SELECT study AS "study!", reference::text AS "reference!", arm::text AS "arm!",
                n AS "n!", n_unfinished AS "n_unfinished!", n_failed AS "n_failed!",
                n_degenerate AS "n_degenerate!", n_pruned AS "n_pruned!",
                n_scored AS "n_scored!", sharpe_mean, sharpe_sd, sharpe_min, sharpe_p05,
                sharpe_p25, sharpe_p50, sharpe_p75, sharpe_p95, sharpe_max
            FROM precision_distribution
            WHERE study = $1"#,
            study,
        )
        .fetch_all(self.pool())
        .await
        .map_err(StoreError::at(action))?;
        let rows = rows.into_iter().map(|row| {
            Ok(PrecisionDistribution {
                study: row.study,
                reference: Precision::parse(&row.reference)?,
                arm: Precision::parse(&row.arm)?,
                n: row.n,
                n_unfinished: row.n_unfinished,
                n_failed: row.n_failed,
                n_degenerate: row.n_degenerate,
                n_pruned: row.n_pruned,
                n_scored: row.n_scored,
                sharpe_mean: row.sharpe_mean,
                sharpe_sd: row.sharpe_sd,
                sharpe_min: row.sharpe_min,
                sharpe_p05: row.sharpe_p05,
                sharpe_p25: row.sharpe_p25,
                sharpe_p50: row.sharpe_p50,
                sharpe_p75: row.sharpe_p75,
                sharpe_p95: row.sharpe_p95,
                sharpe_max: row.sharpe_max,
            })
        });
        rows.collect::<Result<_, _>>()
            .map_err(StoreError::at(action))
    }
}
