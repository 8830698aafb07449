//! The CUDA backend: plans as generated kernels, captured into graphs.
//!
//! Data flow: plan → [`emit`] (source and launches) → NVRTC, or the cache on disk → module →
//! session (arena of all lanes, graphs of whole sections) → launches ahead, one wait an epoch.
//!
//! # Invariants
//! - One context a device, shared by all sessions; code and tables are loaded once and shared.
//! - A session owns its stream and its arena, and allocates nothing after [`Backend::open`].
//! - A training step is graph launches alone: no allocation, no copy, no wait.
//! - A lane's bits depend on its own values alone: the lane index addresses memory only.

mod cache;
mod driver;
pub mod emit;
mod nvrtc;
mod session;
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;

pub use driver::CallCount;

use super::backend::{
    Backend, Data, DeviceInfo, DeviceMemory, EngineError, Session, Tables, bad_values,
};
use super::graph::DType;
use super::op::TableId;
use super::plan::{ElementBytes, Kernel, LowerOptions, Plan, Step, lower};
use super::program::Program;
use cache::Cache;
use driver::{CallError, Device, Memory, Module};
use emit::{Code, Target};
use nvrtc::Nvrtc;
use session::CudaSession;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;
use tracing::debug;

/// Lowest compute capability that runs.
pub const CAPABILITY_MIN: (u32, u32) = (7, 5);
/// Lowest CUDA version of a driver that serves.
pub const DRIVER_MIN: &str = "12.0";
/// Lanes that the digest of a plan's code is taken for: their number changes tiles, not results.
const DIGEST_LANES: usize = 64;

/// Why no GPU can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// The driver's library is not there: a machine without an NVIDIA GPU.
    #[error("no NVIDIA driver on this machine (libcuda was not found)")]
    NoDriver,
    /// The driver is there but does not answer.
    #[error("the NVIDIA driver does not work: {cause}; reinstall it, or reboot after an update")]
    Driver {
        /// Its words.
        cause: String,
    },
    /// No compiler for kernels.
    #[error("{cause}")]
    Compiler {
        /// What is missing, and the remedy.
        cause: String,
    },
}

/// A GPU as a device.
#[derive(Debug)]
pub struct Cuda {
    device: Arc<Device>,
    nvrtc: Arc<Nvrtc>,
    cache: Cache,
    modules: Mutex<HashMap<String, Weak<Module>>>,
    tables: Mutex<HashMap<usize, SharedTable>>,
}

/// A table on the device and the host's data that it was made from.
#[derive(Debug)]
struct SharedTable {
    data: Weak<Data>,
    memory: Arc<Memory>,
}

/// Opens every GPU of this machine.
///
/// Never panics: a machine without a driver is [`CudaError::NoDriver`].
///
/// # Errors
/// [`CudaError`], each with its remedy.
pub fn devices() -> Result<Vec<Arc<Cuda>>, CudaError> {
    if !driver::is_driver_present() {
        return Err(CudaError::NoDriver);
    }
    let driver_error = |error: CallError| CudaError::Driver {
        cause: error.to_string(),
    };
    let devices = driver::devices().map_err(driver_error)?;
    let nvrtc = Nvrtc::find().map_err(|error| CudaError::Compiler {
        cause: error.to_string(),
    })?;
    let nvrtc = Arc::new(nvrtc);
    let open = |device: Arc<Device>| {
        Arc::new(Cuda {
            device,
            nvrtc: nvrtc.clone(),
            cache: Cache::of_user(),
            modules: Mutex::default(),
            tables: Mutex::default(),
        })
    };
    Ok(devices.into_iter().map(open).collect())
}

impl Cuda {
    /// Returns the calls into the driver made for this device so far.
    pub fn calls(&self) -> CallCount {
        self.device.calls()
    }

    fn target(&self, n_lanes: usize) -> Target {
        Target {
            capability: self.device.capability,
            n_sm: self.device.n_sm,
            n_lanes,
        }
    }

    fn error(&self, error: CallError) -> EngineError {
        device_error(&self.device, error)
    }

