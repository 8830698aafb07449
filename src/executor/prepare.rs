//! From a trial to the plan that runs it.
//!
//! # Invariants
//! - Equal plan keys mean equal programs, and one plan serves them all.

use super::MarketData;
use super::queue::ExecutorId;
use crate::engine::backend::{Backend, Tables};
use crate::engine::graph::DType;
use crate::engine::plan::Plan;
use crate::models::{Trainer, catalogue, trainer};
use crate::study::{Params, Precision, TrialId};
use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

/// A trial to run.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialRequest {
    /// Which.
    pub trial_id: TrialId,
    /// Cohort of its configuration.
    pub cohort: u32,
    /// Every parameter of the configuration, defaults filled in.
    pub params: Params,
    /// Arm.
    pub precision: Precision,
    /// Seed of each fold's run.
    pub seeds: Vec<u64>,
}

/// A lowered program with what belongs to it, shared by all trials of its plan key.
pub struct PreparedPlan {
    /// Model and program.
    pub trainer: Box<dyn Trainer>,
    /// Lowered for the device.
    pub plan: Arc<Plan>,
    /// Tables that the program reads.
    pub tables: Tables,
    /// Whether the arm is emulated on the device.
    pub is_emulated: bool,
}

impl PreparedPlan {
    /// Returns the plan key.
    pub fn key(&self) -> &str {
        &self.plan.digest
    }
}

impl std::fmt::Debug for PreparedPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedPlan")
            .field("key", &self.key())
            .finish_non_exhaustive()
    }
}

/// A trial ready to run.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// What to run.
    pub request: TrialRequest,
    /// How.
    pub plan: Arc<PreparedPlan>,
    /// The executor that it failed on, or found no memory on; another one takes it, on another
    /// device if there is one.
    pub shuns: Option<ExecutorId>,
}

/// Prepares trials of one study for devices of one class: a plan serves them all.
pub struct Preparer {
    backend: Arc<dyn Backend>,
    market: Arc<MarketData>,
    kind: String,
    searched: BTreeSet<String>,
    evaluate_in_f32: bool,
    /// By everything of a configuration that shapes its program.
    plans: Mutex<HashMap<(Precision, String), Arc<PreparedPlan>>>,
}

impl Preparer {
    /// Starts with no plan.
    ///
    /// - `backend`: stands for its class.
    /// - `searched`: names of the parameters that the study searches.
    /// - `evaluate_in_f32`: whether every arm acts and evaluates in single precision.
    pub fn new(
        backend: Arc<dyn Backend>,
        market: Arc<MarketData>,
        kind: &str,
        searched: BTreeSet<String>,
        evaluate_in_f32: bool,
    ) -> Self {
        let plans = Mutex::new(HashMap::new());
        Self {
            backend,
            market,
            kind: kind.to_owned(),
            searched,
            evaluate_in_f32,
            plans,
        }
    }

    /// Returns the device that stands for its class.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// Returns the market.
    pub fn market(&self) -> &Arc<MarketData> {
        &self.market
    }

    /// Builds the program of a configuration's arm, or finds the one that is there.
    pub fn plan(&self, params: &Params, precision: Precision) -> Arc<PreparedPlan> {
        let mut plans = self.plans.lock().expect("no thread panics holding it");
        let key = (precision, self.structure(params));
        plans
            .entry(key)
            .or_insert_with(|| Arc::new(self.build(params, precision)))
            .clone()
    }

    fn build(&self, params: &Params, precision: Precision) -> PreparedPlan {
        let trainer = trainer(&self.kind, params, &self.searched, self.market.shape);
        let dtype = dtype_of(precision);
        let act = if self.evaluate_in_f32 {
            DType::F32
        } else {
            dtype
        };
        let program = trainer.program().with_precision(dtype, act);
        let plan = Arc::new(self.backend.lower(&program));
        let tables = self.market.tables(&program);
        PreparedPlan {
            trainer,
            plan,
            tables,
            is_emulated: self.backend.is_emulated(dtype),
        }
    }

    /// Writes down what of a configuration shapes its program: structural values, and which parts
    /// are switched off. All else is a lane value, or the same in the whole study.
    fn structure(&self, params: &Params) -> String {
        let mut text = String::new();
        let schemas = catalogue();
        let of_kind = schemas.iter().filter(|schema| schema.kind == self.kind);
        for param in of_kind.flat_map(|schema| &schema.params) {
            let value = params.get(param.name);
            if param.structural {
                let _ = write!(text, "{}={value:?};", param.name);
            } else if param.off.is_some() {
                let _ = write!(text, "{}:{};", param.name, value == param.off.as_ref());
            }
        }
        text
    }

    /// Prepares a trial.
    pub fn prepare(&self, request: TrialRequest) -> Prepared {
        let plan = self.plan(&request.params, request.precision);
        Prepared {
            request,
            plan,
            shuns: None,
        }
    }
}

fn dtype_of(precision: Precision) -> DType {
    match precision {
        Precision::F32 => DType::F32,
        Precision::Tf32 => DType::Tf32,
        Precision::Bf16 => DType::Bf16,
    }
}
