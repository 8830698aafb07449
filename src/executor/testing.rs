//! A device whose behaviour a test scripts, and small runs for it.
//!
//! # Invariants
//! - Arithmetic is the CPU's: whatever a script leaves alone gives the CPU's results.

use super::{
    DeviceLoss, EpochReport, Event, Lanes, MarketData, MarketOptions, Pool, PoolDevice,
    PoolOptions, Prepared, Preparer, StartedPack, TrialReport, TrialRequest,
};
use crate::engine::backend::{
    Backend, Data, DeviceInfo, Elapsed, EngineError, LaneIdx, Session, StateValues, Tables,
};
use crate::engine::cpu::Cpu;
use crate::engine::env::Costs;
use crate::engine::graph::DType;
use crate::engine::op::StateId;
use crate::engine::plan::Plan;
use crate::engine::program::{Program, Section};
use crate::market::split::{Purge, SplitConfig, Window};
use crate::market::synthetic::Planted;
use crate::market::tables::Flatten;
use crate::market::{BarLength, Bars, Calendar};
use crate::study::{Direction, Metric, Objective, Params, Precision, TrialId, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use tokio::sync::mpsc;

/// Epochs of a run.
pub(crate) const N_EPOCHS: u32 = 3;
/// Folds of the market.
pub(crate) const N_FOLDS: usize = 2;

type OpenHook = Box<dyn Fn(usize) -> Result<(), EngineError> + Send + Sync>;
type TrainHook = Box<dyn Fn(usize) -> Result<(), EngineError> + Send + Sync>;

/// What a scripted device has seen.
#[derive(Default)]
pub(crate) struct Seen {
    /// Sessions opened.
    pub(crate) n_opened: AtomicUsize,
    /// Epochs begun, over all sessions.
    pub(crate) n_trained: AtomicUsize,
    /// Bytes of the sessions that are there.
    pub(crate) n_bytes: AtomicU64,
    /// Most bytes at a time.
    pub(crate) n_bytes_peak: AtomicU64,
    /// Epochs going on.
    n_going: AtomicUsize,
    /// Most epochs at a time.
    pub(crate) n_going_peak: AtomicUsize,
}

/// A CPU that first does what a script says.
pub(crate) struct Scripted {
    cpu: Cpu<f32>,
    ordinal: usize,
    is_defective: bool,
    on_open: OpenHook,
    on_train: Arc<TrainHook>,
    seen: Arc<Seen>,
}

impl Scripted {
    /// A CPU that does nothing of its own.
    pub(crate) fn new() -> Self {
        Self {
            cpu: Cpu::new(NonZeroUsize::MIN),
            ordinal: 0,
            is_defective: false,
            on_open: Box::new(|_| Ok(())),
            on_train: Arc::new(Box::new(|_| Ok(()))),
            seen: Arc::default(),
        }
    }

    /// One of several devices of the class.
    pub(crate) fn numbered(ordinal: usize) -> Self {
        Self {
            ordinal,
            ..Self::new()
        }
    }

    /// One whose executors panic outside of any pack.
    pub(crate) fn defective() -> Self {
        Self {
            is_defective: true,
            ..Self::new()
        }
    }

    /// - `hook`: gets the lanes asked for; may fail or panic.
    pub(crate) fn on_open(
        mut self,
        hook: impl Fn(usize) -> Result<(), EngineError> + Send + Sync + 'static,
    ) -> Self {
        self.on_open = Box::new(hook);
        self
    }

    /// - `hook`: gets the number of the epoch, counted over all sessions; may wait or panic.
    pub(crate) fn on_train(self, hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        self.failing(move |n| {
            hook(n);
            Ok(())
        })
    }

    /// As [`Scripted::on_train`]; the hook may also fail.
    pub(crate) fn failing(
        mut self,
        hook: impl Fn(usize) -> Result<(), EngineError> + Send + Sync + 'static,
    ) -> Self {
        self.on_train = Arc::new(Box::new(hook));
        self
    }

    /// What it sees from now on.
    pub(crate) fn seen(&self) -> Arc<Seen> {
        self.seen.clone()
    }
}

impl Backend for Scripted {
    fn device(&self) -> String {
        "scripted".to_owned()
    }

    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            id: format!("scripted:{}", self.ordinal),
            uuid: None,
            compute_capability: None,
        }
    }

    fn driver(&self) -> String {
        "driver".to_owned()
    }

    fn kernel_digest(&self, plan: &Plan) -> String {
        format!("kernels of {}", plan.digest)
    }

    fn bytes(&self, plan: &Plan, n_lanes: usize) -> u64 {
        assert!(!self.is_defective, "a defect of the backend");
        self.cpu.bytes(plan, n_lanes)
    }

    fn is_emulated(&self, dtype: DType) -> bool {
        self.cpu.is_emulated(dtype)
    }

    fn lower(&self, program: &Program) -> Plan {
        self.cpu.lower(program)
    }

    fn open(
        &self,
        plan: Arc<Plan>,
        tables: &Tables,
        n_lanes: usize,
    ) -> Result<Box<dyn Session>, EngineError> {
        (self.on_open)(n_lanes)?;
        let n_bytes = self.bytes(&plan, n_lanes);
        let session = self.cpu.open(plan, tables, n_lanes)?;
        let seen = self.seen.clone();
        seen.n_opened.fetch_add(1, Ordering::SeqCst);
        let n_all = seen.n_bytes.fetch_add(n_bytes, Ordering::SeqCst) + n_bytes;
        seen.n_bytes_peak.fetch_max(n_all, Ordering::SeqCst);
        Ok(Box::new(ScriptedSession {
            session,
            n_bytes,
            on_train: self.on_train.clone(),
            seen,
        }))
    }
}

