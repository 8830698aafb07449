//! A resident pack: one session, its lanes, and the trials whose runs they hold.
//!
//! # Invariants
//! - All lanes share epoch boundaries; loading, reading and refilling happen only there.
//! - A free lane takes the next run of a taken trial before another trial is taken.

use super::message::{EpochReport, Event, TrialEnd, TrialFailure};
use super::pool::Shared;
use super::prepare::Prepared;
use super::thread::SharedPlan;
use super::tracker::{Snapshot, Tracker};
use super::weights::{self, Origin};
use crate::engine::backend::{Data, Elapsed, EngineError, LaneIdx, Session};
use crate::market::metrics::evaluate;
use crate::models::{RunInput, count, series};
use crate::study::{FailureKind, TrialId};
use std::collections::{BTreeMap, VecDeque};
use tracing::{debug, debug_span};

/// A run in its lane.
#[derive(Debug, Clone, Copy)]
struct LaneRun {
    trial_id: TrialId,
    fold: usize,
    epoch: u32,
    n_updates: u64,
    n_env_steps: u64,
}

/// A taken trial.
struct ActiveTrial {
    prepared: Prepared,
    tracker: Tracker,
}

/// A session with its lanes.
pub(super) struct Pack<'s> {
    shared: &'s Shared,
    plan: SharedPlan,
    session: Box<dyn Session>,
    lanes: Vec<Option<LaneRun>>,
    waiting_runs: VecDeque<(TrialId, usize)>,
    trials: BTreeMap<TrialId, ActiveTrial>,
}

impl<'s> Pack<'s> {
    /// Allocates the lanes.
    pub(super) fn open(
        shared: &'s Shared,
        plan: &SharedPlan,
        n_lanes: usize,
    ) -> Result<Self, EngineError> {
        let session = shared
            .preparer
            .backend()
            .open(plan.plan.clone(), &plan.tables, n_lanes)?;
        Ok(Self {
            shared,
            plan: plan.clone(),
            session,
            lanes: vec![None; n_lanes],
            waiting_runs: VecDeque::new(),
            trials: BTreeMap::new(),
        })
    }

    /// Runs epochs until no trial of this plan key is left.
    ///
    /// - `is_warm`: whether this executor has run the plan before.
    pub(super) fn run(&mut self, is_warm: bool) -> Result<(), EngineError> {
        let _span = debug_span!("pack", plan_key = self.plan.key()).entered();
        let mut is_warmup = !is_warm;
        loop {
            self.refill()?;
            if self.shared.is_stopping() || self.lanes.iter().all(Option::is_none) {
                return Ok(());
            }
            self.epoch(is_warmup)?;
            is_warmup = false;
        }
    }

    /// Reports every trial of the pack as failed.
    pub(super) fn fail_all(&mut self, failure: &TrialFailure) {
        self.waiting_runs.clear();
        self.lanes.fill(None);
        for trial_id in std::mem::take(&mut self.trials).into_keys() {
            self.shared
                .end(trial_id, TrialEnd::Failed(failure.clone()), Vec::new());
        }
    }

    /// Fills free lanes, taking new trials where the taken ones have no run left.
    fn refill(&mut self) -> Result<(), EngineError> {
        let n_free = self.lanes.iter().filter(|lane| lane.is_none()).count();
        let n_folds = self.shared.preparer.market().folds.len();
        let n_missing = n_free.saturating_sub(self.waiting_runs.len());
        let n_wanted = n_missing.div_ceil(n_folds);
        if n_wanted > 0 {
            self.take_trials(n_wanted);
        }
        for lane in 0..self.lanes.len() {
            if self.lanes[lane].is_some() {
                continue;
            }
            let Some((trial_id, fold)) = self.waiting_runs.pop_front() else {
                self.session.set_live(LaneIdx(lane), false);
                continue;
            };
            self.load(lane, trial_id, fold)?;
        }
        Ok(())
    }

    fn take_trials(&mut self, n_wanted: usize) {
        let taken = self.shared.take(self.plan.key(), n_wanted);
        for prepared in self.shared.begin(&self.plan, self.lanes.len(), taken) {
            let trial_id = prepared.request.trial_id;
            let n_folds = prepared.request.seeds.len();
            self.waiting_runs
                .extend((0..n_folds).map(|fold| (trial_id, fold)));
            let options = &self.shared.options;
            let tracker = Tracker::new(options.objective, n_folds, options.n_epochs);
            self.trials
                .insert(trial_id, ActiveTrial { prepared, tracker });
        }
    }

    fn load(&mut self, lane: usize, trial_id: TrialId, fold: usize) -> Result<(), EngineError> {
        let market = self.shared.preparer.market();
        let request = &self.trials[&trial_id].prepared.request;
        let steps_per_epoch = count(&request.params, "train.steps_per_epoch");
        let run = RunInput {
            params: &request.params,
            seed: request.seeds[fold],
            fold,
            train: market.folds[fold].train.clone(),
            validation: market.folds[fold].validation.clone(),
            costs: market.costs,
            n_updates: u64::from(self.shared.options.n_epochs) * steps_per_epoch as u64,
        };
        self.session
            .load(LaneIdx(lane), &self.plan.trainer.lane(&run))?;
        self.session.set_live(LaneIdx(lane), true);
        self.lanes[lane] = Some(LaneRun {
            trial_id,
            fold,
            epoch: 0,
            n_updates: 0,
            n_env_steps: 0,
        });
        debug!(%trial_id, fold, lane, "a run enters its lane");
        Ok(())
    }

