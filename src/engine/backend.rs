//! The contract between plans and devices.

use super::graph::DType;
use super::host;
use super::op::{StateId, TableId};
use super::plan::Plan;
use super::program::{Program, Section};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Index of a lane within its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LaneIdx(pub usize);

/// Elements of a state or table on the host.
#[derive(Debug, Clone, PartialEq)]
pub enum Data {
    /// For the real family.
    F32(Vec<f32>),
    /// For F64 tensors.
    F64(Vec<f64>),
    /// For I32 tensors.
    I32(Vec<i32>),
}

impl Data {
    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::F32(values) => values.len(),
            Self::F64(values) => values.len(),
            Self::I32(values) => values.len(),
        }
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the elements suit a tensor of this type.
    pub fn fits(&self, dtype: DType) -> bool {
        match self {
            Self::F32(_) => dtype.is_real(),
            Self::F64(_) => dtype == DType::F64,
            Self::I32(_) => dtype == DType::I32,
        }
    }

    /// Widens to f64.
    pub fn to_f64(&self) -> Vec<f64> {
        match self {
            Self::F32(values) => values.iter().map(|v| f64::from(*v)).collect(),
            Self::F64(values) => values.clone(),
            Self::I32(values) => values.iter().map(|v| f64::from(*v)).collect(),
        }
    }
}

/// Values for the states of a lane.
pub type StateValues = BTreeMap<StateId, Data>;

/// Contents of a program's tables, shared by every session of a device.
#[derive(Debug, Clone, Default)]
pub struct Tables {
    tables: BTreeMap<TableId, Arc<Data>>,
}

impl Tables {
    /// Sets the contents of a table.
    pub fn insert(&mut self, id: TableId, data: Arc<Data>) {
        self.tables.insert(id, data);
    }

    /// Returns the contents of a table.
    pub fn get(&self, id: TableId) -> Option<&Arc<Data>> {
        self.tables.get(&id)
    }
}

/// Time that a part of an epoch took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Elapsed {
    /// On the device.
    pub device: Duration,
    /// On the wall.
    pub wall: Duration,
}

/// What can go wrong between a plan and a device.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The device has too little memory.
    #[error("{device} has {free_bytes} bytes free, {asked_bytes} were asked for")]
    OutOfMemory {
        /// Which device.
        device: String,
        /// Bytes asked for.
        asked_bytes: u64,
        /// Bytes free; 0 where the system does not say.
        free_bytes: u64,
    },
    /// The device refused a call, or its program went wrong.
    #[error("{device} failed while {what}: {cause}")]
    Device {
        /// Which device.
        device: String,
        /// What was tried.
        what: String,
        /// Its own words.
        cause: String,
        /// Whether every session of the device is lost.
        is_sticky: bool,
    },
    /// A table or state was not given or does not fit its declaration.
    #[error("{name} needs {expected_n} elements of {expected:?}, got {got}")]
    BadValues {
        /// State or table.
        name: String,
        /// Declared type.
        expected: DType,
        /// Declared element count.
        expected_n: usize,
        /// What was given.
        got: String,
    },
}

/// Reports values that do not fit a table's or state's declaration.
pub(super) fn bad_values(
    name: &str,
    expected: DType,
    expected_n: usize,
    got: Option<&Data>,
) -> EngineError {
    let got = match got {
        None => "nothing".to_owned(),
        Some(Data::F32(values)) => format!("{} of F32", values.len()),
        Some(Data::F64(values)) => format!("{} of F64", values.len()),
        Some(Data::I32(values)) => format!("{} of I32", values.len()),
    };
    EngineError::BadValues {
        name: name.to_owned(),
        expected,
        expected_n,
        got,
    }
}

/// Memory of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceMemory {
    /// All of it, bytes.
    pub total_bytes: u64,
    /// Free now, bytes.
    pub free_bytes: u64,
}

/// What tells one device of a machine from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Name in a sweep file: `cpu`, `cuda:0`.
    pub id: String,
    /// Name that stays when devices are added or the order changes: `GPU-…`.
    pub uuid: Option<String>,
    /// Major and minor; none of a CPU.
    pub compute_capability: Option<(u32, u32)>,
}

