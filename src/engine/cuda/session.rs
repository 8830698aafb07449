//! A plan resident on a GPU: one arena for all lanes, and graphs of its sections.

use super::device_error;
use super::driver::{Arguments, CallError, Device, Event, Graph, Kernel, Memory, Module, Stream};
use super::emit::{Action, COPY_ENTRY, Code, Place};
use crate::engine::backend::{
    Data, Elapsed, EngineError, LaneIdx, Session, StateValues, bad_values,
};
use crate::engine::graph::DType;
use crate::engine::op::StateId;
use crate::engine::plan::{Operand, Plan};
use crate::engine::program::{Init, Section};
use half::bf16;
use std::collections::HashMap;
use std::ops::Range;
use std::slice::SliceIndex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Launches that a graph holds at the most, unless a single pass has more.
const GRAPH_LAUNCHES_MAX: usize = 2048;
/// Passes over a section in one graph at the most.
const UNROLL_MAX: usize = 32;
/// Graphs launched ahead before the host sleeps.
const AHEAD: usize = 16;
/// Blocks of a copy at the most.
const COPY_BLOCKS_MAX: usize = 64;
/// Gap between two values up to which they are sent as one.
const GAP_MAX: usize = 4096;

/// Device memory of a session.
pub(super) struct Memories {
    /// Tables, in the order of their ids.
    pub tables: Vec<Arc<Memory>>,
    /// All lanes.
    pub arena: Memory,
    /// See [`control_bytes`].
    pub control: Memory,
}

/// Size of a session's control words: whether each lane is alive, a word that always is, and the
/// faults.
pub(super) fn control_bytes(n_lanes: usize) -> usize {
    4 * (n_lanes + 2)
}

/// A launch with its kernel.
enum Prepared {
    Launch {
        name: String,
        kernel: Kernel,
        n_blocks: u32,
    },
    Copy {
        from: Place,
        to: Place,
        n_bytes: usize,
    },
}

/// What a graph runs: a whole section, or one phase of it, so many times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Run {
    section: Section,
    phase: Option<usize>,
    n: usize,
}

/// Lanes of a launch, and the word that says whether they are alive.
#[derive(Debug, Clone, Copy)]
struct Lanes {
    first: usize,
    n: usize,
    alive_word: usize,
}

/// A resident plan.
pub(super) struct CudaSession {
    device: Arc<Device>,
    plan: Arc<Plan>,
    prepared: [Vec<Vec<Prepared>>; 4],
    copy: Kernel,
    graphs: HashMap<Run, Graph>,
    began: Event,
    ended: Event,
    marks: [Event; 2],
    n_lanes: usize,
    alive: Vec<bool>,
    is_alive_sent: bool,
    // Declared in this order: the stream rests before its memory goes.
    stream: Stream,
    memories: Memories,
}

impl CudaSession {
    pub(super) fn new(
        device: &Arc<Device>,
        plan: Arc<Plan>,
        code: &Code,
        modules: &[Arc<Module>],
        memories: Memories,
        n_lanes: usize,
    ) -> Result<Self, CallError> {
        let prepare = |action: &Action| {
            Ok(match action {
                Action::Launch(launch) => Prepared::Launch {
                    name: launch.entry.clone(),
                    kernel: modules[launch.source].kernel(&launch.entry, launch.shared_bytes)?,
                    n_blocks: launch.n_blocks,
                },
                Action::Copy { from, to, n_bytes } => Prepared::Copy {
                    from: *from,
                    to: *to,
                    n_bytes: *n_bytes,
                },
            })
        };
        let mut prepared = [const { Vec::new() }; 4];
        for (phases, section) in prepared.iter_mut().zip(&code.sections) {
            for actions in section {
                let actions: Result<Vec<_>, CallError> = actions.iter().map(prepare).collect();
                phases.push(actions?);
            }
        }
        let session = Self {
            device: device.clone(),
            copy: modules[0].kernel(COPY_ENTRY, 0)?,
            prepared,
            graphs: HashMap::new(),
            began: device.event()?,
            ended: device.event()?,
            marks: [device.event()?, device.event()?],
            n_lanes,
            alive: vec![false; n_lanes],
            is_alive_sent: false,
            stream: device.stream()?,
            memories,
            plan,
        };
        // All ones are NaN in every float type: a read before the first write shows at once.
        let n_bytes = session.plan.lane_bytes * n_lanes;
        session
            .stream
            .fill(&session.memories.arena, 0, n_bytes, 0xFF)?;
        session
            .stream
            .fill(&session.memories.control, 0, control_bytes(n_lanes), 0)?;
        let one = 1_i32.to_ne_bytes();
        session
            .stream
            .write(&session.memories.control, session.always_word() * 4, &one)?;
        session.stream.wait()?;
        Ok(session)
    }

