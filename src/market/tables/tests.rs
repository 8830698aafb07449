//! The uploaded tables against their definitions, and the walks over them.

use std::path::Path;

use super::super::csv::{CsvOptions, load};
use super::super::features::builtin;
use super::super::metrics::{ReturnClock, evaluate, sharpe_period};
use super::super::simulate::{buy_and_hold, market_order, random_positions, simulate};
use super::super::split::{Purge, SplitConfig, SplitFrame, Window, split};
use super::*;
use crate::engine::env::{Costs, ENV_COLUMNS};

fn real(path: &str) -> Bars {
    let options = CsvOptions {
        time_zone: Some("America/New_York".to_owned()),
        ..CsvOptions::default()
    };
    load(Path::new(path), &options).unwrap()
}

fn daily_table(bars: &Bars) -> Vec<f64> {
    env_table(
        bars,
        BarLength::Day,
        Calendar::UsEquity,
        Flatten::Auto,
        CAPITAL_DEFAULT,
    )
}

fn minute_table(bars: &Bars, flatten: Flatten) -> Vec<f64> {
    let calendar = Calendar::custom(347_760.0).unwrap();
    env_table(
        bars,
        BarLength::Minutes(1),
        calendar,
        flatten,
        CAPITAL_DEFAULT,
    )
}

fn default_costs() -> Costs<f64> {
    Costs::from_bp(0.5, 0.5, 0.1)
}

#[test]
fn a_row_holds_what_it_says() {
    let bars = real("tests/data/sp500_1d_300.csv");
    let table = daily_table(&bars);
    let t = 100;
    let row = &table[t * ENV_COLUMNS..(t + 1) * ENV_COLUMNS];
    let open = bars.open[t + 1];
    assert_eq!(row[env::ROW_OPEN_RETURN], bars.open[t + 2] / open - 1.0);
    assert_eq!(row[env::ROW_CLOSE], bars.close[t] / open);
    assert_eq!(row[env::ROW_LOW], bars.low[t + 1] / open);
    assert_eq!(row[env::ROW_HIGH], bars.high[t + 1] / open);
    let volume = bars.volume[81..=100].iter().sum::<f64>() / 20.0;
    assert_eq!(row[env::ROW_PARTICIPATION], 1e6 / (open * volume));
    assert_eq!(row[env::ROW_FORCED_FLAT], 0.0);
    assert!(table.iter().all(|x| x.is_finite()));
    let last = &table[299 * ENV_COLUMNS..];
    assert_eq!(last[env::ROW_OPEN_RETURN], 0.0);
    assert_eq!(
        env_table(
            &Bars::default(),
            BarLength::Day,
            Calendar::UsEquity,
            Flatten::Auto,
            1.0
        ),
        Vec::<f64>::new()
    );
}

#[test]
fn the_position_is_closed_before_the_halt() {
    let bars = real("tests/data/es_1m_400.csv");
    let table = minute_table(&bars, Flatten::Auto);
    let forced: Vec<usize> = (0..400)
        .filter(|t| table[t * ENV_COLUMNS + env::ROW_FORCED_FLAT] == 1.0)
        .collect();
    // Bar 249 is the last before the halt: decision 248 fills at its open and must be flat.
    assert_eq!(forced, [248]);
    let series = buy_and_hold(&table, 60..398, &default_costs());
    assert_eq!(series.position[248 - 60], 0.0);
    assert_eq!(series.position[249 - 60], 1.0);
    let kept = minute_table(&bars, Flatten::Never);
    assert!(
        !kept
            .chunks(ENV_COLUMNS)
            .any(|row| row[env::ROW_FORCED_FLAT] != 0.0)
    );
}

#[test]
fn bars_without_volume_stay_finite() {
    let mut bars = real("tests/data/es_1m_400.csv");
    bars.volume.fill(0.0);
    let table = minute_table(&bars, Flatten::Auto);
    assert!(table.iter().all(|x| x.is_finite()));
    assert_eq!(table[env::ROW_PARTICIPATION], 1.0);
}