struct ScriptedSession {
    session: Box<dyn Session>,
    n_bytes: u64,
    on_train: Arc<TrainHook>,
    seen: Arc<Seen>,
}

impl Drop for ScriptedSession {
    fn drop(&mut self) {
        self.seen.n_bytes.fetch_sub(self.n_bytes, Ordering::SeqCst);
    }
}

impl ScriptedSession {
    fn train_after_script(&mut self, n_cycles: usize) -> Result<Elapsed, EngineError> {
        (self.on_train)(self.seen.n_trained.fetch_add(1, Ordering::SeqCst))?;
        self.session.train(n_cycles)
    }
}

impl Session for ScriptedSession {
    fn plan(&self) -> &Plan {
        self.session.plan()
    }

    fn load(&mut self, lane: LaneIdx, values: &StateValues) -> Result<(), EngineError> {
        self.session.load(lane, values)
    }

    fn set_live(&mut self, lane: LaneIdx, is_live: bool) {
        self.session.set_live(lane, is_live);
    }

    fn train(&mut self, n_cycles: usize) -> Result<Elapsed, EngineError> {
        let n_going = self.seen.n_going.fetch_add(1, Ordering::SeqCst) + 1;
        self.seen.n_going_peak.fetch_max(n_going, Ordering::SeqCst);
        let elapsed = self.train_after_script(n_cycles);
        if elapsed.is_err() {
            self.seen.n_going.fetch_sub(1, Ordering::SeqCst);
        }
        elapsed
    }

    fn repeat(&mut self, section: Section, phase: usize, n: usize) -> Result<Elapsed, EngineError> {
        self.session.repeat(section, phase, n)
    }

    fn evaluate(&mut self) -> Result<Elapsed, EngineError> {
        let elapsed = self.session.evaluate();
        self.seen.n_going.fetch_sub(1, Ordering::SeqCst);
        elapsed
    }

    fn read(&self, lane: LaneIdx, state: StateId) -> Result<Data, EngineError> {
        self.session.read(lane, state)
    }

    fn write(&mut self, lane: LaneIdx, state: StateId, data: &Data) -> Result<(), EngineError> {
        self.session.write(lane, state, data)
    }
}

/// What a device says whose program went wrong.
pub(crate) fn device_error(is_sticky: bool) -> EngineError {
    EngineError::Device {
        device: "scripted".to_owned(),
        what: "launching the epoch".to_owned(),
        cause: "an illegal address was encountered".to_owned(),
        is_sticky,
    }
}

/// What a device without memory says.
pub(crate) fn out_of_memory() -> EngineError {
    EngineError::OutOfMemory {
        device: "scripted".to_owned(),
        asked_bytes: 4096,
        free_bytes: 1024,
    }
}

/// Bars with a holdout of 100 at their end.
pub(crate) fn bars() -> Bars {
    Planted::new(900, 5).bars()
}

/// Two folds of 60 bars.
pub(crate) fn market(bars: &Bars) -> Arc<MarketData> {
    let options = MarketOptions {
        bar: BarLength::Day,
        calendar: Calendar::UsEquity,
        flatten: Flatten::Never,
        capital: 1e6,
        costs: Costs::from_bp(0.5, 0.5, 0.1),
        split: SplitConfig {
            folds: N_FOLDS,
            allow_single_fold: false,
            window: Window::Expanding,
            validation_bars: 60,
            holdout_bars: 100,
            purge: Purge::Auto,
        },
    };
    Arc::new(MarketData::new(bars, &options).unwrap())
}

/// A network that trains in milliseconds.
pub(crate) fn params(lr: f64) -> Params {
    let whole = [
        ("model.trunk_width", 8),
        ("model.trunk_layers", 1),
        ("model.head_width", 8),
        ("model.atoms", 11),
        ("train.batch_size", 8),
        ("train.environments", 4),
        ("model.n_step_max", 3),
        ("train.steps_per_epoch", 64),
        ("train.replay_capacity", 128),
        ("train.replay_capacity_max", 128),
        ("train.replay_warmup", 16),
    ];
    let mut params: Params = whole
        .iter()
        .map(|(name, n)| ((*name).to_owned(), Value::Int(*n)))
        .collect();
    params.insert("train.lr".to_owned(), Value::Float(lr));
    params
}

