//! Epochs: the rows of one boundary of a pack, in one statement.
//!
//! # Invariants
//! - All rows of a call are one statement and one transaction.
//! - A row that is there already stays as it is.

use super::connect::Store;
use super::error::StoreError;
use super::retry::persist;
use crate::study::AttemptId;
use serde::Serialize;
use std::collections::BTreeMap;
use tracing::warn;

/// One epoch of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct EpochRow {
    /// The execution that reports.
    pub attempt_id: AttemptId,
    /// 0-based.
    pub fold: u32,
    /// 0-based.
    pub epoch: u32,
    /// Live lanes of the pack, at least 1.
    pub n_lanes: u32,
    /// Whether another pack ran on the device meanwhile.
    pub overlap: bool,
    /// Whether the precision is emulated by rounding.
    pub is_emulated: bool,
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
    /// Terms of the loss by name, where there is more than one; a NaN becomes null.
    pub loss_terms: BTreeMap<String, f64>,
    /// Mean global gradient norm before clipping.
    pub gradient_norm: Option<f64>,
    /// Mean greedy Q of the sampled next states.
    pub q_mean: Option<f64>,
    /// Largest greedy Q of the sampled next states.
    pub q_max: Option<f64>,
    /// Mean absolute temporal-difference error.
    pub td_error: Option<f64>,
    /// Probability on the two outermost atoms.
    pub edge_atom_mass: Option<f64>,
    /// Validation after the epoch.
    pub validation: ValidationFigures,
}

/// What an epoch's validation found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ValidationFigures {
    /// Annualised Sharpe ratio; not finite becomes NULL.
    pub sharpe: Option<f64>,
    /// Compounded net return.
    pub total_return: Option<f64>,
    /// Largest loss from a peak, a positive fraction.
    pub max_drawdown: Option<f64>,
    /// Traded value over equity, summed over the block.
    pub turnover: Option<f64>,
    /// Mean absolute position, as a fraction of equity.
    pub exposure: Option<f64>,
    /// Fills of at least 1 % of equity.
    pub n_trades: Option<u64>,
}

impl Store {
    /// Stores the rows of an epoch boundary.
    ///
    /// Rows of attempts that no longer run are refused and logged. Returns those attempts: their
    /// lanes are free.
    ///
    /// # Errors
    /// [`StoreError::Statement`] if the database refuses a row, such as a negative time.
    pub async fn record_epochs(&self, rows: &[EpochRow]) -> Result<Vec<AttemptId>, StoreError> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let columns = Columns::new(rows);
        let fenced = persist!(self, "record an epoch", self.try_record_epochs(&columns))?;
        for attempt_id in &fenced {
            warn!(%attempt_id, "an epoch of a fenced attempt was refused");
        }
        Ok(fenced)
    }

    // tidy: long, because it is one statement with one array per column.
    async fn try_record_epochs(&self, rows: &Columns) -> Result<Vec<AttemptId>, sqlx::Error> {
        let mut writer = self.writer().await?;
        let written = sqlx::query!(
            "INSERT INTO epoch (
                attempt_id, fold, epoch, n_lanes, overlap, is_emulated, is_warmup,
                pack_wall_ms, pack_device_ms, steps, env_steps, loss, loss_terms,
                gradient_norm, q_mean, q_max, td_error, edge_atom_mass, validation_sharpe,
                validation_return, validation_max_drawdown, validation_turnover,
                validation_exposure, validation_trades
            )
            SELECT
                given.attempt_id, fold, epoch, given.n_lanes, overlap, is_emulated, is_warmup,
                pack_wall_ms, pack_device_ms, steps, env_steps, loss, loss_terms::json,
                gradient_norm, q_mean, q_max, td_error, edge_atom_mass, validation_sharpe,
                validation_return, validation_max_drawdown, validation_turnover,
                validation_exposure, validation_trades
            FROM UNNEST(
                $1::bigint[], $2::int[], $3::int[], $4::int[], $5::bool[], $6::bool[],
                $7::bool[], $8::float8[], $9::float8[], $10::bigint[], $11::bigint[],
                $12::float8[], $13::text[], $14::float8[], $15::float8[], $16::float8[],
                $17::float8[], $18::float8[], $19::float8[], $20::float8[], $21::float8[],
                $22::float8[], $23::float8[], $24::bigint[]
            ) AS given (
                attempt_id, fold, epoch, n_lanes, overlap, is_emulated,
                is_warmup, pack_wall_ms, pack_device_ms, steps, env_steps,
                loss, loss_terms, gradient_norm, q_mean, q_max,
                td_error, edge_atom_mass, validation_sharpe, validation_return,
                validation_max_drawdown,
                validation_turnover, validation_exposure, validation_trades
            )
            JOIN attempt ON attempt.attempt_id = given.attempt_id AND attempt.state = 'running'
            ON CONFLICT ON CONSTRAINT epoch_is_unique_in_its_run DO NOTHING",
            &rows.attempt_id,
            &rows.fold,
            &rows.epoch,
            &rows.n_lanes,
            &rows.overlap,
            &rows.is_emulated,
            &rows.is_warmup,
            &rows.pack_wall_ms,
            &rows.pack_device_ms,
            &rows.steps,
            &rows.env_steps,
            &rows.loss as &[Option<f64>],
            &rows.loss_terms as &[Option<String>],
            &rows.gradient_norm as &[Option<f64>],
            &rows.q_mean as &[Option<f64>],
            &rows.q_max as &[Option<f64>],
            &rows.td_error as &[Option<f64>],
            &rows.edge_atom_mass as &[Option<f64>],
            &rows.sharpe as &[Option<f64>],
            &rows.total_return as &[Option<f64>],
            &rows.max_drawdown as &[Option<f64>],
            &rows.turnover as &[Option<f64>],
            &rows.exposure as &[Option<f64>],
            &rows.n_trades as &[Option<i64>],
        )
        .execute(&mut *writer)
        .await?;
        // Where every row was written none was fenced; the others are fenced or were there before.
        if written.rows_affected() == rows.attempt_id.len() as u64 {
            return Ok(Vec::new());
        }
        let fenced = sqlx::query_scalar!(
            r#"SELECT DISTINCT given.attempt_id AS "attempt_id!"
            FROM UNNEST($1::bigint[]) AS given (attempt_id)
            WHERE NOT EXISTS (
                SELECT FROM attempt
                WHERE attempt.attempt_id = given.attempt_id AND attempt.state = 'running'
            )"#,
            &rows.attempt_id,
        )
        .fetch_all(&mut *writer)
        .await?;
        Ok(fenced.into_iter().map(AttemptId).collect())
    }
}

