//! Hyperparameter optimization for trading models.
pub mod study;
pub mod spec;
pub mod engine;
pub mod market;
pub mod sampler;
pub mod models;
pub mod store;
pub mod executor;
pub mod scheduler;
pub mod report;
pub mod cli;
