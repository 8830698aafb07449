//! The command line.
//!
//! # Invariants
//! - x
mod args;
mod error;
mod exit;
mod output;
mod progress;
pub use args::Cli;
