//! Executor reports as rows of the store.

use crate::executor::{EpochReport, FoldResult, TrialEnd, TrialReport};
use crate::store::{
    self, ArtifactRow, EpochRow, ResultRow, Split, TrialOutcome, ValidationFigures,
};
use crate::study::AttemptId;
use std::collections::BTreeMap;

/// One epoch of one run.
pub(super) fn epoch_row(attempt_id: AttemptId, report: &EpochReport) -> EpochRow {
    let metrics = &report.metrics;
    let figures = &report.figures;
    // Before the replay is warm there is nothing to average.
    let measured = |value: f64| (metrics.n_updates > 0).then_some(value);
    EpochRow {
        attempt_id,
        fold: report.fold,
        epoch: report.epoch,
        n_lanes: report.n_live,
        overlap: report.overlap,
        is_emulated: report.is_emulated,
        is_warmup: report.is_warmup,
        pack_wall_ms: report.pack_wall_ms,
        pack_device_ms: report.pack_device_ms,
        steps: report.n_updates,
        env_steps: report.n_env_steps,
        loss: measured(metrics.loss),
        loss_terms: BTreeMap::new(),
        gradient_norm: measured(metrics.grad_norm),
        q_mean: measured(metrics.q_mean),
        q_max: measured(metrics.q_max),
        td_error: measured(metrics.td_error),
        edge_atom_mass: measured(metrics.edge_atom_mass),
        validation: ValidationFigures {
            sharpe: figures.sharpe_annual,
            total_return: Some(figures.total_return),
            max_drawdown: Some(figures.drawdown_max),
            turnover: Some(figures.turnover),
            exposure: Some(figures.exposure),
            n_trades: Some(figures.n_trades as u64),
        },
    }
}

/// The end of a trial with its results and weights, and whether its device was lost under it.
pub(super) fn outcome(attempt_id: AttemptId, report: TrialReport) -> (TrialOutcome, bool) {
    let is_lost = matches!(report.end, TrialEnd::Lost(_));
    let end = match report.end {
        TrialEnd::Complete { value, best_epoch } => store::TrialEnd::Complete { value, best_epoch },
        TrialEnd::Degenerate(reason) => store::TrialEnd::Degenerate { reason },
        TrialEnd::Failed(failure) | TrialEnd::Lost(failure) => {
            store::TrialEnd::Failed(store::Failure {
                kind: failure.kind,
                text: failure.text,
                bytes_asked: failure.bytes.map(|(asked, _)| asked),
                bytes_free: failure.bytes.map(|(_, free)| free),
            })
        }
    };
    let mut results = Vec::new();
    let mut artifacts = Vec::new();
    for fold in report.folds {
        if let Some(content) = &fold.weights {
            artifacts.push(ArtifactRow {
                fold: fold.fold,
                content: content.clone(),
            });
        }
        results.push(result_row(fold));
    }
    let outcome = TrialOutcome {
        attempt_id,
        end,
        results,
        artifacts,
    };
    (outcome, is_lost)
}

fn result_row(fold: FoldResult) -> ResultRow {
    let figures = fold.figures;
    let varies = figures.sharpe_period.is_some();
    ResultRow {
        fold: fold.fold,
        split: Split::Validation,
        sharpe: figures.sharpe_period,
        sharpe_annual: figures.sharpe_annual,
        n_observations: figures.n_observations as u64,
        skew: varies.then_some(figures.skew),
        kurtosis: varies.then_some(figures.kurtosis),
        total_return: Some(figures.total_return),
        max_drawdown: Some(figures.drawdown_max),
        turnover: Some(figures.turnover),
        n_trades: figures.n_trades as u64,
        hit_rate: Some(figures.hit_rate),
        exposure: Some(figures.exposure),
        cost: Some(fold.cost),
        net_returns: fold.net_returns,
    }
}
