//! Attempts at trials: started, fenced, failed, sent back.
//!
//! # Invariants
//! - A running trial has exactly one running attempt; the others of it are fenced.
//! - Rows are locked trial first, then attempt, and trials by key: nothing deadlocks.

use super::connect::Store;
use super::error::StoreError;
use super::kind::Kind;
use super::outcome::Failure;
use super::retry::persist;
use crate::study::{AttemptId, StudyId, TrialId};
use sqlx::{Connection, PgConnection};
use std::collections::{HashMap, HashSet};
use tracing::warn;

/// Database key of a worker: a process that runs trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WorkerId(pub i64);

/// An execution about to begin.
#[derive(Debug, Clone, PartialEq)]
pub struct NewAttempt {
    /// What is executed.
    pub trial_id: TrialId,
    /// Who executes.
    pub worker_id: WorkerId,
    /// Device, by the name of its class.
    pub device: String,
    /// Driver, or the instruction set of a CPU.
    pub driver: String,
    /// Lanes of the pack, dead ones included.
    pub n_lanes: u32,
    /// Digest of the kernels.
    pub kernel_digest: String,
    /// Digest of the data.
    pub data_digest: String,
    /// Version of the program.
    pub program_version: String,
    /// Memory of all lanes of the pack.
    pub arena_bytes: u64,
    /// Share of one run.
    pub bytes_per_lane: u64,
    /// Digest of everything structural.
    pub plan_key: String,
    /// `[folds]`: seed of each fold's run.
    pub seeds: Vec<u64>,
}

impl Store {
    /// Registers this process as one that runs trials.
    ///
    /// # Errors
    /// [`StoreError::Statement`] if the database refuses it.
    pub async fn register_worker(
        &self,
        host: &str,
        program_version: &str,
    ) -> Result<WorkerId, StoreError> {
        let process_id = std::process::id().cast_signed();
        persist!(self, "register the worker", async {
            sqlx::query_scalar!(
                "INSERT INTO worker (host, process_id, program_version) VALUES ($1, $2, $3)
                RETURNING worker_id",
                host,
                process_id,
                program_version,
            )
            .fetch_one(self.pool())
            .await
            .map(WorkerId)
        })
    }

    /// Sends trials that a dead process left running back to waiting.
    ///
    /// Call it with the study's lock held: then nothing of the study runs. Their attempts become
    /// abandoned, which fences them. Returns the trials, for the report.
    ///
    /// # Errors
    /// [`StoreError::Statement`] if the database refuses it.
    pub async fn requeue_running(&self, study_id: StudyId) -> Result<Vec<TrialId>, StoreError> {
        persist!(self, "requeue trials", async {
            let mut writer = self.writer().await?;
            let mut transaction = writer.begin().await?;
            let trial_ids = sqlx::query_scalar!(
                "UPDATE trial SET state = 'waiting'
                WHERE study_id = $1 AND state = 'running'
                RETURNING trial_id",
                study_id.0,
            )
            .fetch_all(&mut *transaction)
            .await?;
            abandon(&mut transaction, &trial_ids).await?;
            transaction.commit().await?;
            Ok(trial_ids.into_iter().map(TrialId).collect())
        })
    }

    /// Sends complete trials back to waiting, because the study trains for more epochs now.
    ///
    /// Their results and artifacts go; their attempts and epochs stay, abandoned. Returns the
    /// trials.
    ///
    /// # Errors
    /// [`StoreError::Statement`] if the database refuses it.
    pub async fn reopen_complete(&self, study_id: StudyId) -> Result<Vec<TrialId>, StoreError> {
        persist!(self, "reopen trials", async {
            let mut writer = self.writer().await?;
            let mut transaction = writer.begin().await?;
            let trial_ids = sqlx::query_scalar!(
                "UPDATE trial
                SET state = 'waiting', value = NULL, best_epoch = NULL, degenerate_reason = NULL,
                    ended_at = NULL
                WHERE study_id = $1 AND state = 'complete'
                RETURNING trial_id",
                study_id.0,
            )
            .fetch_all(&mut *transaction)
            .await?;
            abandon(&mut transaction, &trial_ids).await?;
            sqlx::query!("DELETE FROM result WHERE trial_id = ANY($1)", &trial_ids)
                .execute(&mut *transaction)
                .await?;
            sqlx::query!("DELETE FROM artifact WHERE trial_id = ANY($1)", &trial_ids)
                .execute(&mut *transaction)
                .await?;
            transaction.commit().await?;
            Ok(trial_ids.into_iter().map(TrialId).collect())
        })
    }

