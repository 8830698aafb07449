//! How fast the store is, measured at this database.
//!
//! # Invariants
//! - Everything happens in a scratch study that is deleted afterwards; one that an interrupted
//!   measurement left is deleted by the next.
//! - Statements are those of a run: nothing is special to the measurement but filling the study.

use super::attempt::{NewAttempt, WorkerId};
use super::configuration::NewConfiguration;
use super::connect::Store;
use super::epoch::{EpochRow, ValidationFigures};
use super::error::StoreError;
use super::outcome::{ResultRow, Split, TrialEnd, TrialOutcome};
use super::study::NewStudy;
use crate::study::{
    AttemptId, ConfigurationNumber, Direction, Metric, Precision, StudyId, TrialId, Value,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Instant;
use tracing::debug;

/// Lanes of the pack measured.
const N_LANES: u32 = 64;
/// Epochs of a run.
const N_EPOCHS: u32 = 30;
/// Epochs per trial that fills the study; the measured ones have all.
const N_EPOCHS_FILLED: i32 = 5;
/// Bars of a validation block.
const N_BARS: usize = 500;
/// Repetitions; the median counts.
const N_REPEATS: usize = 9;
/// Begins the name of every scratch study.
const SCRATCH: &str = "bench_store_";

/// What [`bench()`] measured; medians in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct BenchReport {
    /// One epoch boundary of a pack of 64 lanes. Target: below 4.
    pub pack_epoch_ms: f64,
    /// One single trial with 30 epochs alone, in a study of few. Target: below 20.
    pub trial_first_ms: f64,
    /// The same in a study of 100 trials.
    pub trial_at_100_ms: f64,
    /// The same in a study of 100,000 trials. Target: below twice that at 100.
    pub trial_at_100_000_ms: f64,
    /// Finding the best trial of 100,000. Target: below 10.
    pub best_trial_ms: f64,
    /// Deleting the study of 100,000 trials.
    pub delete_ms: f64,
}

