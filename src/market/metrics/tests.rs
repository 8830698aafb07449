//! Published values, degenerate curves, and every figure by hand.

use super::*;

/// Sums of a few terms: rounding stays within some ulps.
const TIGHT: f64 = 1e-13;

const PERCENT: [f64; 8] = [0.01, 0.1, -0.04, 0.02, 0.03, 0.02, 0.01, -0.1];

fn per_bar() -> ReturnClock {
    ReturnClock {
        bars_per_year: 252.0,
        daily: None,
    }
}

fn series(net: &[f64]) -> Series {
    Series {
        net: net.to_vec(),
        gross: net.to_vec(),
        cost: vec![0.0; net.len()],
        turnover: vec![0.0; net.len()],
        position: vec![1.0; net.len()],
    }
}

#[track_caller]
fn near(got: f64, expected: f64) {
    assert!(
        (got - expected).abs() <= TIGHT,
        "got {got}, expected {expected}"
    );
}

#[test]
fn sharpe_matches_the_published_value() {
    near(sharpe(&PERCENT, 252.0).unwrap(), 1.723_861_396_170_686_6);
    let figures = evaluate(&series(&PERCENT), &per_bar());
    near(figures.sharpe_annual.unwrap(), 1.723_861_396_170_686_6);
    near(
        figures.sharpe_period.unwrap(),
        1.723_861_396_170_686_6 / 252_f64.sqrt(),
    );
    assert_eq!(figures.n_observations, 8);
}

#[test]
fn what_cannot_be_scored_says_why() {
    assert_eq!(sharpe_period(&[0.01; 50]), Err(Degenerate::ZeroVariance));
    assert_eq!(sharpe_period(&[0.0; 50]), Err(Degenerate::ZeroVariance));
    assert_eq!(sharpe_period(&[0.01]), Err(Degenerate::ZeroVariance));
    assert_eq!(sharpe_period(&[]), Err(Degenerate::ZeroVariance));
    assert_eq!(sharpe_period(&[0.01, f64::NAN]), Err(Degenerate::NotFinite));
    assert_eq!(
        sharpe_period(&[0.01, f64::INFINITY]),
        Err(Degenerate::NotFinite)
    );
    let figures = evaluate(&series(&[0.0; 50]), &per_bar());
    assert_eq!(figures.degenerate, Some(Degenerate::ZeroVariance));
    assert_eq!((figures.sharpe_annual, figures.sharpe_period), (None, None));
    assert_eq!((figures.skew, figures.kurtosis), (0.0, 0.0));
}

#[test]
fn every_figure_by_hand() {
    let series = Series {
        net: vec![0.1, -0.5, 0.0, 0.2],
        gross: vec![0.11, -0.49, 0.0, 0.2],
        cost: vec![0.01, 0.01, 0.0, 0.0],
        turnover: vec![1.0, 0.5, 0.5, 0.001],
        position: vec![1.0, 0.5, 0.0, -0.5],
    };
    let figures = evaluate(&series, &per_bar());
    near(figures.total_return, 1.1 * 0.5 * 1.2 - 1.0);
    near(figures.drawdown_max, 0.5);
    near(figures.turnover, 2.001);
    assert_eq!(figures.n_trades, 3);
    near(figures.hit_rate, 2.0 / 3.0);
    near(figures.exposure, 0.5);
    near(figures.cost_share, 0.02 / 0.8);
    assert_eq!(figures.degenerate, None);
    assert!(!figures.is_daily_aggregated);
}

#[test]
fn moments_are_raw() {
    // Two values in equal numbers: skew 0, kurtosis 1; an outlier of one in four.
    near(standardised_moment(&[-1.0, 1.0, -1.0, 1.0], 4), 1.0);
    near(standardised_moment(&[-1.0, 1.0, -1.0, 1.0], 3), 0.0);
    near(
        standardised_moment(&[0.0, 0.0, 0.0, 4.0], 3),
        2.0 / 3_f64.sqrt(),
    );
    near(standardised_moment(&[0.0, 0.0, 0.0, 4.0], 4), 7.0 / 3.0);
}

#[test]
fn intraday_returns_aggregate_to_days_if_there_are_enough() {
    let net: Vec<f64> = (0..240).map(|i| 0.001 * f64::from(i % 7) - 0.002).collect();
    let clock = |bars_per_day: usize| ReturnClock {
        bars_per_year: 1_000.0,
        daily: Some((252.0, (0..240).map(|i| (i / bars_per_day) as i32).collect())),
    };
    let figures = evaluate(&series(&net), &clock(4));
    assert!(figures.is_daily_aggregated);
    assert_eq!(figures.n_observations, 60);
    let days: Vec<f64> = net
        .chunks(4)
        .map(|day| day.iter().map(|r| 1.0 + r).product::<f64>() - 1.0)
        .collect();
    near(
        figures.sharpe_annual.unwrap(),
        sharpe(&days, 252.0).unwrap(),
    );
    let figures = evaluate(&series(&net), &clock(5));
    assert!(!figures.is_daily_aggregated);
    assert_eq!(figures.n_observations, 240);
    near(
        figures.sharpe_annual.unwrap(),
        sharpe(&net, 1_000.0).unwrap(),
    );
}
