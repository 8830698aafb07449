//! From a sweep file to everything that a run needs.

use super::error::CliError;
use crate::engine::backend::Backend;
use crate::engine::cpu::Cpu;
use crate::engine::env::Costs;
use crate::executor::{MarketData, MarketOptions, PoolOptions, Preparer};
use crate::market::bars::digest_hex;
use crate::market::csv::{self, CsvOptions};
use crate::market::split::{Purge, SplitConfig, Window};
use crate::market::synthetic::{Planted, shuffled};
use crate::market::tables::Flatten;
use crate::market::{BarLength, Bars, Calendar, MarketError};
use crate::models::catalogue;
use crate::sampler::propose;
use crate::scheduler::Machine;
use crate::spec::{
    self, Calendar as SpecCalendar, DataSource, EvaluateIn, StudySpec, TrainWindow, expand_date,
};
use crate::study::{ConfigurationNumber, History, Precision};
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

/// The arm that `"auto"` stands for on the CPU.
pub(super) const AUTO_PRECISION: Precision = Precision::F32;

/// Configurations that are looked at for warnings.
const WARNED_MAX: u32 = 1_000;

/// Executors of a device where the file says `"auto"`: one trains while the other's host work is
/// done.
const EXECUTORS_AUTO: usize = 2;

/// Reads and validates a sweep file; a dated name is filled in.
///
/// - `name`: the study's, instead of the file's.
pub(super) fn read_sweep(path: &Path, name: Option<&str>) -> Result<StudySpec, CliError> {
    let text = std::fs::read_to_string(path).map_err(|source| CliError::Sweep {
        path: path.to_owned(),
        source,
    })?;
    let mut spec =
        spec::parse(&text, path, &catalogue()).map_err(|diagnostics| CliError::Diagnostics {
            text: diagnostics.render(std::io::stderr().is_terminal()),
        })?;
    let today = chrono::Local::now().format("%Y-%m-%d").to_string();
    spec.name = expand_date(name.unwrap_or(&spec.name), &today);
    Ok(spec)
}

/// Loads the bars that a sweep names.
pub(super) fn load_bars(spec: &StudySpec, sweep: &Path) -> Result<Bars, MarketError> {
    match &spec.data.source {
        DataSource::Csv { columns, .. } => {
            let path = spec
                .data
                .source
                .path_from(sweep)
                .expect("a CSV source has a path");
            let time_zone = spec.data.time_zone.clone();
            csv::load(
                &path,
                &CsvOptions {
                    columns: columns.clone(),
                    time_zone,
                },
            )
        }
        DataSource::Synthetic {
            bars,
            seed,
            rho,
            shuffled: is_shuffled,
        } => {
            let planted = Planted {
                rho: *rho,
                ..Planted::new(*bars as usize, *seed)
            };
            planted.check()?;
            let bars = planted.bars();
            Ok(if *is_shuffled {
                shuffled(&bars, *seed)
            } else {
                bars
            })
        }
    }
}

/// Makes the market of a sweep from its bars.
pub(super) fn market(spec: &StudySpec, bars: &Bars) -> Result<MarketData, MarketError> {
    let cost = &spec.market.cost;
    let costs = Costs {
        maker_fee: cost.maker_fee_bp * 1e-4,
        ..Costs::from_bp(cost.fee_bp, cost.half_spread_bp, cost.impact)
    };
    let split = SplitConfig {
        folds: spec.split.folds as usize,
        allow_single_fold: spec.objective.metric.n_folds_min() == 1,
        window: match spec.split.window {
            TrainWindow::Expanding => Window::Expanding,
            TrainWindow::Rolling { train_bars } => Window::Rolling {
                train_bars: train_bars as usize,
            },
        },
        validation_bars: spec.split.validation_bars as usize,
        holdout_bars: spec.split.holdout_bars as usize,
        purge: spec
            .split
            .purge_bars
            .map_or(Purge::Auto, |bars| Purge::Bars(bars as usize)),
    };
    let options = MarketOptions {
        bar: BarLength::parse(spec.data.bar.as_str())?,
        calendar: match spec.data.calendar {
            SpecCalendar::UsEquity => Calendar::UsEquity,
            SpecCalendar::Custom { bars_per_year } => Calendar::custom(bars_per_year)?,
        },
        flatten: if spec.market.flatten {
            Flatten::Auto
        } else {
            Flatten::Never
        },
        capital: spec.market.capital,
        costs,
        split,
    };
    MarketData::new(bars, &options)
}

/// The CPU as a device, with a thread a core.
pub(super) fn cpu() -> Arc<dyn Backend> {
    Arc::new(Cpu::<f32>::new(n_cores()))
}