    fn always_word(&self) -> usize {
        self.n_lanes
    }

    fn fault_word(&self) -> usize {
        self.n_lanes + 1
    }

    fn all(&self) -> Lanes {
        Lanes {
            first: 0,
            n: self.n_lanes,
            alive_word: 0,
        }
    }

    fn phases(&self, section: Section) -> &[Vec<Prepared>] {
        &self.prepared[section as usize]
    }

    /// Launches one pass over a phase.
    fn launch_phase(&self, section: Section, phase: usize, lanes: Lanes) -> Result<(), CallError> {
        self.launch_part(section, phase, .., lanes)
    }

    /// Launches some of a phase's actions.
    fn launch_part(
        &self,
        section: Section,
        phase: usize,
        part: impl SliceIndex<[Prepared], Output = [Prepared]>,
        lanes: Lanes,
    ) -> Result<(), CallError> {
        let Memories {
            tables,
            arena,
            control,
        } = &self.memories;
        let lane_bytes = self.plan.lane_bytes;
        let base = lanes.first * lane_bytes;
        let n_lanes = u32::try_from(lanes.n).expect("a grid's rows");
        let addresses: Vec<u64> = tables.iter().map(|table| table.address(0)).collect();
        let addresses = if addresses.is_empty() {
            vec![0]
        } else {
            addresses
        };
        let arguments = Arguments::default()
            .word(arena.address(base))
            .word(control.address(lanes.alive_word * 4))
            .word(control.address(self.fault_word() * 4))
            .block(&addresses);
        for action in &self.phases(section)[phase][part] {
            match action {
                Prepared::Launch {
                    kernel, n_blocks, ..
                } => {
                    self.stream.launch(kernel, *n_blocks, n_lanes, &arguments)?;
                }
                Prepared::Copy { from, to, n_bytes } => {
                    let (address, stride) = match from.table {
                        Some(id) => (tables[id as usize].address(from.byte), 0),
                        None => (arena.address(base + from.byte), lane_bytes),
                    };
                    let arguments = Arguments::default()
                        .word(address)
                        .word(stride as u64)
                        .word(arena.address(base + to.byte))
                        .word(lane_bytes as u64)
                        .word(*n_bytes as u64);
                    let n_blocks = n_bytes.div_ceil(1024).clamp(1, COPY_BLOCKS_MAX);
                    let n_blocks = u32::try_from(n_blocks).expect("few blocks");
                    self.stream
                        .launch(&self.copy, n_blocks, n_lanes, &arguments)?;
                }
            }
        }
        Ok(())
    }

    fn n_launches(&self, section: Section) -> usize {
        let phases = self.plan.section(section).iter();
        phases
            .zip(self.phases(section))
            .map(|(phase, actions)| phase.repeats * actions.len())
            .sum()
    }

    /// Returns the graph of a run, captured on first use.
    fn graph(&mut self, run: Run) -> Result<(), CallError> {
        if self.graphs.contains_key(&run) {
            return Ok(());
        }
        let graph = self.stream.capture(|| {
            for _ in 0..run.n {
                match run.phase {
                    Some(phase) => self.launch_phase(run.section, phase, self.all())?,
                    None => {
                        for (i, phase) in self.plan.section(run.section).iter().enumerate() {
                            for _ in 0..phase.repeats {
                                self.launch_phase(run.section, i, self.all())?;
                            }
                        }
                    }
                }
            }
            Ok(())
        })?;
        self.graphs.insert(run, graph);
        Ok(())
    }