/// The rows as columns.
struct Columns {
    attempt_id: Vec<i64>,
    fold: Vec<i32>,
    epoch: Vec<i32>,
    n_lanes: Vec<i32>,
    overlap: Vec<bool>,
    is_emulated: Vec<bool>,
    is_warmup: Vec<bool>,
    pack_wall_ms: Vec<f64>,
    pack_device_ms: Vec<f64>,
    steps: Vec<i64>,
    env_steps: Vec<i64>,
    loss: Vec<Option<f64>>,
    loss_terms: Vec<Option<String>>,
    gradient_norm: Vec<Option<f64>>,
    q_mean: Vec<Option<f64>>,
    q_max: Vec<Option<f64>>,
    td_error: Vec<Option<f64>>,
    edge_atom_mass: Vec<Option<f64>>,
    sharpe: Vec<Option<f64>>,
    total_return: Vec<Option<f64>>,
    max_drawdown: Vec<Option<f64>>,
    turnover: Vec<Option<f64>>,
    exposure: Vec<Option<f64>>,
    n_trades: Vec<Option<i64>>,
}

impl Columns {
    fn new(rows: &[EpochRow]) -> Self {
        fn column<T>(rows: &[EpochRow], field: impl Fn(&EpochRow) -> T) -> Vec<T> {
            rows.iter().map(field).collect()
        }
        Self {
            attempt_id: column(rows, |row| row.attempt_id.0),
            fold: column(rows, |row| row.fold.cast_signed()),
            epoch: column(rows, |row| row.epoch.cast_signed()),
            n_lanes: column(rows, |row| row.n_lanes.cast_signed()),
            overlap: column(rows, |row| row.overlap),
            is_emulated: column(rows, |row| row.is_emulated),
            is_warmup: column(rows, |row| row.is_warmup),
            pack_wall_ms: column(rows, |row| row.pack_wall_ms),
            pack_device_ms: column(rows, |row| row.pack_device_ms),
            steps: column(rows, |row| row.steps.cast_signed()),
            env_steps: column(rows, |row| row.env_steps.cast_signed()),
            loss: column(rows, |row| row.loss),
            loss_terms: column(rows, |row| render_terms(&row.loss_terms)),
            gradient_norm: column(rows, |row| row.gradient_norm),
            q_mean: column(rows, |row| row.q_mean),
            q_max: column(rows, |row| row.q_max),
            td_error: column(rows, |row| row.td_error),
            edge_atom_mass: column(rows, |row| row.edge_atom_mass),
            sharpe: column(rows, |row| row.validation.sharpe.filter(|v| v.is_finite())),
            total_return: column(rows, |row| row.validation.total_return),
            max_drawdown: column(rows, |row| row.validation.max_drawdown),
            turnover: column(rows, |row| row.validation.turnover),
            exposure: column(rows, |row| row.validation.exposure),
            n_trades: column(rows, |row| row.validation.n_trades.map(u64::cast_signed)),
        }
    }
}

/// Renders named terms as JSON, which has no NaN: null stands for it.
fn render_terms(terms: &BTreeMap<String, f64>) -> Option<String> {
    let text = serde_json::to_string(terms).expect("names and numbers have a JSON form");
    (!terms.is_empty()).then_some(text)
}
