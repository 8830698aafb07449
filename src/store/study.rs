//! Studies: opened, locked, changed, deleted.
//!
//! # Invariants
//! - At most one process holds a study's lock; the lock falls with its connection, and so with
//!   its process.
//! - Deleting a study takes everything that belongs to it.

use super::connect::Store;
use super::error::StoreError;
use super::kind::Kind;
use super::retry::{is_transient, persist};
use crate::study::{Direction, Metric, Precision, StudyId, StudyState};
use chrono::{DateTime, Utc};
use serde::Serialize;
use sha2::{Digest, Sha256};
use sqlx::{Connection, PgConnection};
use tracing::{debug, warn};

/// A study as its sweep file describes it.
#[derive(Debug, Clone, Copy)]
pub struct NewStudy<'a> {
    /// Identity of the study.
    pub name: &'a str,
    /// Joins the nights of a dated sweep.
    pub series: Option<&'a str>,
    /// Seed of everything.
    pub seed: u64,
    /// The resolved sweep, JSON; comes back byte for byte.
    pub spec: &'a str,
    /// Digest of what may not change.
    pub digest: &'a str,
    /// What ranks.
    pub metric: Metric,
    /// Which way is better.
    pub direction: Direction,
    /// Precisions, the reference first, at least one.
    pub arms: &'a [Precision],
    /// Budget of configurations.
    pub n_configurations: u32,
    /// Seeds per configuration, at least 1.
    pub n_replicates: u32,
}

/// A stored study.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StudyRow {
    /// Key.
    pub study_id: StudyId,
    /// Identity.
    pub name: String,
    /// Joins the nights of a dated sweep.
    pub series: Option<String>,
    /// Seed of everything.
    pub seed: u64,
    /// The resolved sweep, JSON, byte for byte as given.
    pub spec: String,
    /// Digest of what may not change.
    pub digest: String,
    /// Precisions, the reference first.
    pub arms: Vec<Precision>,
    /// Budget of configurations.
    pub n_configurations: u32,
    /// Seeds per configuration.
    pub n_replicates: u32,
    /// Where it stands.
    pub state: StudyState,
    /// Why it stopped early.
    pub stop_reason: Option<String>,
    /// When it was first run.
    pub created_at: DateTime<Utc>,
    /// When it stopped or was complete.
    pub ended_at: Option<DateTime<Utc>>,
}

/// What [`Store::open_study`] found.
#[derive(Debug, Clone, PartialEq)]
pub enum OpenedStudy {
    /// The study is new.
    Created(StudyRow),
    /// It was there; the caller compares spec and digest.
    Existing(StudyRow),
}

/// The right to run a study, held by a connection of its own.
#[derive(Debug)]
pub struct StudyLock {
    store: Store,
    name: String,
    connection: Option<PgConnection>,
}

impl Store {
    /// Finds a study by name, or creates it.
    ///
    /// # Errors
    /// [`StoreError::Statement`] if the database refuses the study.
    pub async fn open_study(&self, study: &NewStudy<'_>) -> Result<OpenedStudy, StoreError> {
        persist!(self, "open the study", self.try_open_study(study))
    }

