//! The views' numbers on a study built by hand.

use super::*;
use crate::study::{DegenerateReason, TrialState};

/// Tolerance for sums of a few numbers of order 1, each rounded to 2^-53.
const EPS: f64 = 1e-12;

fn near(got: Option<f64>, expected: f64) {
    let got = got.expect("there is a number");
    assert!(
        (got - expected).abs() < EPS,
        "got {got}, expected {expected}"
    );
}

/// What a trial of the hand-built study is made of.
struct Made {
    value: f64,
    folds: [f64; 2],
    /// Device milliseconds per lane of the two epochs after the warm-up.
    epochs_ms: [f64; 2],
    bytes_per_lane: u64,
}

async fn make(fixture: &Fixture, trial_id: TrialId, made: &Made) {
    let attempt = NewAttempt {
        bytes_per_lane: made.bytes_per_lane,
        ..fixture.new_attempt(trial_id)
    };
    let attempt_id = fixture.store().start_attempts(&[attempt]).await.unwrap()[0].unwrap();
    let mut rows = Vec::new();
    for (epoch, ms) in [1e6, made.epochs_ms[0], made.epochs_ms[1]]
        .into_iter()
        .enumerate()
    {
        let mut row = epoch_row(attempt_id, 0, epoch as u32);
        row.pack_device_ms = 2.0 * ms;
        row.pack_wall_ms = 3.0 * ms;
        rows.push(row);
    }
    fixture.store().record_epochs(&rows).await.unwrap();
    let outcome = TrialOutcome {
        attempt_id,
        end: complete(made.value),
        results: vec![
            result_row(0, Some(made.folds[0])),
            result_row(1, Some(made.folds[1])),
            ResultRow {
                split: Split::Train,
                ..result_row(0, Some(99.0))
            },
        ],
        artifacts: Vec::new(),
    };
    assert!(fixture.store().finish_trial(&outcome).await.unwrap());
}

/// Three pairs; a pair lost to the arm; one lost to both; one that waits.
async fn study_by_hand() -> (Fixture, Vec<TrialId>) {
    let fixture = Fixture::new().await;
    let trials = fixture.insert(0..6).await;
    let f32 = |value, folds, epochs_ms| Made {
        value,
        folds,
        epochs_ms,
        bytes_per_lane: 1_000,
    };
    let bf16 = |value, folds, epochs_ms| Made {
        bytes_per_lane: 600,
        ..f32(value, folds, epochs_ms)
    };
    make(&fixture, trials[0], &f32(1.0, [1.0, 2.0], [10.0, 12.0])).await;
    make(&fixture, trials[1], &bf16(0.9, [1.2, 2.2], [5.0, 6.0])).await;
    make(&fixture, trials[2], &f32(2.0, [2.0, 2.0], [14.0, 16.0])).await;
    make(&fixture, trials[3], &bf16(1.5, [1.0, 2.0], [7.0, 8.0])).await;
    make(&fixture, trials[4], &f32(0.5, [0.5, 0.5], [18.0, 20.0])).await;
    make(&fixture, trials[5], &bf16(3.0, [0.6, 0.6], [9.0, 10.0])).await;
    make(&fixture, trials[6], &f32(9.0, [9.0, 9.0], [1.0, 1.0])).await;
    let diverged = TrialEnd::Failed(failure(FailureKind::Diverged));
    fixture
        .finish(fixture.start(trials[7]).await, diverged)
        .await;
    let degenerate = TrialEnd::Degenerate {
        reason: DegenerateReason::ZeroVariance,
    };
    fixture
        .finish(fixture.start(trials[8]).await, degenerate.clone())
        .await;
    fixture
        .finish(fixture.start(trials[9]).await, degenerate)
        .await;
    (fixture, trials)
}

