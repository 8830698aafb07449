//! A valid study as plain data. Field names are the keys of the sweep file.

use crate::study::{Domain, Objective, Params, Precision, Value, When};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One study, valid and complete: every default filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StudySpec {
    /// Identity of the study; may end in `{date}`, see [`super::expand_date`].
    pub name: String,
    /// Seed of sampler and runs.
    pub seed: u64,
    /// Joins the studies of several nights.
    pub series: Option<String>,
    /// What is ranked by.
    pub objective: Objective,
    /// Where the bars come from.
    pub data: DataSpec,
    /// How bars are split.
    pub split: SplitSpec,
    /// What trading costs.
    pub market: MarketSpec,
    /// Kind of the model.
    pub kind: String,
    /// Every parameter of the schema that is not searched, presets and defaults filled in.
    pub fixed: Params,
    /// What is searched, sorted by name.
    pub space: Vec<SpaceParam>,
    /// Points to run first; a point may leave parameters out, which are then sampled.
    pub enqueue: Vec<Params>,
    /// Arms and margins.
    pub precision: PrecisionSpec,
    /// How much is run.
    pub budget: BudgetSpec,
    /// Who proposes points.
    pub sampler: SamplerKind,
    /// Who stops trials.
    pub pruner: PrunerKind,
    /// How trials are ordered.
    pub scheduler: SchedulerSpec,
    /// Where trials run.
    pub executors: ExecutorsSpec,
    /// Parameter that sets a schedule in fractions of the whole run, if one does: the epochs of
    /// such a study cannot change.
    pub spans_run: Option<String>,
}

/// One searched parameter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpaceParam {
    /// Full name: `model.gamma`.
    pub name: String,
    /// Values to choose from.
    pub domain: Domain,
    /// Other searched parameter that must hold for this one to be sampled.
    pub when: Option<When>,
    /// Whether its values multiply plan keys; of a float only on (non-zero) or off does.
    pub structural: bool,
    /// Value in force where the condition does not hold.
    pub default: Value,
}

/// Section `[data]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DataSpec {
    /// Origin of the bars.
    #[serde(flatten)]
    pub source: DataSource,
    /// Length of a bar.
    pub bar: BarLength,
    /// Name in the IANA database; needed unless timestamps carry a zone.
    pub time_zone: Option<String>,
    /// Sessions and annualisation.
    pub calendar: Calendar,
}

impl DataSpec {
    /// Returns the number of bars in a year: the factor under the root of an annualised Sharpe.
    pub fn bars_per_year(&self) -> f64 {
        match self.calendar {
            Calendar::Custom { bars_per_year } => bars_per_year,
            Calendar::UsEquity => {
                // 252 sessions of 390 minutes.
                let per_session = match self.bar {
                    BarLength::Day1 => 1.0,
                    BarLength::Hour1
                    | BarLength::Min30
                    | BarLength::Min15
                    | BarLength::Min5
                    | BarLength::Min1 => 390.0 * 60.0 / self.bar.seconds() as f64,
                };
                252.0 * per_session
            }
        }
    }
}

/// Origin of the bars.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "source", rename_all = "snake_case")]
pub enum DataSource {
    /// A CSV file, plain or gzipped.
    Csv {
        /// As written, relative to the sweep file.
        path: String,
        /// Our column (`close`) to the file's (`Adj Close`), where they differ.
        columns: BTreeMap<String, String>,
    },
    /// A seeded random market with a planted signal.
    Synthetic {
        /// Number of bars.
        bars: u32,
        /// Its own seed.
        seed: u64,
        /// Autocorrelation of the log returns: the strength of the signal.
        rho: f64,
        /// Whether returns are shuffled, which destroys the signal.
        shuffled: bool,
    },
}

impl DataSource {
    /// Returns the bars' file as a path that holds from the current folder.
    ///
    /// - `sweep`: path of the sweep file.
    pub fn path_from(&self, sweep: &Path) -> Option<PathBuf> {
        match self {
            Self::Csv { path, .. } => {
                Some(sweep.parent().unwrap_or_else(|| Path::new("")).join(path))
            }
            Self::Synthetic { .. } => None,
        }
    }
}