    /// Runs one epoch in the executor's turn, then does the host's work outside of it.
    fn epoch(&mut self, is_warmup: bool) -> Result<(), EngineError> {
        let elapsed = {
            let turn = self.shared.turn();
            let train = self.session.train(self.plan.trainer.n_cycles())?;
            let evaluate = self.session.evaluate()?;
            drop(turn);
            Elapsed {
                device: train.device + evaluate.device,
                wall: train.wall + evaluate.wall,
            }
        };
        let live: Vec<usize> = (0..self.lanes.len())
            .filter(|lane| self.lanes[*lane].is_some())
            .collect();
        let mut reports = Vec::new();
        let mut diverged = Vec::new();
        for lane in &live {
            let report = self.read_lane(*lane, elapsed, live.len(), is_warmup)?;
            if self.has_diverged(*lane)? {
                diverged.push((report.trial_id, report.fold, report.epoch));
            }
            reports.push(report);
        }
        // As above: nobody listens only when the study is over.
        let _ = self.shared.events.blocking_send(Event::Epoch(reports));
        for (trial_id, fold, epoch) in diverged {
            let text = format!(
                "loss or gradient was not finite in epoch {epoch} of fold {fold}; a smaller \
                 train.lr or train.max_grad_norm may help"
            );
            self.fail(
                trial_id,
                TrialFailure {
                    kind: FailureKind::Diverged,
                    text,
                    bytes: None,
                },
            );
        }
        self.advance(&live);
        Ok(())
    }

    /// Reads what a lane left, hands its snapshot to the trial, and reports.
    fn read_lane(
        &mut self,
        lane: usize,
        elapsed: Elapsed,
        n_live: usize,
        is_warmup: bool,
    ) -> Result<EpochReport, EngineError> {
        let readout = self.plan.trainer.readout();
        let read = |state| self.session.read(LaneIdx(lane), state);
        let metrics = self.plan.trainer.metrics(&read(readout.metrics)?);
        let evaluation = read(readout.evaluation)?;
        let params = match read(readout.params)? {
            Data::F32(values) => values,
            other => other.to_f64().iter().map(|value| *value as f32).collect(),
        };
        let run = self.lanes[lane].as_mut().expect("only live lanes are read");
        run.n_updates += metrics.n_updates;
        run.n_env_steps += metrics.n_env_steps;
        let run = *run;
        let market = self.shared.preparer.market();
        let series = series(&evaluation, market.folds[run.fold].validation.len());
        let figures = evaluate(&series, &market.clocks[run.fold]);
        let trial = self
            .trials
            .get_mut(&run.trial_id)
            .expect("a run's trial is in the pack");
        let snapshot = Snapshot {
            figures: figures.clone(),
            cost: series.cost.iter().sum(),
            net_returns: series.net,
            params,
        };
        trial.tracker.report(run.fold, run.epoch, snapshot);
        Ok(EpochReport {
            trial_id: run.trial_id,
            fold: u32::try_from(run.fold).expect("few folds"),
            epoch: run.epoch,
            n_live: u32::try_from(n_live).expect("few lanes"),
            overlap: self.shared.options.overlap,
            is_emulated: self.plan.is_emulated,
            is_warmup,
            pack_wall_ms: elapsed.wall.as_secs_f64() * 1e3,
            pack_device_ms: elapsed.device.as_secs_f64() * 1e3,
            n_updates: run.n_updates,
            n_env_steps: run.n_env_steps,
            metrics,
            figures,
        })
    }

    fn has_diverged(&self, lane: usize) -> Result<bool, EngineError> {
        let flag = self
            .session
            .read(LaneIdx(lane), self.plan.trainer.readout().diverged)?;
        Ok(flag.to_f64().iter().any(|value| *value != 0.0))
    }

    /// Ends a trial early and frees its lanes.
    fn fail(&mut self, trial_id: TrialId, failure: TrialFailure) {
        if self.trials.remove(&trial_id).is_none() {
            return;
        }
        self.waiting_runs.retain(|(id, _)| *id != trial_id);
        for lane in &mut self.lanes {
            if lane.is_some_and(|run| run.trial_id == trial_id) {
                *lane = None;
            }
        }
        self.shared
            .end(trial_id, TrialEnd::Failed(failure), Vec::new());
    }

    /// Moves live lanes to their next epoch, frees finished ones, ends finished trials.
    fn advance(&mut self, live: &[usize]) {
        for lane in live {
            let Some(run) = &mut self.lanes[*lane] else {
                continue;
            };
            run.epoch += 1;
            if run.epoch == self.shared.options.n_epochs {
                self.lanes[*lane] = None;
            }
        }
        let done: Vec<TrialId> = self
            .trials
            .iter()
            .filter(|(_, trial)| trial.tracker.is_done())
            .map(|(trial_id, _)| *trial_id)
            .collect();
        for trial_id in done {
            let ActiveTrial { prepared, tracker } =
                self.trials.remove(&trial_id).expect("listed above");
            let (end, folds) = tracker.finish(|fold, epoch, params| {
                let origin = Origin {
                    format: weights::FORMAT,
                    seed: prepared.request.seeds[fold as usize],
                    fold,
                    epoch,
                    precision: prepared.request.precision.as_str(),
                    plan_key: self.plan.key(),
                    data_digest: &self.shared.preparer.market().digest,
                };
                weights::serialize(self.plan.trainer.layout(), params, &origin)
            });
            self.shared.end(trial_id, end, folds);
        }
    }
}