    /// Launches graphs that pass `n` times over a section or phase, sleeping where the device is
    /// far behind.
    fn pass(&mut self, section: Section, phase: Option<usize>, n: usize) -> Result<(), CallError> {
        let n_launches = match phase {
            Some(phase) => self.phases(section)[phase].len(),
            None => self.n_launches(section),
        };
        if n_launches == 0 || n == 0 {
            return Ok(());
        }
        let unroll = (GRAPH_LAUNCHES_MAX / n_launches).clamp(1, UNROLL_MAX);
        let mut left = n;
        let mut n_launched = 0;
        while left > 0 {
            let n = if left >= unroll { unroll } else { 1 };
            let run = Run { section, phase, n };
            self.graph(run)?;
            self.stream.launch_graph(&self.graphs[&run])?;
            left -= n;
            n_launched += 1;
            if n_launched % AHEAD == 0 {
                let turn = n_launched / AHEAD;
                if turn > 1 {
                    self.marks[(turn + 1) % 2].wait()?;
                }
                self.stream.record(&self.marks[turn % 2])?;
            }
        }
        Ok(())
    }

    /// Passes `n` times over a section, phase by phase where one pass would not fit a graph.
    fn pass_section(&mut self, section: Section, n: usize) -> Result<(), CallError> {
        if self.n_launches(section) <= GRAPH_LAUNCHES_MAX {
            return self.pass(section, None, n);
        }
        let plan = self.plan.clone();
        for _ in 0..n {
            for (i, phase) in plan.section(section).iter().enumerate() {
                self.pass(section, Some(i), phase.repeats)?;
            }
        }
        Ok(())
    }

