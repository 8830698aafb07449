//! Studies and configurations.

use super::*;
use crate::study::{StudyState, TrialState};

#[tokio::test]
async fn study_is_created_once_and_found_again() {
    let fixture = Fixture::new().await;
    let changed = NewStudy {
        seed: u64::MAX,
        ..new_study("s")
    };
    let OpenedStudy::Existing(study) = fixture.store().open_study(&changed).await.unwrap() else {
        panic!("the study exists");
    };
    assert_eq!(study.study_id, fixture.study_id);
    assert_eq!(
        (study.seed, study.spec.as_str(), study.digest.as_str()),
        (17, "{\"a\":1.0}", "d")
    );
    assert_eq!(study.arms, ARMS);
    assert_eq!((study.n_configurations, study.n_replicates), (4, 1));
    assert_eq!(
        (study.state, study.stop_reason),
        (StudyState::Running, None)
    );

    let other = NewStudy {
        name: "other",
        series: Some("nightly"),
        ..changed
    };
    let OpenedStudy::Created(other) = fixture.store().open_study(&other).await.unwrap() else {
        panic!("the study is new");
    };
    assert_eq!(
        (other.seed, other.series.as_deref()),
        (u64::MAX, Some("nightly"))
    );
    let listed = fixture.store().list_studies().await.unwrap();
    assert_eq!(
        listed.iter().map(|s| s.study.as_str()).collect::<Vec<_>>(),
        ["other", "s"]
    );
}

#[tokio::test]
async fn study_state_and_sweep_change() {
    let fixture = Fixture::new().await;
    let (store, id) = (fixture.store(), fixture.study_id);
    store
        .set_study_state(id, StudyState::Stopped, Some("wall limit"))
        .await
        .unwrap();
    let study = store.study("s").await.unwrap();
    assert_eq!(
        (study.state, study.stop_reason.as_deref()),
        (StudyState::Stopped, Some("wall limit"))
    );
    assert!(study.ended_at.is_some());
    store
        .set_study_state(id, StudyState::Running, None)
        .await
        .unwrap();
    store.update_spec(id, "{\"a\":2}", "e", 9).await.unwrap();
    let study = store.study("s").await.unwrap();
    assert_eq!(
        (study.state, study.stop_reason, study.ended_at),
        (StudyState::Running, None, None)
    );
    assert_eq!(
        (
            study.spec.as_str(),
            study.digest.as_str(),
            study.n_configurations
        ),
        ("{\"a\":2}", "e", 9)
    );
    let error = store.study("none").await.unwrap_err();
    assert!(matches!(error, StoreError::StudyUnknown { .. }), "{error}");
}

#[tokio::test]
async fn parameters_return_to_the_last_bit() {
    let fixture = Fixture::new().await;
    let values = [
        Value::Bool(true),
        Value::Int(1),
        Value::Float(1.0),
        Value::Text("1".to_owned()),
        Value::Int(i64::MAX),
        Value::Int(i64::MIN),
        Value::Float(0.1 + 0.2),
        Value::Float(-0.0),
        Value::Float(1e16),
        Value::Float(1e-300),
        Value::Float(f64::MAX),
        Value::Float(f64::MIN_POSITIVE / 8.0),
        Value::Text("ünïcode \" \\ \u{1F600}".to_owned()),
    ];
    let params: Params = values
        .iter()
        .enumerate()
        .map(|(at, v)| (format!("p{at:02}"), v.clone()))
        .collect();
    let configuration = NewConfiguration {
        params,
        is_enqueued: true,
        ..new_configuration(0)
    };
    let store = fixture.store();
    store
        .insert_cohort(fixture.study_id, &[configuration], &ARMS, 1)
        .await
        .unwrap();
    let history = store.load_study_history(fixture.study_id).await.unwrap();
    let read: Vec<&Value> = history[0].params.values().collect();
    // Debug, because -0.0 equals 0.0 and must not here.
    assert_eq!(
        format!("{read:?}"),
        format!("{:?}", values.iter().collect::<Vec<_>>())
    );
    assert!(history[0].is_enqueued);
}

