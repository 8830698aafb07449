//! Several devices, turns, lost devices, and the memory of long runs.

use super::{failure, is_complete, results, trials};
use crate::executor::testing::{
    Reported, Running, Scripted, Seen, device_error, devices, options, out_of_memory, preparer,
    request, run, run_on, start, start_on, wide,
};
use crate::executor::{Event, ExecutorId, Pool, PoolOptions, TrialEnd};
use crate::study::{FailureKind, Precision, TrialId};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Barrier};

/// Devices of one class, numbered.
fn numbered(n: usize) -> Vec<Scripted> {
    (0..n).map(Scripted::numbered).collect()
}

#[test]
fn any_number_of_devices_and_executors_gives_the_same_results() {
    let mut all = trials(0..4);
    all.extend((4..6).map(|id| request(id, Precision::Bf16)));
    let alone = results(&run(Scripted::new(), options(), &all));
    for (n_devices, n_executors, n_lanes) in [(2, 1, 2), (2, 2, 2), (3, 4, 1)] {
        let devices = devices(numbered(n_devices));
        let reported = run_on(devices, wide(n_executors, n_lanes), &all);
        assert!(
            results(&reported) == alone,
            "{n_devices} devices of {n_executors} executors of {n_lanes} lanes differ"
        );
    }
}

#[test]
fn a_device_runs_one_epoch_at_a_time() {
    for n_executors in [1, 2, 4] {
        // Long enough for another executor to come in between, if the turn let it.
        let slow = |backend: Scripted| backend.on_train(|_| std::thread::yield_now());
        let backends: Vec<_> = numbered(2).into_iter().map(slow).collect();
        let seen: Vec<Arc<Seen>> = backends.iter().map(Scripted::seen).collect();
        let reported = run_on(devices(backends), wide(n_executors, 1), &trials(0..8));
        assert_eq!(reported.done.len(), 8);
        assert!(reported.epochs.iter().all(|epoch| !epoch.overlap));
        for seen in seen {
            assert_eq!(seen.n_going_peak.load(SeqCst), 1, "{n_executors} executors");
        }
    }
}

#[test]
fn with_overlap_packs_run_side_by_side_and_say_so() {
    // The first epoch of each of two executors waits for the other's: in turns neither would end.
    let barrier = Barrier::new(2);
    let backend = Scripted::new().on_train(move |n| {
        if n < 2 {
            barrier.wait();
        }
    });
    let options = PoolOptions {
        overlap: true,
        ..wide(2, 1)
    };
    let reported = run(backend, options, &trials(0..2));
    assert!(reported.epochs.iter().all(|epoch| epoch.overlap));
    assert_eq!(reported.done.len(), 2);
}

#[test]
fn devices_run_side_by_side() {
    // The first epoch of each device waits for the other's: with one turn for both, or with both
    // packs on one of them, neither would end.
    let barrier = Arc::new(Barrier::new(2));
    let meet = |backend: Scripted| {
        let barrier = barrier.clone();
        backend.on_train(move |n| {
            if n == 0 {
                barrier.wait();
            }
        })
    };
    let backends: Vec<_> = numbered(2).into_iter().map(meet).collect();
    let reported = run_on(devices(backends), wide(2, 2), &trials(0..2));
    let device_of = |id| reported.of(id).executor.device;
    assert_ne!(device_of(0), device_of(1));
}

#[test]
fn a_session_serves_pack_after_pack() {
    const N_TRIALS: i64 = 200;
    let backend = Scripted::new();
    let seen = backend.seen();
    let options = PoolOptions {
        n_epochs: 1,
        ..wide(1, 2)
    };
    let mut all = trials(0..N_TRIALS);
    for trial in &mut all {
        // One pack a cohort: a pack ends where its cohort does.
        trial.cohort = u32::try_from(trial.trial_id.0 / 4).unwrap();
        trial.params = request(trial.trial_id.0 % 7, Precision::F32).params;
    }
    let mut running = start_on(devices([backend]), options, &all);
    let mut reported = Reported::default();
    while reported.done.is_empty() {
        running.next(&mut reported);
    }
    let n_bytes_first = seen.n_bytes.load(SeqCst);
    assert!(n_bytes_first > 0);
    while reported.done.len() < usize::try_from(N_TRIALS).unwrap() {
        running.next(&mut reported);
    }
    assert_eq!(seen.n_bytes.load(SeqCst), n_bytes_first);
    assert_eq!(seen.n_bytes_peak.load(SeqCst), n_bytes_first);
    assert_eq!(seen.n_opened.load(SeqCst), 1);
    let _ = running.finish(reported, |_| true);
    assert_eq!(seen.n_bytes.load(SeqCst), 0, "executors leave nothing");
}

#[test]
fn an_executor_holds_one_session_at_a_time() {
    let backend = Scripted::new();
    let seen = backend.seen();
    // Arms alternate by cohort, so that the executor changes its plan again and again.
    let mut all = Vec::new();
    for id in 0..6 {
        let arm = [Precision::F32, Precision::Bf16][usize::try_from(id % 2).unwrap()];
        let mut trial = request(id, arm);
        trial.cohort = u32::try_from(id).unwrap();
        all.push(trial);
    }
    let reported = run(backend, options(), &all);
    let largest = reported.starts.iter().map(|pack| pack.arena_bytes).max();
    assert_eq!(seen.n_opened.load(SeqCst), 6);
    assert_eq!(Some(seen.n_bytes_peak.load(SeqCst)), largest);
}

