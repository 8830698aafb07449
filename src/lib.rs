//! Hyperparameter optimization for trading models.
//!
//! `hyperopt run sweep.toml` samples configurations, trains each one in-process on a pool of
//! executors, scores it by the Sharpe ratio of bars that it never trained on, and keeps every
//! epoch in Postgres.
//!
//! ```text
//! sweep.toml ─ spec ─ sampler ─┐            ┌─ executor (thread, resident pack) ─ engine
//!                              scheduler ───┤                                       │
//!                                           └─ executor …                    models + market
//!                                │
//!                              store (Postgres) ─ SQL views ─ cli
//! ```
//!
//! The modules stand in reading order; each names only those before it, and a test enforces that.
//! The words are those of [`study`]: a *configuration* is a sampled point, a *trial* one precision
//! arm of it, a *run* a trial on one fold, and a *lane* holds one run.

pub mod telemetry;

pub mod study;

pub mod spec;

pub mod engine;

pub mod market;

pub mod sampler;

pub mod models;

pub mod store;

pub mod executor;

pub mod scheduler;

pub mod cli;
