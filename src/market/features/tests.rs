//! Published values, causality on real bars, and hostile bars.

use std::path::Path;

use proptest::prelude::*;

use super::super::csv::{CsvOptions, load};
use super::super::synthetic::Planted;
use super::*;

fn real(path: &str) -> Bars {
    let options = CsvOptions {
        time_zone: Some("America/New_York".to_owned()),
        ..CsvOptions::default()
    };
    load(Path::new(path), &options).unwrap()
}

fn daily(bars: &Bars) -> FeatureTable {
    builtin(bars, BarLength::Day, Calendar::UsEquity)
}

fn minutes(bars: &Bars) -> FeatureTable {
    let calendar = Calendar::custom(347_760.0).unwrap();
    builtin(bars, BarLength::Minutes(1), calendar)
}

fn column(table: &FeatureTable, name: &str) -> Vec<f64> {
    let idx = table.names.iter().position(|n| n == name).unwrap();
    (table.warmup_bars..table.n_bars)
        .map(|t| table.row(t)[idx])
        .collect()
}

#[track_caller]
fn near(got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (got, expected) in got.iter().zip(expected) {
        assert!(
            (got - expected).abs() <= tolerance,
            "{got} against {expected}"
        );
    }
}

#[test]
fn rsi_matches_the_published_series() {
    let close = [
        44.34, 44.09, 44.15, 43.61, 44.33, 44.83, 45.10, 45.42, 45.84, 46.08, 45.89, 46.03, 45.61,
        46.28, 46.28, 46.00, 46.03,
    ];
    // Published to four decimals.
    near(
        &rsi_wilder(&close, 14)[14..],
        &[70.4641, 66.2496, 66.4809],
        5e-5,
    );
    assert_eq!(rsi_wilder(&[10.0; 40], 14), [50.0; 40]);
}

#[test]
fn true_range_matches_the_published_values() {
    let range = true_range(&[9.0, 11.0, 9.0], &[9.0, 9.0, 5.0], &[9.0, 9.5, 8.0]);
    assert_eq!(range, [0.0, 2.0, 4.5]);
}

#[test]
fn bollinger_matches_the_published_value() {
    let bands = bollinger(&[2.0, 5.0, 1.0], 3, 2.0);
    // Published to four decimals.
    near(&[bands.upper[2]], &[6.0660], 5e-5);
    let flat = bollinger(&[0.1; 30], 20, 2.0);
    assert_eq!(flat.upper, flat.lower);
}

#[test]
fn macd_matches_the_published_series() {
    let macd = macd(&[2.0, 3.0, 4.2, 7.0], 3, 6, 4);
    // Published to two decimals.
    near(&macd.line, &[0.0, 0.21, 0.52, 1.15], 5e-3);
    near(&[macd.histogram[3]], &[macd.line[3] - macd.signal[3]], 0.0);
}

#[test]
fn ew_sigma_halves_its_memory() {
    // One shock of size s, then flat bars: after the half-life its weight has halved.
    let mut close = vec![1.0; 2_000];
    close.extend([1.1; 21]);
    let sigma = ew_sigma(&close, 20.0);
    let (shock, later) = (sigma[2_000], sigma[2_020]);
    // The weights of 2,000 bars sum to one up to 2^-100.
    near(&[later * later / (shock * shock)], &[0.5], 1e-12);
}

#[test]
fn names_are_distinct_and_in_order() {
    let table = daily(&real("tests/data/sp500_1d_300.csv"));
    assert_eq!(table.n_columns, 38);
    assert_eq!(table.names[..N_BUILTIN], FEATURE_NAMES);
    let mut sorted = table.names.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), 38);
    assert_eq!(table.values.len(), 300 * 38);
}

#[test]
fn recent_returns_repeat_the_past() {
    let bars = real("tests/data/sp500_1d_300.csv");
    let table = daily(&bars);
    let sigma = ew_sigma(&bars.close, SIGMA_FAST_HALF_LIFE);
    let row = table.row(100);
    assert_eq!(row[32], row[0]);
    for lag in 0..N_RECENT_RETURNS {
        assert_eq!(row[32 + lag], bars.log_return(100 - lag) / sigma[100]);
    }
}

#[test]
fn warm_up_is_dropped_and_the_rest_is_finite() {
    for table in [
        daily(&real("tests/data/sp500_1d_300.csv")),
        minutes(&real("tests/data/es_1m_400.csv")),
    ] {
        assert_eq!(table.warmup_bars, WARMUP_BARS);
        let (before, after) = table.values.split_at(WARMUP_BARS * table.n_columns);
        assert!(before.iter().all(|x| x.is_nan()));
        assert!(after.iter().all(|x| x.is_finite()));
    }
    let short = daily(&real("tests/data/sp500_1d_300.csv").prefix(10));
    assert_eq!(short.warmup_bars, 10);
    assert_eq!(daily(&Bars::default()).n_bars, 0);
}

