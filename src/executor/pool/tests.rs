//! Pools on scripted devices: order, packing, faults.

mod many;

use crate::executor::testing::{
    N_EPOCHS, N_FOLDS, Reported, Scripted, devices, options, out_of_memory, params, request, run,
    run_on, start, wide,
};
use crate::executor::{EpochReport, PoolOptions, TrialEnd, TrialFailure, TrialRequest};
use crate::models::EpochMetrics;
use crate::study::{DegenerateReason, FailureKind, Objective, Precision, TrialId, Value};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

fn trials(ids: std::ops::Range<i64>) -> Vec<TrialRequest> {
    ids.map(|id| request(id, Precision::F32)).collect()
}

fn failure(reported: &Reported, id: i64) -> &TrialFailure {
    match &reported.of(id).end {
        TrialEnd::Failed(failure) => failure,
        other => panic!("trial {id}: {other:?}"),
    }
}

fn is_complete(reported: &Reported, id: i64) -> bool {
    matches!(reported.of(id).end, TrialEnd::Complete { .. })
}

/// What of an epoch depends on the run alone, to the last bit.
fn bits(epoch: &EpochReport) -> Vec<u64> {
    let EpochMetrics {
        n_updates,
        n_env_steps,
        loss,
        grad_norm,
        q_mean,
        q_max,
        td_error,
        edge_atom_mass,
    } = epoch.metrics;
    let figures = &epoch.figures;
    let floats = [
        loss,
        grad_norm,
        q_mean,
        q_max,
        td_error,
        edge_atom_mass,
        figures.sharpe_annual.unwrap_or(f64::INFINITY),
        figures.total_return,
        figures.turnover,
    ];
    let counts = [n_updates, n_env_steps, epoch.n_updates, epoch.n_env_steps];
    floats
        .iter()
        .map(|value| value.to_bits())
        .chain(counts)
        .collect()
}

/// By trial, fold and epoch.
type EpochBits = BTreeMap<(TrialId, u32, u32), Vec<u64>>;

/// Everything that may not depend on packing: all but who ran it. `Debug` of a float tells it to
/// the last bit.
fn results(reported: &Reported) -> (Vec<String>, EpochBits) {
    let done = reported
        .done
        .values()
        .map(|report| format!("{:?}", (report.trial_id, &report.end, &report.folds)))
        .collect();
    let key = |epoch: &EpochReport| (epoch.trial_id, epoch.fold, epoch.epoch);
    (
        done,
        reported
            .epochs
            .iter()
            .map(|epoch| (key(epoch), bits(epoch)))
            .collect(),
    )
}

#[test]
fn packs_and_executors_change_no_bit() {
    let mut all = trials(0..5);
    all.extend((5..8).map(|id| request(id, Precision::Bf16)));
    let alone = results(&run(Scripted::new(), options(), &all));
    assert_eq!(alone.0.len(), 8);
    assert_eq!(alone.1.len(), 8 * N_FOLDS * N_EPOCHS as usize);
    let distinct: std::collections::BTreeSet<_> = alone.1.values().collect();
    assert_eq!(
        distinct.len(),
        alone.1.len(),
        "every epoch of every run is another"
    );
    for (n_executors, n_lanes) in [(1, 3), (1, 8), (2, 2), (4, 1), (4, 8)] {
        let packed = results(&run(Scripted::new(), wide(n_executors, n_lanes), &all));
        assert!(
            packed == alone,
            "{n_executors} executors of {n_lanes} lanes differ"
        );
    }
}

#[test]
fn an_executor_stays_with_its_plan_and_takes_the_oldest_first() {
    let arms = [
        Precision::F32,
        Precision::Bf16,
        Precision::F32,
        Precision::Bf16,
    ];
    let all: Vec<_> = (0..4).zip(arms).map(|(id, arm)| request(id, arm)).collect();
    let reported = run(Scripted::new(), options(), &all);
    let order: Vec<i64> = reported
        .starts
        .iter()
        .flat_map(|pack| &pack.trials)
        .map(|id| id.0)
        .collect();
    assert_eq!(order, [0, 2, 1, 3]);
    let is_warmup = |id: i64| {
        let mut epochs = reported
            .epochs
            .iter()
            .filter(move |epoch| epoch.trial_id.0 == id);
        epochs.next().unwrap().is_warmup
    };
    assert_eq!([0, 2, 1, 3].map(is_warmup), [true, false, true, false]);
    let n_warmup = reported
        .epochs
        .iter()
        .filter(|epoch| epoch.is_warmup)
        .count();
    assert_eq!(n_warmup, 2, "the first epoch of each plan alone");
}

