//! The only place with SQL: Postgres, for everyone.
//!
//! `connect` opens a [`Store`], `cluster` runs the private server, and one file per noun holds
//! the statements. The schema is in `migrations/`, its public interface are the views.
//!
//! Statements are checked when the crate is built, against data in `.sqlx/`. After changing one,
//! or a migration, refresh them at a migrated database and commit the result:
//!
//! ```text
//! hyperopt db migrate
//! rm -rf .sqlx && mkdir .sqlx && touch src/lib.rs
//! SQLX_OFFLINE=false SQLX_OFFLINE_DIR=$PWD/.sqlx DATABASE_URL=$(hyperopt db url) cargo check --lib
//! ```
//!
//! # Invariants
//! - Only this module names sqlx; everything lives in the schema `hyperopt`.
//! - Writes wait for the database, however long it takes, and say so: no metric is ever lost.
//!   Each is idempotent, since a lost connection does not tell whether a commit arrived.
//! - What a fenced attempt reports is refused and logged, never stored.
//! - NaN and infinities are stored as measured in diagnostics (loss, gradient norm, Q, …); a
//!   Sharpe ratio or a value that is not finite is NULL. NULL means "not defined", never zero.
//! - Parameters and specs come back to the last bit: they are `json`, never `jsonb`.

mod attempt;
mod bench;
mod cluster;
mod configuration;
mod connect;
mod epoch;
mod error;
mod kind;
mod outcome;
mod read;
mod retry;
mod study;
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;
mod view;

pub use attempt::{NewAttempt, WorkerId};
pub use bench::{BenchReport, bench};
pub use cluster::{Cluster, ClusterError, ClusterStatus};
pub use configuration::{
    ConfigurationHistory, InsertedConfiguration, InsertedTrial, NewConfiguration, TrialHistory,
};
pub use connect::{DatabaseInfo, Store};
pub use epoch::{EpochRow, ValidationFigures};
pub use error::StoreError;
pub use outcome::{ArtifactRow, Failure, ResultRow, Split, TrialEnd, TrialOutcome};
pub use read::{AttemptDetail, EpochDetail, ResultDetail, TrialDetail};
pub use study::{NewStudy, OpenedStudy, StudyLock, StudyRow};
pub use view::{
    LeaderboardRow, PrecisionComparison, PrecisionDistribution, StudyProgress, TrialOverview,
};
