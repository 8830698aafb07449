//! A static-graph trainer that knows nothing of studies: graph → autodiff → casts → plan → backend.
//!
//! # Invariants
//! - The engine never hears of studies, samplers or the database.
//! - Packing changes no result: no op reads across lanes, and the lane index never enters
//!   arithmetic.
//! - A training step allocates nothing and asks the host for nothing.
//! - Random numbers are a function of the run's seed, its own step and a stream's name.

pub mod autodiff;
pub mod backend;
pub mod casts;
#[doc(hidden)]
pub mod conformance;
pub mod cpu;
pub mod cuda;
pub mod env;
pub mod graph;
pub mod host;
pub mod math;
pub mod op;
pub mod plan;
pub mod program;
pub mod real;
pub mod rng;
