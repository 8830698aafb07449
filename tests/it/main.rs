//! Integration tests.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod cli;
mod run;
mod sweeps;
mod tidy;
mod training;
