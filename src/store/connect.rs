//! Opening a database: the private cluster or a server by URL, and the version of its schema.
//!
//! # Invariants
//! - The private database migrates on use; a server named by URL only when asked to.
//! - A schema newer than the program is refused, an older one explained.
//! - One bounded pool per process.

use super::cluster::Cluster;
use super::error::StoreError;
use super::retry;
use serde::Serialize;
use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, Connection, Executor, PgConnection, PgPool, Postgres};
use std::io::ErrorKind;
use std::ops::{Deref, DerefMut};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, MutexGuard};
use tracing::{debug, warn};

/// Most connections of one process.
const CONNECTIONS_MAX: u32 = 8;
/// Longest wait for a connection; after it a private server that died is started again.
const ACQUIRE_LIMIT: Duration = Duration::from_secs(3);
/// A connection that rested for longer is tested before it is used.
const TRUSTED: Duration = Duration::from_millis(500);
/// Longest wait for a server that says it is starting up.
const STARTING_LIMIT: Duration = Duration::from_secs(60);
/// Longest wait for a server that hangs up or refuses.
const HANG_UP_LIMIT: Duration = Duration::from_secs(5);

/// An open database with the current schema.
#[derive(Debug, Clone)]
pub struct Store {
    pool: PgPool,
    /// What the writer holds between two statements.
    held: Arc<Mutex<Option<PoolConnection<Postgres>>>>,
    options: PgConnectOptions,
    cluster: Option<Cluster>,
}

/// What `doctor` and `db` tell of the database.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DatabaseInfo {
    /// Host, or socket folder, and database.
    pub place: String,
    /// Whether it is the private cluster.
    pub is_private: bool,
    /// Version of the server.
    pub server_version: String,
    /// Version of the schema.
    pub schema_version: i64,
    /// Size of the whole database.
    pub size_bytes: i64,
    /// Number of studies.
    pub n_studies: i64,
    /// Number of trials, all studies together.
    pub n_trials: i64,
}

impl Store {
    /// Opens the database at `database_url`, or the private one.
    ///
    /// - `database_url`: `None`, or empty, for the private cluster, which is created, started and
    ///   migrated as needed.
    ///
    /// # Errors
    /// [`StoreError::Cluster`], [`StoreError::Connect`], or one of the `Schema…` variants; each
    /// names its remedy.
    pub async fn open(database_url: Option<&str>) -> Result<Self, StoreError> {
        match database_url.filter(|url| !url.is_empty()) {
            Some(url) => Self::open_url(url).await,
            None => Self::open_cluster(Cluster::locate()?).await,
        }
    }

    /// Creates or updates the schema of the database at `database_url`, or the private one.
    ///
    /// Safe from several processes at once, and doing nothing twice. Returns the version.
    ///
    /// # Errors
    /// As [`Store::open`]; [`StoreError::Migrate`] if the database refuses.
    pub async fn migrate(database_url: Option<&str>) -> Result<i64, StoreError> {
        match database_url.filter(|url| !url.is_empty()) {
            Some(url) => migrate(&parse(url)?).await,
            None => {
                let store = Self::open_cluster(Cluster::locate()?).await?;
                store.close().await;
                Ok(version_known())
            }
        }
    }

    async fn open_url(url: &str) -> Result<Self, StoreError> {
        let options = parse(url)?;
        let mut connection = connect(&options).await?;
        let found = version_found(&mut connection).await?;
        close(connection).await;
        let (place, known) = (place(&options), version_known());
        match found {
            None => Err(StoreError::SchemaMissing { place }),
            Some(found) if found < known => Err(StoreError::SchemaOlder {
                place,
                found,
                known,
            }),
            Some(found) if found > known => Err(StoreError::SchemaNewer {
                place,
                found,
                known,
            }),
            Some(_) => Ok(Self::new(options, None)),
        }
    }

    /// Opens a given private cluster.
    ///
    /// # Errors
    /// As [`Store::open`].
    #[doc(hidden)]
    pub async fn open_cluster(cluster: Cluster) -> Result<Self, StoreError> {
        let url = start(cluster.clone()).await?;
        let options = parse(&url)?;
        migrate(&options).await?;
        Ok(Self::new(options, Some(cluster)))
    }

