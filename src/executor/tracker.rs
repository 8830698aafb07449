//! Follows the folds of one trial to its best epoch.
//!
//! # Invariants
//! - The best epoch is that of the aggregate over folds, never each fold's own.
//! - Weights of an epoch are kept until every fold has reported it, then only if it is the best.

use super::message::{FoldResult, TrialEnd};
use crate::market::metrics::{Degenerate, Figures};
use crate::study::{DegenerateReason, FoldScore, Objective};
use std::collections::BTreeMap;

/// What a fold leaves at an epoch.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    pub(super) figures: Figures,
    pub(super) cost: f64,
    pub(super) net_returns: Vec<f64>,
    /// Flat parameter block.
    pub(super) params: Vec<f32>,
}

/// The folds of one trial.
#[derive(Debug)]
pub(super) struct Tracker {
    objective: Objective,
    n_folds: usize,
    n_epochs: u32,
    /// Epochs that some fold has not reached yet, `[fold]` each.
    open: BTreeMap<u32, Vec<Option<Snapshot>>>,
    /// Values of finished epochs, in order.
    values: Vec<Result<f64, DegenerateReason>>,
    /// The best epoch so far, or the last one where none has a value.
    kept: Option<(u32, Vec<Snapshot>)>,
}

impl Tracker {
    pub(super) fn new(objective: Objective, n_folds: usize, n_epochs: u32) -> Self {
        Self {
            objective,
            n_folds,
            n_epochs,
            open: BTreeMap::new(),
            values: Vec::new(),
            kept: None,
        }
    }

    /// Takes a fold's report; folds report their epochs in order.
    pub(super) fn report(&mut self, fold: usize, epoch: u32, snapshot: Snapshot) {
        let n_folds = self.n_folds;
        let folds = self
            .open
            .entry(epoch)
            .or_insert_with(|| vec![None; n_folds]);
        folds[fold] = Some(snapshot);
        while let Some(entry) = self.open.first_entry() {
            if !entry.get().iter().all(Option::is_some) {
                break;
            }
            let (epoch, folds) = entry.remove_entry();
            self.close(epoch, folds.into_iter().flatten().collect());
        }
    }

    fn close(&mut self, epoch: u32, folds: Vec<Snapshot>) {
        let value = value_of(&self.objective, &folds);
        let is_better = match (value, self.best()) {
            (Ok(value), Some(best)) => self.objective.direction.is_better(value, best),
            (Ok(_), None) | (Err(_), None) => true,
            (Err(_), Some(_)) => false,
        };
        if is_better {
            self.kept = Some((epoch, folds));
        }
        self.values.push(value);
    }

    fn best(&self) -> Option<f64> {
        self.objective
            .best_epoch(&self.values)
            .ok()
            .map(|best| best.value)
    }

    /// Whether every fold has reported every epoch.
    pub(super) fn is_done(&self) -> bool {
        self.values.len() == self.n_epochs as usize
    }

    /// Ends the trial.
    ///
    /// - `weights`: turns a fold's parameters at an epoch into a file.
    pub(super) fn finish(
        self,
        weights: impl Fn(u32, u32, &[f32]) -> Vec<u8>,
    ) -> (TrialEnd, Vec<FoldResult>) {
        let end = match self.objective.best_epoch(&self.values) {
            Ok(best) => TrialEnd::Complete {
                value: best.value,
                best_epoch: u32::try_from(best.epoch_idx).expect("epochs fit 32 bits"),
            },
            Err(reason) => TrialEnd::Degenerate(reason),
        };
        let has_value = matches!(end, TrialEnd::Complete { .. });
        let (epoch, snapshots) = self.kept.unwrap_or_default();
        let folds = (0u32..)
            .zip(snapshots)
            .map(|(fold, snapshot)| FoldResult {
                fold,
                weights: has_value.then(|| weights(fold, epoch, &snapshot.params)),
                figures: snapshot.figures,
                cost: snapshot.cost,
                net_returns: snapshot.net_returns,
            })
            .collect();
        (end, folds)
    }
}

fn value_of(objective: &Objective, folds: &[Snapshot]) -> Result<f64, DegenerateReason> {
    let is_infinite = folds
        .iter()
        .any(|fold| fold.figures.degenerate == Some(Degenerate::NotFinite));
    if is_infinite {
        return Err(DegenerateReason::NotFinite);
    }
    let scores: Vec<FoldScore> = folds
        .iter()
        .map(|fold| FoldScore {
            sharpe: fold.figures.sharpe_annual,
            n_trades: fold.figures.n_trades as u64,
        })
        .collect();
    objective.epoch_value(&scores)
}

#[cfg(test)]
mod tests;
