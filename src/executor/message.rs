//! What executors tell the scheduler.

use super::queue::ExecutorId;
use crate::market::metrics::Figures;
use crate::models::EpochMetrics;
use crate::study::{DegenerateReason, FailureKind, TrialId};
use tokio::sync::oneshot;

/// A message of an executor. Those of one trial come in order: start, epochs, end.
#[derive(Debug)]
pub enum Event {
    /// Trials are about to run; the executor waits for the answer.
    Start(StartedPack),
    /// An epoch of a pack is over: one report per live lane.
    Epoch(Vec<EpochReport>),
    /// A trial has ended.
    Done(Box<TrialReport>),
    /// A device runs no trial any more, and everything that it ran has been reported.
    DeviceLost(DeviceLoss),
    /// An executor panicked outside of its packs: what it ran will not be reported.
    ExecutorLost,
}

/// The loss of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceLoss {
    /// Its name in a sweep file.
    pub device: String,
    /// The cause in plain words.
    pub cause: String,
    /// Devices that still run trials.
    pub n_devices_left: usize,
}

/// Trials that enter a pack.
#[derive(Debug)]
pub struct StartedPack {
    /// Which trials.
    pub trials: Vec<TrialId>,
    /// Digest of everything structural.
    pub plan_key: String,
    /// Class of the device.
    pub device: String,
    /// Its driver, or the instruction set of a CPU.
    pub driver: String,
    /// Digest of the code that runs the plan there.
    pub kernel_digest: String,
    /// Lanes of the pack, dead ones included.
    pub n_lanes: u32,
    /// Bytes of the whole pack.
    pub arena_bytes: u64,
    /// Bytes of one lane.
    pub bytes_per_lane: u64,
    /// Answer, once the start is durable: per trial, whether it may run.
    pub accepted: oneshot::Sender<Vec<bool>>,
}

/// One epoch of one run.
#[derive(Debug, Clone)]
pub struct EpochReport {
    /// Which trial.
    pub trial_id: TrialId,
    /// 0-based.
    pub fold: u32,
    /// 0-based.
    pub epoch: u32,
    /// Live lanes of the pack.
    pub n_live: u32,
    /// Whether packs run side by side on the device.
    pub overlap: bool,
    /// Whether the arm's precision is emulated.
    pub is_emulated: bool,
    /// Whether it is the executor's first epoch of this plan.
    pub is_warmup: bool,
    /// Wall time of the pack's epoch, milliseconds.
    pub pack_wall_ms: f64,
    /// Device time of the pack's epoch, milliseconds.
    pub pack_device_ms: f64,
    /// Updates of the run so far.
    pub n_updates: u64,
    /// Simulator ticks of the run so far.
    pub n_env_steps: u64,
    /// What training measured.
    pub metrics: EpochMetrics,
    /// What the validation walk found.
    pub figures: Figures,
}

/// How a trial ended.
#[derive(Debug, Clone)]
pub struct TrialReport {
    /// Which trial.
    pub trial_id: TrialId,
    /// Who ran it.
    pub executor: ExecutorId,
    /// How.
    pub end: TrialEnd,
    /// Per fold, at the best epoch (the last one of a degenerate trial); empty after a failure.
    pub folds: Vec<FoldResult>,
}

/// The kinds of end.
#[derive(Debug, Clone, PartialEq)]
pub enum TrialEnd {
    /// Trained to the end.
    Complete {
        /// Objective at the best epoch.
        value: f64,
        /// 0-based.
        best_epoch: u32,
    },
    /// Trained to the end, with nothing to rank.
    Degenerate(DegenerateReason),
    /// Failed.
    Failed(TrialFailure),
    /// Cut off by the loss of its device: the attempt failed, the trial may run elsewhere.
    Lost(TrialFailure),
}

/// Why a trial failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrialFailure {
    /// What the retry policy goes by.
    pub kind: FailureKind,
    /// The cause in plain words.
    pub text: String,
    /// After `OutOfMemory`: bytes asked and free.
    pub bytes: Option<(u64, u64)>,
}

/// One fold of a finished trial.
#[derive(Debug, Clone)]
pub struct FoldResult {
    /// 0-based.
    pub fold: u32,
    /// Figures of the validation block.
    pub figures: Figures,
    /// Total cost, a fraction of equity.
    pub cost: f64,
    /// Net return of each validation bar.
    pub net_returns: Vec<f64>,
    /// Weights as safetensors; none for a degenerate trial.
    pub weights: Option<Vec<u8>>,
}
