//! A resident pack: one session, its lanes, and the trials whose runs they hold.
//!
//! # Invariants
//! - All lanes share epoch boundaries; loading, reading and refilling happen only there.
//! - A free lane takes the next run of a taken trial before another trial is taken.

use super::message::{EpochReport, Event, TrialEnd, TrialFailure};
use super::pool::{Footprint, Shared};
use super::prepare::{Prepared, PreparedPlan};
use super::queue::{ExecutorId, Order};
use super::tracker::{Snapshot, Tracker};
use super::weights::{self, Origin};
use crate::engine::backend::{Data, Elapsed, EngineError, LaneIdx, Session};
use crate::market::metrics::{Degenerate, evaluate};
use crate::models::{RunInput, count, series};
use crate::study::{FailureKind, TrialId};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
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

/// A session on its executor's device, with or without runs in its lanes.
pub(super) struct Resident {
    pub(super) plan: Arc<PreparedPlan>,
    pub(super) footprint: Footprint,
    session: Box<dyn Session>,
}

impl Resident {
    /// Allocates the lanes.
    pub(super) fn open(
        shared: &Shared,
        me: ExecutorId,
        plan: &Arc<PreparedPlan>,
        n_lanes: usize,
    ) -> Result<Self, EngineError> {
        let device = shared.device(me);
        let backend = &device.backend;
        let asked_bytes = backend.bytes(&plan.plan, n_lanes);
        let share_bytes = shared.options.memory_share_bytes(device);
        if asked_bytes > share_bytes {
            return Err(EngineError::OutOfMemory {
                device: backend.device(),
                asked_bytes,
                free_bytes: share_bytes,
            });
        }
        let session = backend.open(plan.plan.clone(), &plan.tables, n_lanes)?;
        Ok(Self {
            plan: plan.clone(),
            footprint: Footprint {
                n_lanes,
                arena_bytes: asked_bytes,
                kernel_digest: backend.kernel_digest(&plan.plan),
            },
            session,
        })
    }
}

/// A session with trials in its lanes.
pub(super) struct Pack<'s> {
    shared: &'s Shared,
    me: ExecutorId,
    plan: Arc<PreparedPlan>,
    footprint: Footprint,
    session: Box<dyn Session>,
    lanes: Vec<Option<LaneRun>>,
    /// Taken, and not yet begun.
    claimed: Vec<Prepared>,
    waiting_runs: VecDeque<(TrialId, usize)>,
    trials: BTreeMap<TrialId, ActiveTrial>,
}

impl<'s> Pack<'s> {
    /// Starts with dead lanes.
    ///
    /// - `claimed`: trials to begin with, no more than there are lanes for.
    pub(super) fn new(
        shared: &'s Shared,
        me: ExecutorId,
        resident: Resident,
        claimed: Vec<Prepared>,
    ) -> Self {
        let Resident {
            plan,
            footprint,
            session,
        } = resident;
        Self {
            shared,
            me,
            plan,
            lanes: vec![None; footprint.n_lanes],
            footprint,
            session,
            claimed,
            waiting_runs: VecDeque::new(),
            trials: BTreeMap::new(),
        }
    }

    /// Leaves the session to the next pack.
    pub(super) fn into_resident(self) -> Resident {
        Resident {
            plan: self.plan,
            footprint: self.footprint,
            session: self.session,
        }
    }

    /// Runs epochs until no trial of this plan key is left.
    ///
    /// - `warmed`: plans of which this executor has run an epoch; the pack's own joins them.
    pub(super) fn run(&mut self, warmed: &mut HashSet<String>) -> Result<(), EngineError> {
        let _span = debug_span!("pack", plan_key = self.plan.key()).entered();
        loop {
            self.refill()?;
            if !self.goes_on()? || self.lanes.iter().all(Option::is_none) {
                return Ok(());
            }
            let is_warmup = !warmed.contains(self.plan.key());
            if !self.epoch(is_warmup)? {
                return Ok(());
            }
            warmed.insert(self.plan.key().to_owned());
        }
    }

    /// Whether another epoch may begin; fails as the device did where that is lost.
    fn goes_on(&self) -> Result<bool, EngineError> {
        match self.shared.queue.order(self.me.device) {
            Order::GoOn => Ok(true),
            Order::Stop => Ok(false),
            Order::Leave(cause) => Err(cause),
        }
    }

    /// Drops the session and ends every trial of the pack so.
    pub(super) fn fail_all(self, end: &TrialEnd) {
        let (shared, me) = (self.shared, self.me);
        drop(self.session);
        shared.queue.give_back(self.claimed);
        for trial_id in self.trials.into_keys() {
            shared.end(me, trial_id, end.clone(), Vec::new());
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
        let mut taken = std::mem::take(&mut self.claimed);
        let n_missing = n_wanted.saturating_sub(taken.len());
        if n_missing > 0 {
            let queue = &self.shared.queue;
            taken.extend(queue.take(self.me, self.plan.key(), n_missing));
        }
        let begun = self
            .shared
            .begin(self.me, &self.plan, &self.footprint, taken);
        for prepared in begun {
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
    ///
    /// Says whether it did: not if executors were told to stop while it waited for its turn.
    fn epoch(&mut self, is_warmup: bool) -> Result<bool, EngineError> {
        let elapsed = {
            let turn = self.shared.turn(self.me);
            if !self.goes_on()? {
                return Ok(false);
            }
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
            let has_no_returns = report.figures.degenerate == Some(Degenerate::NotFinite);
            if self.has_diverged(*lane)? || has_no_returns {
                diverged.push((report.trial_id, report.fold, report.epoch));
            }
            reports.push(report);
        }
        // As above: nobody listens only when the study is over.
        let _ = self.shared.events.blocking_send(Event::Epoch(reports));
        for (trial_id, fold, epoch) in diverged {
            let text = format!(
                "loss, gradient or returns were not finite in epoch {epoch} of fold {fold}; a smaller \
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
        Ok(true)
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
        let end = TrialEnd::Failed(failure);
        self.shared.end(self.me, trial_id, end, Vec::new());
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
            self.shared.end(self.me, trial_id, end, folds);
        }
    }
}
