//! The planted signal has its stated strength, and shuffling removes it.

use super::super::calendar::{BarLength, Calendar};
use super::super::metrics::sharpe_period;
use super::super::tables::{CAPITAL_DEFAULT, Flatten, env_table};
use super::*;

const N_BARS: usize = 20_000;

fn table(bars: &Bars) -> Vec<f64> {
    env_table(
        bars,
        BarLength::Day,
        Calendar::UsEquity,
        Flatten::Auto,
        CAPITAL_DEFAULT,
    )
}

fn oracle(market: &Planted, bars: &Bars) -> Series {
    let costs = Costs::from_bp(0.5, 0.5, 0.1);
    market.oracle(bars, &table(bars), 60..bars.len() - 2, &costs)
}

#[test]
fn bars_are_valid_and_repeat_by_seed() {
    let bars = Planted::new(1_000, 5).bars();
    assert_eq!(bars, Planted::new(1_000, 5).bars());
    assert_ne!(bars.close, Planted::new(1_000, 6).bars().close);
    assert_ne!(bars.digest, Planted::new(1_000, 6).bars().digest);
    for t in 0..bars.len() {
        assert!(bars.low[t] > 0.0 && bars.low[t] <= bars.open[t].min(bars.close[t]));
        assert!(bars.high[t] >= bars.open[t].max(bars.close[t]));
        assert!(bars.volume[t] > 0.0);
        assert!(t == 0 || bars.open[t] == bars.close[t - 1]);
        assert!(t == 0 || bars.time_utc_ms[t] > bars.time_utc_ms[t - 1]);
    }
    Calendar::UsEquity.check(&bars, BarLength::Day).unwrap();
}

#[test]
fn returns_have_the_stated_strength() {
    let bars = Planted::new(N_BARS, 1).bars();
    let returns: Vec<f64> = (1..N_BARS).map(|t| bars.log_return(t)).collect();
    let n = returns.len() as f64;
    let variance = returns.iter().map(|r| r * r).sum::<f64>() / n;
    let product: f64 = returns.windows(2).map(|pair| pair[0] * pair[1]).sum();
    // Four standard errors: 1/√(2n) relative for σ, 1/√n for ρ.
    assert!((variance.sqrt() / 0.01 - 1.0).abs() < 0.02);
    assert!((product / n / variance - 0.2).abs() < 0.029);
}

#[test]
fn the_oracle_earns_its_theoretical_sharpe() {
    let market = Planted::new(N_BARS, 2);
    let series = oracle(&market, &market.bars());
    let gross = sharpe_period(&series.gross).unwrap();
    // E[sign(r) r'] = ρ √(2/π) in σ; its variance is 1 less the square of that.
    let edge = 0.2 * (2.0 / std::f64::consts::PI).sqrt();
    let expected = edge / (1.0 - edge * edge).sqrt();
    // Four standard errors of 1/√n.
    assert!(
        (gross - expected).abs() < 0.0285,
        "{gross} against {expected}"
    );
    let net = sharpe_period(&series.net).unwrap();
    assert!(net < gross);
    // Costs of about 2.5 bp on a turnover of 0.9 a bar take some 0.02.
    assert!(net > gross - 0.05, "{net} against {gross}");
}

#[test]
fn shuffling_keeps_the_returns_and_loses_the_signal() {
    let market = Planted::new(N_BARS, 3);
    let bars = market.bars();
    let control = shuffled(&bars, 9);
    assert_eq!(control, shuffled(&bars, 9));
    assert_ne!(control.digest, bars.digest);
    let sorted = |bars: &Bars| {
        let mut returns: Vec<f64> = (1..bars.len()).map(|t| bars.log_return(t)).collect();
        returns.sort_by(f64::total_cmp);
        returns
    };
    for (a, b) in sorted(&bars).iter().zip(sorted(&control)) {
        // Prices are rebuilt by one product each: an ulp of the ratio.
        assert!((a - b).abs() < 1e-14);
    }
    for t in 0..control.len() {
        assert!(control.low[t] <= control.open[t].min(control.close[t]));
        assert!(control.high[t] >= control.open[t].max(control.close[t]));
    }
    let gross = sharpe_period(&oracle(&market, &control).gross).unwrap();
    // Four standard errors of 1/√n.
    assert!(gross.abs() < 0.0285, "{gross}");
}

#[test]
fn settings_out_of_range_are_refused() {
    let good = Planted::new(100, 1);
    good.check().unwrap();
    for rho in [1.0, -1.0, f64::NAN] {
        assert!(Planted { rho, ..good }.check().is_err());
    }
    for sigma in [0.0, -0.01, 0.6, f64::NAN] {
        assert!(Planted { sigma, ..good }.check().is_err());
    }
}
