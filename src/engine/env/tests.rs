//! Fixtures by hand for every order kind, the accounting and the rewards.

use super::*;

/// Products of a few decimals: rounding stays within some ulps of one.
const TIGHT: f64 = 1e-14;

const COSTS: Costs<f64> = Costs {
    fee: 1e-3,
    maker_fee: 5e-4,
    half_spread: 2e-3,
    impact: 0.1,
};
const FREE: Costs<f64> = Costs {
    fee: 0.0,
    maker_fee: 0.0,
    half_spread: 0.0,
    impact: 0.0,
};
const PNL: RewardKind<f64> = RewardKind::PnlOverSigma;

fn row() -> [f64; ENV_COLUMNS] {
    let mut row = [0.0; ENV_COLUMNS];
    row[ROW_OPEN_RETURN] = 0.02;
    row[ROW_SIGMA] = 0.01;
    row[ROW_CLOSE] = 1.0;
    row[ROW_LOW] = 0.99;
    row[ROW_HIGH] = 1.015;
    row[ROW_PARTICIPATION] = 0.04;
    row[ROW_TIME_TO_CLOSE] = 0.5;
    row
}

fn account() -> [f64; ACCOUNT_WIDTH] {
    let mut account = [f64::NAN; ACCOUNT_WIDTH];
    reset(&mut account);
    account
}

fn holding(position: f64) -> [f64; ACCOUNT_WIDTH] {
    let mut account = account();
    account[ACCOUNT_POSITION] = position;
    account[ACCOUNT_BARS_HELD] = 1.0;
    account
}

#[track_caller]
fn near(got: f64, expected: f64) {
    assert!(
        (got - expected).abs() <= TIGHT,
        "got {got}, expected {expected}"
    );
}

#[test]
fn market_order_pays_spread_impact_and_fee() {
    let mut account = account();
    let out = step(&row(), &COSTS, PNL, &mut account, [4, 0, 2]);
    // 0.002 half-spread + 0.1 · 0.01 · √(1 · 0.04) impact + 0.001 fee.
    near(out.cost, 0.0032);
    near(out.gross_return, 0.02);
    near(out.net_return, 0.0168);
    near(out.reward, 1.68);
    near(out.turnover, 1.0);
    near(account[ACCOUNT_POSITION], 1.02 / 1.0168);
    near(account[ACCOUNT_EQUITY], 1.0168);
    near(account[ACCOUNT_PEAK], 1.0168);
    near(account[ACCOUNT_UNREALISED], 0.02);
    assert_eq!(account[ACCOUNT_BARS_HELD], 1.0);
    assert_eq!(account[ACCOUNT_LAST_ACTION], 1.0);
    assert!(out.traded && !out.done);
}

#[test]
fn urgency_trades_a_share_of_the_gap() {
    let mut account = holding(0.5);
    let out = step(&row(), &COSTS, PNL, &mut account, [0, 0, 0]);
    near(out.turnover, 0.375);
    near(out.position, 0.125);
    near(
        out.cost,
        0.375 * (0.003 + 0.001 * (0.375_f64 * 0.04).sqrt()),
    );
}

#[test]
fn limit_mid_rests_at_the_last_close() {
    let mut row = row();
    row[ROW_CLOSE] = 0.999;
    let buy = |row: &[f64]| step(row, &COSTS, PNL, &mut account(), [4, 1, 2]);
    // Filled at 0.999: 0.001 better than the open, less the maker's fee.
    near(buy(&row).cost, -0.001 + 0.0005);
    near(buy(&row).net_return, 0.0205);
    // A bar that only touches the limit does not fill it.
    row[ROW_LOW] = 0.999;
    let lapsed = buy(&row);
    assert_eq!((lapsed.net_return, lapsed.turnover), (0.0, 0.0));
    assert!(!lapsed.traded);
}

#[test]
fn a_limit_that_the_open_beats_takes_liquidity() {
    let mut row = row();
    let cost =
        |row: &[f64], exposure| step(row, &COSTS, PNL, &mut account(), [exposure, 1, 2]).cost;
    // The limit caps the spread that is paid …
    row[ROW_CLOSE] = 1.001;
    near(cost(&row, 4), 0.001 + 0.001);
    // … and beyond the spread it is the spread.
    row[ROW_CLOSE] = 1.01;
    near(cost(&row, 4), 0.002 + 0.001);
    row[ROW_CLOSE] = 0.999;
    near(cost(&row, 0), 0.001 + 0.001);
    row[ROW_CLOSE] = 0.99;
    near(cost(&row, 0), 0.002 + 0.001);
}