#[tokio::test]
async fn comparison_counts_pairs_and_differences() {
    let (fixture, _) = study_by_hand().await;
    let compared = fixture.store().precision_comparison("s").await.unwrap();
    let [row] = &compared[..] else {
        panic!("one arm besides the reference")
    };
    assert_eq!((row.reference, row.arm), (F32, BF16));
    assert_eq!(
        (row.n_pairs, row.n_lost_reference, row.n_lost_arm),
        (3, 1, 2)
    );
    // Medians of 10 … 20 and of 5 … 10, without warm-up and without the trial that has no pair.
    near(row.epoch_ms_reference, 15.0);
    near(row.epoch_ms_arm, 7.5);
    near(row.epoch_time_ratio, 0.5);
    near(row.bytes_ratio, 0.6);
    // Differences of the fold means: 1.7 - 1.5, 1.5 - 2.0, 0.6 - 0.5.
    near(row.sharpe_delta_mean, -0.2 / 3.0);
    near(row.sharpe_delta_median, 0.1);
    // Configuration 1 wins in f32 (2.0), configuration 2 in bf16 (3.0).
    assert_eq!(row.same_winner, Some(false));
    assert_eq!(row.timing_note, None);
    assert!(row.note.as_deref().unwrap().contains("verdict"));
    let later = [
        row.ratio_lo,
        row.ratio_hi,
        row.sharpe_delta_lo,
        row.sharpe_delta_hi,
    ];
    assert_eq!(later, [None; 4]);
    assert_eq!((row.reseed_delta_sd, row.p_signed_rank), (None, None));
    assert_eq!((row.verdict.as_deref(), row.pairs_needed), (None, None));

    // Minimizing, 0.5 and 0.9 win: configurations 2 and 0; then both times configuration 2.
    fixture
        .execute("UPDATE study SET direction = 'minimize'")
        .await
        .unwrap();
    let row = &fixture.store().precision_comparison("s").await.unwrap()[0];
    assert_eq!(row.same_winner, Some(false));
    fixture
        .execute("UPDATE trial SET value = 0.1 WHERE value = 3.0")
        .await
        .unwrap();
    let row = &fixture.store().precision_comparison("s").await.unwrap()[0];
    assert_eq!(row.same_winner, Some(true));
}

#[tokio::test]
async fn times_compare_only_under_equal_conditions() {
    let (fixture, trials) = study_by_hand().await;
    let compared = async || {
        let mut rows = fixture.store().precision_comparison("s").await.unwrap();
        rows.remove(0)
    };
    // Two of three pairs are left: 0.5 and 0.5 still.
    let lanes =
        "UPDATE epoch SET n_lanes = 1 FROM attempt WHERE attempt.attempt_id = epoch.attempt_id
        AND attempt.trial_id = (SELECT min(trial_id) FROM trial)";
    fixture.execute(lanes).await.unwrap();
    let row = compared().await;
    assert_eq!(
        row.timing_note.as_deref(),
        Some("1 of 3 pairs left out: numbers of live lanes differ")
    );
    near(row.epoch_time_ratio, 0.5);
    assert_eq!(row.n_pairs, 3);
    let device = "UPDATE attempt SET device = 'other' WHERE trial_id = (SELECT min(trial_id) + 2 FROM trial)";
    fixture.execute(device).await.unwrap();
    assert_eq!(
        compared().await.timing_note.as_deref(),
        Some("2 of 3 pairs left out: devices or drivers differ; numbers of live lanes differ")
    );
    fixture
        .execute("UPDATE epoch SET overlap = true WHERE NOT is_warmup")
        .await
        .unwrap();
    assert_eq!(
        compared().await.timing_note.as_deref(),
        Some("packs overlapped on the device")
    );
    let emulated = "UPDATE epoch SET is_emulated = true FROM attempt JOIN trial USING (trial_id)
        WHERE attempt.attempt_id = epoch.attempt_id AND trial.precision = 'bf16'";
    fixture.execute(emulated).await.unwrap();
    let row = compared().await;
    assert_eq!(row.epoch_time_ratio, None);
    assert_eq!(
        row.timing_note.as_deref(),
        Some("precision is emulated: right in value, not in speed or memory")
    );
    // The times themselves stay visible, and so do the differences.
    near(row.epoch_ms_arm, 7.5);
    near(row.sharpe_delta_median, 0.1);
    fixture
        .execute("UPDATE epoch SET is_warmup = true, is_emulated = false")
        .await
        .unwrap();
    let row = compared().await;
    assert_eq!(
        row.timing_note.as_deref(),
        Some("no epoch after the warm-up")
    );
    assert_eq!((row.epoch_ms_reference, row.epoch_ms_arm), (None, None));
    drop(trials);
}

