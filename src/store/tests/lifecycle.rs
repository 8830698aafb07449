//! Attempts, epochs and ends of trials.

use super::*;
use crate::study::{DegenerateReason, TrialState};

#[tokio::test]
// tidy: long, because it is one life from first to last.
async fn trial_is_stored_whole() {
    let fixture = Fixture::new().await;
    let trial_id = fixture.insert(0..1).await[0];
    let attempt_id = fixture.start(trial_id).await;
    let figures = ValidationFigures {
        sharpe: Some(0.1 + 0.2),
        total_return: Some(-0.5),
        max_drawdown: Some(0.25),
        turnover: Some(0.125),
        exposure: Some(1.0),
        n_trades: Some(33),
    };
    let mut rows = vec![epoch_row(attempt_id, 0, 0), epoch_row(attempt_id, 1, 0)];
    rows[0].loss_terms = BTreeMap::from([("c51".to_owned(), 0.5), ("cql".to_owned(), f64::NAN)]);
    rows[1].validation = figures;
    rows[1].q_max = Some(f64::INFINITY);
    rows[1].loss = Some(f64::NAN);
    assert_eq!(fixture.store().record_epochs(&rows).await.unwrap(), []);
    let weights = vec![
        ArtifactRow {
            fold: 0,
            content: (0..=255).collect(),
        },
        ArtifactRow {
            fold: 1,
            content: Vec::new(),
        },
    ];
    let outcome = TrialOutcome {
        attempt_id,
        end: complete(0.1 + 0.2),
        results: vec![result_row(0, Some(1.0)), result_row(1, Some(f64::NAN))],
        artifacts: weights.clone(),
    };
    assert!(fixture.store().finish_trial(&outcome).await.unwrap());

    let detail = fixture.store().trial_detail(trial_id).await.unwrap();
    assert_eq!(
        (detail.overview.state, detail.overview.value),
        (TrialState::Complete, Some(0.1 + 0.2))
    );
    assert_eq!(detail.seeds, [1, u64::MAX]);
    assert_eq!(detail.attempts.len(), 1);
    let attempt = &detail.attempts[0];
    assert_eq!(
        (
            attempt.state.as_str(),
            attempt.host.as_str(),
            attempt.n_lanes
        ),
        ("complete", "host", 8)
    );
    assert_eq!(
        (attempt.arena_bytes, attempt.bytes_per_lane),
        (8_000, 1_000)
    );
    assert_eq!(detail.epochs.len(), 2);
    assert_eq!(detail.epochs[1].validation, figures);
    // Diagnostics are kept as they were measured.
    assert!(detail.epochs[1].loss.unwrap().is_nan());
    assert_eq!(detail.epochs[1].q_max, Some(f64::INFINITY));
    assert_eq!(detail.epochs[1].q_mean, None);
    let terms = fixture
        .text("SELECT loss_terms::text FROM epoch WHERE fold = 0")
        .await;
    assert_eq!(terms, r#"{"c51":0.5,"cql":null}"#);
    assert_eq!(detail.results[0].sharpe_annual, Some(1.0));
    // A Sharpe ratio that is no number is none.
    assert_eq!(
        (detail.results[1].sharpe, detail.results[1].sharpe_annual),
        (None, None)
    );
    let bits = |returns: &[f64]| returns.iter().map(|r| r.to_bits()).collect::<Vec<_>>();
    assert_eq!(
        bits(&detail.results[0].net_returns),
        bits(&result_row(0, None).net_returns)
    );
    assert_eq!(
        fixture.store().best_weights(trial_id).await.unwrap(),
        weights
    );
    let unknown = fixture.store().trial_detail(TrialId(0)).await;
    assert!(matches!(
        unknown,
        Err(StoreError::TrialUnknown { trial_id: 0 })
    ));
}

#[tokio::test]
async fn value_that_is_no_number_never_ranks() {
    let fixture = Fixture::new().await;
    let trials = fixture.insert(0..2).await;
    fixture
        .finish(fixture.start(trials[0]).await, complete(f64::NAN))
        .await;
    fixture
        .finish(fixture.start(trials[1]).await, complete(f64::INFINITY))
        .await;
    let best = Some((f64::NEG_INFINITY, 3));
    fixture
        .finish(fixture.start(trials[2]).await, TrialEnd::Pruned { best })
        .await;
    let history = fixture
        .store()
        .load_study_history(fixture.study_id)
        .await
        .unwrap();
    for trial in &history[0].trials {
        assert_eq!((trial.state, trial.value), (TrialState::Complete, None));
        assert_eq!(trial.degenerate_reason, Some(DegenerateReason::NotFinite));
    }
    assert_eq!(
        (history[1].trials[0].state, history[1].trials[0].value),
        (TrialState::Pruned, None)
    );
    let best = fixture
        .store()
        .best_trials(fixture.study_id, Direction::Maximize, 9)
        .await
        .unwrap();
    assert_eq!(best, []);
}

#[tokio::test]
async fn fenced_attempt_changes_nothing() {
    let fixture = Fixture::new().await;
    let trial_id = fixture.insert(0..1).await[0];
    let dead = fixture.start(trial_id).await;
    fixture
        .store()
        .record_epochs(&[epoch_row(dead, 0, 0)])
        .await
        .unwrap();
    assert_eq!(
        fixture
            .store()
            .requeue_running(fixture.study_id)
            .await
            .unwrap(),
        [trial_id]
    );
    let waiting = |fixture: &Fixture| {
        let store = fixture.store().clone();
        async move { store.trial(trial_id).await.unwrap().state }
    };
    assert_eq!(waiting(&fixture).await, TrialState::Waiting);
    // Between the requeue and the next attempt, and after it.
    for round in 0..2 {
        let reported = fixture
            .store()
            .record_epochs(&[epoch_row(dead, 0, 1 + round)])
            .await
            .unwrap();
        assert_eq!(reported, [dead]);
        assert!(!fixture.finish(dead, complete(9.0)).await);
        let bug = failure(FailureKind::Bug);
        assert!(!fixture.store().fail_attempt(dead, &bug).await.unwrap());
        if round == 0 {
            fixture.start(trial_id).await;
        }
    }
    assert_eq!(fixture.count("SELECT count(*) FROM epoch").await, 1);
    assert_eq!(fixture.count("SELECT count(*) FROM result").await, 0);
    let detail = fixture.store().trial_detail(trial_id).await.unwrap();
    assert_eq!(detail.overview.state, TrialState::Running);
    let states: Vec<_> = detail.attempts.iter().map(|a| a.state.as_str()).collect();
    assert_eq!(states, ["abandoned", "running"]);
    // An attempt that never was is fenced too.
    assert!(!fixture.finish(AttemptId(0), complete(1.0)).await);
    assert_eq!(
        fixture
            .store()
            .requeue_running(fixture.study_id)
            .await
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        fixture
            .store()
            .requeue_running(fixture.study_id)
            .await
            .unwrap(),
        []
    );
}

#[tokio::test]
async fn writes_may_be_repeated_after_a_lost_answer() {
    let fixture = Fixture::new().await;
    let trial_id = fixture.insert(0..1).await[0];
    let lost = fixture.start(trial_id).await;
    // The answer with the key never arrived: the same worker starts again.
    let attempt_id = fixture.start(trial_id).await;
    assert_ne!(lost, attempt_id);
    let mut row = epoch_row(attempt_id, 0, 0);
    fixture.store().record_epochs(&[row.clone()]).await.unwrap();
    row.loss = Some(99.0);
    assert_eq!(fixture.store().record_epochs(&[row]).await.unwrap(), []);
    assert!(fixture.finish(attempt_id, complete(1.0)).await);
    assert!(fixture.finish(attempt_id, complete(1.0)).await);
    assert_eq!(
        fixture
            .count("SELECT count(*) FROM epoch WHERE loss = 0.5")
            .await,
        1
    );
    let ended = fixture
        .store()
        .start_attempts(&[fixture.new_attempt(trial_id)])
        .await
        .unwrap();
    assert_eq!(ended, [None]);
}

#[tokio::test]
async fn trial_of_another_worker_is_left_alone() {
    let fixture = Fixture::new().await;
    let trials = fixture.insert(0..2).await;
    let attempt_id = fixture.start(trials[0]).await;
    let other = fixture
        .store()
        .register_worker("elsewhere", "0.1.0")
        .await
        .unwrap();
    let theirs = |trial_id| NewAttempt {
        worker_id: other,
        ..fixture.new_attempt(trial_id)
    };
    let wanted = [theirs(trials[1]), theirs(trials[0]), theirs(trials[2])];
    let started = fixture.store().start_attempts(&wanted).await.unwrap();
    assert_eq!(
        started.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, false, true]
    );
    assert!(fixture.finish(attempt_id, complete(1.0)).await);
    assert!(fixture.finish(started[2].unwrap(), complete(1.0)).await);
}