/// Measures the store in a scratch study and deletes it.
///
/// Takes about a minute, most of it for filling the study.
///
/// # Errors
/// [`StoreError`] as any statement of a run.
pub async fn bench(store: &Store) -> Result<BenchReport, StoreError> {
    for left in store.list_studies().await? {
        if left.study.starts_with(SCRATCH) {
            match store.delete_study(&left.study).await {
                // Somebody else measures right now.
                Ok(()) | Err(StoreError::StudyLocked { .. } | StoreError::StudyUnknown { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    let name = format!("{SCRATCH}{}", std::process::id());
    let lock = store.lock_study(&name).await?;
    let mut scratch = Scratch::open(store, &name).await?;
    let measured = scratch.measure().await;
    lock.release().await;
    let began_at = Instant::now();
    store.delete_study(&name).await?;
    let mut report = measured?;
    report.delete_ms = began_at.elapsed().as_secs_f64() * 1e3;
    Ok(report)
}

/// The scratch study.
struct Scratch<'a> {
    store: &'a Store,
    study_id: StudyId,
    worker_id: WorkerId,
    n_configurations: u32,
}

impl<'a> Scratch<'a> {
    async fn open(store: &'a Store, name: &str) -> Result<Self, StoreError> {
        let study = NewStudy {
            name,
            series: None,
            seed: 0,
            spec: "{}",
            digest: "",
            metric: Metric::ValidationSharpe,
            direction: Direction::Maximize,
            arms: &[Precision::F32],
            n_configurations: 0,
            n_replicates: 1,
        };
        store.open_study(&study).await?;
        Ok(Self {
            store,
            study_id: store.study(name).await?.study_id,
            worker_id: store
                .register_worker("bench", env!("CARGO_PKG_VERSION"))
                .await?,
            n_configurations: 0,
        })
    }

    async fn measure(&mut self) -> Result<BenchReport, StoreError> {
        let pack_epoch_ms = self.pack_epoch_ms().await?;
        let trial_first_ms = self.trial_ms().await?;
        self.fill(100).await?;
        let trial_at_100_ms = self.trial_ms().await?;
        // In steps: a session keeps the plans of its foreign keys until the next ANALYZE, and one
        // made for a hundred rows would scan a hundred thousand.
        for n in [1_000, 10_000, 100_000] {
            self.fill(n).await?;
        }
        let trial_at_100_000_ms = self.trial_ms().await?;
        let mut samples = Vec::new();
        for _ in 0..N_REPEATS {
            let began_at = Instant::now();
            self.store
                .best_trials(self.study_id, Direction::Maximize, 1)
                .await?;
            samples.push(began_at.elapsed().as_secs_f64() * 1e3);
        }
        Ok(BenchReport {
            pack_epoch_ms,
            trial_first_ms,
            trial_at_100_ms,
            trial_at_100_000_ms,
            best_trial_ms: median(samples),
            delete_ms: 0.0,
        })
    }

    /// Measures one boundary of a full pack.
    async fn pack_epoch_ms(&mut self) -> Result<f64, StoreError> {
        let trial_ids = self.insert(N_LANES).await?;
        let attempts = self.start(&trial_ids).await?;
        let mut samples = Vec::new();
        for epoch in 0..N_EPOCHS {
            let rows: Vec<_> = attempts
                .iter()
                .map(|&id| epoch_row(id, epoch, N_LANES))
                .collect();
            let began_at = Instant::now();
            self.store.record_epochs(&rows).await?;
            samples.push(began_at.elapsed().as_secs_f64() * 1e3);
        }
        for attempt_id in attempts {
            self.store.finish_trial(&outcome(attempt_id)).await?;
        }
        Ok(median(samples))
    }

    /// Measures a trial alone: sampled, started, 30 epochs, finished.
    async fn trial_ms(&mut self) -> Result<f64, StoreError> {
        let mut samples = Vec::new();
        for _ in 0..N_REPEATS {
            let began_at = Instant::now();
            let trial_ids = self.insert(1).await?;
            let attempts = self.start(&trial_ids).await?;
            for attempt_id in attempts {
                for epoch in 0..N_EPOCHS {
                    self.store
                        .record_epochs(&[epoch_row(attempt_id, epoch, 1)])
                        .await?;
                }
                self.store.finish_trial(&outcome(attempt_id)).await?;
            }
            samples.push(began_at.elapsed().as_secs_f64() * 1e3);
        }
        Ok(median(samples))
    }

    async fn insert(&mut self, n: u32) -> Result<Vec<TrialId>, StoreError> {
        let configurations: Vec<_> = (0..n)
            .map(|at| NewConfiguration {
                number: ConfigurationNumber(self.n_configurations + at),
                cohort: 0,
                watermark: 0,
                is_enqueued: false,
                params: (0..10)
                    .map(|p| (format!("p{p}"), Value::Float(0.1)))
                    .collect(),
            })
            .collect();
        self.n_configurations += n;
        let arms = [Precision::F32];
        let inserted = self
            .store
            .insert_cohort(self.study_id, &configurations, &arms, 1)
            .await?;
        let trials = inserted
            .iter()
            .flat_map(|configuration| &configuration.trials);
        Ok(trials.map(|trial| trial.trial_id).collect())
    }

    async fn start(&self, trial_ids: &[TrialId]) -> Result<Vec<AttemptId>, StoreError> {
        let attempts: Vec<_> = trial_ids
            .iter()
            .map(|&trial_id| NewAttempt {
                trial_id,
                worker_id: self.worker_id,
                device: "bench".to_owned(),
                driver: String::new(),
                n_lanes: N_LANES,
                kernel_digest: String::new(),
                data_digest: String::new(),
                program_version: env!("CARGO_PKG_VERSION").to_owned(),
                arena_bytes: 0,
                bytes_per_lane: 0,
                plan_key: String::new(),
                seeds: vec![0],
            })
            .collect();
        let started = self.store.start_attempts(&attempts).await?;
        Ok(started.into_iter().flatten().collect())
    }

    /// Fills the study up to `n` trials, each complete with a few epochs.
    async fn fill(&mut self, n: u32) -> Result<(), StoreError> {
        let from = self.n_configurations;
        self.n_configurations = n.max(from);
        let action = "fill the scratch study";
        let mut transaction = self
            .store
            .pool()
            .begin()
            .await
            .map_err(StoreError::at(action))?;
        sqlx::query!(
            "WITH configured AS (
                INSERT INTO configuration (
                    study_id, number, cohort, watermark, is_enqueued, params
                )
                SELECT $1, number, 0, 0, false, '{}'
                FROM generate_series($2::int, $3::int - 1) AS number
                RETURNING configuration_id, study_id, number
            ), tried AS (
                INSERT INTO trial (
                    study_id, configuration_id, precision, replicate, state, value, best_epoch,
                    ended_at
                )
                SELECT study_id, configuration_id, 'f32', 0, 'complete', sin(number), 0, now()
                FROM configured
                RETURNING trial_id
            ), attempted AS (
                INSERT INTO attempt (
                    trial_id, number, state, worker_id, device, driver, n_lanes, kernel_digest,
                    data_digest, program_version, arena_bytes, bytes_per_lane, ended_at
                )
                SELECT trial_id, 0, 'complete', $4, '', '', 1, '', '', '', 0, 0, now()
                FROM tried
                RETURNING attempt_id
            )
            INSERT INTO epoch (
                attempt_id, fold, epoch, n_lanes, overlap, is_emulated, is_warmup, pack_wall_ms,
                pack_device_ms, steps, env_steps
            )
            SELECT attempt_id, 0, epoch, 1, false, false, false, 1, 1, 0, 0
            FROM attempted
            CROSS JOIN generate_series(0, $5::int - 1) AS epoch",
            self.study_id.0,
            from.cast_signed(),
            self.n_configurations.cast_signed(),
            self.worker_id.0,
            N_EPOCHS_FILLED,
        )
        .execute(&mut *transaction)
        .await
        .map_err(StoreError::at(action))?;
        transaction.commit().await.map_err(StoreError::at(action))?;
        // What autovacuum does a minute later; the statistics decide how queries run.
        sqlx::query!("ANALYZE configuration, trial, attempt, epoch")
            .execute(self.store.pool())
            .await
            .map_err(StoreError::at(action))?;
        // A study that grew for weeks is not being written back just now. Only administrators may
        // ask for it; without it the figures are a little worse.
        if let Err(error) = sqlx::query!("CHECKPOINT").execute(self.store.pool()).await {
            debug!(%error, "no checkpoint before measuring");
        }
        Ok(())
    }
}

fn epoch_row(attempt_id: AttemptId, epoch: u32, n_lanes: u32) -> EpochRow {
    EpochRow {
        attempt_id,
        fold: 0,
        epoch,
        n_lanes,
        overlap: false,
        is_emulated: false,
        is_warmup: epoch == 0,
        pack_wall_ms: 12.5,
        pack_device_ms: 12.25,
        steps: u64::from(epoch) * 2_500,
        env_steps: u64::from(epoch) * 2_500,
        loss: Some(0.1),
        loss_terms: BTreeMap::new(),
        gradient_norm: Some(0.2),
        q_mean: Some(0.3),
        q_max: Some(0.4),
        td_error: Some(0.5),
        edge_atom_mass: Some(0.01),
        validation: ValidationFigures {
            sharpe: Some(0.7),
            total_return: Some(0.1),
            max_drawdown: Some(0.2),
            turnover: Some(0.3),
            exposure: Some(0.4),
            n_trades: Some(42),
        },
    }
}

fn outcome(attempt_id: AttemptId) -> TrialOutcome {
    TrialOutcome {
        attempt_id,
        end: TrialEnd::Complete {
            value: 0.7,
            best_epoch: 12,
        },
        results: vec![ResultRow {
            fold: 0,
            split: Split::Validation,
            sharpe: Some(0.05),
            sharpe_annual: Some(0.7),
            n_observations: N_BARS as u64,
            skew: Some(0.0),
            kurtosis: Some(3.0),
            total_return: Some(0.1),
            max_drawdown: Some(0.2),
            turnover: Some(0.3),
            n_trades: 42,
            hit_rate: Some(0.5),
            exposure: Some(0.4),
            cost: Some(0.01),
            net_returns: vec![0.001; N_BARS],
        }],
        artifacts: Vec::new(),
    }
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}
