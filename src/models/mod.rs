//! Models: what each kind can be told, and the graphs it builds.
//!
//! # Invariants
//! - A kind is known to the rest of the program through its schema alone.

pub mod dqn;

use crate::study::ModelSchema;

/// Lists every model kind with its parameters.
pub fn catalogue() -> Vec<ModelSchema> {
    vec![dqn::schema()]
}
