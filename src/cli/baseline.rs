//! What no model has to beat: the baselines, in words.

use crate::executor::MarketData;
use crate::market::metrics::Figures;

/// One line per baseline: annualised Sharpe ratio of each validation fold.
///
/// - `seed`: of the random positions.
pub(super) fn lines(market: &MarketData, seed: u64) -> [String; 2] {
    let folds = market.baselines(seed);
    let sharpes = |figures: Vec<&Figures>| {
        let texts: Vec<String> = figures
            .iter()
            .map(|f| match f.sharpe_annual {
                Some(sharpe) => format!("{sharpe:.3}"),
                None => "none".to_owned(),
            })
            .collect();
        texts.join(", ")
    };
    [
        format!(
            "buy and hold: Sharpe by fold {}",
            sharpes(folds.iter().map(|fold| &fold.buy_and_hold).collect())
        ),
        format!(
            "random positions: Sharpe by fold {}",
            sharpes(folds.iter().map(|fold| &fold.random_positions).collect())
        ),
    ]
}
