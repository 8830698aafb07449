//! Studies on a scripted device and a database of their own.

use super::{Ended, Machine, Scheduler, SchedulerError, Summary, open};
use crate::executor::testing::{
    N_EPOCHS, N_FOLDS, Scripted, device_error, devices, options, params, preparer, wide,
};
use crate::executor::{PoolDevice, PoolOptions};
use crate::sampler::propose;
use crate::spec::{
    Arm, BarLength, BudgetSpec, Calendar, CostSpec, DataSource, DataSpec, Devices, EvaluateIn,
    ExecutorsSpec, MarketSpec, PrecisionSpec, PrunerKind, SamplerKind, SchedulerSpec, SpaceParam,
    SplitSpec, StudySpec, TrainWindow,
};
use crate::store::testing::TestDatabase;
use crate::store::{TrialDetail, TrialOverview};
use crate::study::{
    ConfigurationNumber, Domain, FailureKind, History, Params, Precision, Scale, StudyState,
    TrialState, Value,
};
use std::collections::BTreeSet;
use std::sync::{Mutex, mpsc};
use tokio::sync::watch;

/// A study of small agents in two arms, two configurations a cohort.
// tidy: long, because a spec names every key.
fn spec(configurations: u32) -> StudySpec {
    let source = DataSource::Synthetic {
        bars: 900,
        seed: 5,
        rho: 0.2,
        shuffled: false,
    };
    let lr = Domain::Float {
        low: 1e-4,
        high: 1e-2,
        scale: Scale::Log,
        step: None,
    };
    let mut fixed = params(0.0);
    fixed.remove("train.lr");
    StudySpec {
        name: "s".to_owned(),
        seed: 17,
        series: None,
        objective: options().objective,
        data: DataSpec {
            source,
            bar: BarLength::Day1,
            time_zone: None,
            calendar: Calendar::UsEquity,
        },
        split: SplitSpec {
            folds: 2,
            window: TrainWindow::Expanding,
            validation_bars: 60,
            holdout_bars: 100,
            purge_bars: None,
        },
        market: MarketSpec {
            flatten: false,
            capital: 1e6,
            cost: CostSpec {
                fee_bp: 0.5,
                maker_fee_bp: 0.0,
                half_spread_bp: 0.5,
                impact: 0.1,
            },
        },
        kind: "dqn".to_owned(),
        fixed,
        space: vec![SpaceParam {
            name: "train.lr".to_owned(),
            domain: lr,
            when: None,
            structural: false,
            default: Value::Float(1e-4),
        }],
        enqueue: Vec::new(),
        precision: PrecisionSpec {
            arms: vec![Arm::F32, Arm::Bf16],
            margin_sharpe: 0.05,
            margin_time: 0.02,
            evaluate_in: EvaluateIn::Arm,
        },
        budget: BudgetSpec {
            configurations,
            replicates: 1,
            epochs: N_EPOCHS,
            wall_s: None,
        },
        sampler: SamplerKind::Sobol,
        pruner: PrunerKind::None,
        scheduler: SchedulerSpec { cohort: 2 },
        executors: ExecutorsSpec {
            devices: Devices::Auto,
            per_device: None,
            lanes: None,
            memory_fraction: 0.9,
            overlap: false,
        },
        spans_run: None,
    }
}

async fn try_run(
    database: &TestDatabase,
    spec: &StudySpec,
    devices: Vec<PoolDevice>,
    options: PoolOptions,
    stop: watch::Receiver<bool>,
) -> Result<Summary, SchedulerError> {
    let store = database.store.clone();
    let preparer = preparer(&devices);
    let lock = store.lock_study(&spec.name).await.unwrap();
    let digest = preparer.market().digest.clone();
    let opened = open(&store, spec, &digest, Precision::F32).await.unwrap();
    let machine = Machine {
        host: "host".to_owned(),
        devices,
    };
    let scheduler = Scheduler::new(
        store,
        lock,
        opened,
        spec.clone(),
        preparer,
        options,
        machine,
    );
    scheduler.await.unwrap().run(stop, |_| ()).await
}