    /// Starts attempts, all or none.
    ///
    /// A trial must be waiting, or running under the same worker, whose older attempt is then
    /// fenced. Returns one key per attempt in the given order; `None`, logged, where the trial
    /// has ended or another worker runs it.
    ///
    /// # Errors
    /// [`StoreError::Statement`] if the database refuses one.
    pub async fn start_attempts(
        &self,
        attempts: &[NewAttempt],
    ) -> Result<Vec<Option<AttemptId>>, StoreError> {
        let started = persist!(self, "start attempts", self.try_start_attempts(attempts))?;
        let ids = attempts.iter().map(|attempt| {
            let id = started.get(&attempt.trial_id.0).copied();
            if id.is_none() {
                warn!(trial_id = %attempt.trial_id, "the trial is not free to start");
            }
            id.map(AttemptId)
        });
        Ok(ids.collect())
    }

    // tidy: long, because it is one transaction whose last statement has a column per field.
    async fn try_start_attempts(
        &self,
        attempts: &[NewAttempt],
    ) -> Result<HashMap<i64, i64>, sqlx::Error> {
        let trial_ids: Vec<i64> = attempts.iter().map(|attempt| attempt.trial_id.0).collect();
        let workers: Vec<i64> = attempts.iter().map(|attempt| attempt.worker_id.0).collect();
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin().await?;
        // In order of their keys, as everywhere, so that two transactions never wait for each other.
        let free: HashSet<i64> = sqlx::query_scalar!(
            r#"SELECT trial.trial_id
            FROM UNNEST($1::bigint[], $2::bigint[]) AS given (trial_id, worker_id)
            JOIN trial ON trial.trial_id = given.trial_id
            LEFT JOIN attempt
                ON attempt.trial_id = given.trial_id AND attempt.state = 'running'
            WHERE trial.state = 'waiting'
                OR (trial.state = 'running' AND attempt.worker_id = given.worker_id)
            ORDER BY trial.trial_id
            FOR UPDATE OF trial"#,
            &trial_ids,
            &workers,
        )
        .fetch_all(&mut *transaction)
        .await?
        .into_iter()
        .collect();
        let attempts: Vec<&NewAttempt> = attempts
            .iter()
            .filter(|attempt| free.contains(&attempt.trial_id.0))
            .collect();
        let trial_ids: Vec<i64> = attempts.iter().map(|attempt| attempt.trial_id.0).collect();
        abandon(&mut transaction, &trial_ids).await?;
        let plan_keys = texts(&attempts, |attempt| &attempt.plan_key);
        let seeds: Vec<String> = attempts
            .iter()
            .map(|attempt| array(&attempt.seeds))
            .collect();
        let workers: Vec<i64> = attempts.iter().map(|attempt| attempt.worker_id.0).collect();
        let n_lanes: Vec<i32> = attempts.iter().map(|a| a.n_lanes.cast_signed()).collect();
        let arena: Vec<i64> = attempts
            .iter()
            .map(|a| a.arena_bytes.cast_signed())
            .collect();
        let lane: Vec<i64> = attempts
            .iter()
            .map(|a| a.bytes_per_lane.cast_signed())
            .collect();
        let rows = sqlx::query!(
            "WITH given AS (
                SELECT *
                FROM UNNEST(
                    $1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::int[], $6::text[],
                    $7::text[], $8::text[], $9::bigint[], $10::bigint[], $11::text[], $12::text[]
                ) AS given (
                    trial_id, worker_id, device, driver, n_lanes, kernel_digest, data_digest,
                    program_version, arena_bytes, bytes_per_lane, plan_key, seeds
                )
            ), begun AS (
                UPDATE trial
                SET state = 'running', started_at = now(), plan_key = given.plan_key,
                    seeds = given.seeds::bigint[]
                FROM given
                WHERE trial.trial_id = given.trial_id
            )
            INSERT INTO attempt (
                trial_id, number, worker_id, device, driver, n_lanes, kernel_digest, data_digest,
                program_version, arena_bytes, bytes_per_lane
            )
            SELECT
                given.trial_id,
                (SELECT count(*) FROM attempt WHERE attempt.trial_id = given.trial_id)::int,
                given.worker_id, given.device, given.driver, given.n_lanes, given.kernel_digest,
                given.data_digest, given.program_version, given.arena_bytes, given.bytes_per_lane
            FROM given
            RETURNING attempt_id, trial_id",
            &trial_ids,
            &workers,
            &texts(&attempts, |attempt| &attempt.device),
            &texts(&attempts, |attempt| &attempt.driver),
            &n_lanes,
            &texts(&attempts, |attempt| &attempt.kernel_digest),
            &texts(&attempts, |attempt| &attempt.data_digest),
            &texts(&attempts, |attempt| &attempt.program_version),
            &arena,
            &lane,
            &plan_keys,
            &seeds,
        )
        .fetch_all(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(rows
            .into_iter()
            .map(|row| (row.trial_id, row.attempt_id))
            .collect())
    }