#[tokio::test]
async fn many_starters_share_trials_without_doubling() {
    let fixture = Fixture::new().await;
    let trials = fixture.insert(0..16).await;
    let mut tasks = Vec::new();
    for shift in 0..4 {
        let store = fixture.store().clone();
        let worker_id = store.register_worker("host", "0.1.0").await.unwrap();
        let mut wanted: Vec<_> = trials
            .iter()
            .map(|&trial_id| NewAttempt {
                worker_id,
                ..fixture.new_attempt(trial_id)
            })
            .collect();
        // Different orders would deadlock if rows were not locked in one order.
        wanted.rotate_left(shift * 7);
        tasks.push(tokio::spawn(async move {
            store.start_attempts(&wanted).await.unwrap()
        }));
    }
    let mut n_started = 0;
    for task in tasks {
        n_started += task.await.unwrap().iter().flatten().count();
    }
    assert_eq!(n_started, trials.len());
    assert_eq!(fixture.count("SELECT count(*) FROM attempt").await, 32);
}

#[tokio::test]
async fn failed_attempt_leaves_its_cause() {
    let fixture = Fixture::new().await;
    let trial_id = fixture.insert(0..1).await[0];
    let first = fixture.start(trial_id).await;
    let memory = Failure {
        kind: FailureKind::OutOfMemory,
        text: "the arena of 8 lanes does not fit".to_owned(),
        bytes_asked: Some(1 << 40),
        bytes_free: Some(1 << 33),
    };
    assert!(fixture.store().fail_attempt(first, &memory).await.unwrap());
    assert!(fixture.store().fail_attempt(first, &memory).await.unwrap());
    let second = fixture.start(trial_id).await;
    assert!(
        fixture
            .finish(second, TrialEnd::Failed(failure(FailureKind::Bug)))
            .await
    );
    let detail = fixture.store().trial_detail(trial_id).await.unwrap();
    assert_eq!(detail.overview.state, TrialState::Failed);
    assert_eq!(detail.overview.failure_kind, Some(FailureKind::Bug));
    assert_eq!(detail.overview.failure_text.as_deref(), Some("the cause"));
    let [first, second] = &detail.attempts[..] else {
        panic!()
    };
    assert_eq!(
        (first.failure_kind, first.bytes_asked, first.bytes_free),
        (Some(FailureKind::OutOfMemory), Some(1 << 40), Some(1 << 33))
    );
    assert_eq!(second.failure_kind, Some(FailureKind::Bug));
}