    fn new(options: PgConnectOptions, cluster: Option<Cluster>) -> Self {
        let pool = PgPoolOptions::new()
            .max_connections(CONNECTIONS_MAX)
            .acquire_timeout(ACQUIRE_LIMIT)
            .after_connect(|connection, _| Box::pin(prepare(connection)))
            // A connection just used needs no ping; one that rested may be gone.
            .test_before_acquire(false)
            .before_acquire(|connection, used| {
                Box::pin(async move {
                    if used.idle_for > TRUSTED {
                        connection.ping().await?;
                    }
                    Ok(true)
                })
            })
            .connect_lazy_with(options.clone());
        Self {
            pool,
            held: Arc::default(),
            options,
            cluster,
        }
    }

    /// Closes every connection.
    pub async fn close(&self) {
        self.release_writer().await;
        self.pool.close().await;
    }

    /// Returns the private cluster, if that is what this is.
    pub fn cluster(&self) -> Option<&Cluster> {
        self.cluster.as_ref()
    }

    /// Describes the database.
    ///
    /// # Errors
    /// [`StoreError::Statement`] if it does not answer.
    pub async fn database_info(&self) -> Result<DatabaseInfo, StoreError> {
        let row = sqlx::query!(
            r#"SELECT
                current_setting('server_version') AS "server_version!",
                pg_database_size(current_database()) AS "size_bytes!",
                (SELECT coalesce(max(version), 0) FROM _sqlx_migrations WHERE success)
                    AS "schema_version!",
                (SELECT count(*) FROM study) AS "n_studies!",
                (SELECT count(*) FROM trial) AS "n_trials!""#
        )
        .fetch_one(self.pool())
        .await
        .map_err(StoreError::at("describe itself"))?;
        Ok(DatabaseInfo {
            place: place(&self.options),
            is_private: self.cluster.is_some(),
            server_version: row.server_version,
            schema_version: row.schema_version,
            size_bytes: row.size_bytes,
            n_studies: row.n_studies,
            n_trials: row.n_trials,
        })
    }

    pub(super) fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Returns the connection of the statements that a run issues one after another.
    ///
    /// It is kept between them: the pool pings each connection that comes back, so that the next
    /// statement finds it busy, and takes another (a trial alone: 20 ms against 12).
    pub(super) async fn writer(&self) -> Result<Writer<'_>, sqlx::Error> {
        let mut held = self.held.lock().await;
        if held.is_none() {
            *held = Some(self.pool.acquire().await?);
        }
        Ok(Writer(held))
    }

    /// Gives the writer's connection back, because it is lost or no longer needed.
    pub(super) async fn release_writer(&self) {
        self.held.lock().await.take();
    }

    /// Opens a connection outside the pool, for a lock that lives as long as it.
    pub(super) async fn dedicated(&self) -> Result<PgConnection, sqlx::Error> {
        let mut connection = self.options.connect().await?;
        prepare(&mut connection).await?;
        Ok(connection)
    }

    /// Starts a private server that died; anybody else's is waited for.
    pub(super) async fn revive(&self) {
        if let Some(cluster) = self.cluster.clone()
            && let Err(error) = start(cluster).await
        {
            warn!(%error, "the private database does not start");
        }
    }
}

/// The writer's connection, for one statement or transaction.
pub(super) struct Writer<'a>(MutexGuard<'a, Option<PoolConnection<Postgres>>>);

impl Deref for Writer<'_> {
    type Target = PgConnection;

    fn deref(&self) -> &PgConnection {
        self.0.as_ref().expect("a writer holds a connection")
    }
}

impl DerefMut for Writer<'_> {
    fn deref_mut(&mut self) -> &mut PgConnection {
        self.0.as_mut().expect("a writer holds a connection")
    }
}

/// Prepares a connection for our statements.
///
/// They take arrays of any length, whose values no plan depends on: planning each call anew would
/// cost more than running it (a trial alone with 30 epochs: 19 to 29 ms against 17 to 19).
async fn prepare(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    connection
        .execute("SET search_path TO hyperopt, public; SET plan_cache_mode TO force_generic_plan")
        .await
        .map(drop)
}

