//! From a plan to source text and the launches that run it.
//!
//! # Invariants
//! - Pure: equal plans for equal targets give equal text, so compiled code is found again.
//! - A wave becomes one launch, or two where it holds matrix products: blocks of `kernels/`'s 256
//!   threads, a range of them for each job, a row of the grid for each lane.
//! - Shapes and offsets are written into the text as constants; addresses are arguments.
//! - The number of lanes may change tiles, never the order in which a value is computed.

mod commit;
mod gemm;
mod op;
mod region;

use crate::engine::graph::DType;
use crate::engine::plan::{Job, Kernel, LoopPlan, Operand, PhasePlan, Plan, Source, Step};
use crate::engine::program::SECTIONS;
use std::collections::HashMap;
use std::fmt::Write as _;

/// Threads of a block.
pub(super) const THREADS: usize = 256;
/// Elements that a block of an elementwise job covers.
const BLOCK_ELEMENTS: usize = 4 * THREADS;
/// Kernels of a source.
const ENTRIES_MAX: usize = 12;
/// Lanes up to which a wave's matrix products and other jobs share a launch: they leave most of
/// the device idle anyway.
const SHARED_LANES_MAX: usize = 4;

/// Parts of `kernels/` that every source begins with, in order.
pub(super) const PRELUDE: [(&str, &str); 12] = [
    ("base.cuh", include_str!("../../../../kernels/base.cuh")),
    ("math.cuh", include_str!("../../../../kernels/math.cuh")),
    ("random.cuh", include_str!("../../../../kernels/random.cuh")),
    ("reduce.cuh", include_str!("../../../../kernels/reduce.cuh")),
    ("rows.cuh", include_str!("../../../../kernels/rows.cuh")),
    ("gather.cuh", include_str!("../../../../kernels/gather.cuh")),
    ("replay.cuh", include_str!("../../../../kernels/replay.cuh")),
    ("env.cuh", include_str!("../../../../kernels/env.cuh")),
    ("update.cuh", include_str!("../../../../kernels/update.cuh")),
    (
        "spectral.cuh",
        include_str!("../../../../kernels/spectral.cuh"),
    ),
    ("tile.cuh", include_str!("../../../../kernels/tile.cuh")),
    ("gemm.cuh", include_str!("../../../../kernels/gemm.cuh")),
];

/// What code is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Target {
    /// Compute capability, major and minor.
    pub capability: (u32, u32),
    /// Streaming multiprocessors.
    pub n_sm: u32,
    /// Lanes of a launch.
    pub n_lanes: usize,
}

impl Target {
    /// Returns the architecture's name for the compiler.
    pub fn arch(&self) -> String {
        format!("sm_{}{}", self.capability.0, self.capability.1)
    }

    /// Whether tensor cores take bf16 and tf32.
    pub fn has_tensor_types(&self) -> bool {
        self.capability.0 >= 8
    }
}

/// One launch over all lanes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// Index of the source that holds it.
    pub source: usize,
    /// Name of the kernel.
    pub entry: String,
    /// Blocks of a lane.
    pub n_blocks: u32,
    /// Shared memory of a block.
    pub shared_bytes: u32,
}

/// Where a copy begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Table, or the lane's arena.
    pub table: Option<u32>,
    /// First byte.
    pub byte: usize,
}

/// A part of a phase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// A generated kernel.
    Launch(Launch),
    /// Bytes moved within each lane, or from a table into it.
    Copy {
        /// From here.
        from: Place,
        /// To here, in the lane.
        to: Place,
        /// How many.
        n_bytes: usize,
    },
}

/// A plan as code.
#[derive(Debug, Clone, PartialEq)]
pub struct Code {
    /// Whole texts for the compiler, which takes them side by side; the first also holds the copy.
    pub sources: Vec<String>,
    /// Per section and phase, what runs.
    pub sections: [Vec<Vec<Action>>; 4],
}