#[test]
fn a_pack_that_does_not_fit_is_halved() {
    let backend = Scripted::new().on_open(|n| if n > 3 { Err(out_of_memory()) } else { Ok(()) });
    let reported = run(backend, wide(1, 8), &trials(0..3));
    assert_eq!(reported.starts[0].n_lanes, 2);
    assert!((0..3).all(|id| is_complete(&reported, id)));
}

#[test]
fn a_trial_that_never_fits_fails_with_its_bytes() {
    let reported = run(
        Scripted::new().on_open(|_| Err(out_of_memory())),
        wide(2, 4),
        &trials(0..3),
    );
    assert_eq!(reported.done.len(), 3);
    for id in 0..3 {
        let failure = failure(&reported, id);
        assert_eq!(failure.kind, FailureKind::OutOfMemory);
        assert_eq!(failure.bytes, Some((4096, 1024)));
        assert!(reported.of(id).folds.is_empty());
    }
    // Even these begin before they end, so that the database knows their plan.
    assert!(
        reported
            .starts
            .iter()
            .all(|pack| pack.n_lanes == 1 && !pack.plan_key.is_empty())
    );
    assert!(reported.epochs.is_empty());
}

#[test]
fn the_memory_budget_bounds_the_lanes() {
    let one = run(Scripted::new(), options(), &trials(0..1)).starts[0].bytes_per_lane;
    let with = |memory_bytes_max| {
        let [mut device] = <[_; 1]>::try_from(devices([Scripted::new()])).unwrap();
        device.memory_bytes_max = memory_bytes_max;
        vec![device]
    };
    // Two executors share five lanes' worth: two each.
    let reported = run_on(with(5 * one), wide(2, 8), &trials(0..2));
    assert!(
        reported
            .starts
            .iter()
            .all(|pack| pack.n_lanes == 2 && pack.arena_bytes == 2 * one)
    );
    // A single lane is tried whatever the budget says, and fails with what it asked.
    let reported = run_on(with(1), wide(1, 8), &trials(0..1));
    assert_eq!(reported.starts[0].n_lanes, 1);
    let failure = failure(&reported, 0);
    assert_eq!(failure.kind, FailureKind::OutOfMemory);
    assert_eq!(failure.bytes, Some((one, 1)));
}

#[test]
fn a_panic_takes_its_pack_and_nothing_else() {
    for n_executors in [1, 3] {
        let backend = Scripted::new().on_train(|n| assert!(n != 1, "a planted defect"));
        let reported = run(backend, wide(n_executors, 2), &trials(0..4));
        let n_failed = (0..4).filter(|id| !is_complete(&reported, *id)).count();
        assert_eq!(n_failed, 1, "with {n_executors} executors");
        let id = (0..4).find(|id| !is_complete(&reported, *id)).unwrap();
        assert_eq!(failure(&reported, id).kind, FailureKind::Bug);
        assert!(failure(&reported, id).text.contains("a planted defect"));
    }
}

#[test]
fn a_panic_at_opening_fails_one_trial() {
    let n_opened = AtomicUsize::new(0);
    let backend = Scripted::new().on_open(move |_| {
        assert!(
            n_opened.fetch_add(1, Ordering::SeqCst) != 0,
            "no such kernel"
        );
        Ok(())
    });
    let reported = run(backend, options(), &trials(0..3));
    assert_eq!(failure(&reported, 0).kind, FailureKind::Bug);
    assert!(failure(&reported, 0).text.contains("no such kernel"));
    assert!(is_complete(&reported, 1) && is_complete(&reported, 2));
}

#[test]
fn a_diverging_trial_fails_alone_and_its_lanes_are_refilled() {
    let mut all = trials(0..6);
    // No learning rate that a sweep may name; steps of this size overflow within an epoch.
    all[1].params = params(1e30);
    let alone = run(Scripted::new(), options(), &all);
    let packed = run(Scripted::new(), wide(1, 4), &all);
    for reported in [&alone, &packed] {
        let failure = failure(reported, 1);
        assert_eq!(failure.kind, FailureKind::Diverged);
        for part in ["in epoch 0 of fold 0", "train.lr", "train.max_grad_norm"] {
            assert!(failure.text.contains(part), "{}", failure.text);
        }
    }
    for id in [0, 2, 3, 4, 5] {
        assert!(is_complete(&packed, id));
        assert_eq!(
            format!("{:?}", packed.of(id)),
            format!("{:?}", alone.of(id))
        );
    }
    // Two trials enter at first; the next takes the lanes of the failed one after one epoch.
    let ids = |at: usize| {
        packed.starts[at]
            .trials
            .iter()
            .map(|id| id.0)
            .collect::<Vec<_>>()
    };
    assert_eq!((ids(0), ids(1)), (vec![0, 1], vec![2]));
    let of_2 = packed
        .epochs
        .iter()
        .position(|epoch| epoch.trial_id.0 == 2)
        .unwrap();
    let end_of_0 = packed
        .epochs
        .iter()
        .rposition(|epoch| epoch.trial_id.0 == 0)
        .unwrap();
    assert!(of_2 < end_of_0, "the pack did not wait for its other trial");
}