async fn start(cluster: Cluster) -> Result<String, StoreError> {
    let started = tokio::task::spawn_blocking(move || cluster.ensure_started()).await;
    Ok(started.expect("starting a cluster does not panic and is never aborted")?)
}

fn parse(url: &str) -> Result<PgConnectOptions, StoreError> {
    let options = PgConnectOptions::from_str(url).map_err(|source| StoreError::Url { source })?;
    Ok(options.application_name("hyperopt"))
}

/// Names a database without its password.
fn place(options: &PgConnectOptions) -> String {
    let database = options.get_database().unwrap_or(options.get_username());
    match options.get_socket() {
        Some(dir) => format!("{database} in {}", dir.display()),
        None => format!(
            "{database} at {}:{}",
            options.get_host(),
            options.get_port()
        ),
    }
}

/// Connects, waiting for a server that says it is starting up, and a moment for one whose
/// predecessor was killed: what is left of that may still hold the socket, and hang up or refuse.
pub(super) async fn connect(options: &PgConnectOptions) -> Result<PgConnection, StoreError> {
    let began_at = Instant::now();
    loop {
        let error = match options.connect().await {
            Ok(mut connection) => match prepare(&mut connection).await {
                Ok(()) => return Ok(connection),
                Err(error) => error,
            },
            Err(error) => error,
        };
        let limit = match &error {
            sqlx::Error::Io(cause)
                if matches!(
                    cause.kind(),
                    ErrorKind::ConnectionReset | ErrorKind::ConnectionRefused
                ) =>
            {
                HANG_UP_LIMIT
            }
            sqlx::Error::Database(_) if retry::is_transient(&error) => STARTING_LIMIT,
            _other => Duration::ZERO,
        };
        if began_at.elapsed() >= limit {
            return Err(StoreError::Connect {
                place: place(options),
                source: error,
            });
        }
        debug!(%error, "the database is starting up");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn close(connection: PgConnection) {
    if let Err(error) = connection.close().await {
        debug!(%error, "a connection did not close cleanly");
    }
}

fn migrator() -> sqlx::migrate::Migrator {
    let mut migrator = sqlx::migrate!("./migrations");
    migrator.create_schema("hyperopt");
    migrator.dangerous_set_table_name("hyperopt._sqlx_migrations");
    migrator
}

/// Returns the version of the schema that this program was built with.
pub(super) fn version_known() -> i64 {
    let migrator = sqlx::migrate!("./migrations");
    let newest = migrator.iter().map(|migration| migration.version).max();
    newest.expect("the program carries at least one migration")
}

/// Reads the version of the schema; `None` where there is none.
async fn version_found(connection: &mut PgConnection) -> Result<Option<i64>, StoreError> {
    let action = "tell the version of its schema";
    let table = sqlx::query_scalar!(
        r#"SELECT to_regclass('hyperopt._sqlx_migrations') IS NOT NULL AS "exists!""#
    )
    .fetch_one(&mut *connection)
    .await
    .map_err(StoreError::at(action))?;
    if !table {
        return Ok(None);
    }
    sqlx::query_scalar!("SELECT max(version) FROM hyperopt._sqlx_migrations WHERE success")
        .fetch_one(&mut *connection)
        .await
        .map_err(StoreError::at(action))
}

/// Brings the schema up to date under the migrator's lock.
async fn migrate(options: &PgConnectOptions) -> Result<i64, StoreError> {
    let mut connection = connect(options).await?;
    let (found, known) = (version_found(&mut connection).await?, version_known());
    let place = place(options);
    if let Some(found) = found.filter(|&found| found > known) {
        return Err(StoreError::SchemaNewer {
            place,
            found,
            known,
        });
    }
    if found != Some(known) {
        let migrated = migrator().run_direct(None, &mut connection, false).await;
        migrated.map_err(|source| StoreError::Migrate { place, source })?;
    }
    // Closing also releases the migrator's lock, whatever happened.
    close(connection).await;
    Ok(known)
}