/// Ends the pool and checks that what is not lost is complete.
fn lost_of(running: Running) -> (Reported, Vec<i64>) {
    let reported = running.finish(Reported::default(), |_| true);
    let mut lost = Vec::new();
    for (TrialId(id), report) in &reported.done {
        match &report.end {
            TrialEnd::Lost(failure) => {
                assert_eq!(failure.kind, FailureKind::Device);
                assert!(failure.text.contains("illegal address"), "{}", failure.text);
                assert_eq!(report.executor.device, 0);
                lost.push(*id);
            }
            other => assert!(matches!(other, TrialEnd::Complete { .. }), "{other:?}"),
        }
    }
    (reported, lost)
}

#[test]
fn a_lost_device_takes_its_packs_and_nothing_else() {
    for n_executors in [1, 2, 4] {
        let broken = |n| {
            if n == 1 {
                Err(device_error(true))
            } else {
                Ok(())
            }
        };
        let all = devices([Scripted::numbered(0).failing(broken), Scripted::numbered(1)]);
        let (reported, lost) = lost_of(start_on(all, wide(n_executors, 2), &trials(0..12)));
        assert_eq!(reported.done.len(), 12, "every trial ends");
        assert!(!lost.is_empty() && lost.len() <= n_executors, "{lost:?}");
        let [loss] = &reported.losses[..] else {
            panic!("{:?}", reported.losses);
        };
        assert_eq!((&*loss.device, loss.n_devices_left), ("scripted:0", 1));
        assert!(loss.cause.contains("illegal address"));
    }
}

#[test]
fn the_loss_of_the_only_device_ends_the_pool() {
    for n_executors in [1, 2, 4] {
        let broken = |n| {
            if n >= 1 {
                Err(device_error(true))
            } else {
                Ok(())
            }
        };
        let all = devices([Scripted::numbered(0).failing(broken)]);
        let (reported, lost) = lost_of(start_on(all, wide(n_executors, 2), &trials(0..12)));
        assert_eq!(reported.done.len(), lost.len(), "the others still wait");
        let [loss] = &reported.losses[..] else {
            panic!("{:?}", reported.losses);
        };
        assert_eq!(loss.n_devices_left, 0);
    }
}

#[test]
fn a_device_lost_at_opening_gives_its_trials_back() {
    let broken = Scripted::numbered(0).on_open(|_| Err(device_error(true)));
    let all = devices([broken, Scripted::numbered(1)]);
    let (reported, lost) = lost_of(start_on(all, wide(2, 2), &trials(0..6)));
    assert!(lost.is_empty(), "none had begun");
    assert_eq!(reported.done.len(), 6);
}

#[test]
fn what_has_no_memory_on_one_device_runs_on_another() {
    let full = Scripted::numbered(0).on_open(|_| Err(out_of_memory()));
    let all = devices([full, Scripted::numbered(1)]);
    let reported = run_on(all, wide(2, 4), &trials(0..6));
    for id in 0..6 {
        assert!(is_complete(&reported, id));
        assert_eq!(reported.of(id).executor.device, 1);
    }
    let full = |ordinal| Scripted::numbered(ordinal).on_open(|_| Err(out_of_memory()));
    let reported = run_on(devices([full(0), full(1)]), wide(2, 4), &trials(0..6));
    for id in 0..6 {
        let failure = failure(&reported, id);
        assert_eq!(failure.kind, FailureKind::OutOfMemory);
        assert_eq!(failure.bytes, Some((4096, 1024)));
    }
}

#[test]
fn an_executor_that_panics_is_told_of() {
    let mut running = start(Scripted::defective(), wide(2, 2), &trials(0..3));
    // Both of them, and nothing else: a study that waited for the trials would wait for ever.
    for _ in 0..2 {
        let event = running.events.blocking_recv();
        assert!(matches!(event, Some(Event::ExecutorLost)), "{event:?}");
    }
    running.pool.close();
    running.pool.join();
    assert!(running.events.blocking_recv().is_none());
}

#[test]
fn a_failed_launch_fails_its_pack_alone() {
    let broken = |n| {
        if n == 1 {
            Err(device_error(false))
        } else {
            Ok(())
        }
    };
    let backend = Scripted::new().failing(broken);
    let seen = backend.seen();
    let reported = run(backend, wide(1, 2), &trials(0..4));
    assert_eq!(failure(&reported, 0).kind, FailureKind::Device);
    assert!((1..4).all(|id| is_complete(&reported, id)));
    assert!(reported.losses.is_empty());
    assert_eq!(
        seen.n_opened.load(SeqCst),
        2,
        "the session is not used again"
    );
}

#[test]
fn a_trial_comes_to_another_executor_than_the_one_that_failed_it() {
    for (n_devices, n_executors) in [(2, 1), (1, 2), (1, 1)] {
        let shunned = ExecutorId {
            device: 0,
            executor: 0,
        };
        let devices = devices(numbered(n_devices));
        let preparer = preparer(&devices);
        let (sender, events) = tokio::sync::mpsc::channel(64);
        let trials = trials(0..3).into_iter().map(|request| {
            let mut prepared = preparer.prepare(request);
            prepared.shuns = Some(shunned);
            prepared
        });
        let trials: Vec<_> = trials.collect();
        let options = wide(n_executors, 2);
        let pool = Pool::start(preparer, devices, options, sender).unwrap();
        pool.submit(trials);
        let reported = Running { pool, events }.finish(Reported::default(), |_| true);
        assert!((0..3).all(|id| is_complete(&reported, id)));
        let is_alone = n_devices * n_executors == 1;
        for report in reported.done.values() {
            assert_eq!(report.executor == shunned, is_alone, "{report:?}");
        }
    }
}
