//! The published split, what a split must never do, and its diagnostics.

use proptest::prelude::*;

use super::*;

const CONFIG: SplitConfig = SplitConfig {
    folds: 2,
    allow_single_fold: false,
    window: Window::Expanding,
    validation_bars: 500,
    holdout_bars: 500,
    purge: Purge::Auto,
};
const FRAME: SplitFrame = SplitFrame {
    n_bars: 5_031,
    warmup_bars: 60,
    horizon: 1,
    lookback_bars: 1,
};

#[test]
fn walk_forward_matches_the_published_split() {
    let folds = walk_forward(0..6, 3, Window::Rolling { train_bars: 2 }, 1, 1).unwrap();
    let expected = [(0..2, 3..4), (1..3, 4..5), (2..4, 5..6)];
    for (fold, (train, validation)) in folds.iter().zip(expected) {
        assert_eq!((&fold.train, &fold.validation), (&train, &validation));
    }
    assert_eq!(folds.len(), 3);
    assert!(walk_forward(0..6, 4, Window::Rolling { train_bars: 2 }, 1, 1).is_none());
}

#[test]
fn the_quickstart_splits_as_drawn() {
    let split = split(&CONFIG, &FRAME).unwrap();
    assert_eq!(split.holdout, Some(4_531..5_029));
    assert_eq!(split.purge_bars, 2);
    assert_eq!(split.folds[1].validation, 4_029..4_529);
    assert_eq!(split.folds[1].train, 60..4_027);
    assert_eq!(split.folds[0].validation, 3_529..4_029);
    assert_eq!(split.folds[0].train, 60..3_527);
}

#[test]
fn a_look_back_widens_the_gap_to_the_holdout_alone() {
    let frame = SplitFrame {
        lookback_bars: 64,
        ..FRAME
    };
    let split = split(&CONFIG, &frame).unwrap();
    assert_eq!(split.folds[1].validation.end + 64, 4_531);
    assert_eq!(
        split.folds[1].train.end + 2,
        split.folds[1].validation.start
    );
}

#[test]
fn without_a_holdout_the_last_decision_still_has_its_opens() {
    let config = SplitConfig {
        holdout_bars: 0,
        ..CONFIG
    };
    let split = split(&config, &FRAME).unwrap();
    assert_eq!(split.holdout, None);
    assert_eq!(split.folds[1].validation.end, 5_029);
}

#[test]
fn too_few_bars_says_how_many_would_do() {
    let needed = 60 + 100 + 2 + 1_000 + 502;
    let with = |n_bars| split(&CONFIG, &SplitFrame { n_bars, ..FRAME });
    assert!(with(needed).is_ok());
    let error = with(needed - 1).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the split needs 1664 bars, the file has 1663: 60 warm-up + 100 training + 2 purged + \
         1000 validation (2 × 500) + 502 at the end (holdout and the purge before it); use more \
         bars, fewer folds or shorter blocks"
    );
    assert!(with(0).is_err());
}

#[test]
fn settings_out_of_range_are_named() {
    let refused = |config: SplitConfig| match split(&config, &FRAME) {
        Err(MarketError::SplitInvalid { setting, .. }) => setting,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(SplitConfig { folds: 1, ..CONFIG }), "folds");
    assert_eq!(refused(SplitConfig { folds: 9, ..CONFIG }), "folds");
    let validation_bars = 9;
    assert_eq!(
        refused(SplitConfig {
            validation_bars,
            ..CONFIG
        }),
        "validation_bars"
    );
    let holdout_bars = 9;
    assert_eq!(
        refused(SplitConfig {
            holdout_bars,
            ..CONFIG
        }),
        "holdout_bars"
    );
    let window = Window::Rolling { train_bars: 5 };
    assert_eq!(refused(SplitConfig { window, ..CONFIG }), "train_bars");
    let purge = Purge::Bars(1);
    assert_eq!(refused(SplitConfig { purge, ..CONFIG }), "purge_bars");
    let single = SplitConfig {
        folds: 1,
        allow_single_fold: true,
        ..CONFIG
    };
    assert_eq!(split(&single, &FRAME).unwrap().folds.len(), 1);
}

proptest! {
    /// No block reads a price of a later block; the file is long enough for what is read.
    #[test]
    fn nothing_leaks(
        folds in 2_usize..=8,
        validation_bars in 10_usize..200,
        holdout_bars in prop_oneof![Just(0_usize), 10_usize..300],
        rolling in prop::option::of(100_usize..400),
        horizon in 1_usize..31,
        lookback_bars in 1_usize..129,
        extra in 0_usize..50,
        n_bars in 500_usize..4_000,
    ) {
        let window = rolling.map_or(Window::Expanding, |train_bars| Window::Rolling { train_bars });
        let purge = if extra == 0 { Purge::Auto } else { Purge::Bars(horizon + 1 + extra) };
        let config = SplitConfig {
            folds, allow_single_fold: false, window, validation_bars, holdout_bars, purge,
        };
        let frame = SplitFrame { n_bars, warmup_bars: 60, horizon, lookback_bars };
        let Ok(split) = split(&config, &frame) else {
            return Ok(());
        };
        // One past the last bar that a decision or label of the block reads.
        let reads = |end: usize| end - 1 + 2.max(1 + horizon) + 1;
        let known = split.holdout.as_ref().map_or(n_bars, |holdout| holdout.start);
        for fold in &split.folds {
            prop_assert!(fold.train.start >= 60);
            prop_assert!(fold.train.len() >= TRAIN_BARS_MIN);
            prop_assert!(reads(fold.train.end) <= fold.validation.start);
            prop_assert_eq!(fold.validation.len(), validation_bars);
            prop_assert!(fold.validation.end + 2 <= known);
        }
        if let Some(holdout) = &split.holdout {
            let last = split.folds[folds - 1].validation.end;
            prop_assert!(reads(last) <= holdout.start);
            prop_assert!(last + lookback_bars <= holdout.start);
            prop_assert_eq!(holdout.end, n_bars - 2);
        }
        for pair in split.folds.windows(2) {
            prop_assert_eq!(pair[0].validation.end, pair[1].validation.start);
        }
    }
}
