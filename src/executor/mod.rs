//! Runs packs of trials on devices.
//!
//! ```text
//! Pool::submit ─ Queue of prepared trials ─┬─ executor thread ─ Pack (session, lanes, trials)
//!                                          └─ executor thread ─ …
//!                                 events ◄─┘  (Start, Epoch, Done), in order per trial
//! ```
//!
//! An executor takes whole trials of one plan key, runs their folds in the lanes of its pack, and
//! refills free lanes at epoch boundaries. It keeps its session for the next pack of that plan.
//! Executors of a device take turns epoch by epoch; devices run side by side.
//!
//! # Invariants
//! - The executor knows nothing of sweep files and the database.
//! - Results depend on a run's inputs alone, never on its lane, pack, executor or neighbours.
//! - Nothing trains before its start was acknowledged, so that it is durable.
//! - A failing trial takes nobody down: the rest of its pack goes on.
//! - A lost device takes its own packs down and nothing else; nobody waits for it.

mod lanes;
mod market;
mod message;
mod pack;
mod pool;
mod prepare;
mod queue;
#[cfg(test)]
pub(crate) mod testing;
mod thread;
mod tracker;
mod weights;

pub use lanes::Lanes;
pub use market::{Baselines, MarketData, MarketOptions};
pub use message::{
    DeviceLoss, EpochReport, Event, FoldResult, StartedPack, TrialEnd, TrialFailure, TrialReport,
};
pub use pool::{Pool, PoolDevice, PoolOptions};
pub use prepare::{Prepared, PreparedPlan, Preparer, TrialRequest};
pub use queue::ExecutorId;
