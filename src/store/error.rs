//! What can go wrong with the store.

use super::cluster::ClusterError;
use thiserror::Error;

/// Why the store did not do what was asked.
#[derive(Debug, Error)]
pub enum StoreError {
    /// The private cluster cannot be used.
    #[error("the private database cannot be used")]
    Cluster(#[from] ClusterError),
    /// The text is no database URL.
    #[error("not a database URL; it looks like postgres://user@host:5432/database")]
    Url {
        /// What is wrong with it.
        source: sqlx::Error,
    },
    /// Nothing answers at the URL, or it refuses us.
    #[error("cannot connect to the database {place}")]
    Connect {
        /// Host and database, without the password.
        place: String,
        /// Why not.
        source: sqlx::Error,
    },
    /// The database has no schema `hyperopt`.
    #[error(
        "the database {place} has no schema hyperopt yet; `hyperopt db migrate` with the same \
         --database-url creates it"
    )]
    SchemaMissing {
        /// Host and database.
        place: String,
    },
    /// An older program made the schema.
    #[error(
        "the schema of the database {place} has version {found}, this program needs {known}; \
         `hyperopt db migrate` with the same --database-url brings it up to date"
    )]
    SchemaOlder {
        /// Host and database.
        place: String,
        /// Version in the database.
        found: i64,
        /// Version of the program.
        known: i64,
    },
    /// A newer program made the schema.
    #[error(
        "the schema of the database {place} has version {found}, newer than the {known} that this \
         program knows; use a newer hyperopt"
    )]
    SchemaNewer {
        /// Host and database.
        place: String,
        /// Version in the database.
        found: i64,
        /// Version of the program.
        known: i64,
    },
    /// A migration failed.
    #[error("cannot migrate the database {place}")]
    Migrate {
        /// Host and database.
        place: String,
        /// Why not.
        source: sqlx::migrate::MigrateError,
    },
    /// Another process runs the study.
    #[error("the study {name} is already running elsewhere; wait for it, or stop it there")]
    StudyLocked {
        /// The study.
        name: String,
    },
    /// There is no such study.
    #[error("there is no study {name}; `hyperopt list` shows those there are")]
    StudyUnknown {
        /// The name asked for.
        name: String,
    },
    /// There is no such trial.
    #[error("there is no trial {trial_id}; `hyperopt trials STUDY` shows those there are")]
    TrialUnknown {
        /// The key asked for.
        trial_id: i64,
    },
    /// The stored configuration is another one than that just sampled.
    #[error(
        "configuration {number} is stored with other parameters than those sampled now; the study \
         was begun by another version of the program: use --name NEW"
    )]
    ConfigurationDiffers {
        /// 0-based number in the study.
        number: u32,
    },
    /// A statement failed for a reason that waiting does not mend.
    #[error("the database refused to {action}")]
    Statement {
        /// What was being done.
        action: &'static str,
        /// Why not.
        source: sqlx::Error,
    },
}

impl StoreError {
    /// Gives a statement's error its place.
    pub(super) fn at(action: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self::Statement { action, source }
    }
}