#[test]
fn passive_orders_rest_half_a_spread_better() {
    let mut row = row();
    let passive = |row: &[f64], exposure| step(row, &COSTS, PNL, &mut account(), [exposure, 2, 2]);
    near(passive(&row, 4).cost, -0.002 + 0.0005);
    row[ROW_LOW] = 0.998;
    assert!(!passive(&row, 4).traded);
    row[ROW_CLOSE] = 1.001;
    // Sells at 1.001 · 1.002 = 1.003002.
    near(passive(&row, 0).cost, -0.003_002 + 0.0005);
    row[ROW_HIGH] = 1.001 * 1.002;
    assert!(!passive(&row, 0).traded);
}

#[test]
fn positions_drift_with_the_market() {
    let mut row = row();
    row[ROW_OPEN_RETURN] = 0.1;
    let mut account = account();
    let out = step(&row, &FREE, PNL, &mut account, [3, 0, 2]);
    near(out.net_return, 0.05);
    near(account[ACCOUNT_POSITION], 0.5 * 1.1 / 1.05);
    // Keeping 0.5 sells the drift, and the memory of the gain shrinks with it.
    let kept = 0.5 / account[ACCOUNT_POSITION];
    let out = step(&row, &FREE, PNL, &mut account, [3, 0, 2]);
    near(out.turnover, 0.5 * 1.1 / 1.05 - 0.5);
    near(account[ACCOUNT_UNREALISED], 0.05 * kept + 0.05);
    assert_eq!(account[ACCOUNT_BARS_HELD], 2.0);
}

#[test]
fn zero_action_from_flat_is_exactly_nothing() {
    let mut account = account();
    let before = account;
    for exposure_return in [0.02, -0.02] {
        for kind in 0..3 {
            let mut row = row();
            row[ROW_OPEN_RETURN] = exposure_return;
            let out = step(&row, &COSTS, PNL, &mut account, [EXPOSURE_FLAT, kind, 2]);
            assert_eq!(out.net_return.to_bits(), 0.0_f64.to_bits());
            assert_eq!((out.cost, out.turnover, out.reward), (0.0, 0.0, 0.0));
            assert_eq!(account, before);
        }
    }
}

#[test]
fn going_in_and_out_costs_both_ways() {
    let mut row = row();
    row[ROW_OPEN_RETURN] = 0.0;
    let mut account = account();
    let entry = step(&row, &COSTS, PNL, &mut account, [4, 0, 2]);
    let exit = step(&row, &COSTS, PNL, &mut account, [2, 0, 2]);
    assert!(entry.cost > 0.003 && exit.cost > 0.003);
    near(
        account[ACCOUNT_EQUITY],
        (1.0 - entry.cost) * (1.0 - exit.cost),
    );
    assert_eq!(account[ACCOUNT_POSITION], 0.0);
}

#[test]
fn forced_flat_overrides_the_order() {
    let mut row = row();
    row[ROW_FORCED_FLAT] = 1.0;
    let mut account = holding(0.5);
    let out = step(&row, &COSTS, PNL, &mut account, [4, 2, 0]);
    near(
        out.net_return,
        -0.5 * (0.003 + 0.001 * (0.5_f64 * 0.04).sqrt()),
    );
    assert_eq!(out.position, 0.0);
    assert_eq!(account[ACCOUNT_POSITION], 0.0);
    assert_eq!(account[ACCOUNT_LAST_ACTION], 0.0);
    assert_eq!(account[ACCOUNT_BARS_HELD], 0.0);
    // Even rounding dust does not survive the session.
    let mut account = holding(1e-9);
    step(&row, &COSTS, PNL, &mut account, [4, 2, 0]);
    assert_eq!(account[ACCOUNT_POSITION], 0.0);
}

#[test]
fn ruin_is_terminal() {
    let mut row = row();
    row[ROW_OPEN_RETURN] = -0.95;
    let mut account = account();
    let out = step(&row, &COSTS, PNL, &mut account, [4, 0, 2]);
    assert!(out.done);
    near(account[ACCOUNT_EQUITY], 1.0 - 0.9532);
    let after = account;
    let out = step(&row, &COSTS, PNL, &mut account, [0, 0, 2]);
    assert!(out.done);
    assert_eq!((out.net_return, out.reward, out.turnover), (0.0, 0.0, 0.0));
    assert_eq!(account, after);
}

#[test]
fn losses_stop_at_all_there_is() {
    let mut row = row();
    row[ROW_OPEN_RETURN] = 2.0;
    let mut account = account();
    let out = step(&row, &FREE, PNL, &mut account, [0, 0, 2]);
    assert_eq!(out.net_return, -1.0);
    assert_eq!(account[ACCOUNT_EQUITY], 0.0);
    assert!(out.done);
}

#[test]
fn risk_aversion_lowers_the_reward() {
    let run = |reward| step(&row(), &COSTS, reward, &mut account(), [4, 0, 2]).reward;
    near(
        run(RewardKind::RiskAdjusted { lambda: 0.5 }),
        1.68 - 0.25 * 1.68 * 1.68,
    );
    let zero = run(RewardKind::RiskAdjusted { lambda: 0.0 });
    assert_eq!(zero.to_bits(), run(PNL).to_bits());
}