#[tokio::test]
async fn cohort_is_inserted_once() {
    let fixture = Fixture::new().await;
    let (store, id) = (fixture.store(), fixture.study_id);
    let cohort = [new_configuration(0), new_configuration(1)];
    let first = store
        .insert_cohort(id, &cohort, &[BF16, F32], 2)
        .await
        .unwrap();
    let again = store
        .insert_cohort(id, &cohort, &[BF16, F32], 2)
        .await
        .unwrap();
    assert_eq!(first, again);
    let shape: Vec<_> = first[1]
        .trials
        .iter()
        .map(|t| (t.precision, t.replicate))
        .collect();
    assert_eq!(shape, [(BF16, 0), (BF16, 1), (F32, 0), (F32, 1)]);
    // A part that is there already is completed.
    let more = [new_configuration(1), new_configuration(2)];
    let more = store
        .insert_cohort(id, &more, &[BF16, F32], 2)
        .await
        .unwrap();
    assert_eq!(more[0], first[1]);
    assert_eq!(fixture.count("SELECT count(*) FROM configuration").await, 3);
    assert_eq!(fixture.count("SELECT count(*) FROM trial").await, 12);

    let mut differs = new_configuration(2);
    differs
        .params
        .insert("train.lr".to_owned(), Value::Float(0.002));
    let error = store
        .insert_cohort(id, &[differs], &ARMS, 1)
        .await
        .unwrap_err();
    assert!(
        matches!(error, StoreError::ConfigurationDiffers { number: 2 }),
        "{error}"
    );
}

#[tokio::test]
async fn same_cohort_from_many_tasks_is_one() {
    let fixture = Fixture::new().await;
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let (store, id) = (fixture.store().clone(), fixture.study_id);
            tokio::spawn(async move {
                let cohort: Vec<_> = (0..20).map(new_configuration).collect();
                store.insert_cohort(id, &cohort, &ARMS, 1).await.unwrap()
            })
        })
        .collect();
    let mut seen = Vec::new();
    for task in tasks {
        seen.push(task.await.unwrap());
    }
    assert!(seen.iter().all(|inserted| *inserted == seen[0]));
    assert_eq!(fixture.count("SELECT count(*) FROM trial").await, 40);
}

#[tokio::test]
async fn cohort_of_any_size_fits() {
    let fixture = Fixture::new().await;
    // Bind parameters of a statement end at 65,535.
    let trials = fixture.insert(0..33_000).await;
    assert_eq!(trials.len(), 66_000);
}

