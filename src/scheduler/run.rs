//! The run loop.

use super::SchedulerError;
use super::open::Opened;
use super::record;
use super::state::{Configuration, Configurations, Trial};
use crate::executor::{
    DeviceLoss, Event, ExecutorId, Pool, PoolDevice, PoolOptions, Prepared, Preparer, StartedPack,
    TrialReport, TrialRequest,
};
use crate::sampler::propose;
use crate::spec::StudySpec;
use crate::store::{NewAttempt, NewConfiguration, Store, StudyLock, TrialEnd, WorkerId};
use crate::study::{
    AttemptId, ConfigurationNumber, FailureKind, Precision, StudyState, TrialId, TrialState,
    cohort_of, run_seed, watermark,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tracing::{debug, info, warn};

/// Events that may wait for the store before executors wait too.
const EVENTS_MAX: usize = 64;
/// How often the study's lock is looked after.
const LOCK_CHECK: Duration = Duration::from_secs(20);
/// A wall limit that never comes.
const FAR_AWAY: Duration = Duration::from_secs(100 * 365 * 86_400);

/// Version of this program, as attempts and workers record it.
const PROGRAM_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Where a study runs.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Name of the host, for the worker's row.
    pub host: String,
    /// Devices of one class.
    pub devices: Vec<PoolDevice>,
}

/// Why the run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// Every configuration of the budget has ended.
    Complete,
    /// The wall limit came; the study can go on.
    WallLimit,
    /// Somebody stopped it; the study can go on.
    Stopped,
}

/// What became of the study's trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Why the run ended.
    pub ended: Ended,
    /// Trials with a value.
    pub n_valued: u64,
    /// Complete trials without one.
    pub n_degenerate: u64,
    /// Failed trials.
    pub n_failed: u64,
    /// Trials that this run began.
    pub n_begun: u64,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Trials that have ended.
    pub n_done: u64,
    /// Trials of the budget.
    pub n_total: u64,
    /// Failed ones among them.
    pub n_failed: u64,
    /// Best value so far.
    pub best: Option<f64>,
}

/// Runs one study.
pub struct Scheduler {
    store: Store,
    lock: StudyLock,
    worker_id: WorkerId,
    spec: StudySpec,
    arms: Vec<Precision>,
    opened: Opened,
    preparer: Arc<Preparer>,
    options: PoolOptions,
    machine: Machine,
    configurations: Configurations,
    attempts: HashMap<TrialId, AttemptId>,
    /// Trials that a device failed once.
    retried: HashSet<TrialId>,
    /// Trials that wait again, with the executor that they failed on.
    again: Vec<(TrialId, ExecutorId)>,
    n_begun: u64,
    /// Configurations from here on are not begun any more.
    limit: u32,
}

impl Scheduler {
    /// Loads what is stored of an opened study.
    ///
    /// # Errors
    /// [`SchedulerError::Store`] if the store fails.
    pub async fn new(
        store: Store,
        lock: StudyLock,
        opened: Opened,
        spec: StudySpec,
        preparer: Arc<Preparer>,
        options: PoolOptions,
        machine: Machine,
    ) -> Result<Self, SchedulerError> {
        let worker_id = store
            .register_worker(&machine.host, PROGRAM_VERSION)
            .await?;
        let history = store.load_study_history(opened.row.study_id).await?;
        Ok(Self {
            arms: opened.row.arms.clone(),
            configurations: Configurations::from_history(history),
            limit: spec.budget.configurations,
            store,
            lock,
            worker_id,
            spec,
            opened,
            preparer,
            options,
            machine,
            attempts: HashMap::new(),
            retried: HashSet::new(),
            again: Vec::new(),
            n_begun: 0,
        })
    }