async fn run_until(
    database: &TestDatabase,
    spec: &StudySpec,
    backend: Scripted,
    options: PoolOptions,
    stop: watch::Receiver<bool>,
) -> Summary {
    let devices = devices([backend]);
    try_run(database, spec, devices, options, stop)
        .await
        .unwrap()
}

async fn run(
    database: &TestDatabase,
    spec: &StudySpec,
    backend: Scripted,
    options: PoolOptions,
) -> Summary {
    let (_sender, stop) = watch::channel(false);
    run_until(database, spec, backend, options, stop).await
}

async fn trials(database: &TestDatabase) -> Vec<TrialOverview> {
    let store = &database.store;
    store
        .trials(store.study("s").await.unwrap().study_id)
        .await
        .unwrap()
}

async fn detail(database: &TestDatabase, trial: &TrialOverview) -> TrialDetail {
    database.store.trial_detail(trial.trial_id).await.unwrap()
}

async fn n_configurations(database: &TestDatabase) -> usize {
    let store = &database.store;
    let study_id = store.study("s").await.unwrap().study_id;
    store.load_study_history(study_id).await.unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_defect_fails_one_trial_and_the_study_goes_on() {
    let database = TestDatabase::new().await;
    let backend = Scripted::new().on_train(|n| assert!(n != 4, "a planted defect"));
    let summary = run(&database, &spec(5), backend, wide(2, 2)).await;
    let Summary {
        ended,
        n_valued,
        n_degenerate,
        n_failed,
        n_begun,
    } = summary;
    assert_eq!(
        (ended, n_valued + n_degenerate, n_failed, n_begun),
        (Ended::Complete, 9, 1, 10)
    );
    let trials = trials(&database).await;
    let failed = trials
        .iter()
        .find(|trial| trial.state == TrialState::Failed)
        .unwrap();
    assert_eq!(failed.failure_kind, Some(FailureKind::Bug));
    assert!(
        failed
            .failure_text
            .as_ref()
            .unwrap()
            .contains("a planted defect")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_that_is_not_there_is_recorded() {
    use crate::executor::testing::out_of_memory;
    let database = TestDatabase::new().await;
    let backend = Scripted::new().on_open(|_| Err(out_of_memory()));
    let summary = run(&database, &spec(2), backend, wide(1, 4)).await;
    assert_eq!((summary.ended, summary.n_failed), (Ended::Complete, 4));
    for trial in &trials(&database).await {
        assert_eq!(trial.failure_kind, Some(FailureKind::OutOfMemory));
        let attempts = detail(&database, trial).await.attempts;
        assert_eq!(
            (attempts[0].bytes_asked, attempts[0].bytes_free),
            (Some(4096), Some(1024))
        );
        assert!(trial.plan_key.as_ref().is_some_and(|key| !key.is_empty()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_device_leaves_the_study_to_the_others() {
    let database = TestDatabase::new().await;
    let broken = |n| {
        if n == 2 {
            Err(device_error(true))
        } else {
            Ok(())
        }
    };
    let all = devices([Scripted::numbered(0).failing(broken), Scripted::numbered(1)]);
    let (_sender, stop) = watch::channel(false);
    let summary = try_run(&database, &spec(6), all, wide(2, 2), stop).await;
    let summary = summary.unwrap();
    assert_eq!((summary.ended, summary.n_failed), (Ended::Complete, 0));
    let mut n_lost = 0;
    for trial in &trials(&database).await {
        assert_eq!(trial.state, TrialState::Complete);
        let attempts = detail(&database, trial).await.attempts;
        for attempt in &attempts {
            // By class: which of its devices it was makes no difference.
            assert_eq!((&*attempt.device, &*attempt.driver), ("scripted", "driver"));
            let key = trial.plan_key.as_ref().unwrap();
            assert_eq!(attempt.kernel_digest, format!("kernels of {key}"));
        }
        for attempt in attempts.iter().filter(|a| a.failure_kind.is_some()) {
            assert_eq!(attempt.failure_kind, Some(FailureKind::Device));
            let text = attempt.failure_text.as_ref().unwrap();
            assert!(text.contains("illegal address"), "{text}");
            n_lost += 1;
        }
    }
    assert!(n_lost >= 1, "somebody ran when the device was lost");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_study_without_a_device_ends_with_the_cause_and_goes_on_later() {
    let database = TestDatabase::new().await;
    let broken = |n| {
        if n == 5 {
            Err(device_error(true))
        } else {
            Ok(())
        }
    };
    let only = devices([Scripted::new().failing(broken)]);
    let (_sender, stop) = watch::channel(false);
    let error = try_run(&database, &spec(6), only, wide(2, 2), stop).await;
    let error = error.unwrap_err();
    let SchedulerError::DevicesLost { device, cause } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(device, "scripted:0");
    assert!(cause.contains("illegal address"), "{cause}");
    let state = database.store.study("s").await.unwrap().state;
    assert_eq!(state, StudyState::Stopped);
    let left = trials(&database).await;
    let is_left =
        |trial: &TrialOverview| matches!(trial.state, TrialState::Waiting | TrialState::Complete);
    assert!(left.iter().all(is_left), "none failed, none is held");
    let summary = run(&database, &spec(6), Scripted::new(), wide(2, 2)).await;
    assert_eq!((summary.ended, summary.n_failed), (Ended::Complete, 0));
    assert_eq!(summary.n_valued + summary.n_degenerate, 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_launch_is_tried_once_more_elsewhere() {
    let database = TestDatabase::new().await;
    // The first device fails every epoch, and none for good.
    let broken = |_| Err(device_error(false));
    let all = devices([Scripted::numbered(0).failing(broken), Scripted::numbered(1)]);
    let (_sender, stop) = watch::channel(false);
    let summary = try_run(&database, &spec(3), all, wide(1, 2), stop).await;
    let summary = summary.unwrap();
    assert_eq!((summary.ended, summary.n_failed), (Ended::Complete, 0));
    // With no other device the second failure is the last.
    let database = TestDatabase::new().await;
    let only = Scripted::new().failing(broken);
    let summary = run(&database, &spec(2), only, wide(2, 2)).await;
    assert_eq!((summary.ended, summary.n_failed), (Ended::Complete, 4));
    for trial in &trials(&database).await {
        assert_eq!(trial.failure_kind, Some(FailureKind::Device));
        assert_eq!(detail(&database, trial).await.attempts.len(), 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_diverging_configuration_fails_with_its_cause() {
    let database = TestDatabase::new().await;
    // No learning rate that a sweep file may name.
    let lr = Params::from([("train.lr".to_owned(), Value::Float(1e30))]);
    let spec = StudySpec {
        enqueue: vec![lr],
        ..spec(3)
    };
    let summary = run(&database, &spec, Scripted::new(), wide(2, 4)).await;
    assert_eq!((summary.ended, summary.n_failed), (Ended::Complete, 2));
    for trial in &trials(&database).await {
        let is_enqueued = trial.number.0 == 0;
        assert_eq!(trial.failure_kind.is_some(), is_enqueued);
        if is_enqueued {
            assert_eq!(trial.failure_kind, Some(FailureKind::Diverged));
            assert_eq!(
                trial.params["train.lr"],
                Value::Float(1e30),
                "it keeps its parameters"
            );
            let text = trial.failure_text.as_ref().unwrap();
            assert!(
                text.contains("epoch 0") && text.contains("train.lr"),
                "{text}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_third_cohort_waits_for_the_end_of_the_first() {
    // One lane: both arms of the first cohort's two configurations; their last epoch ends it.
    const LAST: usize = 4 * N_FOLDS * N_EPOCHS as usize - 1;
    let database = TestDatabase::new().await;
    let (reached, reaches) = mpsc::channel();
    let (go, goes) = mpsc::channel::<()>();
    let goes = Mutex::new(goes);
    let backend = Scripted::new().on_train(move |n| {
        if n == LAST {
            reached.send(()).unwrap();
            goes.lock().unwrap().recv().unwrap();
        }
    });
    let spec = spec(6);
    let running = run(&database, &spec, backend, options());
    let watching = async {
        tokio::task::spawn_blocking(move || reaches.recv().unwrap())
            .await
            .unwrap();
        let n = n_configurations(&database).await;
        go.send(()).unwrap();
        n
    };
    let (summary, n_before) = tokio::join!(running, watching);
    assert_eq!(n_before, 4);
    assert_eq!((summary.ended, summary.n_begun), (Ended::Complete, 12));
    assert_eq!(n_configurations(&database).await, 6);
    // What is asked does not depend on when: the same with everything at once.
    let asked = |number| propose(&spec, ConfigurationNumber(number), &History::default());
    for trial in &trials(&database).await {
        assert_eq!(trial.params, asked(trial.number.0));
        assert_eq!(trial.n_attempts, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wall_limit_leaves_a_prefix_and_an_exact_budget() {
    let database = TestDatabase::new().await;
    let limited = |wall_s| {
        let mut spec = spec(8);
        spec.budget.wall_s = wall_s;
        spec
    };
    let summary = run(&database, &limited(Some(0)), Scripted::new(), wide(2, 2)).await;
    assert_eq!(summary.ended, Ended::WallLimit);
    assert!(summary.n_begun < 16, "a limit of nothing lets no study end");
    let state = database.store.study("s").await.unwrap().state;
    assert_eq!(state, StudyState::Stopped);
    let n_complete = summary.n_begun / 2;
    for trial in &trials(&database).await {
        let is_complete = u64::from(trial.number.0) < n_complete;
        assert_eq!(
            trial.state == TrialState::Complete,
            is_complete,
            "{}",
            trial.number.0
        );
    }
    let rest = run(&database, &limited(None), Scripted::new(), wide(2, 2)).await;
    assert_eq!(
        (rest.ended, rest.n_begun),
        (Ended::Complete, 16 - summary.n_begun)
    );
    let again = run(&database, &limited(None), Scripted::new(), wide(2, 2)).await;
    assert_eq!((again.ended, again.n_begun), (Ended::Complete, 0));
    assert_eq!(trials(&database).await.len(), 16);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_study_leaves_nothing_running_and_goes_on() {
    let database = TestDatabase::new().await;
    let (sender, stop) = watch::channel(false);
    let backend = Scripted::new().on_train(move |n| {
        if n == 5 {
            sender.send(true).unwrap();
            // The scheduler stops before this epoch ends, or soon after.
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    });
    let summary = run_until(&database, &spec(6), backend, wide(1, 2), stop).await;
    assert_eq!(summary.ended, Ended::Stopped);
    let stopped = trials(&database).await;
    assert!(
        stopped
            .iter()
            .all(|trial| trial.state != TrialState::Running)
    );
    assert!(
        stopped
            .iter()
            .any(|trial| trial.state == TrialState::Waiting)
    );
    let summary = run(&database, &spec(6), Scripted::new(), wide(1, 2)).await;
    assert_eq!(summary.ended, Ended::Complete);
    let trials = trials(&database).await;
    assert_eq!(trials.len(), 12);
    assert!(
        trials
            .iter()
            .all(|trial| trial.state == TrialState::Complete)
    );
}

#[test]
fn ten_asks_before_any_tell_are_distinct() {
    for sampler in [SamplerKind::Sobol, SamplerKind::Random] {
        let spec = StudySpec {
            sampler,
            ..spec(10)
        };
        let ask = |number| propose(&spec, ConfigurationNumber(number), &History::default());
        let asked: BTreeSet<String> = (0..10).map(|number| format!("{:?}", ask(number))).collect();
        assert_eq!(asked.len(), 10);
    }
}
