//! Conformance on a real Postgres: one database per test.

mod database;
mod lifecycle;
mod schema;
mod study;
mod view;

use super::testing::TestDatabase;
use super::*;
use crate::study::{
    AttemptId, ConfigurationNumber, Direction, FailureKind, Metric, Params, Precision, StudyId,
    TrialId, Value,
};
use std::collections::BTreeMap;

const F32: Precision = Precision::F32;
const BF16: Precision = Precision::Bf16;
const ARMS: [Precision; 2] = [F32, BF16];

/// A study `s` with two arms in a database of its own.
struct Fixture {
    database: TestDatabase,
    study_id: StudyId,
    worker_id: WorkerId,
}

fn new_study(name: &str) -> NewStudy<'_> {
    NewStudy {
        name,
        series: None,
        seed: 17,
        spec: "{\"a\":1.0}",
        digest: "d",
        metric: Metric::ValidationSharpe,
        direction: Direction::Maximize,
        arms: &ARMS,
        n_configurations: 4,
        n_replicates: 1,
    }
}

fn new_configuration(number: u32) -> NewConfiguration {
    NewConfiguration {
        number: ConfigurationNumber(number),
        cohort: number / 2,
        watermark: 0,
        is_enqueued: false,
        params: Params::from([("train.lr".to_owned(), Value::Float(0.001))]),
    }
}

fn epoch_row(attempt_id: AttemptId, fold: u32, epoch: u32) -> EpochRow {
    EpochRow {
        attempt_id,
        fold,
        epoch,
        n_lanes: 2,
        overlap: false,
        is_emulated: false,
        is_warmup: epoch == 0,
        pack_wall_ms: 12.0,
        pack_device_ms: 10.0,
        steps: 200,
        env_steps: 800,
        loss: Some(0.5),
        loss_terms: BTreeMap::new(),
        gradient_norm: Some(1.5),
        q_mean: None,
        q_max: None,
        td_error: None,
        edge_atom_mass: None,
        validation: ValidationFigures::default(),
    }
}

fn result_row(fold: u32, sharpe_annual: Option<f64>) -> ResultRow {
    ResultRow {
        fold,
        split: Split::Validation,
        sharpe: sharpe_annual.map(|sharpe| sharpe / 252_f64.sqrt()),
        sharpe_annual,
        n_observations: 3,
        skew: Some(0.1),
        kurtosis: Some(3.5),
        total_return: Some(0.02),
        max_drawdown: Some(0.05 * f64::from(fold + 1)),
        turnover: Some(0.3),
        n_trades: 12,
        hit_rate: Some(0.5),
        exposure: Some(0.6),
        cost: Some(0.001),
        net_returns: vec![0.1 + 0.2, -0.0, f64::MIN_POSITIVE],
    }
}

fn failure(kind: FailureKind) -> Failure {
    Failure {
        kind,
        text: "the cause".to_owned(),
        bytes_asked: None,
        bytes_free: None,
    }
}

impl Fixture {
    async fn new() -> Self {
        let database = TestDatabase::new().await;
        let opened = database.store.open_study(&new_study("s")).await.unwrap();
        let OpenedStudy::Created(study) = opened else {
            panic!("the database is new")
        };
        let worker_id = database
            .store
            .register_worker("host", "0.1.0")
            .await
            .unwrap();
        Self {
            database,
            study_id: study.study_id,
            worker_id,
        }
    }

    fn store(&self) -> &Store {
        &self.database.store
    }

    /// Inserts configurations; returns their trials, configuration by configuration, arm by arm.
    async fn insert(&self, numbers: std::ops::Range<u32>) -> Vec<TrialId> {
        let configurations: Vec<_> = numbers.map(new_configuration).collect();
        let inserted = self
            .store()
            .insert_cohort(self.study_id, &configurations, &ARMS, 1)
            .await;
        let inserted = inserted.unwrap();
        inserted
            .iter()
            .flat_map(|c| &c.trials)
            .map(|trial| trial.trial_id)
            .collect()
    }

    fn new_attempt(&self, trial_id: TrialId) -> NewAttempt {
        NewAttempt {
            trial_id,
            worker_id: self.worker_id,
            device: "cpu".to_owned(),
            driver: "avx2".to_owned(),
            n_lanes: 8,
            kernel_digest: "k".to_owned(),
            data_digest: "d".to_owned(),
            program_version: "0.1.0".to_owned(),
            arena_bytes: 8_000,
            bytes_per_lane: 1_000,
            plan_key: "p".to_owned(),
            seeds: vec![1, u64::MAX],
        }
    }

    async fn start(&self, trial_id: TrialId) -> AttemptId {
        let started = self
            .store()
            .start_attempts(&[self.new_attempt(trial_id)])
            .await
            .unwrap();
        started[0].expect("the trial waits")
    }

    async fn finish(&self, attempt_id: AttemptId, end: TrialEnd) -> bool {
        let outcome = TrialOutcome {
            attempt_id,
            end,
            results: Vec::new(),
            artifacts: Vec::new(),
        };
        self.store().finish_trial(&outcome).await.unwrap()
    }

    /// Reads one number.
    async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql)
            .fetch_one(self.store().pool())
            .await
            .unwrap()
    }

    async fn text(&self, sql: &'static str) -> String {
        sqlx::query_scalar(sql)
            .fetch_one(self.store().pool())
            .await
            .unwrap()
    }

    async fn execute(&self, sql: &'static str) -> Result<u64, sqlx::Error> {
        sqlx::query(sql)
            .execute(self.store().pool())
            .await
            .map(|done| done.rows_affected())
    }
}

fn complete(value: f64) -> TrialEnd {
    TrialEnd::Complete {
        value,
        best_epoch: 1,
    }
}
