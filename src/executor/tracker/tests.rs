//! Best epochs of made-up folds.

use super::*;
use crate::market::metrics::Degenerate;
use crate::study::{Direction, Metric};

const MEAN: Objective = Objective {
    metric: Metric::ValidationSharpe,
    direction: Direction::Maximize,
    min_trades: 0,
};

/// A fold at an epoch; its parameters and returns name it.
fn snapshot(fold: usize, epoch: u32, sharpe: Option<f64>, n_trades: usize) -> Snapshot {
    let name = (10 * fold) as f32 + epoch as f32;
    Snapshot {
        figures: Figures {
            sharpe_period: sharpe,
            sharpe_annual: sharpe,
            degenerate: sharpe.is_none().then_some(Degenerate::ZeroVariance),
            n_observations: 1,
            is_daily_aggregated: false,
            skew: 0.0,
            kurtosis: 3.0,
            drawdown_max: 0.0,
            turnover: 0.0,
            n_trades,
            hit_rate: 0.0,
            exposure: 0.0,
            cost_share: 0.0,
            total_return: 0.0,
        },
        cost: 0.0,
        net_returns: vec![f64::from(name)],
        params: vec![name],
    }
}

/// Tracks `[fold][epoch]` Sharpe ratios, one trade a fold, one fold after the other as in a
/// single lane, and serialises a block as its one number.
fn track(objective: Objective, folds: &[&[Option<f64>]]) -> (TrialEnd, Vec<FoldResult>) {
    let n_epochs = u32::try_from(folds[0].len()).unwrap();
    let mut tracker = Tracker::new(objective, folds.len(), n_epochs);
    for (fold, sharpes) in folds.iter().enumerate() {
        for (epoch, sharpe) in (0..).zip(*sharpes) {
            assert!(!tracker.is_done());
            tracker.report(fold, epoch, snapshot(fold, epoch, *sharpe, 1));
        }
    }
    assert!(tracker.is_done());
    tracker.finish(|fold, epoch, params| {
        vec![u8::try_from(fold).unwrap(), epoch as u8, params[0] as u8]
    })
}

fn some<const N: usize>(values: [f64; N]) -> [Option<f64>; N] {
    values.map(Some)
}

#[test]
fn the_best_epoch_is_that_of_the_aggregate() {
    // Each fold alone is best in epoch 0 or 2; together they are in epoch 1.
    let (end, folds) = track(MEAN, &[&some([3.0, 2.0, -1.0]), &some([-1.0, 1.0, 3.0])]);
    assert_eq!(
        end,
        TrialEnd::Complete {
            value: 1.5,
            best_epoch: 1
        }
    );
    let kept: Vec<_> = folds
        .iter()
        .map(|fold| (fold.fold, fold.net_returns[0]))
        .collect();
    assert_eq!(kept, [(0, 1.0), (1, 11.0)]);
    assert_eq!(folds[0].weights, Some(vec![0, 1, 1]));
    assert_eq!(folds[1].weights, Some(vec![1, 1, 11]));
}

#[test]
fn the_lower_bound_prefers_agreement() {
    let lower = Objective {
        metric: Metric::ValidationSharpeLower,
        ..MEAN
    };
    // Means 2.0 and 1.9; standard errors 2.0 and 0.1: 2.0 − 1.0 and 1.9 − 0.05.
    let (end, _) = track(lower, &[&some([4.0, 2.0]), &some([0.0, 1.8])]);
    let TrialEnd::Complete { value, best_epoch } = end else {
        panic!("{end:?}")
    };
    assert_eq!(best_epoch, 1);
    // A few roundings of numbers near 2.
    assert!((value - 1.85).abs() < 1e-14, "{value}");
}

#[test]
fn of_equal_epochs_the_first_is_kept_with_its_weights() {
    let (end, folds) = track(MEAN, &[&some([1.0, 2.0, 2.0])]);
    assert_eq!(
        end,
        TrialEnd::Complete {
            value: 2.0,
            best_epoch: 1
        }
    );
    assert_eq!(folds[0].weights, Some(vec![0, 1, 1]));
}

#[test]
fn smaller_is_better_where_the_objective_says_so() {
    let least = Objective {
        direction: Direction::Minimize,
        ..MEAN
    };
    let (end, folds) = track(least, &[&some([1.0, -2.0, 0.0])]);
    assert_eq!(
        end,
        TrialEnd::Complete {
            value: -2.0,
            best_epoch: 1
        }
    );
    assert_eq!(folds[0].weights, Some(vec![0, 1, 1]));
}

#[test]
fn an_epoch_without_a_value_is_passed_over() {
    let (end, folds) = track(MEAN, &[&[None, Some(-3.0), None], &some([9.0, -3.0, 9.0])]);
    assert_eq!(
        end,
        TrialEnd::Complete {
            value: -3.0,
            best_epoch: 1
        }
    );
    assert_eq!(folds[1].net_returns, [11.0]);
}

#[test]
fn a_trial_that_never_trades_is_degenerate_with_its_last_epoch() {
    let (end, folds) = track(MEAN, &[&[None, None], &some([1.0, 2.0])]);
    assert_eq!(end, TrialEnd::Degenerate(DegenerateReason::ZeroVariance));
    let kept: Vec<_> = folds.iter().map(|fold| fold.net_returns[0]).collect();
    assert_eq!(kept, [1.0, 11.0]);
    assert!(folds.iter().all(|fold| fold.weights.is_none()));
}

#[test]
fn trades_of_all_folds_count_together() {
    let wants = |min_trades| Objective { min_trades, ..MEAN };
    let folds: [&[Option<f64>]; 2] = [&[Some(1.0)], &[Some(2.0)]];
    assert!(matches!(
        track(wants(2), &folds).0,
        TrialEnd::Complete { .. }
    ));
    assert_eq!(
        track(wants(3), &folds).0,
        TrialEnd::Degenerate(DegenerateReason::TooFewTrades)
    );
}

#[test]
fn weights_wait_for_the_last_fold_and_no_longer() {
    let mut tracker = Tracker::new(MEAN, 2, 3);
    let report = |tracker: &mut Tracker, fold, epoch, sharpe| {
        tracker.report(fold, epoch, snapshot(fold, epoch, Some(sharpe), 1));
    };
    report(&mut tracker, 0, 0, 5.0);
    report(&mut tracker, 0, 1, 1.0);
    assert_eq!(tracker.open.len(), 2, "both epochs wait for the other fold");
    assert!(tracker.kept.is_none());
    report(&mut tracker, 1, 0, 5.0);
    assert_eq!(
        (tracker.open.len(), tracker.kept.as_ref().unwrap().0),
        (1, 0)
    );
    report(&mut tracker, 1, 1, 1.0);
    assert_eq!(
        (tracker.open.len(), tracker.kept.as_ref().unwrap().0),
        (0, 0)
    );
    assert!(!tracker.is_done());
}