    /// Runs until the budget is used, the wall limit comes, or `stop` turns true.
    ///
    /// - `report`: told after every trial.
    ///
    /// # Errors
    /// [`SchedulerError`]; the study stays resumable.
    pub async fn run(
        mut self,
        mut stop: watch::Receiver<bool>,
        mut report: impl FnMut(Progress),
    ) -> Result<Summary, SchedulerError> {
        report(self.progress());
        if self.configurations.have_ended_below(self.limit) {
            return self.finish(Ended::Complete).await;
        }
        if self.opened.row.state != StudyState::Running {
            let study_id = self.opened.row.study_id;
            self.store
                .set_study_state(study_id, StudyState::Running, None)
                .await?;
            self.opened.row.state = StudyState::Running;
        }
        let (sender, mut events) = mpsc::channel(EVENTS_MAX);
        let devices = self.machine.devices.clone();
        let pool = Pool::start(self.preparer.clone(), devices, self.options, sender)
            .map_err(|source| SchedulerError::Thread { source })?;
        let ended = self.drive(&pool, &mut events, &mut stop, &mut report).await;
        match &ended {
            Ok(Ended::Complete | Ended::WallLimit) => pool.close(),
            Ok(Ended::Stopped) | Err(_) => pool.stop(),
        }
        let joined = tokio::task::spawn_blocking(move || pool.join());
        // What still arrives is of epochs that end now; it is recorded like any other, until
        // something fails. Executors are waited for in any case.
        let mut ended = ended;
        while let Some(event) = events.recv().await {
            if ended.is_ok()
                && let Err(error) = self.handle(event, &mut report).await
            {
                ended = Err(error);
            }
        }
        // A join error would be a panic of the waiting itself.
        let _ = joined.await;
        if let Err(SchedulerError::DevicesLost { cause, .. }) = &ended {
            self.give_up(&format!("no device is left: {cause}")).await?;
        }
        let ended = ended?;
        self.store.requeue_running(self.opened.row.study_id).await?;
        self.finish(ended).await
    }

    /// Leaves a study that can go on where there is a device again.
    async fn give_up(&mut self, reason: &str) -> Result<(), SchedulerError> {
        let study_id = self.opened.row.study_id;
        self.store.requeue_running(study_id).await?;
        self.store
            .set_study_state(study_id, StudyState::Stopped, Some(reason))
            .await?;
        Ok(())
    }

