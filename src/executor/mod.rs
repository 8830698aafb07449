//! Runs packs of trials on devices.
//!
//! # Invariants
//! - The executor knows nothing of sweep files and the database.
//! - Results depend on a run's inputs alone, never on its lane, pack, executor or neighbours.

mod market;

pub use market::{MarketData, MarketOptions};