/// Length of a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BarLength {
    /// One session.
    #[serde(rename = "1d")]
    Day1,
    /// One hour.
    #[serde(rename = "1h")]
    Hour1,
    /// Thirty minutes.
    #[serde(rename = "30m")]
    Min30,
    /// Fifteen minutes.
    #[serde(rename = "15m")]
    Min15,
    /// Five minutes.
    #[serde(rename = "5m")]
    Min5,
    /// One minute.
    #[serde(rename = "1m")]
    Min1,
}

impl BarLength {
    /// Every length, longest first.
    pub const ALL: [Self; 6] = [
        Self::Day1,
        Self::Hour1,
        Self::Min30,
        Self::Min15,
        Self::Min5,
        Self::Min1,
    ];

    /// Returns the name used in sweep files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Day1 => "1d",
            Self::Hour1 => "1h",
            Self::Min30 => "30m",
            Self::Min15 => "15m",
            Self::Min5 => "5m",
            Self::Min1 => "1m",
        }
    }

    /// Returns the nominal length in seconds; of a day the calendar's 24 hours.
    pub fn seconds(self) -> u32 {
        match self {
            Self::Day1 => 86_400,
            Self::Hour1 => 3_600,
            Self::Min30 => 1_800,
            Self::Min15 => 900,
            Self::Min5 => 300,
            Self::Min1 => 60,
        }
    }

    /// Decides whether a session holds several bars.
    pub fn is_intraday(self) -> bool {
        self != Self::Day1
    }
}

/// Sessions and annualisation.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Calendar {
    /// 252 sessions a year, 09:30 to 16:00 in New York.
    UsEquity,
    /// No sessions, a stated number of bars a year.
    Custom {
        /// Bars a year, positive.
        bars_per_year: f64,
    },
}

/// Section `[split]`: walk-forward folds before a holdout.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SplitSpec {
    /// Number of folds.
    pub folds: u32,
    /// Where a fold's training begins.
    pub window: TrainWindow,
    /// Bars of each fold's validation.
    pub validation_bars: u32,
    /// Bars of the last block, in no fold.
    pub holdout_bars: u32,
    /// Bars left out between blocks; `None` is `"auto"`: the model's horizon and one more, at
    /// least 2.
    pub purge_bars: Option<u32>,
}

/// Where a fold's training begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrainWindow {
    /// At the first bar.
    Expanding,
    /// A fixed number of bars before its end.
    Rolling {
        /// Bars of each fold's training.
        train_bars: u32,
    },
}

/// Section `[market]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MarketSpec {
    /// Whether positions are closed at session ends and data gaps; `"auto"` is resolved.
    pub flatten: bool,
    /// Starting equity in the currency of the prices.
    pub capital: f64,
    /// What trading costs.
    pub cost: CostSpec,
}

/// Costs of trading, never searched.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CostSpec {
    /// Fee of a market order in basis points of its value.
    pub fee_bp: f64,
    /// Fee of a limit order in basis points.
    pub maker_fee_bp: f64,
    /// Half the spread in basis points.
    pub half_spread_bp: f64,
    /// Factor of σ·√(quantity / volume).
    pub impact: f64,
}

/// Section `[precision]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PrecisionSpec {
    /// Arms, the reference first, distinct.
    pub arms: Vec<Arm>,
    /// Equivalence margin in annualised Sharpe.
    pub margin_sharpe: f64,
    /// Equivalence margin of the epoch time, as a share.
    pub margin_time: f64,
    /// Arithmetic of acting and evaluation.
    pub evaluate_in: EvaluateIn,
}

/// One precision arm as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arm {
    /// What suits the device.
    Auto,
    /// IEEE single precision.
    F32,
    /// TF32 GEMM inputs.
    Tf32,
    /// bfloat16 GEMM inputs.
    Bf16,
}