/// Cores that this process may use.
pub(super) fn n_cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Prepares trials of a sweep for a device.
pub(super) fn preparer(
    spec: &StudySpec,
    backend: Arc<dyn Backend>,
    market: Arc<MarketData>,
) -> Preparer {
    let searched: BTreeSet<String> = spec.space.iter().map(|param| param.name.clone()).collect();
    let evaluate_in_f32 = spec.precision.evaluate_in == EvaluateIn::F32;
    Preparer::new(backend, market, &spec.kind, searched, evaluate_in_f32)
}

/// How trials of a sweep run on this machine; nothing here changes a result.
pub(super) fn pool_options(spec: &StudySpec) -> PoolOptions {
    let nonzero = |n: u32| NonZeroUsize::new(n as usize).unwrap_or(NonZeroUsize::MIN);
    let folds = spec.split.folds.max(1) as usize;
    // A lane a core, and whole trials: their folds run side by side.
    let lanes_auto = n_cores().get().next_multiple_of(folds);
    let executors = &spec.executors;
    PoolOptions {
        n_executors: executors.per_device.map_or(
            NonZeroUsize::new(EXECUTORS_AUTO).expect("not zero"),
            nonzero,
        ),
        n_lanes: executors
            .lanes
            .map_or(NonZeroUsize::new(lanes_auto).expect("not zero"), nonzero),
        memory_bytes_max: (memory_available_bytes() as f64 * executors.memory_fraction) as u64,
        overlap: executors.overlap,
        objective: spec.objective,
        n_epochs: spec.budget.epochs,
    }
}

/// Says what of a sweep would waste its time, one sentence each.
///
/// Looks at no more than the first [`WARNED_MAX`] configurations that a sampler without history
/// would propose.
pub(super) fn warnings(
    spec: &StudySpec,
    preparer: &Preparer,
    options: &PoolOptions,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut idle: Option<u32> = None;
    let mut too_large: Option<(u32, usize)> = None;
    for number in 0..spec.budget.configurations.min(WARNED_MAX) {
        let point = propose(spec, ConfigurationNumber(number), &History::default());
        let params = spec.complete(&point);
        for precision in spec.arms(AUTO_PRECISION) {
            let plan = preparer.plan(&params, precision);
            if plan
                .trainer
                .n_updates(&params, u64::from(spec.budget.epochs))
                == 0
            {
                idle.get_or_insert(number);
            }
            if plan.plan.lane_bytes as u64 > options.memory_share_bytes() {
                too_large.get_or_insert((number, plan.plan.lane_bytes));
            }
        }
    }
    if let Some(number) = idle {
        warnings.push(format!(
            "configuration {number} trains nothing: its replay is not warm before its last epoch \
             ends; lower train.replay_warmup or model.n_step_max, or raise budget.epochs or \
             train.steps_per_epoch"
        ));
    }
    if let Some((number, bytes)) = too_large {
        let mib = |bytes: u64| bytes >> 20;
        warnings.push(format!(
            "configuration {number} needs {} MiB a lane, an executor may take {} MiB: its trials \
             will fail; lower train.replay_capacity_max, or raise executors.memory_fraction",
            mib(bytes as u64),
            mib(options.memory_share_bytes())
        ));
    }
    warnings
}

/// Memory that new allocations may use: what the system has, or what a container's limit leaves;
/// as if there were no bound where neither says.
pub(super) fn memory_available_bytes() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let text = read("/proc/meminfo");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| {
        line.trim()
            .trim_end_matches("kB")
            .trim()
            .parse::<u64>()
            .ok()
    });
    let system = kib.map_or(u64::MAX, |kib| kib * 1024);
    let bytes = |path: &str| read(path).trim().parse::<u64>().ok();
    let limit = bytes("/sys/fs/cgroup/memory.max");
    let used = bytes("/sys/fs/cgroup/memory.current").unwrap_or(0);
    system.min(limit.map_or(u64::MAX, |limit| limit.saturating_sub(used)))
}

/// What attempts record of this machine.
pub(super) fn machine() -> Machine {
    Machine {
        host: host(),
        driver: instruction_set(),
        kernel_digest: program_digest(),
    }
}

/// Digest of this program's own file: on the CPU the kernels are part of it.
fn program_digest() -> String {
    let file = std::env::current_exe().and_then(std::fs::read);
    file.map_or_else(|_| "unknown".to_owned(), |bytes| digest_hex(&bytes))
}

/// Name of this machine, for the worker's row.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() {
        "unknown".to_owned()
    } else {
        name.to_owned()
    }
}

/// The widest instruction set that the kernels use here, the CPU's "driver".
pub(super) fn instruction_set() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        for (name, found) in [
            ("avx512f", std::arch::is_x86_feature_detected!("avx512f")),
            ("avx2", std::arch::is_x86_feature_detected!("avx2")),
        ] {
            if found {
                return format!("x86_64 {name}");
            }
        }
    }
    std::env::consts::ARCH.to_owned()
}
