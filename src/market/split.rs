//! Walk-forward folds and the holdout.
//!
//! ```text
//! warm-up | train ……………… | purge | validation | … | purge or window | holdout
//! ```
//!
//! Ranges hold *decision bars*. A decision at bar `t` reads features through `t` and the opens of
//! bars `t + 1` and `t + 2`; a label of horizon `H` reads through the open of `t + 1 + H`. The
//! last decision of a block is therefore followed by at least `max(H + 1, 2)` purged bars, and no
//! decision of a block reads a price of a later block. The last validation block ends at the
//! purge before the holdout, or, without a holdout, two bars before the end of the file.
//!
//! Consecutive validation blocks adjoin: the last decisions of one read the first two opens of
//! the next, which trains nothing and ranks nothing twice.
//!
//! # Invariants
//! - The holdout is the end of the file and is in no fold.
//! - All training of a fold precedes its validation.

use std::ops::Range;

use super::error::MarketError;

/// Most folds of a split.
pub const FOLDS_MAX: usize = 8;
/// Fewest bars to train on.
pub const TRAIN_BARS_MIN: usize = 100;
/// Fewest bars of a validation or holdout block: its last two may have no return.
const BLOCK_BARS_MIN: usize = 10;
/// Bars after a decision whose opens it reads.
const FILL_LAG_BARS: usize = 2;

/// Which bars a fold trains on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// All bars since the warm-up.
    Expanding,
    /// A fixed number of bars before the validation block.
    Rolling {
        /// Training bars.
        train_bars: usize,
    },
}

/// Bars left out between blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purge {
    /// `max(horizon + 1, 2)`.
    Auto,
    /// A number of bars, at least what `Auto` gives.
    Bars(usize),
}

/// The `[split]` section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitConfig {
    /// Folds, 2 to 8.
    pub folds: usize,
    /// Whether one fold is enough, as it is for the objective `validation.sharpe`.
    pub allow_single_fold: bool,
    /// Training window.
    pub window: Window,
    /// Bars of each validation block.
    pub validation_bars: usize,
    /// Bars of the holdout; 0 for none.
    pub holdout_bars: usize,
    /// Bars left out between blocks.
    pub purge: Purge,
}

/// What the split must fit: the file and the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitFrame {
    /// Bars in the file.
    pub n_bars: usize,
    /// Bars at the start without features.
    pub warmup_bars: usize,
    /// Label horizon `H`; 1 for reinforcement learning.
    pub horizon: usize,
    /// Bars that the model looks back on, the decision bar included; 1 for none.
    pub lookback_bars: usize,
}

/// One walk-forward fold, in decision bars.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fold {
    /// Bars to train on.
    pub train: Range<usize>,
    /// Bars to validate on.
    pub validation: Range<usize>,
}

/// Folds and holdout of a study.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Split {
    /// In order of time.
    pub folds: Vec<Fold>,
    /// Decision bars of the holdout, if there is one.
    pub holdout: Option<Range<usize>>,
    /// Bars left out between training and validation.
    pub purge_bars: usize,
}

/// Lays folds and holdout.
///
/// The holdout's decisions end two bars before the file does: later ones have no return.
///
/// # Errors
/// [`MarketError::SplitInvalid`] for a setting out of range; [`MarketError::TooFewBars`] with the
/// number of bars that would do.
pub fn split(config: &SplitConfig, frame: &SplitFrame) -> Result<Split, MarketError> {
    check(config, frame)?;
    let purge_bars = match config.purge {
        Purge::Auto => purge_bars_min(frame),
        Purge::Bars(n) => n,
    };
    let tail_gap = if config.holdout_bars == 0 {
        FILL_LAG_BARS
    } else {
        purge_bars.max(frame.lookback_bars)
    };
    let tail = tail_gap + config.holdout_bars;
    let train = match config.window {
        Window::Expanding => TRAIN_BARS_MIN,
        Window::Rolling { train_bars } => train_bars,
    };
    let validation_total = config.folds * config.validation_bars;
    let needed = frame.warmup_bars + train + purge_bars + validation_total + tail;
    let folds = if needed <= frame.n_bars {
        walk_forward(
            frame.warmup_bars..frame.n_bars - tail,
            config.folds,
            config.window,
            config.validation_bars,
            purge_bars,
        )
    } else {
        None
    };
    let folds = folds.ok_or(MarketError::TooFewBars {
        needed,
        found: frame.n_bars,
        warmup: frame.warmup_bars,
        train,
        purge_total: purge_bars,
        folds: config.folds,
        validation: config.validation_bars,
        validation_total,
        tail,
        tail_what: if config.holdout_bars == 0 {
            "fill lag"
        } else {
            "holdout and the purge before it"
        },
    })?;
    let holdout = (config.holdout_bars > 0)
        .then(|| frame.n_bars - config.holdout_bars..frame.n_bars - FILL_LAG_BARS);
    Ok(Split {
        folds,
        holdout,
        purge_bars,
    })
}

/// Lays `n_folds` folds so that the last validation block ends where `span` ends.
///
/// Training ends `purge_bars` before its validation block. `None` if some fold would have no bar
/// to train on, or fewer than a rolling window wants.
#[must_use]
pub fn walk_forward(
    span: Range<usize>,
    n_folds: usize,
    window: Window,
    validation_bars: usize,
    purge_bars: usize,
) -> Option<Vec<Fold>> {
    (0..n_folds)
        .map(|idx| {
            let start = span.end.checked_sub((n_folds - idx) * validation_bars)?;
            let train_end = start.checked_sub(purge_bars)?;
            let train_start = match window {
                Window::Expanding => span.start,
                Window::Rolling { train_bars } => train_end.checked_sub(train_bars)?,
            };
            (span.start <= train_start && train_start < train_end).then_some(Fold {
                train: train_start..train_end,
                validation: start..start + validation_bars,
            })
        })
        .collect()
}

/// Fewest bars between a training block and what follows it.
fn purge_bars_min(frame: &SplitFrame) -> usize {
    (frame.horizon + 1).max(FILL_LAG_BARS)
}

fn check(config: &SplitConfig, frame: &SplitFrame) -> Result<(), MarketError> {
    let invalid = |setting, value, expected| {
        Err(MarketError::SplitInvalid {
            setting,
            value,
            expected,
        })
    };
    let folds_min = if config.allow_single_fold { 1 } else { 2 };
    if !(folds_min..=FOLDS_MAX).contains(&config.folds) {
        return invalid(
            "folds",
            config.folds,
            "2 to 8 (1 only with the objective validation.sharpe, which needs no standard error)",
        );
    }
    if config.validation_bars < BLOCK_BARS_MIN {
        return invalid("validation_bars", config.validation_bars, "at least 10");
    }
    if config.holdout_bars != 0 && config.holdout_bars < BLOCK_BARS_MIN {
        return invalid("holdout_bars", config.holdout_bars, "0 or at least 10");
    }
    if let Window::Rolling { train_bars } = config.window
        && train_bars < TRAIN_BARS_MIN
    {
        return invalid("train_bars", train_bars, "at least 100");
    }
    if let Purge::Bars(n) = config.purge
        && n < purge_bars_min(frame)
    {
        return invalid(
            "purge_bars",
            n,
            "\"auto\", or at least horizon + 1 and at least 2, so that no label or fill reads a later block",
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
