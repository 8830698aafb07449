//! A thin layer over the CUDA driver: devices, memory, modules, streams, events, graphs.
//!
//! # Invariants
//! - All calls into the driver stand here. Every one made for a device binds its context to the
//!   calling thread first, so values may move between threads.
//! - One primary context a device, kept while anything of the device lives.
//! - Values are released once, by `Drop`; errors there are logged, since nobody can mend them.
//! - Memory is a plain allocation; nothing here allocates while a graph is captured.
#![expect(
    unsafe_code,
    reason = "the driver's interface is C; this file keeps handles valid and lengths checked"
)]

use cudarc::driver::result::{self, DriverError};
use cudarc::driver::sys;
use std::ffi::{CString, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::warn;

/// A call that the driver refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {name}")]
pub(super) struct CallError {
    /// What was tried.
    pub what: &'static str,
    /// The driver's own words.
    pub name: String,
    /// Whether the memory was used up.
    pub is_out_of_memory: bool,
    /// Whether the context is lost: every later call fails too.
    pub is_sticky: bool,
}

/// Says what was tried when a call failed.
fn at(what: &'static str) -> impl Fn(DriverError) -> CallError {
    move |error| {
        use sys::cudaError_enum as code;
        let name = error.error_name().map(|name| name.to_string_lossy());
        let text = error.error_string().map(|text| text.to_string_lossy());
        let name = match (name, text) {
            (Ok(name), Ok(text)) => format!("{name} ({text})"),
            (Ok(name), Err(_)) => name.into_owned(),
            (Err(_), _) => format!("{error:?}"),
        };
        CallError {
            what,
            name,
            is_out_of_memory: error.0 == code::CUDA_ERROR_OUT_OF_MEMORY,
            is_sticky: matches!(
                error.0,
                code::CUDA_ERROR_ILLEGAL_ADDRESS
                    | code::CUDA_ERROR_LAUNCH_TIMEOUT
                    | code::CUDA_ERROR_LAUNCH_FAILED
                    | code::CUDA_ERROR_ILLEGAL_INSTRUCTION
                    | code::CUDA_ERROR_MISALIGNED_ADDRESS
                    | code::CUDA_ERROR_INVALID_ADDRESS_SPACE
                    | code::CUDA_ERROR_INVALID_PC
                    | code::CUDA_ERROR_HARDWARE_STACK_ERROR
                    | code::CUDA_ERROR_ECC_UNCORRECTABLE
                    | code::CUDA_ERROR_ASSERT
                    | code::CUDA_ERROR_CONTEXT_IS_DESTROYED
                    | code::CUDA_ERROR_DEINITIALIZED
            ),
        }
    }
}

/// Calls into the driver since the program began, by kind; for the test that counts them.
#[derive(Debug, Default)]
pub(super) struct Calls {
    launches: AtomicU64,
    graph_launches: AtomicU64,
    allocations: AtomicU64,
    others: AtomicU64,
}

/// Calls into the driver at a moment, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallCount {
    /// Kernels launched one by one, those captured into a graph included.
    pub launches: u64,
    /// Graphs launched.
    pub graph_launches: u64,
    /// Allocations of device or pinned memory.
    pub allocations: u64,
    /// Copies, events, waits.
    pub others: u64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// A GPU with its primary context.
#[derive(Debug)]
pub(super) struct Device {
    handle: sys::CUdevice,
    context: sys::CUcontext,
    /// Position among the devices that the driver shows.
    pub ordinal: usize,
    /// Marketing name.
    pub name: String,
    /// `GPU-…`.
    pub uuid: String,
    /// Compute capability.
    pub capability: (u32, u32),
    /// Streaming multiprocessors.
    pub n_sm: u32,
    /// Version of the driver's CUDA, such as `13.0`.
    pub driver: String,
    calls: Calls,
}

// SAFETY: the handles are plain numbers to the driver, which is thread-safe; each call binds the
// context to its own thread first.
unsafe impl Send for Device {}
// SAFETY: as above; the counters are atomic.
unsafe impl Sync for Device {}

/// Whether the driver's library is on this machine.
pub(super) fn is_driver_present() -> bool {
    // SAFETY: the function looks for the library and calls nothing in it.
    unsafe { sys::is_culib_present() }
}

/// Opens every device that the driver shows.
pub(super) fn devices() -> Result<Vec<Arc<Device>>, CallError> {
    result::init().map_err(at("starting the driver"))?;
    let n = result::device::get_count().map_err(at("counting devices"))?;
    (0..n)
        .map(|ordinal| Device::open(ordinal).map(Arc::new))
        .collect()
}

impl Device {
    fn open(ordinal: i32) -> Result<Self, CallError> {
        use sys::CUdevice_attribute_enum as attribute;
        let what = at("opening a device");
        let handle = result::device::get(ordinal).map_err(&what)?;
        let ask = |which| {
            // SAFETY: the handle comes from the driver.
            let value = unsafe { result::device::get_attribute(handle, which) };
            value.map(i32::cast_unsigned).map_err(&what)
        };
        let mut version = 0;
        // SAFETY: the driver writes one integer.
        unsafe { sys::cuDriverGetVersion(&raw mut version) }
            .result()
            .map_err(&what)?;
        let uuid = result::device::get_uuid(handle).map_err(&what)?;
        let capability = (
            ask(attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            ask(attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        );
        let n_sm = ask(attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
        // SAFETY: the handle comes from the driver; `Drop` releases it once.
        let context = unsafe { result::primary_ctx::retain(handle) }.map_err(&what)?;
        Ok(Self {
            handle,
            context,
            ordinal: ordinal.cast_unsigned() as usize,
            name: result::device::get_name(handle).map_err(&what)?,
            uuid: uuid_text(&uuid.bytes.map(|byte| byte as u8)),
            capability,
            n_sm,
            driver: format!("{}.{}", version / 1000, version % 1000 / 10),
            calls: Calls::default(),
        })
    }

    fn bind(&self) -> Result<(), CallError> {
        // SAFETY: the context lives as long as `self`.
        unsafe { result::ctx::set_current(self.context) }.map_err(at("binding the context"))
    }

    /// Returns the calls made for this device so far.
    pub(super) fn calls(&self) -> CallCount {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CallCount {
            launches: get(&self.calls.launches),
            graph_launches: get(&self.calls.graph_launches),
            allocations: get(&self.calls.allocations),
            others: get(&self.calls.others),
        }
    }

    /// Returns free and total bytes of device memory.
    pub(super) fn memory_bytes(&self) -> Result<(u64, u64), CallError> {
        self.bind()?;
        let (free, total) = result::mem_get_info().map_err(at("asking for free memory"))?;
        Ok((free as u64, total as u64))
    }

    /// Allocates device memory; its content is undefined.
    pub(super) fn allocate(self: &Arc<Self>, n_bytes: usize) -> Result<Memory, CallError> {
        self.bind()?;
        count(&self.calls.allocations);
        // SAFETY: the size is not zero; `Drop` frees it once.
        let pointer = unsafe { result::malloc_sync(n_bytes.max(256)) };
        Ok(Memory {
            device: self.clone(),
            pointer: pointer.map_err(at("allocating memory"))?,
            n_bytes,
        })
    }

    /// Loads compiled code.
    pub(super) fn load(self: &Arc<Self>, cubin: &[u8]) -> Result<Arc<Module>, CallError> {
        self.bind()?;
        // SAFETY: the image is a whole cubin, whose header holds its length.
        let handle = unsafe { result::module::load_data(cubin.as_ptr().cast()) };
        Ok(Arc::new(Module {
            device: self.clone(),
            handle: handle.map_err(at("loading a module"))?,
        }))
    }

    /// Makes a stream that waits for no other.
    pub(super) fn stream(self: &Arc<Self>) -> Result<Stream, CallError> {
        self.bind()?;
        let handle = result::stream::create(result::stream::StreamKind::NonBlocking);
        Ok(Stream {
            device: self.clone(),
            handle: handle.map_err(at("making a stream"))?,
        })
    }

    /// Makes an event that takes the time and whose waiters sleep.
    pub(super) fn event(self: &Arc<Self>) -> Result<Event, CallError> {
        self.bind()?;
        let handle = result::event::create(sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC);
        Ok(Event {
            device: self.clone(),
            handle: handle.map_err(at("making an event"))?,
        })
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: retained in `open`, and everything that used it held a reference to `self`.
        if let Err(error) = unsafe { result::primary_ctx::release(self.handle) } {
            warn!(?error, "the context was not released");
        }
    }
}

fn uuid_text(bytes: &[u8; 16]) -> String {
    let hex = |part: &[u8]| {
        part.iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let parts = [
        &bytes[..4],
        &bytes[4..6],
        &bytes[6..8],
        &bytes[8..10],
        &bytes[10..],
    ];
    format!("GPU-{}", parts.map(hex).join("-"))
}

/// Device memory.
#[derive(Debug)]
pub(super) struct Memory {
    device: Arc<Device>,
    pointer: sys::CUdeviceptr,
    n_bytes: usize,
}

impl Memory {
    /// Returns the address of byte `at`.
    pub(super) fn address(&self, at: usize) -> u64 {
        assert!(at <= self.n_bytes, "byte {at} of {}", self.n_bytes);
        self.pointer + at as u64
    }

    /// Panics unless the range lies within.
    fn check(&self, at: usize, n: usize) {
        assert!(at + n <= self.n_bytes, "bytes {at}+{n} of {}", self.n_bytes);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.device.bind().is_err() {
            return;
        }
        // SAFETY: allocated by `allocate`; streams that used it were waited for by their owner.
        if let Err(error) = unsafe { result::free_sync(self.pointer) } {
            warn!(?error, "memory was not freed");
        }
    }
}

/// Loaded code.
#[derive(Debug)]
pub(super) struct Module {
    device: Arc<Device>,
    handle: sys::CUmodule,
}

// SAFETY: as for `Device`.
unsafe impl Send for Module {}
// SAFETY: as for `Device`.
unsafe impl Sync for Module {}

impl Module {
    /// Finds a kernel and allows it the shared memory that it asks for.
    pub(super) fn kernel(
        self: &Arc<Self>,
        name: &str,
        shared_bytes: u32,
    ) -> Result<Kernel, CallError> {
        const WITHOUT_ASKING: u32 = 48 << 10;
        self.device.bind()?;
        let name = CString::new(name).expect("kernels have names of letters and digits");
        // SAFETY: the module is loaded.
        let handle = unsafe { result::module::get_function(self.handle, name) };
        let handle = handle.map_err(at("finding a kernel"))?;
        if shared_bytes > WITHOUT_ASKING {
            use sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            // SAFETY: the function belongs to a loaded module.
            unsafe {
                result::function::set_function_attribute(
                    handle,
                    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    shared_bytes.cast_signed(),
                )
            }
            .map_err(at("asking for shared memory"))?;
        }
        Ok(Kernel {
            _module: self.clone(),
            handle,
            shared_bytes,
        })
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.device.bind().is_err() {
            return;
        }
        // SAFETY: loaded in `load`; kernels hold a reference.
        if let Err(error) = unsafe { result::module::unload(self.handle) } {
            warn!(?error, "a module was not unloaded");
        }
    }
}

/// A kernel of a loaded module.
#[derive(Debug, Clone)]
pub(super) struct Kernel {
    /// Kept loaded as long as the kernel may run.
    _module: Arc<Module>,
    handle: sys::CUfunction,
    shared_bytes: u32,
}

// SAFETY: as for `Device`.
unsafe impl Send for Kernel {}
// SAFETY: as for `Device`.
unsafe impl Sync for Kernel {}

/// Arguments of a launch, each of eight bytes or a block of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Arguments {
    words: Vec<u64>,
    starts: Vec<usize>,
}

impl Arguments {
    /// Appends an address or a 64-bit integer.
    #[must_use]
    pub(super) fn word(self, word: u64) -> Self {
        self.block(&[word])
    }

    /// Appends a structure of 64-bit words.
    #[must_use]
    pub(super) fn block(mut self, words: &[u64]) -> Self {
        self.starts.push(self.words.len());
        self.words.extend(words);
        self
    }
}

/// Work in order.
#[derive(Debug)]
pub(super) struct Stream {
    device: Arc<Device>,
    handle: sys::CUstream,
}

// SAFETY: as for `Device`; a session uses its stream from one thread at a time.
unsafe impl Send for Stream {}

impl Stream {
    /// Launches a kernel of `kernels/`: blocks of 256 threads, `n_lanes` rows of them.
    ///
    /// The arguments must be those of the kernel; the code that makes both is one.
    pub(super) fn launch(
        &self,
        kernel: &Kernel,
        n_blocks: u32,
        n_lanes: u32,
        arguments: &Arguments,
    ) -> Result<(), CallError> {
        const THREADS: u32 = 256;
        self.device.bind()?;
        count(&self.device.calls.launches);
        let mut words = arguments.words.clone();
        let base = words.as_mut_ptr();
        let pointer = |start: &usize| -> *mut c_void {
            // SAFETY: every start is an index into `words`, which lives through the call.
            unsafe { base.add(*start) }.cast()
        };
        let mut pointers: Vec<*mut c_void> = arguments.starts.iter().map(pointer).collect();
        // SAFETY: the module is loaded; arguments match the kernel (`emit` writes both), and the
        // memory that they name outlives the stream's work, since the session owns both.
        unsafe {
            result::launch_kernel(
                kernel.handle,
                (n_blocks, n_lanes, 1),
                (THREADS, 1, 1),
                kernel.shared_bytes,
                self.handle,
                &mut pointers,
            )
        }
        .map_err(at("launching a kernel"))
    }

    /// Copies bytes to the device; they may change as soon as this returns.
    pub(super) fn write(&self, to: &Memory, at_byte: usize, bytes: &[u8]) -> Result<(), CallError> {
        to.check(at_byte, bytes.len());
        if bytes.is_empty() {
            return Ok(());
        }
        self.device.bind()?;
        count(&self.device.calls.others);
        // SAFETY: the range was checked; pageable memory is staged before the call returns.
        unsafe { result::memcpy_htod_async(to.address(at_byte), bytes, self.handle) }
            .map_err(at("copying to the device"))
    }

    /// Copies bytes from the device, after everything launched before.
    pub(super) fn read(
        &self,
        from: &Memory,
        at_byte: usize,
        bytes: &mut [u8],
    ) -> Result<(), CallError> {
        from.check(at_byte, bytes.len());
        if bytes.is_empty() {
            return Ok(());
        }
        self.device.bind()?;
        count(&self.device.calls.others);
        // SAFETY: the range was checked, and the wait keeps `bytes` alive through the copy.
        unsafe { result::memcpy_dtoh_async(bytes, from.address(at_byte), self.handle) }
            .map_err(at("copying from the device"))?;
        self.wait()
    }

    /// Sets bytes.
    pub(super) fn fill(
        &self,
        to: &Memory,
        at_byte: usize,
        n_bytes: usize,
        value: u8,
    ) -> Result<(), CallError> {
        to.check(at_byte, n_bytes);
        if n_bytes == 0 {
            return Ok(());
        }
        self.device.bind()?;
        count(&self.device.calls.others);
        // SAFETY: the range was checked.
        unsafe { result::memset_d8_async(to.address(at_byte), value, n_bytes, self.handle) }
            .map_err(at("setting memory"))
    }

    /// Records an event behind everything launched so far.
    pub(super) fn record(&self, event: &Event) -> Result<(), CallError> {
        self.device.bind()?;
        count(&self.device.calls.others);
        // SAFETY: both belong to this device and are alive.
        unsafe { result::event::record(event.handle, self.handle) }
            .map_err(at("recording an event"))
    }

    /// Waits for everything launched so far.
    pub(super) fn wait(&self) -> Result<(), CallError> {
        self.device.bind()?;
        count(&self.device.calls.others);
        // SAFETY: the stream is alive.
        unsafe { result::stream::synchronize(self.handle) }.map_err(at("waiting for the device"))
    }

    /// Captures what `work` launches into a graph.
    pub(super) fn capture(
        &self,
        work: impl FnOnce() -> Result<(), CallError>,
    ) -> Result<Graph, CallError> {
        let what = at("capturing a graph");
        self.device.bind()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive and not capturing: `capture` is never nested.
        unsafe { result::stream::begin_capture(self.handle, mode) }.map_err(&what)?;
        let done = work();
        // SAFETY: begun above.
        let graph = unsafe { result::stream::end_capture(self.handle) };
        done?;
        let graph = graph.map_err(&what)?;
        let flags = sys::CUgraphInstantiate_flags_enum(0);
        // SAFETY: the graph is whole; it is not needed once instantiated.
        let instance = unsafe { result::graph::instantiate(graph, flags) };
        // SAFETY: made above, destroyed once.
        unsafe { result::graph::destroy(graph) }.map_err(&what)?;
        Ok(Graph {
            device: self.device.clone(),
            handle: instance.map_err(&what)?,
        })
    }

    /// Launches a captured graph.
    pub(super) fn launch_graph(&self, graph: &Graph) -> Result<(), CallError> {
        self.device.bind()?;
        count(&self.device.calls.graph_launches);
        // SAFETY: both are alive and of one device.
        unsafe { result::graph::launch(graph.handle, self.handle) }.map_err(at("launching a graph"))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.device.bind().is_err() {
            return;
        }
        // SAFETY: made by `stream`, destroyed once.
        if let Err(error) = unsafe { result::stream::destroy(self.handle) } {
            warn!(?error, "a stream was not destroyed");
        }
    }
}

/// A moment of a stream.
#[derive(Debug)]
pub(super) struct Event {
    device: Arc<Device>,
    handle: sys::CUevent,
}

// SAFETY: as for `Device`.
unsafe impl Send for Event {}

impl Event {
    /// Sleeps until the moment has come.
    pub(super) fn wait(&self) -> Result<(), CallError> {
        self.device.bind()?;
        count(&self.device.calls.others);
        // SAFETY: the event is alive.
        unsafe { result::event::synchronize(self.handle) }.map_err(at("waiting for the device"))
    }

    /// Returns the milliseconds from `self` to `later`, both past.
    pub(super) fn ms_until(&self, later: &Self) -> Result<f32, CallError> {
        self.device.bind()?;
        // SAFETY: both events are alive.
        unsafe { result::event::elapsed(self.handle, later.handle) }.map_err(at("taking the time"))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.device.bind().is_err() {
            return;
        }
        // SAFETY: made by `event`, destroyed once.
        if let Err(error) = unsafe { result::event::destroy(self.handle) } {
            warn!(?error, "an event was not destroyed");
        }
    }
}

/// A captured sequence of launches.
#[derive(Debug)]
pub(super) struct Graph {
    device: Arc<Device>,
    handle: sys::CUgraphExec,
}

// SAFETY: used by one thread at a time, that of its session.
unsafe impl Send for Graph {}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.device.bind().is_err() {
            return;
        }
        // SAFETY: made by `capture`, destroyed once.
        if let Err(error) = unsafe { result::graph::exec_destroy(self.handle) } {
            warn!(?error, "a graph was not destroyed");
        }
    }
}