    /// Takes the time of what `work` launches, and reports faults.
    fn timed(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), CallError>,
    ) -> Result<Elapsed, EngineError> {
        let began_at = Instant::now();
        let device_ms = self
            .run_timed(work)
            .map_err(|e| device_error(&self.device, e))?;
        self.check_faults()?;
        Ok(Elapsed {
            device: Duration::from_secs_f64(f64::from(device_ms.max(0.0)) / 1e3),
            wall: began_at.elapsed(),
        })
    }

    fn run_timed(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), CallError>,
    ) -> Result<f32, CallError> {
        if !self.is_alive_sent {
            let words = self
                .alive
                .iter()
                .flat_map(|alive| i32::from(*alive).to_ne_bytes());
            let bytes: Vec<u8> = words.collect();
            self.stream.write(&self.memories.control, 0, &bytes)?;
            self.is_alive_sent = true;
        }
        self.stream.record(&self.began)?;
        work(self)?;
        self.stream.record(&self.ended)?;
        self.ended.wait()?;
        self.began.ms_until(&self.ended)
    }

    /// Reads and clears the fault word.
    fn check_faults(&self) -> Result<(), EngineError> {
        let at = self.fault_word() * 4;
        let control = &self.memories.control;
        let mut bytes = [0; 4];
        let read = self.stream.read(control, at, &mut bytes);
        read.map_err(|e| device_error(&self.device, e))?;
        let faults = u32::from_ne_bytes(bytes);
        if faults == 0 {
            return Ok(());
        }
        let cleared = self.stream.write(control, at, &[0; 4]);
        cleared.map_err(|e| device_error(&self.device, e))?;
        let known = FAULTS.iter().filter(|(bit, _)| faults & bit != 0);
        let texts: Vec<&str> = known.map(|(_, text)| *text).collect();
        Err(EngineError::Device {
            device: self.device.name.clone(),
            what: "running a program".to_owned(),
            cause: format!("{}: a defect of the model's program", texts.join("; ")),
            is_sticky: false,
        })
    }

    fn check(&self, state: StateId, data: Option<&Data>) -> Result<(), EngineError> {
        let declared = &self.plan.states[state.0 as usize];
        let n = declared.shape.n_elements();
        match data {
            Some(data) if data.fits(declared.dtype) && data.len() == n => Ok(()),
            other => Err(bad_values(&declared.name, declared.dtype, n, other)),
        }
    }

    fn range(&self, operand: &Operand) -> Range<usize> {
        self.plan.range(operand).expect("states lie in the arena")
    }

    /// Everything that a lane holds besides zeros when a run enters it.
    fn first_values(&self, values: &StateValues) -> Vec<(usize, Vec<u8>)> {
        let mut parts = Vec::new();
        for (operand, elements) in &self.plan.constants {
            parts.push((
                self.range(operand).start,
                constant_bytes(operand.dtype, elements),
            ));
        }
        for (id, state) in (0u32..).zip(&self.plan.states) {
            let operand = self.plan.state(StateId(id));
            let bytes = match (values.get(&StateId(id)), state.init) {
                (Some(data), _) => bytes_of(operand.dtype, data),
                (None, Init::Fill(bits)) => {
                    constant_bytes(operand.dtype, &vec![f64::from_bits(bits); operand.n()])
                }
                (None, Init::Zero | Init::Host) => continue,
            };
            parts.push((self.range(operand).start, bytes));
        }
        parts.sort_by_key(|part| part.0);
        let mut joined: Vec<(usize, Vec<u8>)> = Vec::new();
        for (at, bytes) in parts {
            match joined.last_mut() {
                // What lies between holds zeros anyway.
                Some((start, all)) if at - (*start + all.len()) <= GAP_MAX => {
                    all.resize(at - *start, 0);
                    all.extend(bytes);
                }
                _first => joined.push((at, bytes)),
            }
        }
        joined
    }

    fn send(&mut self, lane: LaneIdx, values: &StateValues) -> Result<(), CallError> {
        let base = lane.0 * self.plan.lane_bytes;
        let persistent = self.plan.persistent_bytes;
        let arena = &self.memories.arena;
        self.stream.fill(arena, base, persistent, 0)?;
        let rest = self.plan.lane_bytes - persistent;
        self.stream.fill(arena, base + persistent, rest, 0xFF)?;
        for (at, bytes) in self.first_values(values) {
            self.stream.write(arena, base + at, &bytes)?;
        }
        let lanes = Lanes {
            first: lane.0,
            n: 1,
            alive_word: self.always_word(),
        };
        let plan = self.plan.clone();
        for (i, phase) in plan.section(Section::Init).iter().enumerate() {
            for _ in 0..phase.repeats {
                self.launch_phase(Section::Init, i, lanes)?;
            }
        }
        self.stream.wait()
    }
}

/// What the bits of the fault word mean, as `kernels/base.cuh` sets them.
const FAULTS: [(u32, &str); 5] = [
    (1, "a row of a gather lies outside its table"),
    (2, "a counter or row lies outside its ring"),
    (4, "an action lies outside its branch"),
    (8, "a bar lies outside the table"),
    (16, "an optimizer's step is below 1"),
];

impl Drop for CudaSession {
    fn drop(&mut self) {
        // Memory may not go while the device works on it; a lost device works on nothing.
        let _ = self.stream.wait();
    }
}

impl Session for CudaSession {
    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn load(&mut self, lane: LaneIdx, values: &StateValues) -> Result<(), EngineError> {
        for (id, state) in (0u32..).zip(&self.plan.states) {
            let given = values.get(&StateId(id));
            if state.init == Init::Host || given.is_some() {
                self.check(StateId(id), given)?;
            }
        }
        let sent = self.send(lane, values);
        sent.map_err(|e| device_error(&self.device, e))?;
        self.check_faults()
    }

    fn set_live(&mut self, lane: LaneIdx, is_live: bool) {
        self.is_alive_sent &= self.alive[lane.0] == is_live;
        self.alive[lane.0] = is_live;
    }

    fn train(&mut self, n_cycles: usize) -> Result<Elapsed, EngineError> {
        self.timed(|session| {
            session.pass_section(Section::Begin, 1)?;
            session.pass_section(Section::Cycle, n_cycles)
        })
    }