impl Code {
    /// Returns every distinct launch.
    pub fn launches(&self) -> Vec<&Launch> {
        let mut launches: Vec<&Launch> = Vec::new();
        for action in self.sections.iter().flatten().flatten() {
            if let Action::Launch(launch) = action
                && !launches.iter().any(|known| known.entry == launch.entry)
            {
                launches.push(launch);
            }
        }
        launches
    }
}

/// Name of the kernel that runs [`Action::Copy`].
pub(super) const COPY_ENTRY: &str = "copy_bytes";

/// Writes the code of a plan.
pub fn emit(plan: &Plan, target: Target) -> Code {
    let mut emitter = Emitter {
        plan,
        target,
        functions: Vec::new(),
        shared: HashMap::new(),
        entries: Vec::new(),
    };
    let sections = SECTIONS.map(|section| {
        let phases = plan.section(section).iter();
        phases.map(|phase| emitter.phase(phase)).collect()
    });
    Code {
        sources: emitter.sources(),
        sections,
    }
}

/// The kernel of [`Action::Copy`].
const COPY: &str = r#"
extern "C" __global__ void __launch_bounds__(256) copy_bytes(const char* from, unsigned long from_lane, char* to, unsigned long to_lane, unsigned long n) {
    from += blockIdx.y * from_lane;
    to += blockIdx.y * to_lane;
    for (unsigned long i = (blockIdx.x * 256ul + threadIdx.x) * 4; i < n; i += gridDim.x * 1024ul) {
        if (i + 4 <= n && ((unsigned long)(from + i) & 3) == 0 && ((unsigned long)(to + i) & 3) == 0) {
            *(unsigned*)(to + i) = *(const unsigned*)(from + i);
        } else {
            for (unsigned long j = i; j < n && j < i + 4; ++j) to[j] = from[j];
        }
    }
}
"#;

/// What a range of a launch's blocks does.
struct JobCode {
    /// Statements; `job`, `lane` and `tables` are in scope.
    body: String,
    n_blocks: usize,
    shared_bytes: usize,
    is_product: bool,
}

impl JobCode {
    fn light(body: String, n_blocks: usize, shared_bytes: usize) -> Self {
        Self {
            body,
            n_blocks,
            shared_bytes,
            is_product: false,
        }
    }
}

struct Emitter<'a> {
    plan: &'a Plan,
    target: Target,
    /// Device functions: name and text, in an order in which each comes before its callers.
    functions: Vec<(String, String)>,
    /// Functions that several jobs call, by parameters and body.
    shared: HashMap<String, String>,
    /// Kernels, in the order of their numbers.
    entries: Vec<String>,
}

