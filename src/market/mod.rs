//! Bars, features, splits, the environment's tables, and every statistic of returns.
//!
//! Reading order: [`bars`] and [`csv`] load a file; [`calendar`] knows sessions and
//! annualisation; [`features`] turns bars into columns; [`split`] lays folds and the holdout;
//! [`tables`] packs what the engine uploads; [`simulate`] walks the environment on the host;
//! [`metrics`] scores returns; [`synthetic`] makes markets with a known answer.
//!
//! # Invariants
//! - Everything is F64 on the host; the uploaded feature table is the one narrowing to F32.
//! - Row `t` of any table is known at the close of bar `t`, the fill prices of bars `t + 1` and
//!   `t + 2` in the environment table apart.
//! - Nothing is filled backwards, and no bar is dropped or repaired in silence.
//! - No clock and no entropy: what is random takes a seed.
//! - The file at a path is read once, and only by [`csv::load`].

pub mod bars;
pub mod calendar;
pub mod csv;
mod error;
pub mod features;
pub mod metrics;
pub mod simulate;
pub mod split;
pub mod synthetic;
pub mod tables;

pub use bars::Bars;
pub use calendar::{BarLength, Calendar};
pub use error::MarketError;