    fn repeat(&mut self, section: Section, phase: usize, n: usize) -> Result<Elapsed, EngineError> {
        self.timed(|session| session.pass(section, Some(phase), n))
    }

    fn profile(
        &mut self,
        section: Section,
        phase: usize,
        n: usize,
    ) -> Result<Vec<(String, Duration)>, EngineError> {
        let mut times = Vec::new();
        for i in 0..self.phases(section)[phase].len() {
            let name = match &self.phases(section)[phase][i] {
                Prepared::Launch { name, .. } => name.clone(),
                Prepared::Copy { .. } => COPY_ENTRY.to_owned(),
            };
            let graph = self.stream.capture(|| {
                (0..n).try_for_each(|_| self.launch_part(section, phase, i..=i, self.all()))
            });
            let graph = graph.map_err(|e| device_error(&self.device, e))?;
            self.timed(|session| session.stream.launch_graph(&graph))?;
            let elapsed = self.timed(|session| session.stream.launch_graph(&graph))?;
            times.push((name, elapsed.device / u32::try_from(n).unwrap_or(u32::MAX)));
        }
        Ok(times)
    }

    fn evaluate(&mut self) -> Result<Elapsed, EngineError> {
        self.timed(|session| session.pass_section(Section::Evaluate, 1))
    }

    fn read(&self, lane: LaneIdx, state: StateId) -> Result<Data, EngineError> {
        let operand = self.plan.state(state);
        let range = self.range(operand);
        let mut bytes = vec![0; range.len()];
        let at = lane.0 * self.plan.lane_bytes + range.start;
        let read = self.stream.read(&self.memories.arena, at, &mut bytes);
        read.map_err(|e| device_error(&self.device, e))?;
        Ok(data_of(operand.dtype, &bytes))
    }

    fn write(&mut self, lane: LaneIdx, state: StateId, data: &Data) -> Result<(), EngineError> {
        self.check(state, Some(data))?;
        let operand = self.plan.state(state);
        let at = lane.0 * self.plan.lane_bytes + self.range(operand).start;
        let bytes = bytes_of(operand.dtype, data);
        let written = self.stream.write(&self.memories.arena, at, &bytes);
        written
            .and_then(|()| self.stream.wait())
            .map_err(|e| device_error(&self.device, e))
    }
}

/// Elements as the device stores them.
pub(super) fn bytes_of(dtype: DType, data: &Data) -> Vec<u8> {
    match data {
        Data::F32(values) if dtype == DType::Bf16 => {
            let narrow: Vec<bf16> = values.iter().map(|v| bf16::from_f32(*v)).collect();
            bytemuck::cast_slice(&narrow).to_vec()
        }
        Data::F32(values) => bytemuck::cast_slice(values).to_vec(),
        Data::F64(values) => bytemuck::cast_slice(values).to_vec(),
        Data::I32(values) => bytemuck::cast_slice(values).to_vec(),
    }
}

fn constant_bytes(dtype: DType, elements: &[f64]) -> Vec<u8> {
    let data = match dtype {
        DType::F32 | DType::Tf32 | DType::Bf16 => {
            Data::F32(elements.iter().map(|v| *v as f32).collect())
        }
        DType::F64 => Data::F64(elements.to_vec()),
        DType::I32 => Data::I32(elements.iter().map(|v| *v as i32).collect()),
    };
    bytes_of(dtype, &data)
}

fn data_of(dtype: DType, bytes: &[u8]) -> Data {
    match dtype {
        DType::F32 | DType::Tf32 => Data::F32(bytemuck::pod_collect_to_vec(bytes)),
        DType::Bf16 => {
            let narrow: Vec<bf16> = bytemuck::pod_collect_to_vec(bytes);
            Data::F32(narrow.into_iter().map(bf16::to_f32).collect())
        }
        DType::F64 => Data::F64(bytemuck::pod_collect_to_vec(bytes)),
        DType::I32 => Data::I32(bytemuck::pod_collect_to_vec(bytes)),
    }
}
