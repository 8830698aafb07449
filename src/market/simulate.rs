//! Walks the environment on the host, in F64: baselines, oracles, stored positions.
//!
//! # Invariants
//! - The accounting is the engine's own; nothing here computes a fill or a cost.
//! - A walk starts flat with equity 1 and visits its bars in order.

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::metrics::Series;
use crate::engine::env::{
    ACCOUNT_WIDTH, Costs, ENV_COLUMNS, EXPOSURES, Order, OrderKind, RewardKind, execute, reset,
};

/// Walks decisions `range` under a policy.
///
/// - `table`: `[n_bars, ENV_COLUMNS]` of [`super::tables::env_table`].
/// - `policy`: given the bar and the account, `[ACCOUNT_WIDTH]`, returns the order.
pub fn simulate(
    table: &[f64],
    range: Range<usize>,
    costs: &Costs<f64>,
    mut policy: impl FnMut(usize, &[f64]) -> Order<f64>,
) -> Series {
    let mut account = [0.0; ACCOUNT_WIDTH];
    reset(&mut account);
    let mut series = Series::default();
    for t in range {
        let row = &table[t * ENV_COLUMNS..(t + 1) * ENV_COLUMNS];
        let order = policy(t, &account);
        let outcome = execute(row, costs, RewardKind::PnlOverSigma, &mut account, order);
        series.net.push(outcome.net_return);
        series.gross.push(outcome.gross_return);
        series.cost.push(outcome.cost);
        series.turnover.push(outcome.turnover);
        series.position.push(outcome.position);
    }
    series
}

/// An order that reaches `target` at the next open, whatever it costs.
#[must_use]
pub fn market_order(target: f64) -> Order<f64> {
    Order {
        target,
        kind: OrderKind::Market,
        urgency: 1.0,
    }
}

/// Baseline: fully long throughout, flat where the table forces it.
#[must_use]
pub fn buy_and_hold(table: &[f64], range: Range<usize>, costs: &Costs<f64>) -> Series {
    simulate(table, range, costs, |_, _| market_order(1.0))
}

/// Baseline: one of the five exposures at random, anew at each bar.
#[must_use]
pub fn random_positions(
    table: &[f64],
    range: Range<usize>,
    costs: &Costs<f64>,
    seed: u64,
) -> Series {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    simulate(table, range, costs, |_, _| {
        market_order(EXPOSURES[rng.random_range(0..EXPOSURES.len())])
    })
}