#[test]
fn a_stop_ends_at_the_epoch_boundary() {
    // The device waits for a permit before each epoch, and says when it waits.
    let (permit, permits) = mpsc::channel::<()>();
    let (waiting, waits) = mpsc::channel::<()>();
    let permits = Mutex::new(permits);
    let backend = Scripted::new().on_train(move |_| {
        waiting.send(()).unwrap();
        permits.lock().unwrap().recv().unwrap();
    });
    let mut running = start(backend, wide(1, 2), &trials(0..2));
    let mut reported = Reported::default();
    running.next(&mut reported);
    waits.recv().unwrap();
    permit.send(()).unwrap();
    waits.recv().unwrap();
    // In the second epoch of the first trial.
    running.pool.stop();
    permit.send(()).unwrap();
    let reported = running.finish(reported, |_| true);
    let epochs: Vec<u32> = reported.epochs.iter().map(|epoch| epoch.epoch).collect();
    assert_eq!(
        epochs,
        [0, 0, 1, 1],
        "that epoch is finished, no other begins"
    );
    assert!(reported.done.is_empty(), "a trial given up has not ended");
    assert_eq!(reported.starts.len(), 1, "no other trial begins");
}

#[test]
fn what_is_refused_or_withdrawn_never_runs() {
    let reported = start(Scripted::new(), wide(1, 4), &trials(0..4))
        .finish(Reported::default(), |id| id.0 % 2 == 0);
    assert_eq!(
        reported.done.keys().map(|id| id.0).collect::<Vec<_>>(),
        [0, 2]
    );
    assert!(
        reported
            .epochs
            .iter()
            .all(|epoch| epoch.trial_id.0 % 2 == 0)
    );

    let (permit, permits) = mpsc::channel::<()>();
    let permits = Mutex::new(permits);
    // Waits until the permit's other end is gone, then runs freely.
    let backend =
        Scripted::new().on_train(move |_| assert!(permits.lock().unwrap().recv().is_err()));
    let mut running = start(backend, options(), &trials(0..3));
    let mut reported = Reported::default();
    running.next(&mut reported);
    running.pool.withdraw(|trial| trial.request.trial_id.0 < 2);
    drop(permit);
    let reported = running.finish(reported, |_| true);
    assert_eq!(
        reported.done.keys().map(|id| id.0).collect::<Vec<_>>(),
        [0, 1]
    );
}

#[test]
fn too_few_trades_leave_results_but_no_value_and_no_weights() {
    let objective = Objective {
        min_trades: u64::MAX,
        ..options().objective
    };
    let reported = run(
        Scripted::new(),
        PoolOptions {
            objective,
            ..options()
        },
        &trials(0..1),
    );
    assert_eq!(
        reported.of(0).end,
        TrialEnd::Degenerate(DegenerateReason::TooFewTrades)
    );
    assert_eq!(reported.of(0).folds.len(), N_FOLDS);
    assert!(
        reported
            .of(0)
            .folds
            .iter()
            .all(|fold| fold.weights.is_none())
    );
}

#[test]
fn a_schedule_spans_the_run_whatever_sets_its_length() {
    // The first epoch of four of 64 updates, over half of which exploration decays, is that of
    // two such epochs over the whole of which it does.
    let first = |n_epochs: u32, fraction: f64| {
        let mut trial = request(0, Precision::F32);
        trial
            .params
            .insert("model.epsilon_fraction".to_owned(), Value::Float(fraction));
        let reported = run(
            Scripted::new(),
            PoolOptions {
                n_epochs,
                ..options()
            },
            &[trial],
        );
        bits(&reported.epochs[0])
    };
    let whole = first(2, 1.0);
    assert_eq!(whole, first(4, 0.5), "128 of 128 updates are 128 of 256");
    assert_ne!(
        whole,
        first(4, 1.0),
        "the decay is felt within the first epoch"
    );
}
