//! Opening databases, migrations, the pool, and waiting for a server that is gone.

use super::*;
use crate::store::testing::{execute, watch};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use sqlx::ConnectOptions;

#[tokio::test]
async fn remote_database_migrates_only_when_asked() {
    let url = TestDatabase::unmigrated().await;
    let error = Store::open(Some(&url)).await.unwrap_err();
    assert!(matches!(error, StoreError::SchemaMissing { .. }), "{error}");
    assert!(error.to_string().contains("hyperopt db migrate"), "{error}");
    let known = connect::version_known();
    assert_eq!(Store::migrate(Some(&url)).await.unwrap(), known);
    assert_eq!(Store::migrate(Some(&url)).await.unwrap(), known);
    let store = Store::open(Some(&url)).await.unwrap();
    let info = store.database_info().await.unwrap();
    assert_eq!(
        (info.schema_version, info.n_studies, info.n_trials),
        (known, 0, 0)
    );
    assert!(!info.is_private && info.size_bytes > 0 && !info.server_version.is_empty());

    execute(
        &url,
        "UPDATE hyperopt._sqlx_migrations SET version = version + 1000 WHERE version > 1",
    )
    .await;
    for error in [
        Store::open(Some(&url)).await.map(drop),
        Store::migrate(Some(&url)).await.map(drop),
    ] {
        let error = error.unwrap_err();
        assert!(matches!(error, StoreError::SchemaNewer { .. }), "{error}");
    }
    execute(
        &url,
        "DELETE FROM hyperopt._sqlx_migrations WHERE version > 1",
    )
    .await;
    let error = Store::open(Some(&url)).await.unwrap_err();
    assert!(
        matches!(error, StoreError::SchemaOlder { found: 1, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("hyperopt db migrate"), "{error}");
}

#[tokio::test]
async fn processes_may_migrate_at_once() {
    let url = TestDatabase::unmigrated().await;
    let tasks: Vec<_> = (0..6)
        .map(|_| {
            let url = url.clone();
            tokio::spawn(async move { Store::migrate(Some(&url)).await.unwrap() })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), connect::version_known());
    }
    Store::open(Some(&url)).await.unwrap();
}

#[tokio::test]
async fn unreachable_database_is_named_without_its_password() {
    let error = Store::open(Some("postgres://me:secret@127.0.0.1:1/db"))
        .await
        .unwrap_err();
    assert!(matches!(error, StoreError::Connect { .. }), "{error}");
    let text = format!("{error} {error:?}");
    assert!(
        text.contains("db at 127.0.0.1:1") && !text.contains("secret"),
        "{text}"
    );
    let error = Store::open(Some("sqlite://x")).await;
    assert!(error.is_err());
    let error = Store::open(Some("no url")).await.unwrap_err();
    assert!(matches!(error, StoreError::Url { .. }), "{error}");
}

#[tokio::test]
async fn connections_are_few_and_return_to_none() {
    let fixture = Fixture::new().await;
    let store = fixture.store();
    // Watched from outside: by a connection that is not of the store.
    let options: sqlx::postgres::PgConnectOptions = fixture.database.url.parse().unwrap();
    let mut outside = options.connect().await.unwrap();
    let mut count = async || -> i64 {
        sqlx::query_scalar(
            "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'hyperopt'",
        )
        .fetch_one(&mut outside)
        .await
        .unwrap()
    };
    let tasks: Vec<_> = (0..64)
        .map(|_| {
            let store = store.clone();
            tokio::spawn(async move { store.study_progress("s").await.unwrap() })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let busy = count().await;
    assert!((1..=8).contains(&busy), "{busy} connections");
    store.close().await;
    // The server notices a moment later that a connection is closed.
    while count().await > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn only_errors_that_time_can_mend_are_waited_for() {
    let fixture = Fixture::new().await;
    for (code, waits) in [
        ("40001", true),
        ("40P01", true),
        ("57P01", true),
        ("57P03", true),
        ("08006", true),
        ("53300", true),
        ("23505", false),
        ("42601", false),
    ] {
        let raise = format!("DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{code}'; END $$");
        let error = sqlx::query(sqlx::AssertSqlSafe(raise))
            .execute(fixture.store().pool())
            .await;
        assert_eq!(retry::is_transient(&error.unwrap_err()), waits, "{code}");
    }
    let refused = sqlx::Error::Io(std::io::ErrorKind::ConnectionRefused.into());
    assert!(retry::is_transient(&refused));
    assert!(!retry::is_transient(&sqlx::Error::RowNotFound));
}

#[tokio::test]
async fn deadlocks_lose_nothing() {
    let fixture = Fixture::new().await;
    // A trigger that fails the first two inserts with a serialization failure.
    fixture.execute("CREATE SEQUENCE tries").await.unwrap();
    fixture
        .execute(
            "CREATE FUNCTION fail_twice() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF nextval('tries') <= 2 THEN RAISE EXCEPTION 'x' USING ERRCODE = '40001'; END IF;
            RETURN NULL;
        END $$",
        )
        .await
        .unwrap();
    fixture.execute("CREATE TRIGGER t AFTER INSERT ON epoch FOR EACH STATEMENT EXECUTE FUNCTION fail_twice()").await.unwrap();
    let attempt_id = fixture.start(fixture.insert(0..1).await[0]).await;
    fixture
        .store()
        .record_epochs(&[epoch_row(attempt_id, 0, 0)])
        .await
        .unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM epoch").await, 1);
    assert_eq!(fixture.count("SELECT last_value FROM tries").await, 3);
}

#[tokio::test]
async fn dropped_connections_lose_nothing() {
    let fixture = Fixture::new().await;
    let attempt_id = fixture.start(fixture.insert(0..1).await[0]).await;
    let admin = Store::open(Some(&fixture.database.url)).await.unwrap();
    for epoch in 0..20 {
        // Every connection of the pool goes, the idle ones unnoticed.
        sqlx::query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )
        .execute(admin.pool())
        .await
        .unwrap();
        fixture
            .store()
            .record_epochs(&[epoch_row(attempt_id, 0, epoch)])
            .await
            .unwrap();
    }
    assert_eq!(fixture.count("SELECT count(*) FROM epoch").await, 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_survives_the_death_of_its_private_server() {
    let dir = tempfile::tempdir().unwrap();
    // Durable here: what was acknowledged must be there after the crash.
    let cluster = Cluster::at(&dir.path().join("postgres")).unwrap();
    let _watcher = watch(&cluster);
    let store = Store::open_cluster(cluster.clone()).await.unwrap();
    assert!(store.database_info().await.unwrap().is_private);
    let OpenedStudy::Created(study) = store.open_study(&new_study("s")).await.unwrap() else {
        panic!("the cluster is new")
    };
    let mut lock = store.lock_study("s").await.unwrap();
    let server = cluster.status().unwrap().process_id.unwrap();
    kill(Pid::from_raw(server), Signal::SIGKILL).unwrap();
    // Waits, starts the server again, and goes on.
    let cohort = [new_configuration(0)];
    store
        .insert_cohort(study.study_id, &cohort, &ARMS, 1)
        .await
        .unwrap();
    lock.ensure().await.unwrap();
    assert_ne!(cluster.status().unwrap().process_id, Some(server));
    let history = store.load_study_history(study.study_id).await.unwrap();
    assert_eq!(history.len(), 1);
    lock.release().await;
    store.close().await;
    // A second opening finds everything, migrated already.
    let again = Store::open_cluster(cluster.clone()).await.unwrap();
    assert_eq!(again.database_info().await.unwrap().n_trials, 2);
    again.close().await;
    assert!(cluster.stop().unwrap());
    let socket_dir = cluster.status().unwrap().socket_dir;
    std::fs::remove_dir_all(socket_dir).unwrap();
}

#[tokio::test]
async fn people_see_the_views_without_naming_the_schema() {
    let fixture = Fixture::new().await;
    // The URL alone, as psql would use it.
    let options: sqlx::postgres::PgConnectOptions = fixture.database.url.parse().unwrap();
    let mut connection = options.connect().await.unwrap();
    let n: i64 = sqlx::query_scalar("SELECT count(*) FROM precision_comparison")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(n, 1);
}

/// Measures the whole bench as a user's database would; its durations are for people.
#[cfg(feature = "slow")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bench_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let cluster = Cluster::at(&dir.path().join("postgres")).unwrap();
    let _watcher = watch(&cluster);
    let store = Store::open_cluster(cluster.clone()).await.unwrap();
    let report = bench(&store).await.unwrap();
    println!("{report:?}");
    assert!(report.pack_epoch_ms > 0.0 && report.best_trial_ms > 0.0 && report.delete_ms > 0.0);
    let info = store.database_info().await.unwrap();
    assert_eq!((info.n_studies, info.n_trials), (0, 0));
    store.close().await;
    assert!(cluster.stop().unwrap());
    std::fs::remove_dir_all(cluster.status().unwrap().socket_dir).unwrap();
}