#[test]
fn flat_and_unknown_bars_give_neutral_values() {
    let mut bars = real("tests/data/sp500_1d_300.csv");
    for prices in [
        &mut bars.open,
        &mut bars.high,
        &mut bars.low,
        &mut bars.close,
    ] {
        prices.fill(0.1);
    }
    bars.volume.fill(0.0);
    let table = daily(&bars);
    for (idx, name) in table.names.iter().enumerate() {
        let neutral = match name.as_str() {
            "bollinger_b" => 0.5,
            "sigma_ratio" => 1.0,
            "day_cos" | "day_sin" | "week_sin" | "week_cos" => continue,
            _ => 0.0,
        };
        assert_eq!(table.row(200)[idx], neutral, "{name}");
    }
}

#[test]
fn volume_that_stops_stays_finite() {
    let mut bars = real("tests/data/es_1m_400.csv");
    for t in (100..400).step_by(3) {
        bars.volume[t] = 0.0;
    }
    bars.volume[300..340].fill(0.0);
    assert!(
        minutes(&bars).values[WARMUP_BARS * 38..]
            .iter()
            .all(|x| x.is_finite())
    );
}

#[test]
fn the_planted_signal_shows_in_the_features() {
    let bars = Planted::new(4_000, 3).bars();
    let table = daily(&bars);
    let today = column(&table, "return_1");
    let sigma = column(&table, "sigma_fast");
    let products: Vec<f64> = (0..today.len() - 1)
        .map(|i| today[i] * today[i + 1] * sigma[i + 1] / sigma[i])
        .collect();
    let correlation = products.iter().sum::<f64>() / products.len() as f64;
    // 0.2 within four standard errors of 1/√3939, over a σ that is known to some 10 %.
    assert!((correlation - 0.2).abs() < 0.08, "{correlation}");
}

#[test]
fn scaler_is_robust_and_knows_no_spread() {
    let bars = real("tests/data/sp500_1d_300.csv");
    let table = daily(&bars);
    let scaler = Scaler::fit(&table, 60..200);
    let day = table.names.iter().position(|n| n == "day_cos").unwrap();
    assert_eq!(scaler.apply(day, 123.0), 0.0);
    assert_eq!(scaler.apply(0, scaler.median[0]), 0.0);
    assert_eq!(scaler.apply(0, scaler.median[0] + scaler.iqr[0]), 1.0);
    assert_eq!(scaler.apply(0, 1e9), 5.0);
    assert_eq!(scaler.apply(0, -1e9), -5.0);
    // Rows outside the training range do not matter.
    let mut other = table.clone();
    other.values[200 * 38..].fill(7.0);
    assert_eq!(Scaler::fit(&other, 60..200), scaler);
}

#[test]
fn scaler_quartiles_interpolate() {
    let table = FeatureTable {
        names: vec!["x".to_owned()],
        n_bars: 4,
        n_columns: 1,
        values: vec![4.0, 1.0, 3.0, 2.0],
        warmup_bars: 0,
    };
    let scaler = Scaler::fit(&table, 0..4);
    assert_eq!((scaler.median[0], scaler.iqr[0]), (2.5, 1.5));
}

fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|x| x.to_bits()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Features of a prefix are the prefix of the features, bit for bit.
    #[test]
    fn prefixes_are_prefixes(n in 61_usize..300) {
        let bars = real("tests/data/sp500_1d_300.csv");
        let (whole, part) = (daily(&bars), daily(&bars.prefix(n)));
        prop_assert_eq!(bits(&whole.values[..n * 38]), bits(&part.values));
        let bars = real("tests/data/es_1m_400.csv");
        let (whole, part) = (minutes(&bars), minutes(&bars.prefix(n)));
        prop_assert_eq!(bits(&whole.values[..n * 38]), bits(&part.values));
    }

    /// Perturbing bar `j` leaves features before it unchanged, and changes its own.
    #[test]
    fn later_bars_change_nothing(j in 61_usize..299, factor in 1.01_f64..1.5) {
        let bars = real("tests/data/es_1m_400.csv");
        let mut other = bars.clone();
        other.close[j] *= factor;
        other.high[j] *= factor;
        other.volume[j] += 1.0;
        let (a, b) = (minutes(&bars), minutes(&other));
        prop_assert_eq!(bits(&a.values[..j * 38]), bits(&b.values[..j * 38]));
        prop_assert_ne!(bits(a.row(j)), bits(b.row(j)));
    }
}