    /// Compiles code, or finds it compiled: one module a source, side by side.
    fn modules(&self, code: &Code, target: Target) -> Result<Vec<Arc<Module>>, EngineError> {
        let n_cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let next = AtomicUsize::new(0);
        let drain = || {
            let mut made = Vec::new();
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                let Some(source) = code.sources.get(i) else {
                    return made;
                };
                made.push((i, self.module(source, target)));
            }
        };
        let mut made = std::thread::scope(|scope| {
            let n_threads = n_cores.min(code.sources.len());
            let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(drain)).collect();
            let joined = threads.into_iter().map(|thread| {
                thread
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            joined.flatten().collect::<Vec<_>>()
        });
        made.sort_by_key(|(i, _)| *i);
        made.into_iter().map(|(_, module)| module).collect()
    }

    /// Compiles a source, or finds it compiled.
    fn module(&self, source: &str, target: Target) -> Result<Arc<Module>, EngineError> {
        let digest = self.digest([source], target);
        let known = lock(&self.modules).get(&digest).and_then(Weak::upgrade);
        if let Some(module) = known {
            return Ok(module);
        }
        if let Some(cubin) = self.cache.get(&digest) {
            match self.device.load(&cubin) {
                Ok(module) => return Ok(self.share(digest, module)),
                Err(error) if error.is_sticky || error.is_out_of_memory => {
                    return Err(self.error(error));
                }
                Err(_damaged) => self.cache.remove(&digest),
            }
        }
        let began_at = Instant::now();
        let compiled = self.nvrtc.compile(source, &target.arch());
        let (cubin, _log) = compiled.map_err(|error| EngineError::Device {
            device: self.device(),
            what: "compiling kernels".to_owned(),
            cause: error.to_string(),
            is_sticky: false,
        })?;
        debug!(
            device = self.device.name,
            seconds = began_at.elapsed().as_secs_f64(),
            "compiled kernels"
        );
        self.cache.put(&digest, &cubin);
        let module = self.device.load(&cubin).map_err(|e| self.error(e))?;
        Ok(self.share(digest, module))
    }

    /// Keeps a module for others; where two were made at once, the first stays.
    fn share(&self, digest: String, module: Arc<Module>) -> Arc<Module> {
        let mut modules = lock(&self.modules);
        modules.retain(|_, module| module.strong_count() > 0);
        if let Some(first) = modules.get(&digest).and_then(Weak::upgrade) {
            return first;
        }
        modules.insert(digest, Arc::downgrade(&module));
        module
    }

    /// Digest of everything that decides what runs.
    fn digest<'s>(&self, sources: impl IntoIterator<Item = &'s str>, target: Target) -> String {
        let (major, minor) = self.nvrtc.version;
        let mut hash = Sha256::new();
        hash.update(format!("{} {major}.{minor}\n", target.arch()));
        sources.into_iter().for_each(|source| hash.update(source));
        let mut hex = String::new();
        for byte in hash.finalize() {
            let _ = write!(hex, "{byte:02x}");
        }
        hex
    }

    /// Uploads tables, or finds them uploaded.
    fn tables(&self, plan: &Plan, tables: &Tables) -> Result<Vec<Arc<Memory>>, EngineError> {
        let mut shared = lock(&self.tables);
        shared.retain(|_, table| table.data.strong_count() > 0);
        let mut loaded = Vec::new();
        for (id, declared) in (0u32..).zip(&plan.tables) {
            let data = tables.get(TableId(id));
            let n = declared.shape.n_elements();
            let data = data
                .filter(|data| data.fits(declared.dtype) && data.len() == n)
                .ok_or_else(|| bad_values(&declared.name, declared.dtype, n, data.map(|d| &**d)))?;
            let key = Arc::as_ptr(data) as usize;
            let known = shared
                .get(&key)
                .filter(|table| table.data.strong_count() > 0);
            if let Some(table) = known {
                loaded.push(table.memory.clone());
                continue;
            }
            let bytes = session::bytes_of(declared.dtype, data);
            let memory = Arc::new(self.allocate(bytes.len())?);
            let stream = self.device.stream().map_err(|e| self.error(e))?;
            let copied = stream
                .write(&memory, 0, &bytes)
                .and_then(|()| stream.wait());
            copied.map_err(|e| self.error(e))?;
            shared.insert(
                key,
                SharedTable {
                    data: Arc::downgrade(data),
                    memory: memory.clone(),
                },
            );
            loaded.push(memory);
        }
        Ok(loaded)
    }

    fn allocate(&self, n_bytes: usize) -> Result<Memory, EngineError> {
        self.device.allocate(n_bytes).map_err(|error| {
            if !error.is_out_of_memory {
                return self.error(error);
            }
            EngineError::OutOfMemory {
                device: self.device(),
                asked_bytes: n_bytes as u64,
                free_bytes: self.device.memory_bytes().map_or(0, |(free, _)| free),
            }
        })
    }

    /// Refuses what this device cannot compute.
    fn check(&self, plan: &Plan) -> Result<(), EngineError> {
        let capability = self.device.capability;
        let needs_tensor = |step: &Step| {
            let is_product = matches!(step.kernel, Kernel::Op(super::op::Op::Gemm(_)));
            is_product && step.inputs[0].dtype != DType::F32
        };
        let steps = plan
            .sections
            .iter()
            .flatten()
            .flat_map(|phase| &phase.steps);
        let what = if capability < CAPABILITY_MIN {
            format!(
                "compute capability 7.5 or later, it has {}.{}",
                capability.0, capability.1
            )
        } else if capability.0 < 8 && steps.into_iter().any(needs_tensor) {
            format!(
                "compute capability 8.0 or later for tf32 and bf16, it has {}.{}",
                capability.0, capability.1
            )
        } else {
            return Ok(());
        };
        Err(EngineError::Device {
            device: self.device(),
            what: "opening a session".to_owned(),
            cause: format!("kernels need {what}"),
            is_sticky: false,
        })
    }
}