#[test]
fn folds_are_stacked_scaled_and_padded() {
    let bars = real("tests/data/sp500_1d_300.csv");
    let features = builtin(&bars, BarLength::Day, Calendar::UsEquity);
    let scalers = [
        Scaler::fit(&features, 60..150),
        Scaler::fit(&features, 60..250),
    ];
    let table = feature_table(&features, &scalers);
    assert_eq!(padded_width(38), 40);
    assert_eq!(table.len(), 2 * 300 * 40);
    let row = |fold: usize, t: usize| &table[(fold * 300 + t) * 40..(fold * 300 + t + 1) * 40];
    for (fold, scaler) in scalers.iter().enumerate() {
        for idx in 0..38 {
            assert_eq!(
                row(fold, 120)[idx],
                scaler.apply(idx, features.row(120)[idx])
            );
        }
        assert_eq!(row(fold, 120)[38..], [0.0; 2]);
        assert_eq!(row(fold, 59), [0.0; 40]);
    }
    assert_ne!(row(0, 120), row(1, 120));
    assert!(table.iter().all(|x| x.abs() <= 5.0));
}

#[test]
fn nothing_is_computed_from_the_holdout() {
    let bars = real("sweeps/data/sp500_1d.csv");
    let config = SplitConfig {
        folds: 2,
        allow_single_fold: false,
        window: Window::Expanding,
        validation_bars: 500,
        holdout_bars: 500,
        purge: Purge::Auto,
    };
    let frame = SplitFrame {
        n_bars: bars.len(),
        warmup_bars: 60,
        horizon: 1,
        lookback_bars: 1,
    };
    let split = split(&config, &frame).unwrap();
    let start = split.holdout.unwrap().start;
    let mut other = bars.clone();
    for prices in [
        &mut other.open,
        &mut other.high,
        &mut other.low,
        &mut other.close,
        &mut other.volume,
    ] {
        prices[start..].iter_mut().for_each(|x| *x *= 3.0);
    }
    let tables = [&bars, &other].map(|bars| {
        let features = builtin(bars, BarLength::Day, Calendar::UsEquity);
        let scalers: Vec<Scaler> = split
            .folds
            .iter()
            .map(|fold| Scaler::fit(&features, fold.train.clone()))
            .collect();
        (feature_table(&features, &scalers), daily_table(bars))
    });
    for (idx, fold) in split.folds.iter().enumerate() {
        for range in [&fold.train, &fold.validation] {
            let features = |table: &[f32]| {
                let start = idx * frame.n_bars;
                table[(start + range.start) * 40..(start + range.end) * 40].to_vec()
            };
            let env =
                |table: &[f64]| table[range.start * ENV_COLUMNS..range.end * ENV_COLUMNS].to_vec();
            assert_eq!(features(&tables[0].0), features(&tables[1].0));
            assert_eq!(env(&tables[0].1), env(&tables[1].1));
        }
    }
}

#[test]
fn buy_and_hold_earns_the_market() {
    let bars = real("sweeps/data/sp500_1d.csv");
    let range = 60..bars.len() - 2;
    let costs = default_costs();
    let table = daily_table(&bars);
    let series = buy_and_hold(&table, range.clone(), &costs);
    let clock = ReturnClock::new(&bars, BarLength::Day, Calendar::UsEquity, range.clone());
    let figures = evaluate(&series, &clock);
    let market = bars.open[range.end + 1] / bars.open[range.start + 1] - 1.0;
    // One entry of about a basis point, compounded over the whole return.
    assert!((figures.total_return - market).abs() < 5e-4 * (1.0 + market));
    assert_eq!(figures.n_trades, 1);
    assert!(figures.exposure > 0.999);
}

#[test]
fn doing_nothing_returns_exactly_nothing() {
    let bars = real("tests/data/sp500_1d_300.csv");
    let series = simulate(&daily_table(&bars), 60..298, &default_costs(), |_, _| {
        market_order(0.0)
    });
    assert!(series.net.iter().all(|r| r.to_bits() == 0));
    assert!(sharpe_period(&series.net).is_err());
}

#[test]
fn random_positions_repeat_by_seed_and_pay_costs() {
    let bars = real("sweeps/data/sp500_1d.csv");
    let (table, costs) = (daily_table(&bars), default_costs());
    let run = |seed| random_positions(&table, 60..5_029, &costs, seed);
    assert_eq!(run(1), run(1));
    assert_ne!(run(1).position, run(2).position);
    let series = run(1);
    assert!(series.cost.iter().all(|cost| *cost >= 0.0));
    let free = random_positions(&table, 60..5_029, &Costs::from_bp(0.0, 0.0, 0.0), 1);
    let total = |series: &super::super::metrics::Series| series.net.iter().sum::<f64>();
    assert!(total(&series) < total(&free));
}
