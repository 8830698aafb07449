//! The engine: graphs, plans and the backends that run them.
//!
//! # Invariants
//! - Nothing here knows of studies; `market` and `models` build on it.
pub mod cpu;
pub mod math;
pub mod real;
pub mod rng;