/// The trial `id`, whose seeds and learning rate follow from it.
pub(crate) fn request(id: i64, precision: Precision) -> TrialRequest {
    TrialRequest {
        trial_id: TrialId(id),
        cohort: 0,
        params: params(1e-3 * (id + 1) as f64),
        precision,
        seeds: (0..N_FOLDS as u64)
            .map(|fold| 100 * id.cast_unsigned() + fold)
            .collect(),
    }
}

/// One lane, one executor.
pub(crate) fn options() -> PoolOptions {
    PoolOptions {
        n_per_device: NonZeroUsize::MIN,
        lanes: Lanes::Fixed(NonZeroUsize::MIN),
        overlap: false,
        objective: Objective {
            metric: Metric::ValidationSharpeLower,
            direction: Direction::Maximize,
            min_trades: 0,
        },
        n_epochs: N_EPOCHS,
    }
}

/// As [`options`], wider.
pub(crate) fn wide(n_per_device: usize, n_lanes: usize) -> PoolOptions {
    let [n_per_device, n_lanes] = [n_per_device, n_lanes].map(|n| NonZeroUsize::new(n).unwrap());
    PoolOptions {
        n_per_device,
        lanes: Lanes::Fixed(n_lanes),
        ..options()
    }
}

/// Devices that packs may fill.
pub(crate) fn devices(backends: impl IntoIterator<Item = Scripted>) -> Vec<PoolDevice> {
    let device = |backend| PoolDevice {
        backend: Arc::new(backend),
        memory_bytes_max: u64::MAX,
    };
    backends.into_iter().map(device).collect()
}

/// Prepares [`request`]s.
pub(crate) fn preparer(devices: &[PoolDevice]) -> Arc<Preparer> {
    let market = market(&bars());
    Arc::new(Preparer::new(
        devices[0].backend.clone(),
        market,
        "dqn",
        BTreeSet::new(),
        false,
    ))
}

/// A pool at work, its events at the test's end.
pub(crate) struct Running {
    pub(crate) pool: Pool,
    pub(crate) events: mpsc::Receiver<Event>,
}

/// Starts a pool of one device on trials.
pub(crate) fn start(backend: Scripted, options: PoolOptions, trials: &[TrialRequest]) -> Running {
    start_on(devices([backend]), options, trials)
}

/// Starts a pool on trials.
pub(crate) fn start_on(
    devices: Vec<PoolDevice>,
    options: PoolOptions,
    trials: &[TrialRequest],
) -> Running {
    let preparer = preparer(&devices);
    let (sender, events) = mpsc::channel(64);
    let trials: Vec<Prepared> = trials.iter().map(|t| preparer.prepare(t.clone())).collect();
    let pool = Pool::start(preparer, devices, options, sender).unwrap();
    pool.submit(trials);
    Running { pool, events }
}

/// Everything that a pool reported.
#[derive(Default)]
pub(crate) struct Reported {
    pub(crate) starts: Vec<StartedPack>,
    pub(crate) epochs: Vec<EpochReport>,
    pub(crate) done: BTreeMap<TrialId, TrialReport>,
    pub(crate) losses: Vec<DeviceLoss>,
}

impl Reported {
    /// The report of a trial.
    pub(crate) fn of(&self, id: i64) -> &TrialReport {
        &self.done[&TrialId(id)]
    }

    fn take(&mut self, event: Event, accepts: impl Fn(TrialId) -> bool) {
        match event {
            Event::Start(mut pack) => {
                let (nobody, _) = tokio::sync::oneshot::channel();
                let accepted = std::mem::replace(&mut pack.accepted, nobody);
                accepted
                    .send(pack.trials.iter().map(|id| accepts(*id)).collect())
                    .unwrap();
                self.starts.push(pack);
            }
            Event::Epoch(epochs) => self.epochs.extend(epochs),
            Event::Done(report) => {
                let id = report.trial_id;
                assert!(self.done.insert(id, *report).is_none(), "{id} ended twice");
            }
            Event::DeviceLost(loss) => self.losses.push(loss),
            Event::ExecutorLost => panic!("an executor panicked"),
        }
    }
}

impl Running {
    /// Waits for the next event, accepting starts.
    pub(crate) fn next(&mut self, reported: &mut Reported) {
        let event = self.events.blocking_recv().expect("the pool is at work");
        reported.take(event, |_| true);
    }

    /// Lets the pool end and takes what it reports until then.
    pub(crate) fn finish(
        self,
        mut reported: Reported,
        accepts: impl Fn(TrialId) -> bool,
    ) -> Reported {
        let Self { pool, mut events } = self;
        pool.close();
        let joined = std::thread::spawn(move || pool.join());
        while let Some(event) = events.blocking_recv() {
            reported.take(event, &accepts);
        }
        joined.join().unwrap();
        reported
    }
}

/// Runs trials to their end.
pub(crate) fn run(backend: Scripted, options: PoolOptions, trials: &[TrialRequest]) -> Reported {
    start(backend, options, trials).finish(Reported::default(), |_| true)
}

/// Runs trials on several devices to their end.
pub(crate) fn run_on(
    devices: Vec<PoolDevice>,
    options: PoolOptions,
    trials: &[TrialRequest],
) -> Reported {
    start_on(devices, options, trials).finish(Reported::default(), |_| true)
}
