//! Runs packs of trials on devices.
//!
//! ```text
//! Pool::submit ─ queue of prepared trials ─┬─ executor thread ─ Pack (session, lanes, trials)
//!                                          └─ executor thread ─ …
//!                                 events ◄─┘  (Start, Epoch, Done), in order per trial
//! ```
//!
//! An executor takes whole trials of one plan key, runs their folds in the lanes of its pack, and
//! refills free lanes at epoch boundaries. Executors of a device take turns epoch by epoch.
//!
//! # Invariants
//! - The executor knows nothing of sweep files and the database.
//! - Results depend on a run's inputs alone, never on its lane, pack, executor or neighbours.
//! - Nothing trains before its start was acknowledged, so that it is durable.
//! - A failing trial takes nobody down: the rest of its pack goes on.

mod market;
mod message;
mod pack;
mod pool;
mod prepare;
#[cfg(test)]
pub(crate) mod testing;
mod thread;
mod tracker;
mod weights;

pub use market::{Baselines, MarketData, MarketOptions};
pub use message::{
    EpochReport, Event, FoldResult, StartedPack, TrialEnd, TrialFailure, TrialReport,
};
pub use pool::{Pool, PoolOptions};
pub use prepare::{Prepared, PreparedPlan, Preparer, TrialRequest};