#[tokio::test]
async fn pairs_are_listed_one_by_one() {
    let (fixture, trials) = study_by_hand().await;
    let numbers: Vec<(i32, f64, f64, i64, i64)> = sqlx::query_as(
        "SELECT number, sharpe_delta, epoch_time_ratio, reference_trial_id, arm_trial_id
        FROM precision_pair WHERE study = 's' ORDER BY number",
    )
    .fetch_all(fixture.store().pool())
    .await
    .unwrap();
    assert_eq!(
        numbers.iter().map(|row| row.0).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    for (row, delta) in numbers.iter().zip([0.2, -0.5, 0.1]) {
        near(Some(row.1), delta);
        near(Some(row.2), 0.5);
    }
    assert_eq!((numbers[1].3, numbers[1].4), (trials[2].0, trials[3].0));
    let whole = fixture
        .text("SELECT row_to_json(precision_pair)::text FROM precision_pair WHERE number = 0")
        .await;
    let whole: serde_json::Value = serde_json::from_str(&whole).unwrap();
    for (column, value) in [
        ("replicate", serde_json::json!(0)),
        ("reference", serde_json::json!("f32")),
        ("arm", serde_json::json!("bf16")),
        ("value_reference", serde_json::json!(1)),
        ("value_arm", serde_json::json!(0.9)),
        ("sharpe_reference", serde_json::json!(1.5)),
        ("epoch_ms_reference", serde_json::json!(11)),
        ("epoch_ms_arm", serde_json::json!(5.5)),
        ("bytes_per_lane_reference", serde_json::json!(1000)),
        ("bytes_per_lane_arm", serde_json::json!(600)),
        ("timing_note", serde_json::Value::Null),
    ] {
        assert_eq!(whole[column], value, "{column}");
    }
}

#[tokio::test]
async fn a_third_arm_and_replicates_make_their_own_pairs() {
    let fixture = Fixture::new().await;
    let arms = [BF16, F32, Precision::Tf32];
    let three = NewStudy {
        arms: &arms,
        n_replicates: 2,
        ..new_study("three")
    };
    let OpenedStudy::Created(study) = fixture.store().open_study(&three).await.unwrap() else {
        panic!("the study is new")
    };
    let cohort = [new_configuration(0)];
    let inserted = fixture
        .store()
        .insert_cohort(study.study_id, &cohort, &arms, 2)
        .await
        .unwrap();
    for (at, trial) in inserted[0].trials.iter().enumerate() {
        let made = Made {
            value: at as f64,
            folds: [at as f64; 2],
            epochs_ms: [1.0, 1.0],
            bytes_per_lane: 0,
        };
        make(&fixture, trial.trial_id, &made).await;
    }
    let rows = fixture.store().precision_comparison("three").await.unwrap();
    assert_eq!(
        rows.iter().map(|row| row.arm).collect::<Vec<_>>(),
        [F32, Precision::Tf32]
    );
    for (row, delta) in rows.iter().zip([2.0, 4.0]) {
        assert_eq!(
            (row.reference, row.n_pairs, row.same_winner),
            (BF16, 2, Some(true))
        );
        near(row.sharpe_delta_mean, delta);
        near(row.epoch_time_ratio, 1.0);
        // No bytes, no ratio.
        assert_eq!(row.bytes_ratio, None);
    }
    // The study without a pair says so.
    let row = &fixture.store().precision_comparison("s").await.unwrap()[0];
    assert_eq!(
        (row.n_pairs, row.n_lost_reference, row.n_lost_arm),
        (0, 0, 0)
    );
    assert_eq!(row.timing_note.as_deref(), Some("no pairs"));
    assert_eq!((row.sharpe_delta_mean, row.same_winner), (None, None));
}

#[tokio::test]
async fn distribution_describes_each_arm() {
    let (fixture, _) = study_by_hand().await;
    let rows = fixture.store().precision_distribution("s").await.unwrap();
    let [f32, bf16] = &rows[..] else {
        panic!("two arms")
    };
    assert_eq!((f32.arm, f32.reference), (F32, F32));
    assert_eq!(
        (
            f32.n,
            f32.n_unfinished,
            f32.n_failed,
            f32.n_degenerate,
            f32.n_pruned,
            f32.n_scored
        ),
        (6, 1, 0, 1, 0, 4)
    );
    assert_eq!(
        (
            bf16.n,
            bf16.n_unfinished,
            bf16.n_failed,
            bf16.n_degenerate,
            bf16.n_pruned,
            bf16.n_scored
        ),
        (6, 1, 1, 1, 0, 3)
    );
    // bf16: 0.6, 1.5, 1.7, linear between order statistics.
    near(bf16.sharpe_mean, 3.8 / 3.0);
    let mean: f64 = 3.8 / 3.0;
    let squares: f64 = [0.6, 1.5, 1.7]
        .iter()
        .map(|s: &f64| (s - mean).powi(2))
        .sum();
    near(bf16.sharpe_sd, (squares / 2.0).sqrt());
    near(bf16.sharpe_min, 0.6);
    near(bf16.sharpe_p05, 0.6 + 0.1 * 0.9);
    near(bf16.sharpe_p25, 1.05);
    near(bf16.sharpe_p50, 1.5);
    near(bf16.sharpe_p75, 1.6);
    near(bf16.sharpe_p95, 1.5 + 0.9 * 0.2);
    near(bf16.sharpe_max, 1.7);
}

#[tokio::test]
// tidy: long, because it is one hand-built study and what the views say of it.
async fn progress_and_leaderboard_count_and_rank() {
    let (fixture, trials) = study_by_hand().await;
    let progress = fixture.store().study_progress("s").await.unwrap();
    assert_eq!(
        (
            progress.n_configurations,
            progress.n_trials,
            progress.n_sampled
        ),
        (4, 8, 6)
    );
    assert_eq!(
        (
            progress.n_waiting,
            progress.n_running,
            progress.n_complete,
            progress.n_degenerate
        ),
        (2, 0, 9, 2)
    );
    assert_eq!(
        (progress.n_failed, progress.n_pruned, progress.best_value),
        (1, 0, Some(9.0))
    );
    assert_eq!(
        (progress.metric.as_str(), progress.direction),
        ("validation.sharpe", Direction::Maximize)
    );

    let board = fixture
        .store()
        .leaderboard(fixture.study_id, 9)
        .await
        .unwrap();
    let ranks: Vec<_> = board.iter().map(|row| (row.rank, row.number.0)).collect();
    // Means over the arms 1.75, 1.75, 0.95; a configuration with a lost trial has no value.
    assert_eq!(ranks, [(1, 1), (1, 2), (3, 0)]);
    near(Some(board[2].value), 0.95);
    near(board[2].reference_value, 1.0);
    assert_eq!(
        board.iter().map(|row| row.n_trials).collect::<Vec<_>>(),
        [2, 2, 2]
    );
    assert_eq!(board[1].best_trial_id, trials[5]);
    assert_eq!(board[0].params, new_configuration(0).params);
    assert_eq!(
        fixture
            .store()
            .leaderboard(fixture.study_id, 1)
            .await
            .unwrap()
            .len(),
        1
    );

    let best = fixture
        .store()
        .best_trials(fixture.study_id, Direction::Maximize, 2)
        .await
        .unwrap();
    assert_eq!(best, [trials[6], trials[5]]);
    let worst = fixture
        .store()
        .best_trials(fixture.study_id, Direction::Minimize, 2)
        .await
        .unwrap();
    assert_eq!(worst, [trials[4], trials[1]]);

    fixture
        .execute("UPDATE study SET direction = 'minimize'")
        .await
        .unwrap();
    let board = fixture
        .store()
        .leaderboard(fixture.study_id, 9)
        .await
        .unwrap();
    assert_eq!(board[0].number.0, 0);
    assert_eq!(board[0].best_trial_id, trials[1]);
    assert_eq!(
        fixture
            .store()
            .study_progress("s")
            .await
            .unwrap()
            .best_value,
        Some(0.5)
    );
}

#[tokio::test]
// tidy: long, because it is one hand-built study and what the views say of it.
async fn overview_params_and_times_have_a_row_each() {
    let (fixture, trials) = study_by_hand().await;
    let listed = fixture.store().trials(fixture.study_id).await.unwrap();
    assert_eq!(
        listed.iter().map(|t| t.trial_id).collect::<Vec<_>>(),
        trials
    );
    let first = &listed[0];
    near(first.sharpe, 1.5);
    // The worse of 0.05 and 0.10; the training split is left out.
    near(first.max_drawdown, 0.1);
    assert_eq!(
        (first.n_folds, first.n_trades, first.n_attempts),
        (2, Some(24), 1)
    );
    assert_eq!(
        (first.device.as_deref(), first.plan_key.as_deref()),
        (Some("cpu"), Some("p"))
    );
    let waits = &listed[11];
    assert_eq!(
        (waits.state, waits.n_folds, waits.n_attempts),
        (TrialState::Waiting, 0, 0)
    );
    assert_eq!(
        (waits.sharpe, waits.n_trades, waits.device.as_deref()),
        (None, None, None)
    );

    assert_eq!(
        fixture
            .count("SELECT count(*) FROM epoch_time WHERE study = 's'")
            .await,
        21
    );
    let time = fixture
        .text(
            "SELECT row_to_json(epoch_time)::text FROM epoch_time
        WHERE number = 0 AND precision = 'f32' AND epoch = 1",
        )
        .await;
    let time: serde_json::Value = serde_json::from_str(&time).unwrap();
    assert_eq!(
        (&time["device_ms_per_lane"], &time["wall_ms_per_lane"]),
        (&10.into(), &15.into())
    );
    assert_eq!(
        (&time["is_comparable"], &time["attempt_state"]),
        (&true.into(), &"complete".into())
    );
    let comparable = "SELECT count(*) FROM epoch_time WHERE is_comparable";
    assert_eq!(fixture.count(comparable).await, 14);

    fixture
        .execute(
            r#"UPDATE configuration SET params = '{"i": 3, "f": 1e-5, "b": true, "t": "x"}'
        WHERE number = 0"#,
        )
        .await
        .unwrap();
    let params: Vec<(String, Option<f64>, Option<String>)> = sqlx::query_as(
        "SELECT name, numeric_value, text_value FROM trial_param
        WHERE number = 0 AND precision = 'bf16' ORDER BY name",
    )
    .fetch_all(fixture.store().pool())
    .await
    .unwrap();
    let text = |t: &str| Some(t.to_owned());
    assert_eq!(
        params,
        [
            ("b".to_owned(), None, text("true")),
            ("f".to_owned(), Some(1e-5), None),
            ("i".to_owned(), Some(3.0), None),
            ("t".to_owned(), None, text("x")),
        ]
    );
}
