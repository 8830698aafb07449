//! Annualisation, sessions and gaps.

use std::path::Path;

use super::super::csv::{CsvOptions, load};
use super::*;

#[track_caller]
fn near(got: f64, expected: f64) {
    // The published table has two decimals.
    assert!(
        (got - expected).abs() <= 0.005,
        "got {got}, expected {expected}"
    );
}

#[test]
fn annualisation_matches_the_published_table() {
    let us_equity = |text| Calendar::UsEquity.bars_per_year(BarLength::parse(text).unwrap());
    assert_eq!(us_equity("1m"), 98_280.0);
    near(us_equity("1m").sqrt(), 313.50);
    assert_eq!(us_equity("5m"), 19_656.0);
    near(us_equity("5m").sqrt(), 140.20);
    assert_eq!(us_equity("1d"), 252.0);
    assert_eq!(us_equity("1h"), 252.0 * 6.5);
    for (bars_per_year, root) in [(347_760.0, 589.71), (525_600.0, 724.98), (8_760.0, 93.59)] {
        let calendar = Calendar::custom(bars_per_year).unwrap();
        near(calendar.bars_per_year(BarLength::Minutes(1)).sqrt(), root);
    }
    assert!(Calendar::custom(0.0).is_err());
    assert!(Calendar::custom(f64::NAN).is_err());
}

#[test]
fn lo_factor_matches_the_published_values() {
    let ar1 = |q: usize| -> Vec<f64> { (1..q).map(|k| 0.1_f64.powi(k as i32)).collect() };
    near(lo_factor(252, &ar1(252)), 14.36);
    near(lo_factor(252, &[]), 15.87);
    // Published to six decimals.
    assert!((lo_factor(12, &ar1(12)) - 3.160_111).abs() < 5e-7);
    assert!((lo_factor(12, &[]) - 3.464_102).abs() < 5e-7);
}

#[test]
fn bar_lengths_read_and_print() {
    for text in ["1d", "1h", "4h", "1m", "5m", "90m"] {
        assert_eq!(BarLength::parse(text).unwrap().to_string(), text);
    }
    for text in ["", "d", "0m", "1w", "2d", "-1m", "13h", "1.5h", "m", "é"] {
        assert!(BarLength::parse(text).is_err(), "{text}");
    }
}

/// Bars at New York times, all of price 10.
fn bars_at(times: &[&str]) -> Bars {
    let mut text = "time,open,high,low,close,volume\n".to_owned();
    for time in times {
        text.push_str(&format!("{time},10,10,10,10,1\n"));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bars.csv");
    std::fs::write(&path, text).unwrap();
    load_new_york(&path)
}

fn load_new_york(path: &Path) -> Bars {
    let options = CsvOptions {
        time_zone: Some("America/New_York".to_owned()),
        ..CsvOptions::default()
    };
    load(path, &options).unwrap()
}

const FIVE: BarLength = BarLength::Minutes(5);

#[test]
fn sessions_end_and_gaps_break() {
    let bars = bars_at(&[
        "2020-01-02 15:50",
        "2020-01-02 15:55",
        "2020-01-03 09:30",
        "2020-01-03 09:35",
        "2020-01-03 10:00",
        "2020-01-03 10:30",
        "2020-01-03 10:35",
    ]);
    Calendar::UsEquity.check(&bars, FIVE).unwrap();
    // 09:35 to 10:00 is five bars, which is no gap yet; 10:00 to 10:30 is six.
    let expected = [false, true, false, false, true, false, false];
    assert_eq!(Calendar::UsEquity.breaks_after(&bars, FIVE), expected);
    let never = [false; 7];
    assert_eq!(
        Calendar::UsEquity.breaks_after(&bars, BarLength::Day),
        never
    );
    assert_eq!(Calendar::UsEquity.time_to_close(&bars, FIVE, 1), 0.0);
    assert_eq!(
        Calendar::UsEquity.time_to_close(&bars, FIVE, 0),
        5.0 / 390.0
    );
    assert_eq!(
        Calendar::UsEquity.time_to_close(&bars, FIVE, 2),
        385.0 / 390.0
    );
}

#[test]
fn the_real_halt_is_the_only_gap_of_a_custom_calendar() {
    let bars = load_new_york(Path::new("tests/data/es_1m_400.csv"));
    let calendar = Calendar::custom(347_760.0).unwrap();
    calendar.check(&bars, BarLength::Minutes(1)).unwrap();
    let breaks = calendar.breaks_after(&bars, BarLength::Minutes(1));
    let at: Vec<usize> = (0..bars.len()).filter(|t| breaks[*t]).collect();
    assert_eq!(at, [249]);
}

#[test]
fn bars_outside_the_sessions_are_refused() {
    let bars = bars_at(&["2020-01-02 09:25", "2020-01-02 09:30", "2020-01-04 10:00"]);
    let error = Calendar::UsEquity.check(&bars, FIVE).unwrap_err();
    match error {
        MarketError::OutsideSession {
            n_outside, bar_idx, ..
        } => assert_eq!((n_outside, bar_idx), (2, 0)),
        other => panic!("{other}"),
    }
}

#[test]
fn a_wrong_bar_length_is_refused() {
    let bars = bars_at(&["2020-01-02 09:30", "2020-01-02 09:35"]);
    for length in [BarLength::Day, BarLength::Minutes(15)] {
        let error = Calendar::UsEquity.check(&bars, length).unwrap_err();
        assert!(matches!(
            error,
            MarketError::BarLengthMismatch { bar_idx: 1, .. }
        ));
    }
}
