//! The choice of lanes.

use super::Lanes;
use std::num::NonZeroUsize;

fn auto(n_full: usize, n_runs: usize, n_folds: usize) -> Lanes {
    let [n_full, n_runs, n_folds] =
        [n_full, n_runs, n_folds].map(|n| NonZeroUsize::new(n).unwrap());
    Lanes::Auto {
        n_full,
        n_runs,
        n_folds,
    }
}

#[test]
fn auto_fills_the_device_with_whole_trials_that_exist() {
    let unbounded = |lanes: Lanes| lanes.choose(u64::MAX, |n| n as u64);
    assert_eq!(unbounded(auto(64, 1_000, 2)), 64);
    assert_eq!(unbounded(auto(64, 1_000, 3)), 66, "whole trials");
    assert_eq!(
        unbounded(auto(64, 10, 2)),
        10,
        "no more than there are runs"
    );
    assert_eq!(unbounded(auto(64, 1, 2)), 2);
    let fixed = Lanes::Fixed(NonZeroUsize::new(7).unwrap());
    assert_eq!(unbounded(fixed), 7, "the sweep's word holds");
}

#[test]
fn lanes_are_halved_until_they_fit() {
    // A thousand bytes whatever the lanes, and ten a lane.
    let bytes = |n: usize| 1_000 + 10 * n as u64;
    assert_eq!(auto(64, 1_000, 2).choose(1_640, bytes), 64);
    assert_eq!(auto(64, 1_000, 2).choose(1_639, bytes), 32);
    assert_eq!(auto(64, 1_000, 2).choose(1_010, bytes), 1);
    assert_eq!(auto(64, 1_000, 2).choose(0, bytes), 1, "one at the least");
}