/// A device that runs plans.
pub trait Backend: Send + Sync {
    /// Returns a name for people: `cpu`, or the GPU's.
    fn device(&self) -> String;

    /// Returns what tells it from the machine's other devices.
    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            id: "cpu".to_owned(),
            uuid: None,
            compute_capability: None,
        }
    }

    /// Returns a name that devices share exactly where they give bit-equal results.
    fn class(&self) -> String {
        self.device()
    }

    /// Returns the driver's version; of a CPU its instruction set.
    fn driver(&self) -> String {
        host::instruction_set()
    }

    /// Returns the digest of the code that runs a plan.
    fn kernel_digest(&self, _plan: &Plan) -> String {
        host::program_digest().to_owned()
    }

    /// Returns the device's own memory; none where it is the system's.
    fn memory(&self) -> Option<DeviceMemory> {
        None
    }

    /// Returns the bytes that [`Backend::open`] takes for a plan.
    fn bytes(&self, plan: &Plan, n_lanes: usize) -> u64 {
        n_lanes as u64 * plan.lane_bytes as u64
    }

    /// Returns the arithmetic that suits the device best: what the arm `"auto"` stands for.
    fn auto_precision(&self) -> DType {
        DType::F32
    }

    /// Whether tf32 and bf16 are emulated by rounding, so that their times mean nothing.
    fn is_emulated(&self, dtype: DType) -> bool;

    /// Lowers a program as this device wants it.
    fn lower(&self, program: &Program) -> Plan;

    /// Allocates lanes for a plan; all start dead.
    ///
    /// # Errors
    /// [`EngineError::OutOfMemory`]: the packer halves the pack and asks again;
    /// [`EngineError::BadValues`] for tables that do not fit; [`EngineError::Device`].
    fn open(
        &self,
        plan: Arc<Plan>,
        tables: &Tables,
        n_lanes: usize,
    ) -> Result<Box<dyn Session>, EngineError>;
}

/// A plan resident on a device with its lanes.
pub trait Session: Send {
    /// Returns the plan.
    fn plan(&self) -> &Plan;

    /// Puts a run into a lane: every state gets its first value, then the init section runs.
    ///
    /// # Errors
    /// [`EngineError::BadValues`] if a state that the host must give is missing or does not fit.
    fn load(&mut self, lane: LaneIdx, values: &StateValues) -> Result<(), EngineError>;

    /// Marks a lane live or dead; dead lanes change nothing.
    fn set_live(&mut self, lane: LaneIdx, is_live: bool);

    /// Runs begin and `n_cycles` cycles of an epoch on all live lanes.
    ///
    /// # Errors
    /// [`EngineError`] of the device; the session is lost.
    fn train(&mut self, n_cycles: usize) -> Result<Elapsed, EngineError>;

    /// Runs one phase `n` times on all live lanes, for measurements.
    ///
    /// - `phase`: index within the section.
    ///
    /// # Errors
    /// [`EngineError`] of the device; the session is lost.
    fn repeat(&mut self, section: Section, phase: usize, n: usize) -> Result<Elapsed, EngineError>;

    /// Takes the time of each launch of a phase by itself, run `n` times in a row, for profiles.
    ///
    /// States change in ways that no program means. Backends without launches give nothing.
    ///
    /// # Errors
    /// [`EngineError`] of the device; the session is lost.
    fn profile(
        &mut self,
        section: Section,
        phase: usize,
        n: usize,
    ) -> Result<Vec<(String, Duration)>, EngineError> {
        let _ = (section, phase, n);
        Ok(Vec::new())
    }

    /// Runs the evaluate section on all live lanes.
    ///
    /// # Errors
    /// [`EngineError`] of the device; the session is lost.
    fn evaluate(&mut self) -> Result<Elapsed, EngineError>;

    /// Copies a state to the host.
    ///
    /// # Errors
    /// [`EngineError`] of the device; the session is lost.
    fn read(&self, lane: LaneIdx, state: StateId) -> Result<Data, EngineError>;

    /// Replaces a state from the host, between epochs only.
    ///
    /// # Errors
    /// [`EngineError::BadValues`] if the values do not fit.
    fn write(&mut self, lane: LaneIdx, state: StateId, data: &Data) -> Result<(), EngineError>;
}
