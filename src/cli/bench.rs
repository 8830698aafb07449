//! `hyperopt bench`.

use super::args::BenchArgs;
use super::devices::{self, Device};
use super::error::CliError;
use super::output::Output;
use super::setup;
use crate::engine::backend::{LaneIdx, Session};
use crate::engine::cpu::gemm_gflop_per_s;
use crate::engine::env::Costs;
use crate::engine::program::Section;
use crate::executor::{MarketData, MarketOptions, PreparedPlan, Preparer};
use crate::market::split::{Purge, SplitConfig, Window};
use crate::market::synthetic::Planted;
use crate::market::tables::{CAPITAL_DEFAULT, Flatten};
use crate::market::{BarLength, Calendar};
use crate::models::{RunInput, catalogue, count};
use crate::spec::Devices;
use crate::store::{self, Store};
use crate::study::{ModelSchema, Params, Precision};
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Measurements whose median is told.
const N_RUNS: usize = 5;
/// Updates of one measurement.
const N_UPDATES: usize = 100;
/// Updates before the first measurement.
const N_WARMUP: usize = 20;
/// Bars of the synthetic market.
const N_BARS: usize = 4_000;
/// Seed of market and runs.
const SEED: u64 = 17;
/// Floating-point operations that one step of ref-dqn takes at the least.
const REF_DQN_GFLOP: f64 = 0.75;
/// Side of the product that the machine's rate is measured with: the model's own size.
const GEMM_SIDE: usize = 256;

const SHOWN: &[&str] = &[
    "model",
    "precision",
    "lanes",
    "steps_per_s",
    "lane_steps_per_s",
    "gflop_per_s_core",
    "gemm_gflop_per_s_core",
    "share_of_gemm",
];
const STORE_SHOWN: &[&str] = &[
    "pack_epoch_ms",
    "trial_first_ms",
    "trial_at_100_ms",
    "trial_at_100_000_ms",
    "best_trial_ms",
    "delete_ms",
];

/// Training speed.
#[derive(Debug, Serialize)]
struct TrainRow {
    model: String,
    device: String,
    precision: &'static str,
    lanes: usize,
    cores: usize,
    n_runs: usize,
    steps_per_s: f64,
    lane_steps_per_s: f64,
    /// Of a CPU, like those below.
    gflop_per_s_core: Option<f64>,
    gemm_gflop_per_s_core: Option<f64>,
    share_of_gemm: Option<f64>,
}

/// Measures training or the store.
pub(super) async fn run(args: &BenchArgs, database_url: Option<&str>) -> Result<(), CliError> {
    let mut output = Output::stdout(args.format.json);
    let Some(model) = &args.model else {
        let store = Store::open(database_url).await?;
        let report = store::bench(&store).await?;
        return output.records(&[report], STORE_SHOWN, "nothing");
    };
    let wanted = match &*args.device {
        "auto" => Devices::Auto,
        "cpu" => Devices::Cpu,
        name => Devices::Gpus(vec![name.to_owned()]),
    };
    let device = devices::resolve(&wanted)?.swap_remove(0);
    let precision = Precision::from(args.precision);
    let n_lanes = args.lanes.map_or_else(
        || setup::n_lanes_full(&*device).get(),
        |lanes| lanes as usize,
    );
    let row = train(&device, model, precision, n_lanes)?;
    output.table(&[row], SHOWN, "nothing")
}