    /// Ends an attempt with a failure and sends its trial back to waiting, for another try.
    ///
    /// Says whether it did: `false`, logged, for a fenced attempt.
    ///
    /// # Errors
    /// [`StoreError::Statement`] if the database refuses it.
    pub async fn fail_attempt(
        &self,
        attempt_id: AttemptId,
        failure: &Failure,
    ) -> Result<bool, StoreError> {
        persist!(
            self,
            "record a failed attempt",
            self.try_fail_attempt(attempt_id, failure)
        )
    }

    async fn try_fail_attempt(
        &self,
        attempt_id: AttemptId,
        failure: &Failure,
    ) -> Result<bool, sqlx::Error> {
        let mut writer = self.writer().await?;
        let mut transaction = writer.begin().await?;
        let trial_id = match claim(&mut transaction, attempt_id, "failed").await? {
            Claim::Open(trial_id) => trial_id,
            Claim::AlreadyEnded => return Ok(true),
            Claim::Fenced => return Ok(false),
        };
        end_attempt(&mut transaction, attempt_id, "failed", Some(failure)).await?;
        sqlx::query!(
            "UPDATE trial SET state = 'waiting' WHERE trial_id = $1",
            trial_id
        )
        .execute(&mut *transaction)
        .await?;
        transaction.commit().await?;
        Ok(true)
    }
}

/// What an attempt that wants to end finds.
pub(super) enum Claim {
    /// It runs, and so does its trial, locked now.
    Open(i64),
    /// It has ended so already.
    AlreadyEnded,
    /// A newer attempt exists, or the trial does not run.
    Fenced,
}

/// Locks an attempt with its trial, and says whether it may end.
pub(super) async fn claim(
    connection: &mut PgConnection,
    attempt_id: AttemptId,
    end: &str,
) -> Result<Claim, sqlx::Error> {
    // The trial is locked first, as everywhere, so that two transactions never wait for each other.
    let found = sqlx::query!(
        r#"WITH locked AS MATERIALIZED (
            SELECT trial_id, state
            FROM trial
            WHERE trial_id = (SELECT trial_id FROM attempt WHERE attempt_id = $1)
            FOR UPDATE
        )
        SELECT locked.trial_id, locked.state::text AS "trial_state!",
            attempt.state::text AS "attempt_state!"
        FROM locked
        JOIN attempt ON attempt.attempt_id = $1
        FOR UPDATE OF attempt"#,
        attempt_id.0,
    )
    .fetch_optional(&mut *connection)
    .await?;
    let claim = match found {
        Some(found) if found.attempt_state == "running" && found.trial_state == "running" => {
            Claim::Open(found.trial_id)
        }
        Some(found) if found.attempt_state == end => Claim::AlreadyEnded,
        None | Some(_) => {
            warn!(%attempt_id, "the end of a fenced attempt was refused");
            Claim::Fenced
        }
    };
    Ok(claim)
}

/// Fences the attempts of trials: those running, and those whose results no longer count.
async fn abandon(connection: &mut PgConnection, trial_ids: &[i64]) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE attempt SET state = 'abandoned', ended_at = coalesce(ended_at, now())
        WHERE trial_id = ANY($1) AND state IN ('running', 'complete')",
        trial_ids,
    )
    .execute(connection)
    .await
    .map(drop)
}

pub(super) async fn end_attempt(
    connection: &mut PgConnection,
    attempt_id: AttemptId,
    state: &str,
    failure: Option<&Failure>,
) -> Result<(), sqlx::Error> {
    sqlx::query!(
        "UPDATE attempt
        SET state = $2::text::attempt_state, failure_kind = $3::text::failure_kind,
            failure_text = $4, bytes_asked = $5, bytes_free = $6, ended_at = now()
        WHERE attempt_id = $1",
        attempt_id.0,
        state,
        failure.map(|failure| failure.kind.label()),
        failure.map(|failure| failure.text.as_str()),
        failure
            .and_then(|failure| failure.bytes_asked)
            .map(u64::cast_signed),
        failure
            .and_then(|failure| failure.bytes_free)
            .map(u64::cast_signed),
    )
    .execute(connection)
    .await
    .map(drop)
}

fn texts(attempts: &[&NewAttempt], field: impl Fn(&NewAttempt) -> &String) -> Vec<String> {
    attempts
        .iter()
        .map(|attempt| field(attempt).clone())
        .collect()
}

/// Renders seeds as a Postgres array of their bit patterns.
fn array(seeds: &[u64]) -> String {
    let seeds: Vec<String> = seeds
        .iter()
        .map(|seed| seed.cast_signed().to_string())
        .collect();
    format!("{{{}}}", seeds.join(","))
}
