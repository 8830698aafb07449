//! Configurations and the trials that come with them.
//!
//! # Invariants
//! - A configuration and all its trials appear in one transaction.
//! - Inserting a cohort again changes nothing and returns what is stored.

use super::connect::Store;
use super::error::StoreError;
use super::kind::Kind;
use super::retry::persist;
use crate::study::{
    ConfigurationId, ConfigurationNumber, DegenerateReason, FailureKind, Params, Precision,
    StudyId, TrialId, TrialState,
};
use serde::Serialize;
use sqlx::Connection;
use std::collections::BTreeMap;

/// A configuration just sampled.
#[derive(Debug, Clone, PartialEq)]
pub struct NewConfiguration {
    /// 0-based index in the study.
    pub number: ConfigurationNumber,
    /// Cohort it belongs to.
    pub cohort: u32,
    /// The sampler saw the configurations with a smaller number.
    pub watermark: u32,
    /// Whether the sweep file named it.
    pub is_enqueued: bool,
    /// Sampled parameters that are active.
    pub params: Params,
}

/// Keys of a stored configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InsertedConfiguration {
    /// Key.
    pub configuration_id: ConfigurationId,
    /// 0-based index in the study.
    pub number: ConfigurationNumber,
    /// Its trials, in the order of the arms, then of the replicates.
    pub trials: Vec<InsertedTrial>,
}

/// Key of a stored trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InsertedTrial {
    /// Key.
    pub trial_id: TrialId,
    /// Arm.
    pub precision: Precision,
    /// 0-based.
    pub replicate: u32,
}

/// A configuration with what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConfigurationHistory {
    /// Key.
    pub configuration_id: ConfigurationId,
    /// 0-based index in the study.
    pub number: ConfigurationNumber,
    /// Cohort it belongs to.
    pub cohort: u32,
    /// The sampler saw the configurations with a smaller number.
    pub watermark: u32,
    /// Whether the sweep file named it.
    pub is_enqueued: bool,
    /// Sampled parameters that are active.
    pub params: Params,
    /// Its trials, by arm as the enum orders them, then by replicate.
    pub trials: Vec<TrialHistory>,
}

/// What came of a trial.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrialHistory {
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
    /// How each of its attempts failed, oldest first: what the retry policy counts.
    pub failed_attempts: Vec<FailureKind>,
}

impl Store {
    /// Stores configurations with their trials, waiting, in one transaction.
    ///
    /// - `arms`, `n_replicates`: one trial each per configuration.
    ///
    /// Returns the stored ones in the given order, also those that were there before.
    ///
    /// # Errors
    /// [`StoreError::ConfigurationDiffers`] if a number is stored with other parameters.
    pub async fn insert_cohort(
        &self,
        study_id: StudyId,
        configurations: &[NewConfiguration],
        arms: &[Precision],
        n_replicates: u32,
    ) -> Result<Vec<InsertedConfiguration>, StoreError> {
        let batch = Batch::new(configurations, arms, n_replicates);
        let mut stored: BTreeMap<u32, Stored> = persist!(
            self,
            "store a cohort",
            self.try_insert_cohort(study_id, &batch)
        )?;
        let mut inserted = Vec::with_capacity(configurations.len());
        for (configuration, params) in configurations.iter().zip(&batch.params) {
            let number = configuration.number;
            let found = stored
                .remove(&number.0)
                .filter(|found| found.params == *params)
                .ok_or(StoreError::ConfigurationDiffers { number: number.0 })?;
            inserted.push(InsertedConfiguration {
                configuration_id: found.configuration_id,
                number,
                trials: found.trials_in_order(arms),
            });
        }
        Ok(inserted)
    }

    // tidy: long, because it is one transaction.
    async fn try_insert_cohort(
        &self,
        study_id: StudyId,
        batch: &Batch,
    ) -> Result<BTreeMap<u32, Stored>, sqlx::Error> {
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin().await?;
        sqlx::query!(
            "INSERT INTO configuration (study_id, number, cohort, watermark, is_enqueued, params)
            SELECT $1, given.number, given.cohort, given.watermark, given.is_enqueued,
                given.params::json
            FROM UNNEST($2::int[], $3::int[], $4::int[], $5::bool[], $6::text[])
                AS given (number, cohort, watermark, is_enqueued, params)
            ORDER BY given.number
            ON CONFLICT ON CONSTRAINT configuration_number_is_unique_in_its_study DO NOTHING",
            study_id.0,
            &batch.numbers,
            &batch.cohorts,
            &batch.watermarks,
            &batch.are_enqueued,
            &batch.params,
        )
        .execute(&mut *transaction)
        .await?;
        sqlx::query!(
            "INSERT INTO trial (study_id, configuration_id, precision, replicate)
            SELECT configuration.study_id, configuration.configuration_id,
                arm.label::precision_arm, replicate.replicate
            FROM configuration
            CROSS JOIN UNNEST($3::text[]) WITH ORDINALITY AS arm (label, position)
            CROSS JOIN generate_series(0, $4::int - 1) AS replicate (replicate)
            WHERE configuration.study_id = $1 AND configuration.number = ANY($2)
            ORDER BY configuration.number, arm.position, replicate.replicate
            ON CONFLICT ON CONSTRAINT trial_is_unique_in_its_configuration DO NOTHING",
            study_id.0,
            &batch.numbers,
            &batch.arms,
            batch.n_replicates,
        )
        .execute(&mut *transaction)
        .await?;
        let rows = sqlx::query!(
            r#"SELECT configuration.configuration_id, configuration.number,
                configuration.params::text AS "params!", trial.trial_id,
                trial.precision::text AS "precision!", trial.replicate
            FROM configuration
            JOIN trial USING (configuration_id)
            WHERE configuration.study_id = $1 AND configuration.number = ANY($2)
            ORDER BY trial.replicate"#,
            study_id.0,
            &batch.numbers,
        )
        .fetch_all(&mut *transaction)
        .await?;
        transaction.commit().await?;
        let mut stored = BTreeMap::new();
        for row in rows {
            let entry = stored
                .entry(row.number.cast_unsigned())
                .or_insert_with(|| Stored {
                    configuration_id: ConfigurationId(row.configuration_id),
                    params: row.params,
                    trials: Vec::new(),
                });
            entry.trials.push(InsertedTrial {
                trial_id: TrialId(row.trial_id),
                precision: Precision::parse(&row.precision)?,
                replicate: row.replicate.cast_unsigned(),
            });
        }
        Ok(stored)
    }