#[tokio::test]
async fn reopened_trials_forget_their_results_and_train_again() {
    let fixture = Fixture::new().await;
    let trials = fixture.insert(0..1).await;
    let outcome = |attempt_id, value| TrialOutcome {
        attempt_id,
        end: complete(value),
        results: vec![result_row(0, Some(value))],
        artifacts: vec![ArtifactRow {
            fold: 0,
            content: vec![1],
        }],
    };
    let first = fixture.start(trials[0]).await;
    fixture
        .store()
        .finish_trial(&outcome(first, 1.0))
        .await
        .unwrap();
    fixture
        .finish(
            fixture.start(trials[1]).await,
            TrialEnd::Failed(failure(FailureKind::Bug)),
        )
        .await;
    assert_eq!(
        fixture
            .store()
            .reopen_complete(fixture.study_id)
            .await
            .unwrap(),
        [trials[0]]
    );
    assert_eq!(fixture.count("SELECT count(*) FROM result").await, 0);
    let second = fixture.start(trials[0]).await;
    fixture
        .store()
        .finish_trial(&outcome(second, 2.0))
        .await
        .unwrap();
    let detail = fixture.store().trial_detail(trials[0]).await.unwrap();
    assert_eq!(detail.overview.value, Some(2.0));
    let states: Vec<_> = detail.attempts.iter().map(|a| a.state.as_str()).collect();
    assert_eq!(states, ["abandoned", "complete"]);
}

