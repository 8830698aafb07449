//! Training works: the DQN earns a planted signal, in every precision, and nothing from noise.
//!
//! # Invariants
//! - Market, seeds and settings are fixed beforehand; the last epoch counts, whatever it is.

use hyperopt::engine::backend::{Backend, LaneIdx};
use hyperopt::engine::cpu::Cpu;
use hyperopt::engine::env::Costs;
use hyperopt::engine::graph::DType;
use hyperopt::executor::{MarketData, MarketOptions};
use hyperopt::market::metrics::evaluate;
use hyperopt::market::split::{Purge, SplitConfig, Window};
use hyperopt::market::synthetic::Planted;
use hyperopt::market::tables::Flatten;
use hyperopt::market::{BarLength, Bars, Calendar};
use hyperopt::models::{self, RunInput, series};
use hyperopt::study::{Params, Value};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

/// 30,000 bars: a signal of ρ = 0.2 explains 4 % of the variance, and there are 38 features to
/// mistake for it.
const N_BARS: usize = 30_000;
const N_VALIDATION: usize = 4_000;

/// A short horizon, since the signal is one bar long, and support for it.
const SETTINGS: &[(&str, f64)] = &[
    ("model.trunk_width", 32.0),
    ("model.head_width", 16.0),
    ("model.atoms", 15.0),
    ("model.v_max", 5.0),
    ("model.gamma", 0.5),
    ("model.n_step", 1.0),
    ("model.n_step_max", 1.0),
    ("train.lr", 2e-3),
    ("train.batch_size", 64.0),
    ("train.updates_per_env_step", 1.0),
];

fn params(n_steps: u32) -> Params {
    let schema = models::catalogue().remove(0);
    let defaults = schema
        .params
        .into_iter()
        .map(|param| (param.name.to_owned(), param.default));
    let mut params: Params = defaults.collect();
    for (name, value) in SETTINGS
        .iter()
        .chain(&[("train.steps_per_epoch", f64::from(n_steps))])
    {
        let value = match &params[*name] {
            Value::Int(_) => Value::Int(*value as i64),
            _real => Value::Float(*value),
        };
        params.insert((*name).to_owned(), value);
    }
    params
}

fn market(bars: &Bars) -> MarketData {
    let options = MarketOptions {
        bar: BarLength::Day,
        calendar: Calendar::UsEquity,
        flatten: Flatten::Auto,
        capital: 1e6,
        costs: Costs::from_bp(0.5, 0.5, 0.1),
        split: SplitConfig {
            folds: 1,
            allow_single_fold: true,
            window: Window::Expanding,
            validation_bars: N_VALIDATION,
            holdout_bars: 100,
            purge: Purge::Auto,
        },
    };
    MarketData::new(bars, &options).unwrap()
}

/// Median annual validation Sharpe ratio over seeds `0..n_seeds` after `n_steps` updates; a run
/// that never trades has 0.
fn median_sharpe(market: &MarketData, dtype: DType, n_steps: u32, n_seeds: usize) -> f64 {
    let params = params(n_steps);
    let model = models::trainer("dqn", &params, &BTreeSet::new(), market.shape);
    let program = model.program().with_precision(dtype, dtype);
    let backend = Cpu::<f32>::new(NonZeroUsize::new(2).unwrap());
    let plan = Arc::new(backend.lower(&program));
    let mut session = backend
        .open(plan, &market.tables(&program), n_seeds)
        .unwrap();
    let fold = &market.folds[0];
    for seed in 0..n_seeds {
        let run = RunInput {
            params: &params,
            seed: seed as u64,
            fold: 0,
            train: fold.train.clone(),
            validation: fold.validation.clone(),
            costs: market.costs,
            n_updates: u64::from(n_steps),
        };
        session.load(LaneIdx(seed), &model.lane(&run)).unwrap();
        session.set_live(LaneIdx(seed), true);
    }
    session.train(model.n_cycles()).unwrap();
    session.evaluate().unwrap();
    let sharpe = |seed: usize| {
        let walk = session
            .read(LaneIdx(seed), model.readout().evaluation)
            .unwrap();
        let figures = evaluate(&series(&walk, fold.validation.len()), &market.clocks[0]);
        figures.sharpe_annual.unwrap_or(0.0)
    };
    let mut all: Vec<f64> = (0..n_seeds).map(sharpe).collect();
    all.sort_by(f64::total_cmp);
    all[n_seeds / 2]
}

fn oracle_sharpe(planted: &Planted, market: &MarketData) -> f64 {
    let range = market.folds[0].validation.clone();
    let walk = planted.oracle(&planted.bars(), &market.environment(), range, &market.costs);
    evaluate(&walk, &market.clocks[0]).sharpe_annual.unwrap()
}

// Annual Sharpe ratios of 4,000 validation bars. The oracle, who pays for market orders, has
// 1.08. Reached in the slow test, seeds sorted, after 1,200 updates:
//   f32   1.30 1.71 1.90 2.12 2.22     shuffled   0.07  0.10  0.20 0.21 0.43
//   tf32  1.11 1.19 1.94 2.21 2.32                0.01  0.20  0.21 0.23 0.35
//   bf16  1.29 1.72 1.92 2.23 2.46               -0.37 -0.15 -0.10 0.15 0.20
// Agents pass the oracle because they find limit orders, which cost less. Two standard errors
// are 0.50.

#[test]
fn the_dqn_learns_a_planted_signal_quickly() {
    let planted = Planted::new(N_BARS, 0);
    let market = market(&planted.bars());
    let median = median_sharpe(&market, DType::F32, 800, 3);
    assert!(median >= 0.5 * oracle_sharpe(&planted, &market), "{median}");
}

#[test]
#[cfg(feature = "slow")]
fn the_dqn_learns_a_planted_signal_in_every_precision() {
    let planted = Planted::new(N_BARS, 0);
    let market = market(&planted.bars());
    let oracle = oracle_sharpe(&planted, &market);
    for dtype in [DType::F32, DType::Tf32, DType::Bf16] {
        let median = median_sharpe(&market, dtype, 1200, 5);
        assert!(
            median >= 0.5 * oracle,
            "{dtype:?}: {median:.3}, oracle {oracle:.3}"
        );
    }
}

#[test]
#[cfg(feature = "slow")]
fn the_dqn_learns_nothing_from_shuffled_returns() {
    let market = market(&hyperopt::market::synthetic::shuffled(
        &Planted::new(N_BARS, 0).bars(),
        1,
    ));
    for dtype in [DType::F32, DType::Tf32, DType::Bf16] {
        let median = median_sharpe(&market, dtype, 1200, 5);
        // √((1 + SR²/2) / n) a bar, and SR²/2 a bar is nothing beside 1.
        let standard_error = (252.0 / N_VALIDATION as f64).sqrt();
        assert!(
            median.abs() < 2.0 * standard_error,
            "{dtype:?}: {median:.3}"
        );
    }
}