    /// Loads every configuration of a study with its trials, by number.
    ///
    /// # Errors
    /// [`StoreError::Statement`] if what is stored cannot be read.
    pub async fn load_study_history(
        &self,
        study_id: StudyId,
    ) -> Result<Vec<ConfigurationHistory>, StoreError> {
        persist!(
            self,
            "load the history",
            self.try_load_study_history(study_id)
        )
    }

    async fn try_load_study_history(
        &self,
        study_id: StudyId,
    ) -> Result<Vec<ConfigurationHistory>, sqlx::Error> {
        let rows = sqlx::query!(
            r#"SELECT configuration_id, number, cohort, watermark, is_enqueued,
                params::text AS "params!"
            FROM configuration
            WHERE study_id = $1
            ORDER BY number"#,
            study_id.0,
        )
        .fetch_all(self.pool())
        .await?;
        let mut trials = self.trial_histories(study_id).await?;
        let mut history = Vec::with_capacity(rows.len());
        for row in rows {
            history.push(ConfigurationHistory {
                configuration_id: ConfigurationId(row.configuration_id),
                number: ConfigurationNumber(row.number.cast_unsigned()),
                cohort: row.cohort.cast_unsigned(),
                watermark: row.watermark.cast_unsigned(),
                is_enqueued: row.is_enqueued,
                params: parse_params(&row.params)?,
                trials: trials.remove(&row.configuration_id).unwrap_or_default(),
            });
        }
        Ok(history)
    }

    async fn trial_histories(
        &self,
        study_id: StudyId,
    ) -> Result<BTreeMap<i64, Vec<TrialHistory>>, sqlx::Error> {
        let rows = sqlx::query!(
            r#"SELECT trial.configuration_id, trial.trial_id,
                trial.precision::text AS "precision!", trial.replicate,
                trial.state::text AS "state!", trial.value, trial.best_epoch,
                trial.degenerate_reason::text, trial.failure_kind::text,
                ARRAY(
                    SELECT attempt.failure_kind::text
                    FROM attempt
                    WHERE attempt.trial_id = trial.trial_id AND attempt.state = 'failed'
                    ORDER BY attempt.number
                ) AS "failed_attempts!"
            FROM trial
            WHERE trial.study_id = $1
            ORDER BY trial.configuration_id, trial.precision, trial.replicate"#,
            study_id.0,
        )
        .fetch_all(self.pool())
        .await?;
        let mut trials: BTreeMap<i64, Vec<TrialHistory>> = BTreeMap::new();
        for row in rows {
            let failed = row
                .failed_attempts
                .iter()
                .map(|kind| FailureKind::parse(kind));
            trials
                .entry(row.configuration_id)
                .or_default()
                .push(TrialHistory {
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
                    failed_attempts: failed.collect::<Result<_, _>>()?,
                });
        }
        Ok(trials)
    }
}

/// A cohort as columns.
struct Batch {
    numbers: Vec<i32>,
    cohorts: Vec<i32>,
    watermarks: Vec<i32>,
    are_enqueued: Vec<bool>,
    params: Vec<String>,
    arms: Vec<String>,
    n_replicates: i32,
}

impl Batch {
    fn new(configurations: &[NewConfiguration], arms: &[Precision], n_replicates: u32) -> Self {
        let column = |field: fn(&NewConfiguration) -> u32| {
            configurations
                .iter()
                .map(|c| field(c).cast_signed())
                .collect()
        };
        Self {
            numbers: column(|c| c.number.0),
            cohorts: column(|c| c.cohort),
            watermarks: column(|c| c.watermark),
            are_enqueued: configurations.iter().map(|c| c.is_enqueued).collect(),
            params: configurations
                .iter()
                .map(|c| render_params(&c.params))
                .collect(),
            arms: arms.iter().map(|arm| arm.label().to_owned()).collect(),
            n_replicates: n_replicates.cast_signed(),
        }
    }
}

/// A configuration as the database has it.
struct Stored {
    configuration_id: ConfigurationId,
    params: String,
    trials: Vec<InsertedTrial>,
}

impl Stored {
    /// Returns the trials by arm, as `arms` orders them, then by replicate.
    fn trials_in_order(self, arms: &[Precision]) -> Vec<InsertedTrial> {
        let mut trials = self.trials;
        trials.sort_by_key(|trial| {
            let arm_idx = arms.iter().position(|&arm| arm == trial.precision);
            (arm_idx.unwrap_or(usize::MAX), trial.replicate)
        });
        trials
    }
}

/// Renders parameters as JSON; equal parameters give equal text.
pub(super) fn render_params(params: &Params) -> String {
    serde_json::to_string(params).expect("booleans, numbers and strings have a JSON form")
}

/// Reads parameters back, bit for bit.
pub(super) fn parse_params(text: &str) -> Result<Params, sqlx::Error> {
    serde_json::from_str(text).map_err(|error| sqlx::Error::Decode(Box::new(error)))
}