/// Measures learning steps as peers' benchmarks count them: replay warm, collection and
/// evaluation left out.
fn train(
    backend: &Device,
    model: &str,
    precision: Precision,
    n_lanes: usize,
) -> Result<TrainRow, CliError> {
    let (kind, params) = parameters(model)?;
    let market = Arc::new(market()?);
    let preparer = Preparer::new(
        backend.clone(),
        market.clone(),
        kind,
        BTreeSet::new(),
        false,
    );
    let plan = preparer.plan(&params, precision);
    let engine = |source| CliError::Engine { source };
    let mut session = backend
        .open(plan.plan.clone(), &plan.tables, n_lanes)
        .map_err(engine)?;
    let n_collects = warm(session.as_mut(), &plan, &market, &params, n_lanes)?;
    let learn = phase(&plan, "learn");
    session
        .repeat(Section::Cycle, phase(&plan, "collect"), n_collects)
        .map_err(engine)?;
    session
        .repeat(Section::Cycle, learn, N_WARMUP)
        .map_err(engine)?;
    let mut times_s = Vec::new();
    for _ in 0..N_RUNS {
        let elapsed = session
            .repeat(Section::Cycle, learn, N_UPDATES)
            .map_err(engine)?;
        times_s.push(elapsed.device.as_secs_f64());
    }
    times_s.sort_by(f64::total_cmp);
    let steps_per_s = N_UPDATES as f64 / times_s[N_RUNS / 2];
    let lane_steps_per_s = steps_per_s * n_lanes as f64;
    let is_cpu = !devices::is_gpu(&**backend);
    let n_busy = setup::n_cores().get().min(n_lanes);
    let gflop_per_s_core = is_cpu.then(|| lane_steps_per_s * REF_DQN_GFLOP / n_busy as f64);
    let gemm_gflop_per_s_core = is_cpu.then(|| gemm_gflop_per_s(GEMM_SIDE));
    let share_of_gemm = gflop_per_s_core
        .zip(gemm_gflop_per_s_core)
        .map(|(reached, gemm)| reached / gemm);
    Ok(TrainRow {
        model: model.to_owned(),
        device: backend.device(),
        precision: precision.as_str(),
        lanes: n_lanes,
        cores: setup::n_cores().get(),
        n_runs: N_RUNS,
        steps_per_s,
        lane_steps_per_s,
        gflop_per_s_core,
        gemm_gflop_per_s_core,
        share_of_gemm,
    })
}

/// Finds a preset by name.
fn parameters(name: &str) -> Result<(&'static str, Params), CliError> {
    let catalogue: Vec<ModelSchema> = catalogue();
    let known = || {
        catalogue
            .iter()
            .flat_map(|schema| schema.presets.iter().map(|p| p.0))
    };
    let found = catalogue
        .iter()
        .find_map(|schema| Some((schema, schema.preset(name)?)));
    let Some((schema, preset)) = found else {
        let known = known().collect::<Vec<_>>().join(", ");
        return Err(CliError::Preset {
            name: name.to_owned(),
            known,
        });
    };
    let defaults = schema
        .params
        .iter()
        .map(|p| (p.name.to_owned(), p.default.clone()));
    let mut params: Params = defaults.collect();
    params.extend(
        preset
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone())),
    );
    Ok((schema.kind, params))
}

/// A synthetic market: speed does not depend on prices.
fn market() -> Result<MarketData, CliError> {
    let bars = Planted::new(N_BARS, SEED).bars();
    let options = MarketOptions {
        bar: BarLength::Day,
        calendar: Calendar::UsEquity,
        flatten: Flatten::Auto,
        capital: CAPITAL_DEFAULT,
        costs: Costs::from_bp(0.5, 0.5, 0.1),
        split: SplitConfig {
            folds: 1,
            allow_single_fold: true,
            window: Window::Expanding,
            validation_bars: 500,
            holdout_bars: 0,
            purge: Purge::Auto,
        },
    };
    Ok(MarketData::new(&bars, &options)?)
}

/// Loads every lane with a run of its own; returns the collections until their replays are warm.
fn warm(
    session: &mut dyn Session,
    plan: &PreparedPlan,
    market: &MarketData,
    params: &Params,
    n_lanes: usize,
) -> Result<usize, CliError> {
    for lane in 0..n_lanes {
        let run = RunInput {
            params,
            seed: SEED + lane as u64,
            fold: 0,
            train: market.folds[0].train.clone(),
            validation: market.folds[0].validation.clone(),
            costs: market.costs,
            n_updates: (N_WARMUP + N_RUNS * N_UPDATES) as u64,
        };
        let values = plan.trainer.lane(&run);
        session
            .load(LaneIdx(lane), &values)
            .map_err(|source| CliError::Engine { source })?;
        session.set_live(LaneIdx(lane), true);
    }
    let n_warmup = count(params, "train.replay_warmup");
    let n_step_max = count(params, "model.n_step_max");
    Ok(n_warmup
        .div_ceil(count(params, "train.environments"))
        .max(n_step_max + 1))
}

/// Finds a phase of the cycle.
fn phase(plan: &PreparedPlan, name: &str) -> usize {
    let phases = plan.plan.section(Section::Cycle);
    phases
        .iter()
        .position(|phase| phase.name == name)
        .expect("every model collects and learns")
}