    async fn drive(
        &mut self,
        pool: &Pool,
        events: &mut mpsc::Receiver<Event>,
        stop: &mut watch::Receiver<bool>,
        report: &mut impl FnMut(Progress),
    ) -> Result<Ended, SchedulerError> {
        let wall = self
            .spec
            .budget
            .wall_s
            .map_or(FAR_AWAY, Duration::from_secs);
        let wall = sleep_until(Instant::now() + wall);
        tokio::pin!(wall);
        let mut is_over_wall = false;
        let mut lock_check = interval(LOCK_CHECK);
        lock_check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.submit_waiting(pool);
        loop {
            self.sample(pool).await?;
            if self.configurations.have_ended_below(self.limit) {
                let is_cut = self.limit < self.spec.budget.configurations;
                return Ok(if is_cut {
                    Ended::WallLimit
                } else {
                    Ended::Complete
                });
            }
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => {
                        self.handle(event, report).await?;
                        self.submit_again(pool);
                    }
                    None => return Err(SchedulerError::ExecutorsLost),
                },
                changed = stop.changed() => {
                    if changed.is_err() || *stop.borrow() {
                        return Ok(Ended::Stopped);
                    }
                }
                () = &mut wall, if !is_over_wall => {
                    is_over_wall = true;
                    self.cut(pool);
                }
                _ = lock_check.tick() => self.lock.ensure().await?,
            }
        }
    }

    /// Begins no configuration beyond those that have begun.
    fn cut(&mut self, pool: &Pool) {
        let begun = self
            .configurations
            .trials_below(self.limit)
            .filter(|trial| trial.state != TrialState::Waiting)
            .map(|trial| self.configurations.number_of(trial.trial_id) + 1)
            .max();
        self.limit = begun.unwrap_or(0);
        info!(n_configurations = self.limit, "the wall limit came");
        let (configurations, limit) = (&self.configurations, self.limit);
        pool.withdraw(|trial| configurations.number_of(trial.request.trial_id) < limit);
    }

    /// Samples the cohorts that may be sampled now.
    async fn sample(&mut self, pool: &Pool) -> Result<(), SchedulerError> {
        let size = self.spec.scheduler.cohort;
        while let Some(numbers) = self.configurations.next_cohort(self.limit, size) {
            let cohort: Vec<NewConfiguration> = numbers
                .iter()
                .map(|&number| {
                    let history = self.configurations.history(number, size);
                    let number = ConfigurationNumber(number);
                    NewConfiguration {
                        number,
                        cohort: cohort_of(number, size),
                        watermark: watermark(number, size),
                        is_enqueued: (number.0 as usize) < self.spec.enqueue.len(),
                        params: propose(&self.spec, number, &history),
                    }
                })
                .collect();
            let n_replicates = self.spec.budget.replicates;
            let study_id = self.opened.row.study_id;
            let inserted = self
                .store
                .insert_cohort(study_id, &cohort, &self.arms, n_replicates)
                .await?;
            debug!(
                first = numbers[0],
                n = numbers.len(),
                "a cohort was sampled"
            );
            let mut trials = Vec::new();
            for (configuration, stored) in cohort.into_iter().zip(inserted) {
                let waiting = stored.trials.iter().map(|trial| Trial {
                    trial_id: trial.trial_id,
                    precision: trial.precision,
                    replicate: trial.replicate,
                    state: TrialState::Waiting,
                    value: None,
                });
                let params = configuration.params;
                let configuration = Configuration {
                    params,
                    trials: waiting.collect(),
                };
                trials.extend(configuration.trials.iter().map(|trial| trial.trial_id));
                self.configurations.insert(stored.number.0, configuration);
            }
            self.submit(pool, &trials);
        }
        Ok(())
    }

    /// Hands over what an earlier run left.
    fn submit_waiting(&self, pool: &Pool) {
        let waiting: Vec<TrialId> = self
            .configurations
            .trials_below(self.limit)
            .filter(|trial| !trial.state.is_final())
            .map(|trial| trial.trial_id)
            .collect();
        self.submit(pool, &waiting);
    }

    /// Prepares and queues trials. Arms alternate who goes first, so that neither always finds
    /// the machine as the other left it.
    fn submit(&self, pool: &Pool, trials: &[TrialId]) {
        let mut prepared: Vec<(u32, usize, Prepared)> = trials
            .iter()
            .map(|trial_id| {
                let number = self.configurations.number_of(*trial_id);
                let trial = self.configurations.trial(*trial_id);
                let arm = self.arms.iter().position(|arm| *arm == trial.precision);
                let cohort = cohort_of(ConfigurationNumber(number), self.spec.scheduler.cohort);
                let turn = (arm.unwrap_or(0) + cohort as usize) % self.arms.len();
                (cohort, turn, self.prepare(number, trial))
            })
            .collect();
        prepared.sort_by_key(|(cohort, turn, _)| (*cohort, *turn));
        pool.submit(prepared.into_iter().map(|(_, _, trial)| trial).collect());
    }

    /// Queues trials that a device failed, for another executor.
    fn submit_again(&mut self, pool: &Pool) {
        let again = std::mem::take(&mut self.again);
        let is_below =
            |(trial_id, _): &(TrialId, _)| self.configurations.number_of(*trial_id) < self.limit;
        let prepared = again
            .into_iter()
            .filter(is_below)
            .map(|(trial_id, shunned)| {
                let number = self.configurations.number_of(trial_id);
                let prepared = self.prepare(number, self.configurations.trial(trial_id));
                Prepared {
                    shuns: Some(shunned),
                    ..prepared
                }
            });
        let prepared: Vec<_> = prepared.collect();
        if !prepared.is_empty() {
            pool.submit(prepared);
        }
    }

    fn prepare(&self, number: u32, trial: &Trial) -> Prepared {
        let configuration = self.configurations.get(number).expect("known by its trial");
        let seeds = self.seeds(number, trial.replicate);
        self.preparer.prepare(TrialRequest {
            trial_id: trial.trial_id,
            cohort: cohort_of(ConfigurationNumber(number), self.spec.scheduler.cohort),
            params: self.spec.complete(&configuration.params),
            precision: trial.precision,
            seeds,
        })
    }

    async fn handle(
        &mut self,
        event: Event,
        report: &mut impl FnMut(Progress),
    ) -> Result<(), SchedulerError> {
        match event {
            Event::Start(pack) => self.start(pack).await,
            Event::Epoch(epochs) => {
                let rows: Vec<_> = epochs
                    .iter()
                    .filter_map(|epoch| {
                        let attempt_id = self.attempts.get(&epoch.trial_id)?;
                        Some(record::epoch_row(*attempt_id, epoch))
                    })
                    .collect();
                self.store.record_epochs(&rows).await?;
                Ok(())
            }
            Event::Done(done) => {
                self.done(*done).await?;
                report(self.progress());
                Ok(())
            }
            Event::DeviceLost(DeviceLoss {
                device,
                cause,
                n_devices_left,
            }) => {
                if n_devices_left == 0 {
                    return Err(SchedulerError::DevicesLost { device, cause });
                }
                warn!(device, cause, n_devices_left, "a device is lost");
                Ok(())
            }
            Event::ExecutorLost => Err(SchedulerError::ExecutorsLost),
        }
    }

    async fn start(&mut self, pack: StartedPack) -> Result<(), SchedulerError> {
        // The wall limit may have come after the executor took them.
        let may_begin =
            |trial_id: &&TrialId| self.configurations.number_of(**trial_id) < self.limit;
        let attempts: Vec<NewAttempt> = pack
            .trials
            .iter()
            .filter(may_begin)
            .map(|trial_id| {
                let number = self.configurations.number_of(*trial_id);
                let trial = self.configurations.trial(*trial_id);
                NewAttempt {
                    trial_id: *trial_id,
                    worker_id: self.worker_id,
                    device: pack.device.clone(),
                    driver: pack.driver.clone(),
                    n_lanes: pack.n_lanes,
                    kernel_digest: pack.kernel_digest.clone(),
                    data_digest: self.preparer.market().digest.clone(),
                    program_version: PROGRAM_VERSION.to_owned(),
                    arena_bytes: pack.arena_bytes,
                    bytes_per_lane: pack.bytes_per_lane,
                    plan_key: pack.plan_key.clone(),
                    seeds: self.seeds(number, trial.replicate),
                }
            })
            .collect();
        let started = self.store.start_attempts(&attempts).await?;
        for (attempt, attempt_id) in attempts.iter().zip(started) {
            if let Some(attempt_id) = attempt_id {
                self.attempts.insert(attempt.trial_id, attempt_id);
                self.configurations.trial_mut(attempt.trial_id).state = TrialState::Running;
                self.n_begun += 1;
            }
        }
        let is_running =
            |trial_id: &TrialId| self.configurations.trial(*trial_id).state == TrialState::Running;
        // The executor is gone only if it panicked; its trials are requeued at the end.
        let _ = pack
            .accepted
            .send(pack.trials.iter().map(is_running).collect());
        let refused = attempts
            .iter()
            .find(|attempt| !is_running(&attempt.trial_id));
        refused.map_or(Ok(()), |attempt| {
            Err(SchedulerError::Fenced {
                trial_id: attempt.trial_id,
            })
        })
    }

    async fn done(&mut self, report: TrialReport) -> Result<(), SchedulerError> {
        let (trial_id, executor) = (report.trial_id, report.executor);
        let attempt_id = self.attempts[&trial_id];
        let (outcome, is_lost) = record::outcome(attempt_id, report);
        if let TrialEnd::Failed(failure) = &outcome.end
            && self.may_run_again(trial_id, failure.kind, is_lost)
        {
            warn!(%trial_id, cause = failure.text, "a device failed a trial, which waits again");
            if !self.store.fail_attempt(attempt_id, failure).await? {
                return Err(SchedulerError::Fenced { trial_id });
            }
            self.configurations.trial_mut(trial_id).state = TrialState::Waiting;
            self.again.push((trial_id, executor));
            return Ok(());
        }
        let (state, value) = match &outcome.end {
            TrialEnd::Complete { value, .. } => (TrialState::Complete, Some(*value)),
            TrialEnd::Degenerate { .. } => (TrialState::Complete, None),
            TrialEnd::Pruned { .. } => (TrialState::Pruned, None),
            TrialEnd::Failed(failure) => {
                warn!(%trial_id, kind = ?failure.kind, cause = failure.text, "a trial failed");
                (TrialState::Failed, None)
            }
        };
        if !self.store.finish_trial(&outcome).await? {
            return Err(SchedulerError::Fenced { trial_id });
        }
        let trial = self.configurations.trial_mut(trial_id);
        (trial.state, trial.value) = (state, value);
        Ok(())
    }

    /// Whether a failed attempt is not the trial's end: always where the device was lost under
    /// it, which the trial is not to blame for; once where the device failed otherwise.
    fn may_run_again(&mut self, trial_id: TrialId, kind: FailureKind, is_lost: bool) -> bool {
        is_lost || (kind == FailureKind::Device && self.retried.insert(trial_id))
    }

    fn seeds(&self, number: u32, replicate: u32) -> Vec<u64> {
        let n_folds = self.preparer.market().folds.len();
        (0..u32::try_from(n_folds).expect("few folds"))
            .map(|fold| run_seed(self.spec.seed, ConfigurationNumber(number), fold, replicate))
            .collect()
    }

    fn progress(&self) -> Progress {
        let budget = self.spec.budget.configurations;
        let trials = || self.configurations.trials_below(budget);
        let count = |keep: &dyn Fn(&Trial) -> bool| trials().filter(|trial| keep(trial)).count();
        let best = trials().filter_map(|trial| trial.value).reduce(|a, b| {
            if self.spec.objective.direction.is_better(b, a) {
                b
            } else {
                a
            }
        });
        Progress {
            n_done: count(&|trial| trial.state.is_final()) as u64,
            n_total: self.spec.n_trials(),
            n_failed: count(&|trial| trial.state == TrialState::Failed) as u64,
            best,
        }
    }

    /// Stores the study's state and gives the lock back.
    async fn finish(self, ended: Ended) -> Result<Summary, SchedulerError> {
        let study_id = self.opened.row.study_id;
        let (state, reason) = match ended {
            Ended::Complete => (StudyState::Complete, None),
            Ended::WallLimit => (StudyState::Stopped, Some("the wall limit came")),
            Ended::Stopped => (StudyState::Stopped, Some("interrupted")),
        };
        if self.opened.row.state != state {
            self.store.set_study_state(study_id, state, reason).await?;
        }
        self.lock.release().await;
        let budget = self.spec.budget.configurations;
        let count = |keep: &dyn Fn(&Trial) -> bool| {
            self.configurations
                .trials_below(budget)
                .filter(|trial| keep(trial))
                .count() as u64
        };
        Ok(Summary {
            ended,
            n_valued: count(&|trial| trial.value.is_some()),
            n_degenerate: count(&|trial| {
                trial.state == TrialState::Complete && trial.value.is_none()
            }),
            n_failed: count(&|trial| trial.state == TrialState::Failed),
            n_begun: self.n_begun,
        })
    }
}
