//! From a sweep file to everything that a run needs.

use super::devices::{self, Device};
use super::error::CliError;
use crate::engine::backend::Backend;
use crate::engine::cpu::Cpu;
use crate::engine::cuda::{self, CudaError};
use crate::engine::env::Costs;
use crate::executor::{Lanes, MarketData, MarketOptions, PoolDevice, PoolOptions, Preparer};
use crate::market::csv::{self, CsvOptions};
use crate::market::split::{Purge, SplitConfig, Window};
use crate::market::synthetic::{Planted, shuffled};
use crate::market::tables::Flatten;
use crate::market::{BarLength, Bars, Calendar, MarketError};
use crate::models::catalogue;
use crate::sampler::propose;
use crate::spec::{
    self, Calendar as SpecCalendar, DataSource, EvaluateIn, StudySpec, TrainWindow, expand_date,
};
use crate::study::{ConfigurationNumber, History, Precision};
use std::collections::BTreeSet;
use std::io::IsTerminal;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Configurations that are looked at for warnings.
const WARNED_MAX: u32 = 1_000;

/// Executors of a device where the file says `"auto"`: one trains while the other's host work is
/// done.
const EXECUTORS_AUTO: NonZeroUsize = NonZeroUsize::new(2).expect("not zero");

/// Lanes that fill a GPU: from here on more of them gain little.
const GPU_LANES: NonZeroUsize = NonZeroUsize::new(64).expect("not zero");

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
pub(super) fn cpu() -> Device {
    Arc::new(Cpu::<f32>::new(n_cores()))
}

/// GPUs of this machine that work; none where there is no driver.
///
/// # Errors
/// Why there is a GPU that cannot be used.
pub(super) fn gpus() -> Result<Vec<Device>, String> {
    // Opened once: a process has one context a device.
    static GPUS: OnceLock<Result<Vec<Device>, String>> = OnceLock::new();
    GPUS.get_or_init(|| match cuda::devices() {
        Ok(gpus) => Ok(gpus.into_iter().map(|gpu| gpu as Device).collect()),
        Err(CudaError::NoDriver) => Ok(Vec::new()),
        Err(error) => Err(error.to_string()),
    })
    .clone()
}

/// Cores that this process may use.
pub(super) fn n_cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Prepares trials of a sweep for devices of one class.
fn preparer(spec: &StudySpec, backend: Device, market: Arc<MarketData>) -> Preparer {
    let searched: BTreeSet<String> = spec.space.iter().map(|param| param.name.clone()).collect();
    let evaluate_in_f32 = spec.precision.evaluate_in == EvaluateIn::F32;
    Preparer::new(backend, market, &spec.kind, searched, evaluate_in_f32)
}

/// Everything of a sweep that its machine decides.
pub(super) struct Setting {
    /// Devices of one class.
    pub(super) devices: Vec<PoolDevice>,
    /// How trials run there.
    pub(super) options: PoolOptions,
    /// Prepares them.
    pub(super) preparer: Arc<Preparer>,
    /// What the arm `"auto"` stands for.
    pub(super) auto: Precision,
}

impl Setting {
    /// The device that stands for its class.
    pub(super) fn device(&self) -> &PoolDevice {
        &self.devices[0]
    }
}

/// Finds the devices that a sweep names.
pub(super) fn setting(spec: &StudySpec, market: Arc<MarketData>) -> Result<Setting, CliError> {
    let found = devices::resolve(&spec.executors.devices)?;
    let first = found[0].clone();
    let devices = devices::pool_devices(&found, spec.executors.memory_fraction);
    Ok(Setting {
        options: pool_options(spec, &*first, devices.len()),
        devices,
        auto: devices::auto_precision(&*first),
        preparer: Arc::new(preparer(spec, first, market)),
    })
}

/// Lanes that fill a device: on the CPU one a core.
pub(super) fn n_lanes_full(device: &dyn Backend) -> NonZeroUsize {
    if devices::is_gpu(device) {
        GPU_LANES
    } else {
        n_cores()
    }
}

/// How trials of a sweep run on this machine; nothing here changes a result.
///
/// - `device`: one of `n_devices` of its class.
fn pool_options(spec: &StudySpec, device: &dyn Backend, n_devices: usize) -> PoolOptions {
    let nonzero = |n: usize| NonZeroUsize::new(n).unwrap_or(NonZeroUsize::MIN);
    let executors = &spec.executors;
    let n_per_device = executors
        .per_device
        .map_or(EXECUTORS_AUTO, |n| nonzero(n as usize));
    let n_folds = nonzero(spec.split.folds as usize);
    let n_full = n_lanes_full(device);
    let auto = if devices::is_gpu(device) {
        // Two cohorts at the most are at work at a time, divided among the executors.
        let two_cohorts = spec.scheduler.cohort.saturating_mul(2) as usize;
        let n_configurations = two_cohorts.min(spec.budget.configurations as usize);
        let n_trials = n_configurations
            .saturating_mul(spec.precision.arms.len())
            .saturating_mul(spec.budget.replicates as usize);
        let n_runs = n_trials.saturating_mul(n_folds.get());
        Lanes::Auto {
            n_full,
            n_runs: nonzero(n_runs.div_ceil(n_per_device.get() * n_devices)),
            n_folds,
        }
    } else {
        // Whoever has the turn has all the cores.
        Lanes::Auto {
            n_full,
            n_runs: NonZeroUsize::MAX,
            n_folds,
        }
    };
    PoolOptions {
        n_per_device,
        lanes: executors
            .lanes
            .map_or(auto, |n| Lanes::Fixed(nonzero(n as usize))),
        overlap: executors.overlap,
        objective: spec.objective,
        n_epochs: spec.budget.epochs,
    }
}

/// Says what of a sweep would waste its time, one sentence each.
///
/// Looks at no more than the first [`WARNED_MAX`] configurations that a sampler without history
/// would propose.
pub(super) fn warnings(spec: &StudySpec, setting: &Setting) -> Vec<String> {
    let device = setting.device();
    let share_bytes = setting.options.memory_share_bytes(device);
    let mut warnings = Vec::new();
    let mut idle: Option<u32> = None;
    let mut too_large: Option<(u32, u64)> = None;
    for number in 0..spec.budget.configurations.min(WARNED_MAX) {
        let point = propose(spec, ConfigurationNumber(number), &History::default());
        let params = spec.complete(&point);
        for precision in spec.arms(setting.auto) {
            let plan = setting.preparer.plan(&params, precision);
            if plan
                .trainer
                .n_updates(&params, u64::from(spec.budget.epochs))
                == 0
            {
                idle.get_or_insert(number);
            }
            let lane_bytes = device.backend.bytes(&plan.plan, 1);
            if lane_bytes > share_bytes {
                too_large.get_or_insert((number, lane_bytes));
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
            mib(bytes),
            mib(share_bytes)
        ));
    }
    warnings
}

/// Name of this machine, for the worker's row.
pub(super) fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name = name.trim();
    if name.is_empty() {
        "unknown".to_owned()
    } else {
        name.to_owned()
    }
}
