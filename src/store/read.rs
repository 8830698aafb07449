//! One trial in full: its attempts, epochs, results and weights.

use super::connect::Store;
use super::epoch::ValidationFigures;
use super::error::StoreError;
use super::kind::Kind;
use super::outcome::{ArtifactRow, Split};
use super::view::TrialOverview;
use crate::study::{AttemptId, FailureKind, TrialId};
use chrono::{DateTime, Utc};
use serde::Serialize;

/// A trial with everything stored of it but its weights.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrialDetail {
    /// Its row of `trial_overview`.
    pub overview: TrialOverview,
    /// `[folds]`: seed of each fold's run; empty before the first attempt.
    pub seeds: Vec<u64>,
    /// Every execution, oldest first.
    pub attempts: Vec<AttemptDetail>,
    /// Epochs of the newest attempt, by fold.
    pub epochs: Vec<EpochDetail>,
    /// Results by fold and split.
    pub results: Vec<ResultDetail>,
}

/// An execution and what a rerun needs to know.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AttemptDetail {
    /// Key.
    pub attempt_id: AttemptId,
    /// running, complete, pruned, failed or abandoned.
    pub state: String,
    /// Host of the worker.
    pub host: String,
    /// Device, by the name of its class.
    pub device: String,
    /// Driver, or the instruction set of a CPU.
    pub driver: String,
    /// Lanes of the pack.
    pub n_lanes: u32,
    /// Digest of the kernels.
    pub kernel_digest: String,
    /// Digest of the data.
    pub data_digest: String,
    /// Version of the program.
    pub program_version: String,
    /// The pack's single allocation.
    pub arena_bytes: u64,
    /// Share of one run.
    pub bytes_per_lane: u64,
    /// Why it failed.
    pub failure_kind: Option<FailureKind>,
    /// The cause in plain words.
    pub failure_text: Option<String>,
    /// After `out_of_memory`: what the device was asked for.
    pub bytes_asked: Option<u64>,
    /// After `out_of_memory`: what the device had.
    pub bytes_free: Option<u64>,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
}

/// One epoch of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EpochDetail {
    /// 0-based.
    pub fold: u32,
    /// 0-based.
    pub epoch: u32,
    /// Live lanes of the pack.
    pub n_lanes: u32,
    /// Whether it is the first epoch of its plan.
    pub is_warmup: bool,
    /// Wall time of the pack's epoch, milliseconds.
    pub pack_wall_ms: f64,
    /// Device time of the pack's epoch, milliseconds.
    pub pack_device_ms: f64,
    /// Optimizer updates of the run so far.
    pub steps: u64,
    /// Simulator ticks of the run so far.
    pub env_steps: u64,
    /// Mean loss of the epoch.
    pub loss: Option<f64>,
    /// Mean global gradient norm.
    pub gradient_norm: Option<f64>,
    /// Mean Q.
    pub q_mean: Option<f64>,
    /// Largest Q.
    pub q_max: Option<f64>,
    /// Mean absolute temporal-difference error.
    pub td_error: Option<f64>,
    /// Probability on the two outermost atoms.
    pub edge_atom_mass: Option<f64>,
    /// Validation after the epoch.
    pub validation: ValidationFigures,
}

/// Figures of one fold and split, at the best epoch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ResultDetail {
    /// 0-based.
    pub fold: u32,
    /// Which bars.
    pub split: Split,
    /// Per period.
    pub sharpe: Option<f64>,
    /// Annualised.
    pub sharpe_annual: Option<f64>,
    /// Returns that the ratio rests on.
    pub n_observations: u64,
    /// Third standardised moment.
    pub skew: Option<f64>,
    /// Fourth standardised moment, raw.
    pub kurtosis: Option<f64>,
    /// Compounded net return.
    pub total_return: Option<f64>,
    /// Largest loss from a peak.
    pub max_drawdown: Option<f64>,
    /// As the evaluator defines it.
    pub turnover: Option<f64>,
    /// Number of trades.
    pub n_trades: u64,
    /// Share of trades that won.
    pub hit_rate: Option<f64>,
    /// Share of bars with an open position.
    pub exposure: Option<f64>,
    /// Sum of all costs.
    pub cost: Option<f64>,
    /// `[bars]`: net return of each bar.
    #[serde(skip)]
    pub net_returns: Vec<f64>,
}

impl Store {
    /// Reads everything of a trial but its weights.
    ///
    /// # Errors
    /// [`StoreError::TrialUnknown`] if there is none.
    pub async fn trial_detail(&self, trial_id: TrialId) -> Result<TrialDetail, StoreError> {
        let overview = self.trial(trial_id).await?;
        let read = async {
            Ok::<_, sqlx::Error>(TrialDetail {
                overview,
                seeds: self.seeds(trial_id).await?,
                attempts: self.attempts(trial_id).await?,
                epochs: self.epochs(trial_id).await?,
                results: self.results(trial_id).await?,
            })
        };
        read.await.map_err(StoreError::at("read the trial"))
    }

    /// Reads a trial's best weights, one file per fold, checked against their digest.
    ///
    /// # Errors
    /// [`StoreError::Statement`] if the database does not answer.
    pub async fn best_weights(&self, trial_id: TrialId) -> Result<Vec<ArtifactRow>, StoreError> {
        let rows = sqlx::query!(
            "SELECT fold, content FROM artifact
            WHERE trial_id = $1 AND kind = 'best_weights' ORDER BY fold",
            trial_id.0,
        )
        .fetch_all(self.pool())
        .await
        .map_err(StoreError::at("read the weights"))?;
        let rows = rows.into_iter().map(|row| ArtifactRow {
            fold: row.fold.cast_unsigned(),
            content: row.content,
        });
        Ok(rows.collect())
    }

