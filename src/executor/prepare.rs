//! From a trial to the plan that runs it.
//!
//! # Invariants
//! - Equal plan keys mean equal programs, and one plan serves them all.

use super::MarketData;
use crate::engine::backend::{Backend, Tables};
use crate::engine::graph::DType;
use crate::engine::plan::Plan;
use crate::models::{Trainer, trainer};
use crate::study::{Params, Precision, TrialId};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

/// A trial to run.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialRequest {
    /// Which.
    pub trial_id: TrialId,
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
}

/// Prepares trials of one study for one device.
pub struct Preparer {
    backend: Arc<dyn Backend>,
    market: Arc<MarketData>,
    kind: String,
    searched: BTreeSet<String>,
    evaluate_in_f32: bool,
    plans: Mutex<HashMap<String, Arc<PreparedPlan>>>,
}

impl Preparer {
    /// Starts with no plan.
    ///
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

    /// Returns the device.
    pub fn backend(&self) -> &Arc<dyn Backend> {
        &self.backend
    }

    /// Returns the market.
    pub fn market(&self) -> &Arc<MarketData> {
        &self.market
    }

    /// Builds the program of a configuration's arm, or finds the one that is there.
    pub fn plan(&self, params: &Params, precision: Precision) -> Arc<PreparedPlan> {
        let trainer = trainer(&self.kind, params, &self.searched, self.market.shape);
        let dtype = dtype_of(precision);
        let evaluate = if self.evaluate_in_f32 {
            DType::F32
        } else {
            dtype
        };
        let program = trainer.program().with_precision(dtype, evaluate);
        let mut plans = self.plans.lock().expect("no thread panics holding it");
        let entry = plans.entry(program.digest()).or_insert_with(|| {
            let plan = Arc::new(self.backend.lower(&program));
            let tables = self.market.tables(&program);
            let is_emulated = self.backend.is_emulated(dtype);
            Arc::new(PreparedPlan {
                trainer,
                plan,
                tables,
                is_emulated,
            })
        });
        entry.clone()
    }

    /// Prepares a trial.
    pub fn prepare(&self, request: TrialRequest) -> Prepared {
        let plan = self.plan(&request.params, request.precision);
        Prepared { request, plan }
    }
}

fn dtype_of(precision: Precision) -> DType {
    match precision {
        Precision::F32 => DType::F32,
        Precision::Tf32 => DType::Tf32,
        Precision::Bf16 => DType::Bf16,
    }
}
