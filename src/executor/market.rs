//! Everything that runs of a study share of their market.

use crate::engine::backend::{Data, Tables};
use crate::engine::env::Costs;
use crate::engine::program::Program;
use crate::market::features::{self, Scaler};
use crate::market::metrics::{Figures, ReturnClock, evaluate};
use crate::market::simulate;
use crate::market::split::{Fold, Split, SplitConfig, SplitFrame, split};
use crate::market::tables::{self, Flatten};
use crate::market::{BarLength, Bars, Calendar, MarketError};
use crate::models::{MarketShape, TABLE_ENVIRONMENT, TABLE_FEATURES};
use std::ops::Range;
use std::sync::Arc;

/// How bars become a market.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MarketOptions {
    /// Length of a bar.
    pub bar: BarLength,
    /// Sessions and annualisation.
    pub calendar: Calendar,
    /// When positions are closed by force.
    pub flatten: Flatten,
    /// What an exposure of 1 is worth, in the quote currency.
    pub capital: f64,
    /// What trading costs.
    pub costs: Costs<f64>,
    /// Folds and holdout.
    pub split: SplitConfig,
}

/// What a fold's validation block gives without a model, through the same costs.
#[derive(Debug, Clone, PartialEq)]
pub struct Baselines {
    /// Fully long throughout.
    pub buy_and_hold: Figures,
    /// One of the five exposures at random at each bar.
    pub random_positions: Figures,
}

/// A market made ready for training.
///
/// The holdout's range is known, and nothing here reads it.
#[derive(Debug, Clone)]
pub struct MarketData {
    /// Extents.
    pub shape: MarketShape,
    /// Train and validation ranges in decision bars.
    pub folds: Vec<Fold>,
    /// The block that only `finalize` reads.
    pub holdout: Option<Range<usize>>,
    /// How each fold's validation returns aggregate.
    pub clocks: Vec<ReturnClock>,
    /// What trading costs.
    pub costs: Costs<f64>,
    /// Digest of the file's bytes.
    pub digest: String,
    features: Arc<Data>,
    environment: Arc<Data>,
}

impl MarketData {
    /// Computes features, folds, scalers and tables.
    ///
    /// # Errors
    /// [`MarketError`] if the bars do not fit the calendar or are too few for the split.
    pub fn new(bars: &Bars, options: &MarketOptions) -> Result<Self, MarketError> {
        options.calendar.check(bars, options.bar)?;
        let table = features::builtin(bars, options.bar, options.calendar);
        let frame = SplitFrame {
            n_bars: bars.len(),
            warmup_bars: table.warmup_bars,
            horizon: 1,
            lookback_bars: 1,
        };
        let Split { folds, holdout, .. } = split(&options.split, &frame)?;
        let scalers: Vec<Scaler> = folds
            .iter()
            .map(|fold| Scaler::fit(&table, fold.train.clone()))
            .collect();
        let clock = |fold: &Fold| {
            ReturnClock::new(bars, options.bar, options.calendar, fold.validation.clone())
        };
        let n_evaluate_max = folds
            .iter()
            .map(|fold| fold.validation.len())
            .max()
            .unwrap_or(0);
        let environment = tables::env_table(
            bars,
            options.bar,
            options.calendar,
            options.flatten,
            options.capital,
        );
        Ok(Self {
            shape: MarketShape::new(&table, folds.len(), n_evaluate_max),
            clocks: folds.iter().map(clock).collect(),
            folds,
            holdout,
            costs: options.costs,
            digest: bars.digest.clone(),
            features: Arc::new(Data::F32(tables::feature_table(&table, &scalers))),
            environment: Arc::new(Data::F64(environment)),
        })
    }

    /// Returns the tables that a program declares.
    pub fn tables(&self, program: &Program) -> Tables {
        let mut tables = Tables::default();
        for (name, data) in [
            (TABLE_FEATURES, &self.features),
            (TABLE_ENVIRONMENT, &self.environment),
        ] {
            if let Some(id) = program.table_named(name) {
                tables.insert(id, data.clone());
            }
        }
        tables
    }

    /// Returns the environment table, `[bars, ENV_COLUMNS]`.
    pub fn environment(&self) -> Vec<f64> {
        self.environment.to_f64()
    }

    /// Scores what needs no model, per fold: always fully long, and an exposure drawn anew at
    /// each bar.
    ///
    /// - `seed`: of the draws.
    pub fn baselines(&self, seed: u64) -> Vec<Baselines> {
        let table = self.environment();
        self.folds
            .iter()
            .zip(&self.clocks)
            .map(|(fold, clock)| {
                let range = || fold.validation.clone();
                let hold = simulate::buy_and_hold(&table, range(), &self.costs);
                let random = simulate::random_positions(&table, range(), &self.costs, seed);
                Baselines {
                    buy_and_hold: evaluate(&hold, clock),
                    random_positions: evaluate(&random, clock),
                }
            })
            .collect()
    }
}
