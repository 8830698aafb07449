//! A Postgres for tests: one server per test process, one database per test.
//!
//! # Invariants
//! - The server trades durability for speed, and keeps everything in a temporary folder.
//! - It ends with the test process, however that ends: a watcher reads a pipe whose other end
//!   only the test process holds.

use super::cluster::Cluster;
use super::connect::Store;
use sqlx::{Connection, Executor};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Settings that no user's data ever see.
pub const FAST: [&str; 4] = [
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "max_connections=300",
];

/// The database that others are copied from.
const TEMPLATE: &str = "hyperopt_template";

/// A database of a test's own, with the current schema.
#[derive(Debug)]
pub struct TestDatabase {
    /// Opened store.
    pub store: Store,
    /// URL of the database, for a second store or another process.
    pub url: String,
}

impl TestDatabase {
    /// Creates a database.
    ///
    /// # Panics
    /// If the server cannot be started: the test cannot go on.
    pub async fn new() -> Self {
        let url = Self::empty("TEMPLATE hyperopt_template").await;
        let store = Store::open(Some(&url)).await;
        Self {
            store: store.expect("the copy of the migrated template opens"),
            url,
        }
    }

    /// Creates a database without the schema; returns its URL.
    ///
    /// # Panics
    /// If the server cannot be started: the test cannot go on.
    pub async fn unmigrated() -> String {
        Self::empty("").await
    }

    async fn empty(clause: &str) -> String {
        static N_DATABASES: AtomicU32 = AtomicU32::new(0);
        let server = server().await;
        let name = format!("test_{}", N_DATABASES.fetch_add(1, Ordering::Relaxed));
        let copies = !clause.is_empty() && server.version_num >= 150_000;
        let strategy = if copies { "STRATEGY file_copy" } else { "" };
        execute(
            &server.url,
            &format!("CREATE DATABASE {name} {clause} {strategy}"),
        )
        .await;
        database_url(&server.url, &name)
    }
}

/// The server of this test process.
struct Server {
    url: String,
    version_num: i32,
    /// Held, because its standard input is the pipe that keeps the server alive.
    _watcher: Watcher,
}

async fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    // On a thread with a runtime of its own: the runtime of a test ends with that test.
    let started = tokio::task::spawn_blocking(|| {
        SERVER.get_or_init(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime needs only a few file descriptors");
            runtime.block_on(start())
        })
    });
    started.await.expect("the test server starts")
}

async fn start() -> Server {
    let dir = std::env::temp_dir().join(format!("hyperopt-test-{}", std::process::id()));
    let cluster = Cluster::at(&dir).expect("the temporary folder has an absolute path");
    let cluster = cluster.with_settings(&FAST);
    // Watched first: a server that starts and a test that dies at once leave nothing behind.
    let watcher = watch(&cluster);
    let url = cluster.ensure_started().unwrap_or_else(|error| {
        panic!("the test server does not start: {error}: {error:?}");
    });
    execute(&url, &format!("CREATE DATABASE {TEMPLATE}")).await;
    let migrated = Store::migrate(Some(&database_url(&url, TEMPLATE))).await;
    migrated.expect("an empty database can be migrated");
    let mut connection = connect(&url).await;
    let version_num: String = sqlx::query_scalar("SHOW server_version_num")
        .fetch_one(&mut connection)
        .await
        .expect("a server knows its version");
    Server {
        url,
        version_num: version_num.parse().expect("a version is a number"),
        _watcher: watcher,
    }
}

/// Keeps a server alive; without it, or its process, the server stops.
#[derive(Debug)]
pub struct Watcher {
    /// Holds the pipe that the shell reads.
    _shell: Child,
}

/// Starts a shell that waits for this process to end, then stops the server and cleans up.
///
/// # Panics
/// If there is no `/bin/sh`.
pub fn watch(cluster: &Cluster) -> Watcher {
    // Its own process group: Ctrl-C ends the test, and so the pipe, but not the watcher.
    use std::os::unix::process::CommandExt;
    const SCRIPT: &str = r#"
        read _
        if pid=$(head -n 1 "$1/data/postmaster.pid" 2>/dev/null); then
            kill -QUIT "$pid"
            n=0
            while kill -0 "$pid" && [ $n -lt 50 ]; do sleep 0.1; n=$((n + 1)); done
        fi 2>/dev/null
        rm -rf "$1" "$2"
    "#;
    let spawned = Command::new("/bin/sh")
        .args(["-c", SCRIPT, "watcher"])
        .arg(cluster.dir())
        .arg(socket_dir(cluster))
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn();
    Watcher {
        _shell: spawned.expect("every Unix has /bin/sh"),
    }
}

fn socket_dir(cluster: &Cluster) -> std::path::PathBuf {
    cluster
        .status()
        .map_or_else(|_| Path::new("/nonexistent").to_owned(), |s| s.socket_dir)
}

/// Runs statements at a URL.
///
/// # Panics
/// If one fails.
pub async fn execute(url: &str, statements: &str) {
    let mut connection = connect(url).await;
    connection
        .execute(sqlx::AssertSqlSafe(statements.to_owned()))
        .await
        .unwrap_or_else(|error| panic!("{statements}: {error}"));
    // A copy of a database fails while a connection to it is still closing.
    connection.close().await.expect("an idle connection closes");
}

async fn connect(url: &str) -> sqlx::PgConnection {
    let options = sqlx::postgres::PgConnectOptions::from_str(url).expect("the URL is ours");
    super::connect::connect(&options)
        .await
        .expect("the test server is up")
}

fn database_url(url: &str, name: &str) -> String {
    url.replace("/postgres?", &format!("/{name}?"))
}