impl Arm {
    /// Returns the arithmetic; `"auto"` is what the device suggests.
    ///
    /// - `auto`: f32 on the CPU.
    pub fn resolve(self, auto: Precision) -> Precision {
        match self {
            Self::Auto => auto,
            Self::F32 => Precision::F32,
            Self::Tf32 => Precision::Tf32,
            Self::Bf16 => Precision::Bf16,
        }
    }

    /// Returns the name used in sweep files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::Bf16 => "bf16",
        }
    }
}

/// Arithmetic of acting and evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EvaluateIn {
    /// The arm's own.
    Arm,
    /// Single precision in every arm.
    F32,
}

/// Section `[budget]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BudgetSpec {
    /// Configurations to run.
    pub configurations: u32,
    /// Seeds per configuration.
    pub replicates: u32,
    /// Epochs per run.
    pub epochs: u32,
    /// Wall limit in seconds.
    pub wall_s: Option<u64>,
}

/// Who proposes points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SamplerKind {
    /// Independent draws.
    Random,
    /// A scrambled low-discrepancy sequence.
    Sobol,
}

impl SamplerKind {
    /// Returns the name used in sweep files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Sobol => "sobol",
        }
    }
}

/// Who stops trials.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrunerKind {
    /// Nobody.
    None,
}

impl PrunerKind {
    /// Returns the name used in sweep files.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
        }
    }
}

/// Section `[scheduler]`; the order is by cohort.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SchedulerSpec {
    /// Configurations per cohort.
    pub cohort: u32,
}

/// Section `[executors]`; none of it changes a result. `None` is `"auto"`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExecutorsSpec {
    /// Where trials run.
    pub devices: Devices,
    /// Executors per device.
    pub per_device: Option<u32>,
    /// Lanes per pack.
    pub lanes: Option<u32>,
    /// Share of the device's memory to use.
    pub memory_fraction: f64,
    /// Whether packs run side by side, which makes their times incomparable.
    pub overlap: bool,
}

/// Where trials run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Devices {
    /// The best there is.
    Auto,
    /// The CPU.
    Cpu,
    /// GPUs as written, distinct: `cuda:` and a number, or `GPU-` and a UUID. Whether they exist
    /// is not known here.
    Gpus(Vec<String>),
}

impl StudySpec {
    /// Returns the arithmetic of every arm, the reference first; all are distinct.
    ///
    /// - `auto`: what `"auto"` stands for on the device; f32 on the CPU.
    pub fn arms(&self, auto: Precision) -> Vec<Precision> {
        let arms = self.precision.arms.iter();
        arms.map(|arm| arm.resolve(auto)).collect()
    }

    /// Counts the trials: configurations × arms × replicates.
    pub fn n_trials(&self) -> u64 {
        u64::from(self.budget.configurations)
            * self.precision.arms.len() as u64
            * u64::from(self.budget.replicates)
    }

    /// Counts the combinations of structural values that the space allows, arms left out: an
    /// upper bound of the plan keys per arm. Saturates.
    pub fn n_structural_combinations(&self) -> u128 {
        let structural = self.space.iter().filter(|param| param.structural);
        structural
            .map(|param| match &param.domain {
                Domain::Float { .. } => 2,
                Domain::Int { .. } | Domain::Choice(_) => param.domain.n_values().unwrap_or(1),
            })
            .fold(1, u128::saturating_mul)
    }

    /// Counts the distinct points; `None` where they are a continuum. Saturates.
    pub fn n_points(&self) -> Option<u128> {
        let mut counts = self.space.iter().map(|param| param.domain.n_values());
        counts.try_fold(1, |n: u128, count| Some(n.saturating_mul(count?)))
    }

    /// Completes a sampled point to a value for every parameter of the schema.
    pub fn complete(&self, sampled: &Params) -> Params {
        let mut params = self.fixed.clone();
        for param in &self.space {
            let value = sampled.get(&param.name).unwrap_or(&param.default);
            params.insert(param.name.clone(), value.clone());
        }
        params
    }
}