    async fn seeds(&self, trial_id: TrialId) -> Result<Vec<u64>, sqlx::Error> {
        let seeds = sqlx::query_scalar!("SELECT seeds FROM trial WHERE trial_id = $1", trial_id.0)
            .fetch_one(self.pool())
            .await?;
        let seeds = seeds.unwrap_or_default().into_iter();
        Ok(seeds.map(i64::cast_unsigned).collect())
    }

    async fn attempts(&self, trial_id: TrialId) -> Result<Vec<AttemptDetail>, sqlx::Error> {
        let rows = sqlx::query!(
            r#"SELECT attempt_id, state::text AS "state!", host, device, driver, n_lanes,
                kernel_digest, data_digest, attempt.program_version, arena_bytes, bytes_per_lane,
                failure_kind::text, failure_text, bytes_asked, bytes_free, attempt.started_at,
                ended_at
            FROM attempt
            JOIN worker USING (worker_id)
            WHERE trial_id = $1
            ORDER BY number"#,
            trial_id.0,
        )
        .fetch_all(self.pool())
        .await?;
        let rows = rows.into_iter().map(|row| {
            Ok(AttemptDetail {
                attempt_id: AttemptId(row.attempt_id),
                state: row.state,
                host: row.host,
                device: row.device,
                driver: row.driver,
                n_lanes: row.n_lanes.cast_unsigned(),
                kernel_digest: row.kernel_digest,
                data_digest: row.data_digest,
                program_version: row.program_version,
                arena_bytes: row.arena_bytes.cast_unsigned(),
                bytes_per_lane: row.bytes_per_lane.cast_unsigned(),
                failure_kind: FailureKind::parse_option(row.failure_kind.as_deref())?,
                failure_text: row.failure_text,
                bytes_asked: row.bytes_asked.map(i64::cast_unsigned),
                bytes_free: row.bytes_free.map(i64::cast_unsigned),
                started_at: row.started_at,
                ended_at: row.ended_at,
            })
        });
        rows.collect()
    }

    async fn epochs(&self, trial_id: TrialId) -> Result<Vec<EpochDetail>, sqlx::Error> {
        let rows = sqlx::query!(
            "SELECT fold, epoch, n_lanes, is_warmup, pack_wall_ms, pack_device_ms, steps,
                env_steps, loss, gradient_norm, q_mean, q_max, td_error, edge_atom_mass,
                validation_sharpe, validation_return, validation_max_drawdown,
                validation_turnover, validation_exposure, validation_trades
            FROM epoch
            WHERE attempt_id = (
                SELECT attempt_id FROM attempt
                WHERE trial_id = $1 ORDER BY number DESC LIMIT 1
            )
            ORDER BY fold, epoch",
            trial_id.0,
        )
        .fetch_all(self.pool())
        .await?;
        let rows = rows.into_iter().map(|row| EpochDetail {
            fold: row.fold.cast_unsigned(),
            epoch: row.epoch.cast_unsigned(),
            n_lanes: row.n_lanes.cast_unsigned(),
            is_warmup: row.is_warmup,
            pack_wall_ms: row.pack_wall_ms,
            pack_device_ms: row.pack_device_ms,
            steps: row.steps.cast_unsigned(),
            env_steps: row.env_steps.cast_unsigned(),
            loss: row.loss,
            gradient_norm: row.gradient_norm,
            q_mean: row.q_mean,
            q_max: row.q_max,
            td_error: row.td_error,
            edge_atom_mass: row.edge_atom_mass,
            validation: ValidationFigures {
                sharpe: row.validation_sharpe,
                total_return: row.validation_return,
                max_drawdown: row.validation_max_drawdown,
                turnover: row.validation_turnover,
                exposure: row.validation_exposure,
                n_trades: row.validation_trades.map(i64::cast_unsigned),
            },
        });
        Ok(rows.collect())
    }

    async fn results(&self, trial_id: TrialId) -> Result<Vec<ResultDetail>, sqlx::Error> {
        let rows = sqlx::query!(
            r#"SELECT fold, split::text AS "split!", sharpe, sharpe_annual, n_observations, skew,
                kurtosis, total_return, max_drawdown, turnover, n_trades, hit_rate, exposure,
                cost, net_returns
            FROM result
            WHERE trial_id = $1
            ORDER BY split, fold"#,
            trial_id.0,
        )
        .fetch_all(self.pool())
        .await?;
        let rows = rows.into_iter().map(|row| {
            Ok(ResultDetail {
                fold: row.fold.cast_unsigned(),
                split: Split::parse(&row.split)?,
                sharpe: row.sharpe,
                sharpe_annual: row.sharpe_annual,
                n_observations: row.n_observations.cast_unsigned(),
                skew: row.skew,
                kurtosis: row.kurtosis,
                total_return: row.total_return,
                max_drawdown: row.max_drawdown,
                turnover: row.turnover,
                n_trades: row.n_trades.cast_unsigned(),
                hit_rate: row.hit_rate,
                exposure: row.exposure,
                cost: row.cost,
                net_returns: row.net_returns,
            })
        });
        rows.collect()
    }
}