    async fn try_open_study(&self, study: &NewStudy<'_>) -> Result<OpenedStudy, sqlx::Error> {
        let arms: Vec<String> = study
            .arms
            .iter()
            .map(|arm| arm.label().to_owned())
            .collect();
        let created = sqlx::query_scalar!(
            "INSERT INTO study (
                name, series, seed, spec, digest, metric, direction, arms, n_configurations,
                n_replicates
            )
            VALUES (
                $1, $2, $3, $4::text::json, $5, $6, $7::text::objective_direction,
                $8::text[]::precision_arm[], $9, $10
            )
            ON CONFLICT ON CONSTRAINT study_name_is_unique DO NOTHING
            RETURNING study_id",
            study.name,
            study.series,
            study.seed.cast_signed(),
            study.spec,
            study.digest,
            study.metric.as_str(),
            study.direction.label(),
            &arms,
            study.n_configurations.cast_signed(),
            study.n_replicates.cast_signed(),
        )
        .fetch_optional(self.pool())
        .await?;
        // Between the two statements somebody may delete the study: then there is no row, and
        // that is an error like any other.
        let row = self
            .fetch_study(study.name)
            .await?
            .ok_or(sqlx::Error::RowNotFound)?;
        Ok(match created {
            Some(_) => OpenedStudy::Created(row),
            None => OpenedStudy::Existing(row),
        })
    }

    /// Finds a study by name.
    ///
    /// # Errors
    /// [`StoreError::StudyUnknown`] if there is none.
    pub async fn study(&self, name: &str) -> Result<StudyRow, StoreError> {
        let found = self.fetch_study(name).await;
        found
            .map_err(StoreError::at("find the study"))?
            .ok_or_else(|| StoreError::StudyUnknown {
                name: name.to_owned(),
            })
    }

    async fn fetch_study(&self, name: &str) -> Result<Option<StudyRow>, sqlx::Error> {
        let row = sqlx::query!(
            r#"SELECT
                study_id, name, series, seed, spec::text AS "spec!", digest,
                arms::text[] AS "arms!", n_configurations, n_replicates, state::text AS "state!",
                stop_reason, created_at, ended_at
            FROM study
            WHERE name = $1"#,
            name
        )
        .fetch_optional(self.pool())
        .await?;
        let Some(row) = row else { return Ok(None) };
        let arms = row.arms.iter().map(|arm| Precision::parse(arm));
        Ok(Some(StudyRow {
            study_id: StudyId(row.study_id),
            name: row.name,
            series: row.series,
            seed: row.seed.cast_unsigned(),
            spec: row.spec,
            digest: row.digest,
            arms: arms.collect::<Result<_, _>>()?,
            n_configurations: row.n_configurations.cast_unsigned(),
            n_replicates: row.n_replicates.cast_unsigned(),
            state: StudyState::parse(&row.state)?,
            stop_reason: row.stop_reason,
            created_at: row.created_at,
            ended_at: row.ended_at,
        }))
    }

    /// Stores a changed sweep, for what may change on resuming.
    ///
    /// # Errors
    /// [`StoreError::Statement`] if the database refuses it.
    pub async fn update_spec(
        &self,
        study_id: StudyId,
        spec: &str,
        digest: &str,
        n_configurations: u32,
    ) -> Result<(), StoreError> {
        persist!(self, "store the changed sweep", async {
            sqlx::query!(
                "UPDATE study SET spec = $2::text::json, digest = $3, n_configurations = $4
                WHERE study_id = $1",
                study_id.0,
                spec,
                digest,
                n_configurations.cast_signed(),
            )
            .execute(self.pool())
            .await
            .map(drop)
        })
    }

    /// Moves a study to a state.
    ///
    /// - `reason`: why it stopped, in plain words; ignored in the other states.
    ///
    /// # Errors
    /// [`StoreError::Statement`] if the database refuses it.
    pub async fn set_study_state(
        &self,
        study_id: StudyId,
        state: StudyState,
        reason: Option<&str>,
    ) -> Result<(), StoreError> {
        let (reason, has_ended) = match state {
            StudyState::Running => (None, false),
            StudyState::Stopped => (reason, true),
            StudyState::Complete => (None, true),
        };
        persist!(self, "store the study's state", async {
            sqlx::query!(
                "UPDATE study
                SET
                    state = $2::text::study_state,
                    stop_reason = $3,
                    ended_at = CASE WHEN $4 THEN now() END
                WHERE study_id = $1",
                study_id.0,
                state.label(),
                reason,
                has_ended,
            )
            .execute(self.pool())
            .await
            .map(drop)
        })
    }

    /// Deletes a study with everything that belongs to it.
    ///
    /// # Errors
    /// [`StoreError::StudyUnknown`] if there is none, [`StoreError::StudyLocked`] if it runs.
    pub async fn delete_study(&self, name: &str) -> Result<(), StoreError> {
        let study_id = self.study(name).await?.study_id;
        let lock = self.lock_study(name).await?;
        let deleted: Result<(), StoreError> = persist!(self, "delete the study", async {
            sqlx::query!("DELETE FROM study WHERE study_id = $1", study_id.0)
                .execute(self.pool())
                .await
                .map(drop)
        });
        lock.release().await;
        deleted
    }

    /// Takes the right to run a study, which need not exist yet.
    ///
    /// # Errors
    /// [`StoreError::StudyLocked`] if another process, or this one, has it: exit code 5.
    pub async fn lock_study(&self, name: &str) -> Result<StudyLock, StoreError> {
        let mut lock = StudyLock {
            store: self.clone(),
            name: name.to_owned(),
            connection: None,
        };
        lock.ensure().await?;
        Ok(lock)
    }
}

impl StudyLock {
    /// Makes sure that the lock is still held, taking it again after a lost connection.
    ///
    /// # Errors
    /// [`StoreError::StudyLocked`] if another process took it meanwhile: stop at once.
    pub async fn ensure(&mut self) -> Result<(), StoreError> {
        if let Some(connection) = &mut self.connection {
            match connection.ping().await {
                Ok(()) => return Ok(()),
                Err(error) => warn!(study = self.name, %error, "the study's lock was lost"),
            }
            self.connection = None;
        }
        let store = self.store.clone();
        let taken = persist!(&store, "lock the study", try_lock(&store, &self.name))?;
        match taken {
            Some(connection) => self.connection = Some(connection),
            None => {
                return Err(StoreError::StudyLocked {
                    name: self.name.clone(),
                });
            }
        }
        Ok(())
    }

    /// Gives the lock back before it returns. Dropping it does the same a moment later, when the
    /// server has seen the connection close.
    pub async fn release(mut self) {
        let Some(mut connection) = self.connection.take() else {
            return;
        };
        let key = lock_key(&self.name);
        let unlock = sqlx::query_scalar!(r#"SELECT pg_advisory_unlock($1) AS "unlocked!""#, key);
        let unlocked = unlock.fetch_one(&mut connection).await.map(drop);
        if let Err(error) = unlocked.and(connection.close().await) {
            debug!(study = self.name, %error, "the lock was not given back cleanly");
        }
    }
}

/// Tries to take the lock; `None` if another session has it.
async fn try_lock(store: &Store, name: &str) -> Result<Option<PgConnection>, sqlx::Error> {
    let mut connection = store.dedicated().await.inspect_err(|error| {
        debug!(%error, transient = is_transient(error), "no connection for the study's lock");
    })?;
    let taken = sqlx::query_scalar!(
        r#"SELECT pg_try_advisory_lock($1) AS "taken!""#,
        lock_key(name)
    )
    .fetch_one(&mut connection)
    .await?;
    Ok(taken.then_some(connection))
}

/// Returns the number of a study's lock: 64 bits of a digest of its name.
fn lock_key(name: &str) -> i64 {
    let digest = Sha256::new()
        .chain_update(b"hyperopt study\0")
        .chain_update(name.as_bytes())
        .finalize();
    let mut word = [0; 8];
    word.copy_from_slice(&digest[..8]);
    i64::from_le_bytes(word)
}