impl Emitter<'_> {
    /// Joins kernels with all that they need.
    fn sources(&self) -> Vec<String> {
        let mut prelude: String = PRELUDE.iter().map(|(_, text)| *text).collect();
        let n_tables = self.plan.tables.len().max(1);
        let _ = writeln!(prelude, "#define LANE_BYTES {}ul", self.plan.lane_bytes);
        let _ = writeln!(prelude, "struct Tables {{ const void* t[{n_tables}]; }};");
        let none: &[String] = &[];
        let mut chunks: Vec<&[String]> = self.entries.chunks(ENTRIES_MAX).collect();
        if chunks.is_empty() {
            chunks.push(none);
        }
        let source = |(i, entries): (usize, &&[String])| {
            let mut text = prelude.clone();
            if i == 0 {
                text.push_str(COPY);
            }
            let entries = entries.concat();
            for (name, function) in &self.functions {
                if entries.contains(&format!("{name}(")) {
                    text.push_str(function);
                }
            }
            text + &entries
        };
        chunks.iter().enumerate().map(source).collect()
    }

    fn phase(&mut self, phase: &PhasePlan) -> Vec<Action> {
        let mut actions = Vec::new();
        for wave in &phase.waves {
            let mut jobs = Vec::new();
            for job in wave {
                match job {
                    Job::Commit(i) => jobs.extend(self.commit(&phase.commits[*i])),
                    Job::Step(i) => match &phase.steps[*i].kernel {
                        Kernel::Loop(inner) => {
                            self.repeat(&phase.steps[*i], inner, &mut actions);
                        }
                        Kernel::Region(_) | Kernel::Op(_) | Kernel::Copy => {
                            jobs.extend(self.step(&phase.steps[*i]));
                        }
                    },
                }
            }
            self.wave(jobs, &mut actions);
        }
        actions
    }

    /// Turns independent jobs into launches.
    fn wave(&mut self, jobs: Vec<JobCode>, actions: &mut Vec<Action>) {
        let (products, light): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| job.is_product);
        if self.target.n_lanes <= SHARED_LANES_MAX {
            let together = products.into_iter().chain(light).collect();
            actions.extend(self.entry(together));
        } else {
            actions.extend(self.entry(light));
            actions.extend(self.entry(products));
        }
    }

    fn entry(&mut self, jobs: Vec<JobCode>) -> Option<Action> {
        let jobs: Vec<_> = jobs.into_iter().filter(|job| job.n_blocks > 0).collect();
        if jobs.is_empty() {
            return None;
        }
        let name = entry_name(self.entries.len(), &jobs);
        // Two blocks of products fit a multiprocessor's registers, and hide each other's waits;
        // other jobs do best with all the registers that they ask for.
        let n_resident = if jobs.iter().any(|job| job.is_product) {
            2
        } else {
            1
        };
        let mut text = String::new();
        let _ = writeln!(
            text,
            "extern \"C\" __global__ void __launch_bounds__(256, {n_resident}) {name}(char* arena, \
             const int* alive, int* fault, Tables tables) {{\n\
             extern __shared__ __align__(16) char shared[];\n\
             char* lane = arena + blockIdx.y * LANE_BYTES;\n\
             int live = alive[blockIdx.y];\n\
             int block = blockIdx.x;"
        );
        let (mut n_blocks, mut shared_bytes) = (0, 0);
        for (i, code) in jobs.iter().enumerate() {
            let JobCode {
                body, n_blocks: n, ..
            } = code;
            let is_last = i + 1 == jobs.len();
            let test = if is_last {
                String::new()
            } else {
                format!("if (block < {n}) ")
            };
            let leave = if is_last { "" } else { "return; " };
            let _ = writeln!(
                text,
                "{test}{{ Job job = {{block, {n}, live, fault, shared}};\n{body}\n{leave}}}\n\
                 block -= {n};"
            );
            n_blocks += n;
            shared_bytes = shared_bytes.max(code.shared_bytes);
        }
        text.push_str("}\n");
        self.entries.push(text);
        Some(Action::Launch(Launch {
            source: (self.entries.len() - 1) / ENTRIES_MAX,
            entry: name,
            n_blocks: u32::try_from(n_blocks).expect("a grid of fewer than 2^32 blocks"),
            shared_bytes: u32::try_from(shared_bytes).expect("a block's shared memory"),
        }))
    }

    /// Unrolls a loop over time: one launch a step of the body, the same ones at every time.
    fn repeat(&mut self, step: &Step, inner: &LoopPlan, actions: &mut Vec<Action>) {
        let mut body = Vec::new();
        for step in &inner.steps {
            match &step.kernel {
                Kernel::Loop(deeper) => self.repeat(step, deeper, &mut body),
                Kernel::Region(_) | Kernel::Op(_) | Kernel::Copy => {
                    let jobs = self.step(step);
                    body.extend(self.entry(jobs));
                }
            }
        }
        let width = |operand: &Operand| self.plan.elements.of(operand.dtype);
        let part = |from: (&Operand, usize), to: (&Operand, usize), n: usize| Action::Copy {
            from: self.place(from.0, from.1),
            to: self.place(to.0, to.1),
            n_bytes: n * width(to.0),
        };
        let n_carries = inner.carries.len();
        for (carry, input) in inner.carries.iter().zip(&step.inputs) {
            actions.push(part((input, 0), (carry, 0), carry.n()));
        }
        let n_final: usize = inner.carries.iter().map(Operand::n).sum();
        for i in 0..inner.n_steps {
            let time = if inner.is_reversed {
                inner.n_steps - 1 - i
            } else {
                i
            };
            for (slice, input) in inner.slices.iter().zip(&step.inputs[n_carries..]) {
                actions.push(part((input, time * slice.n()), (slice, 0), slice.n()));
            }
            let mut start = n_final;
            for carry in &inner.carries {
                let to = start + time * carry.n();
                actions.push(part((carry, 0), (&step.output, to), carry.n()));
                start += inner.n_steps * carry.n();
            }
            actions.extend(body.iter().cloned());
            for value in &inner.outputs {
                let to = start + time * value.n();
                actions.push(part((value, 0), (&step.output, to), value.n()));
                start += inner.n_steps * value.n();
            }
            for (carry, next) in inner.carries.iter().zip(&inner.next) {
                actions.push(part((next, 0), (carry, 0), carry.n()));
            }
        }
        let mut start = 0;
        for carry in &inner.carries {
            actions.push(part((carry, 0), (&step.output, start), carry.n()));
            start += carry.n();
        }
    }

    fn place(&self, operand: &Operand, element: usize) -> Place {
        let skip = element * self.plan.elements.of(operand.dtype);
        match operand.source {
            Source::Table(id) => Place {
                table: Some(id.0),
                byte: skip,
            },
            Source::Lane { .. } => Place {
                table: None,
                byte: self.byte(operand) + skip,
            },
        }
    }

    /// First byte of an operand in its lane.
    fn byte(&self, operand: &Operand) -> usize {
        let range = self.plan.range(operand);
        range.expect("tables lie outside the lane").start
    }

    /// A typed pointer to an operand.
    fn pointer(&self, operand: &Operand) -> String {
        let kind = c_type(operand.dtype);
        match operand.source {
            Source::Table(id) => format!("((const {kind}*)tables.t[{}])", id.0),
            Source::Lane { .. } => format!("(({kind}*)(lane + {}ul))", self.byte(operand)),
        }
    }

    /// Whether vectors of 16 bytes (or of four elements) may begin at an operand.
    fn is_aligned(&self, operand: &Operand, n_bytes: usize) -> bool {
        match operand.source {
            Source::Table(_) => true,
            Source::Lane { .. } => self.byte(operand).is_multiple_of(n_bytes),
        }
    }

    /// Adds a function that is not copied into its callers, or finds it; returns its name.
    ///
    /// - `body`: parameters and body.
    fn shared_function(&mut self, kind: &str, body: String) -> String {
        if let Some(name) = self.shared.get(&body) {
            return name.clone();
        }
        let name = format!("{kind}_{}", self.shared.len());
        let text = format!("static __device__ __noinline__ void {name}{body}\n");
        self.functions.push((name.clone(), text));
        self.shared.insert(body, name.clone());
        name
    }

    /// Adds a device function called with `(lane, tables, job)`; returns the call.
    fn function(&mut self, body: &str) -> String {
        let name = format!("part_{}", self.functions.len());
        let text = format!(
            "DEV void {name}(char* lane, const Tables& tables, const Job& job) {{\n{body}}}\n"
        );
        self.functions.push((name.clone(), text));
        format!("{name}(lane, tables, job);")
    }
}

/// Names a kernel by its number and what it does, for profilers.
fn entry_name(number: usize, jobs: &[JobCode]) -> String {
    let mut name = format!("wave_{number}");
    let mut kinds: Vec<&str> = Vec::new();
    for job in jobs {
        // `job_sum<float>(…)`, `part_3(…)`, `product_5(…)`.
        let call = job.body.split("job_").nth(1).unwrap_or(&job.body);
        let call = call
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .next();
        let kind = call.unwrap_or_default();
        let kind = kind.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
        if !kinds.contains(&kind) {
            kinds.push(kind);
            let _ = write!(name, "_{kind}");
        }
    }
    name
}

/// The element type's name in `kernels/`.
fn c_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 | DType::Tf32 => "float",
        DType::Bf16 => "bf16",
        DType::F64 => "double",
        DType::I32 => "int",
    }
}

/// Blocks that cover `n` elements.
fn blocks(n: usize) -> usize {
    n.div_ceil(BLOCK_ELEMENTS)
}
