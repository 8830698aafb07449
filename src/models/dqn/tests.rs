//! The DQN's program on a planted market.

use super::{Dqn, Settings};
use crate::engine::backend::{Backend, LaneIdx};
use crate::engine::cpu::Cpu;
use crate::engine::env::Costs;
use crate::engine::graph::DType;
use crate::executor::{MarketData, MarketOptions};
use crate::market::metrics::evaluate;
use crate::market::split::{Purge, SplitConfig, Window};
use crate::market::synthetic::{Planted, shuffled};
use crate::market::tables::Flatten;
use crate::market::{BarLength, Calendar};
use crate::models::{RunInput, Trainer, catalogue, series};
use crate::study::{Params, Value};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;

fn planted(n_bars: usize, seed: u64, is_shuffled: bool) -> MarketData {
    let bars = Planted::new(n_bars, seed).bars();
    let bars = if is_shuffled {
        shuffled(&bars, 1)
    } else {
        bars
    };
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
            validation_bars: 1000,
            holdout_bars: 100,
            purge: Purge::Auto,
        },
    };
    MarketData::new(&bars, &options).unwrap()
}

fn params(changes: &[(&str, Value)]) -> Params {
    let mut params: Params = catalogue()[0]
        .params
        .iter()
        .map(|param| (param.name.to_owned(), param.default.clone()))
        .collect();
    for (name, value) in changes {
        params.insert((*name).to_owned(), value.clone());
    }
    params
}

#[test]
fn probe() {
    let market = planted(5000, 3, false);
    let epochs = 8;
    let params = params(&[
        ("model.trunk_width", Value::Int(64)),
        ("model.head_width", Value::Int(32)),
        ("model.atoms", Value::Int(21)),
        ("model.gamma", Value::Float(0.9)),
        ("model.n_step", Value::Int(1)),
        ("model.n_step_max", Value::Int(1)),
        ("train.lr", Value::Float(1e-3)),
        ("train.batch_size", Value::Int(64)),
        ("train.steps_per_epoch", Value::Int(1000)),
    ]);
    let settings = Settings::new(&params, &BTreeSet::new());
    let model = Dqn::new(&settings, market.shape);
    for dtype in [DType::F32, DType::Bf16] {
        let program = model.program().with_precision(dtype, dtype);
        let backend = Cpu::<f32>::new(NonZeroUsize::new(2).unwrap());
        let plan = Arc::new(backend.lower(&program));
        println!(
            "lane bytes {} persistent {} launches {}",
            plan.lane_bytes,
            plan.persistent_bytes,
            plan.n_launches(crate::engine::program::Section::Cycle)
        );
        let mut session = backend.open(plan, &market.tables(&program), 1).unwrap();
        let run = RunInput {
            params: &params,
            seed: 7,
            fold: 0,
            train: market.folds[0].train.clone(),
            validation: market.folds[0].validation.clone(),
            costs: market.costs,
            n_updates: 1000 * epochs,
        };
        session.load(LaneIdx(0), &model.lane(&run)).unwrap();
        session.set_live(LaneIdx(0), true);
        for _ in 0..epochs {
            let t = session.train(model.n_cycles()).unwrap();
            let e = session.evaluate().unwrap();
            let metrics =
                model.metrics(&session.read(LaneIdx(0), model.readout().metrics).unwrap());
            let data = session
                .read(LaneIdx(0), model.readout().evaluation)
                .unwrap();
            let s = series(&data, run.validation.len());
            let f = evaluate(&s, &market.clocks[0]);
            println!(
                "{:?} {:?} {:?} sharpe {:?} trades {} expo {} turn {}",
                t.wall, e.wall, metrics, f.sharpe_annual, f.n_trades, f.exposure, f.turnover
            );
        }
        let oracle = Planted::new(5000, 3);
        let o = oracle.oracle(
            &oracle.bars(),
            &market.environment(),
            run.validation.clone(),
            &market.costs,
        );
        println!("oracle {:?}", evaluate(&o, &market.clocks[0]).sharpe_annual);
    }
}
