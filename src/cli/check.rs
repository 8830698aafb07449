//! `hyperopt check`.

use super::args::CheckArgs;
use super::baseline;
use super::error::CliError;
use super::output::Output;
use super::setup::Setting;
use super::{devices, setup};
use crate::engine::program::Section;
use crate::sampler::propose;
use crate::spec::StudySpec;
use crate::study::{ConfigurationNumber, History, Precision};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;

const SHOWN: &[&str] = &[
    "precision",
    "configurations",
    "runs",
    "lanes",
    "lane_mib",
    "pack_mib",
    "plan_key",
];

/// One plan key.
#[derive(Debug, Serialize)]
struct PlanRow {
    precision: &'static str,
    configurations: u64,
    runs: u64,
    lanes: usize,
    lane_mib: f64,
    pack_mib: f64,
    launches_per_epoch: usize,
    plan_key: String,
}

/// Validates a sweep and tells what it would cost; trains nothing.
///
/// Configurations are those that the sampler would propose with nothing seen yet; for a sampler
/// that ignores history they are the ones that run.
pub(super) fn run(args: &CheckArgs) -> Result<(), CliError> {
    let spec = setup::read_sweep(&args.sweep, None)?;
    let bars = setup::load_bars(&spec, &args.sweep)?;
    let market = Arc::new(setup::market(&spec, &bars)?);
    let setting = setup::setting(&spec, market.clone())?;
    let rows = plans(&spec, &setting);
    let mut output = Output::stdout(args.format.json);
    output.table(&rows, SHOWN, "no plan")?;
    if !args.format.json {
        let n_runs = spec.n_trials() * market.folds.len() as u64;
        output.line("")?;
        output.line(&format!(
            "{}: {} bars, {} folds, holdout of {} bars; {} trials, {} runs, {} epochs each",
            spec.name,
            bars.len(),
            market.folds.len(),
            market.holdout.as_ref().map_or(0, |range| range.len()),
            spec.n_trials(),
            n_runs,
            spec.budget.epochs,
        ))?;
        output.line(&format!(
            "on {}; {} executors each, {:.1} GiB for each one's pack",
            devices::describe(&setting.devices),
            setting.options.n_per_device,
            setting.options.memory_share_bytes(setting.device()) as f64 / f64::from(1 << 30),
        ))?;
        for line in baseline::lines(&market, spec.seed) {
            output.line(&line)?;
        }
        for warning in setup::warnings(&spec, &setting) {
            output.line(&format!("warning: {warning}"))?;
        }
        for row in rows.iter().filter(|row| row.runs < row.lanes as u64) {
            output.line(&format!(
                "warning: plan {} has {} runs for {} lanes: the pack is thin; search fewer \
                 structural parameters, or more configurations",
                row.plan_key, row.runs, row.lanes
            ))?;
        }
    }
    Ok(())
}

/// Lists the plan keys of every arm, with what a pack of each takes on the device.
fn plans(spec: &StudySpec, setting: &Setting) -> Vec<PlanRow> {
    let device = setting.device();
    let arms = spec.arms(setting.auto);
    let n_folds = setting.preparer.market().folds.len() as u64;
    let mut rows: BTreeMap<(usize, String), PlanRow> = BTreeMap::new();
    for number in 0..spec.budget.configurations {
        let point = propose(spec, ConfigurationNumber(number), &History::default());
        let params = spec.complete(&point);
        for (arm, precision) in arms.iter().enumerate() {
            let prepared = setting.preparer.plan(&params, *precision);
            let plan = &prepared.plan;
            let mib = |n| device.backend.bytes(plan, n) as f64 / f64::from(1 << 20);
            let lanes = setting.options.n_lanes(device, plan);
            let row = rows
                .entry((arm, plan.digest.clone()))
                .or_insert_with(|| PlanRow {
                    precision: Precision::as_str(*precision),
                    configurations: 0,
                    runs: 0,
                    lanes,
                    lane_mib: mib(1),
                    pack_mib: mib(lanes),
                    launches_per_epoch: plan.n_launches(Section::Begin)
                        + plan.n_cycles * plan.n_launches(Section::Cycle)
                        + plan.n_launches(Section::Evaluate),
                    plan_key: plan.digest.chars().take(12).collect(),
                });
            row.configurations += 1;
            row.runs += n_folds;
        }
    }
    rows.into_values().collect()
}
