//! Hyperparameter optimization for trading models.
pub mod cli;
pub mod engine;
pub mod executor;
pub mod market;
pub mod models;
pub mod report;
pub mod sampler;
pub mod scheduler;
pub mod spec;
pub mod store;
pub mod study;