#[tokio::test]
async fn constraints_keep_nonsense_out() {
    let fixture = Fixture::new().await;
    let trials = fixture.insert(0..1).await;
    let attempt_id = fixture.start(trials[0]).await;
    for (sql, constraint) in [
        (
            "UPDATE trial SET state = 'complete', ended_at = now()",
            "trial_complete_has_value_or_reason",
        ),
        (
            "UPDATE trial SET value = 'NaN', best_epoch = 1, state = 'complete', ended_at = now()",
            "trial_value_is_finite",
        ),
        (
            "UPDATE trial SET state = 'failed', ended_at = now()",
            "trial_failed_has_kind_and_text",
        ),
        (
            "UPDATE trial SET ended_at = now()",
            "trial_has_end_if_it_ended",
        ),
        (
            "UPDATE configuration SET watermark = number + 1",
            "configuration_learns_from_earlier_ones",
        ),
        (
            "UPDATE configuration SET params = '[]'",
            "configuration_params_are_an_object",
        ),
        ("UPDATE study SET arms = '{}'", "study_has_an_arm"),
        (
            "INSERT INTO artifact (trial_id, fold, kind, sha256, content)
            SELECT trial_id, 0, 'best_weights', '', '' FROM trial",
            "artifact_digest_is_that_of_its_content",
        ),
    ] {
        let error = fixture.execute(sql).await.unwrap_err();
        let broken = error.as_database_error().and_then(|e| e.constraint());
        assert_eq!(broken, Some(constraint), "{sql}: {error}");
    }
    let mut row = epoch_row(attempt_id, 0, 0);
    row.pack_wall_ms = f64::NAN;
    let error = fixture.store().record_epochs(&[row]).await.unwrap_err();
    assert!(matches!(error, StoreError::Statement { .. }), "{error}");
}

#[tokio::test]
async fn pack_of_64_lanes_reports_at_once() {
    let fixture = Fixture::new().await;
    let trials = fixture.insert(0..32).await;
    let wanted: Vec<_> = trials.iter().map(|&id| fixture.new_attempt(id)).collect();
    let attempts = fixture.store().start_attempts(&wanted).await.unwrap();
    let rows: Vec<_> = attempts
        .iter()
        .map(|id| epoch_row(id.unwrap(), 0, 0))
        .collect();
    fixture.store().record_epochs(&rows).await.unwrap();
    assert_eq!(fixture.count("SELECT count(*) FROM epoch").await, 64);
    // One statement: all rows carry the time of the same transaction.
    assert_eq!(
        fixture
            .count("SELECT count(DISTINCT recorded_at) FROM epoch")
            .await,
        1
    );
    assert_eq!(fixture.store().record_epochs(&[]).await.unwrap(), []);
}

#[test]
fn writes_can_be_spawned() {
    fn send<T: Send>(_: &T) {}
    fn check(store: &Store, outcome: &TrialOutcome) {
        send(&store.record_epochs(&[]));
        send(&store.start_attempts(&[]));
        send(&store.finish_trial(outcome));
        send(&store.lock_study("s"));
        send(&store.delete_study("s"));
        send(&bench(store));
    }
    let _ = check;
}