#[test]
fn observation_is_scaled_and_clipped() {
    let mut account = account();
    account[ACCOUNT_POSITION] = -0.5;
    account[ACCOUNT_EQUITY] = 0.95;
    account[ACCOUNT_UNREALISED] = 0.04;
    account[ACCOUNT_BARS_HELD] = 3.0;
    account[ACCOUNT_LAST_ACTION] = -1.0;
    let seen = observe(&row(), &COSTS, &account);
    let expected = [-0.5, 2.0, 3.0 / 23.0, 0.5, -1.0, 0.4, 0.5, 1.5, 0.0, 0.0];
    for (got, expected) in seen.into_iter().zip(expected) {
        near(got, expected);
    }
    account[ACCOUNT_UNREALISED] = -9.0;
    assert_eq!(observe(&row(), &COSTS, &account)[1], -5.0);
}

#[test]
fn observation_reads_nothing_of_the_next_bar() {
    let mut other = row();
    for idx in [ROW_OPEN_RETURN, ROW_CLOSE, ROW_LOW, ROW_HIGH] {
        other[idx] = f64::NAN;
    }
    other[ROW_FORCED_FLAT] = f64::NAN;
    assert_eq!(
        observe(&row(), &COSTS, &holding(0.5)),
        observe(&other, &COSTS, &holding(0.5))
    );
}

#[test]
fn differential_sharpe_matches_the_derivative() {
    let (a, b, r) = (1e-3, 2e-4, 0.01);
    let value = differential_sharpe(a, b, r);
    // Published to seven digits.
    assert!((value - 0.659_010_2).abs() < 5e-8, "{value}");
    let ratio = |eta: f64| {
        let a = a + eta * (r - a);
        let b = b + eta * (r * r - b);
        a / (b - a * a).sqrt()
    };
    let eta = 1e-6;
    let slope = (ratio(eta) - ratio(-eta)) / (2.0 * eta);
    // Central differences at 1e-6 keep some nine digits.
    assert!((value - slope).abs() < 1e-8, "{value} against {slope}");
    // Without variance the floor and the clip keep it finite.
    assert_eq!(differential_sharpe(0.0, 1e-9, 1.0), 10.0);
}

/// A small linear congruential generator: tests of this module need no more.
fn uniform(state: &mut u64) -> f64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1_u64 << 53) as f64
}

#[test]
fn f32_follows_f64() {
    let mut state = 7;
    let (mut wide, mut narrow) = (account(), account().map(|x| x as f32));
    let costs = Costs::<f32>::from_bp(10.0, 20.0, 0.1);
    let costs_wide = Costs::<f64>::from_bp(10.0, 20.0, 0.1);
    for _ in 0..500 {
        let mut row = row();
        row[ROW_OPEN_RETURN] = 0.02 * (uniform(&mut state) - 0.5);
        row[ROW_CLOSE] = 1.0 + 0.01 * (uniform(&mut state) - 0.5);
        row[ROW_LOW] = 1.0 - 0.01 * uniform(&mut state);
        row[ROW_HIGH] = 1.0 + 0.01 * uniform(&mut state);
        row[ROW_FORCED_FLAT] = if uniform(&mut state) < 0.05 { 1.0 } else { 0.0 };
        let action = ACTION_SIZES.map(|n| (uniform(&mut state) * n as f64) as usize);
        let row_narrow = row.map(|x| x as f32);
        let a = step(&row, &costs_wide, PNL, &mut wide, action);
        let reward = RewardKind::PnlOverSigma;
        let b = step(&row_narrow, &costs, reward, &mut narrow, action);
        assert_eq!(a.traded, b.traded);
        // A row near 1 carries an F32 rounding of 6e-8, σ = 0.01 multiplies it by a hundred.
        assert!((a.net_return - f64::from(b.net_return)).abs() < 1e-6);
        assert!((a.reward - f64::from(b.reward)).abs() < 1e-4);
    }
    // 500 steps of some 1e-7 each.
    let equity = f64::from(narrow[ACCOUNT_EQUITY]);
    assert!((wide[ACCOUNT_EQUITY] / equity - 1.0).abs() < 5e-5);
    assert!(wide[ACCOUNT_EQUITY] < 1.0, "costs must have been paid");
}

#[test]
fn market_orders_never_earn_by_trading() {
    let mut state = 11;
    for _ in 0..1_000 {
        let mut account = holding(2.0 * uniform(&mut state) - 1.0);
        let mut row = row();
        row[ROW_CLOSE] = 0.9 + 0.2 * uniform(&mut state);
        let exposure = (uniform(&mut state) * 5.0) as usize;
        let urgency = (uniform(&mut state) * 3.0) as usize;
        let out = step(&row, &COSTS, PNL, &mut account, [exposure, 0, urgency]);
        assert!(out.cost >= 0.0);
        near(out.net_return, out.gross_return - out.cost);
    }
}
