//! The branching dueling C51 double DQN.
//!
//! # Invariants
//! - Every parameter is declared in the schema; nothing else is read.

mod schema;
#[cfg(test)]
mod tests;

pub use schema::schema;