#[tokio::test]
// tidy: long, because it is one life from first to last.
async fn history_tells_what_became_of_each_trial() {
    let fixture = Fixture::new().await;
    let trials = fixture.insert(0..3).await;
    let [a, b, c, d] = [trials[0], trials[1], trials[2], trials[3]];
    fixture.finish(fixture.start(a).await, complete(1.25)).await;
    let degenerate = TrialEnd::Degenerate {
        reason: crate::study::DegenerateReason::TooFewTrades,
    };
    fixture.finish(fixture.start(b).await, degenerate).await;
    let lost = fixture.start(c).await;
    let device = failure(FailureKind::Device);
    assert!(fixture.store().fail_attempt(lost, &device).await.unwrap());
    let diverged = TrialEnd::Failed(failure(FailureKind::Diverged));
    fixture.finish(fixture.start(c).await, diverged).await;
    fixture
        .finish(
            fixture.start(d).await,
            TrialEnd::Pruned {
                best: Some((0.5, 0)),
            },
        )
        .await;

    let history = fixture
        .store()
        .load_study_history(fixture.study_id)
        .await
        .unwrap();
    assert_eq!(
        history.iter().map(|c| c.number.0).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    assert_eq!(
        history.iter().map(|c| c.cohort).collect::<Vec<_>>(),
        [0, 0, 1]
    );
    let [first, second, third] = &history[..] else {
        panic!()
    };
    let (a, b) = (&first.trials[0], &first.trials[1]);
    assert_eq!(
        (a.precision, a.state, a.value, a.best_epoch),
        (F32, TrialState::Complete, Some(1.25), Some(1))
    );
    assert_eq!(
        (b.precision, b.state, b.value),
        (BF16, TrialState::Complete, None)
    );
    assert_eq!(
        b.degenerate_reason,
        Some(crate::study::DegenerateReason::TooFewTrades)
    );
    let (c, d) = (&second.trials[0], &second.trials[1]);
    assert_eq!(
        (c.state, c.failure_kind),
        (TrialState::Failed, Some(FailureKind::Diverged))
    );
    assert_eq!(
        c.failed_attempts,
        [FailureKind::Device, FailureKind::Diverged]
    );
    assert_eq!(
        (d.state, d.value, d.best_epoch),
        (TrialState::Pruned, Some(0.5), Some(0))
    );
    assert!(
        third
            .trials
            .iter()
            .all(|trial| trial.state == TrialState::Waiting)
    );
}

#[tokio::test]
async fn study_runs_in_one_place_at_a_time() {
    let fixture = Fixture::new().await;
    let other = Store::open(Some(&fixture.database.url)).await.unwrap();
    let mut lock = fixture.store().lock_study("s").await.unwrap();
    for store in [fixture.store(), &other] {
        let error = store.lock_study("s").await.unwrap_err();
        assert!(matches!(error, StoreError::StudyLocked { .. }), "{error}");
        assert!(store.delete_study("s").await.is_err());
    }
    other.lock_study("t").await.unwrap().release().await;
    lock.ensure().await.unwrap();

    // The connection dies with its process, or the server restarts: the lock can be had again …
    let terminate = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'";
    fixture.execute(terminate).await.unwrap();
    lock.ensure().await.unwrap();
    assert!(other.lock_study("s").await.is_err());
    // … unless somebody else took it meanwhile.
    fixture.execute(terminate).await.unwrap();
    let taken = loop {
        if let Ok(taken) = other.lock_study("s").await {
            break taken;
        }
    };
    assert!(matches!(
        lock.ensure().await,
        Err(StoreError::StudyLocked { .. })
    ));
    taken.release().await;
    lock.ensure().await.unwrap();
    drop(lock);
    // Dropping gives it back as soon as the server sees the closed socket.
    while other.lock_study("s").await.is_err() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn deleted_study_leaves_no_orphan() {
    let fixture = Fixture::new().await;
    let kept = fixture
        .store()
        .open_study(&new_study("kept"))
        .await
        .unwrap();
    let OpenedStudy::Created(kept) = kept else {
        panic!()
    };
    fixture
        .store()
        .insert_cohort(kept.study_id, &[new_configuration(0)], &ARMS, 1)
        .await
        .unwrap();
    for trial_id in fixture.insert(0..5).await {
        let attempt_id = fixture.start(trial_id).await;
        fixture
            .store()
            .record_epochs(&[epoch_row(attempt_id, 0, 0)])
            .await
            .unwrap();
        let outcome = TrialOutcome {
            attempt_id,
            end: complete(1.0),
            results: vec![result_row(0, Some(1.0))],
            artifacts: vec![ArtifactRow {
                fold: 0,
                content: vec![7; 10_000],
            }],
        };
        assert!(fixture.store().finish_trial(&outcome).await.unwrap());
    }
    fixture
        .execute(
            "INSERT INTO holdout (study_id, trial_ids, program_version)
        SELECT study_id, '{1}', '' FROM study WHERE name = 's'",
        )
        .await
        .unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM artifact").await, 10);
    fixture.store().delete_study("s").await.unwrap();
    for (table, n) in [
        ("SELECT count(*) FROM study", 1),
        ("SELECT count(*) FROM configuration", 1),
        ("SELECT count(*) FROM trial", 2),
        ("SELECT count(*) FROM attempt", 0),
        ("SELECT count(*) FROM epoch", 0),
        ("SELECT count(*) FROM result", 0),
        ("SELECT count(*) FROM artifact", 0),
        ("SELECT count(*) FROM holdout", 0),
    ] {
        assert_eq!(fixture.count(table).await, n, "{table}");
    }
    assert!(matches!(
        fixture.store().delete_study("s").await,
        Err(StoreError::StudyUnknown { .. })
    ));
}