impl Backend for Cuda {
    fn device(&self) -> String {
        self.device.name.clone()
    }

    fn info(&self) -> DeviceInfo {
        DeviceInfo {
            id: format!("cuda:{}", self.device.ordinal),
            uuid: Some(self.device.uuid.clone()),
            compute_capability: Some(self.device.capability),
        }
    }

    /// Code is the same for an architecture; the name is there because times differ.
    fn class(&self) -> String {
        let (major, minor) = self.device.capability;
        format!("{} (sm_{major}{minor})", self.device.name)
    }

    fn driver(&self) -> String {
        let (major, minor) = self.nvrtc.version;
        format!("CUDA {}, NVRTC {major}.{minor}", self.device.driver)
    }

    fn kernel_digest(&self, plan: &Plan) -> String {
        let target = self.target(DIGEST_LANES);
        let code = emit::emit(plan, target);
        self.digest(code.sources.iter().map(String::as_str), target)
    }

    fn memory(&self) -> Option<DeviceMemory> {
        let (free_bytes, total_bytes) = self.device.memory_bytes().ok()?;
        Some(DeviceMemory {
            total_bytes,
            free_bytes,
        })
    }

    fn bytes(&self, plan: &Plan, n_lanes: usize) -> u64 {
        (plan.lane_bytes * n_lanes + session::control_bytes(n_lanes)) as u64
    }

    fn auto_precision(&self) -> DType {
        if self.target(1).has_tensor_types() {
            DType::Bf16
        } else {
            DType::F32
        }
    }

    fn is_emulated(&self, _: DType) -> bool {
        false
    }

    fn lower(&self, program: &Program) -> Plan {
        lower_for_gpu(program)
    }

    fn open(
        &self,
        plan: Arc<Plan>,
        tables: &Tables,
        n_lanes: usize,
    ) -> Result<Box<dyn Session>, EngineError> {
        self.check(&plan)?;
        let target = self.target(n_lanes);
        let code = emit::emit(&plan, target);
        let modules = self.modules(&code, target)?;
        let tables = self.tables(&plan, tables)?;
        let arena = self.allocate(plan.lane_bytes * n_lanes)?;
        let control = self.allocate(session::control_bytes(n_lanes))?;
        let session = CudaSession::new(
            &self.device,
            plan,
            &code,
            &modules,
            session::Memories {
                tables,
                arena,
                control,
            },
            n_lanes,
        );
        Ok(Box::new(session.map_err(|e| self.error(e))?))
    }
}

/// Lowers a program as every GPU wants it.
pub fn lower_for_gpu(program: &Program) -> Plan {
    let options = LowerOptions {
        elements: ElementBytes { f32: 4, bf16: 2 },
        expand: false,
        fuse: true,
        waves: true,
    };
    lower(program, options)
}

/// Names the device of a failed call.
fn device_error(device: &Device, error: CallError) -> EngineError {
    EngineError::Device {
        device: device.name.clone(),
        what: error.what.to_owned(),
        cause: error.name,
        is_sticky: error.is_sticky,
    }
}

/// Locks a map that a panic elsewhere cannot leave half written.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
