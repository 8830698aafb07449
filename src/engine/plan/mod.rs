//! Programs lowered to ordered steps over one planned arena per lane.
//!
//! # Invariants
//! - [`lower`] is the only route from a program to a backend. It is pure: equal inputs give an
//!   equal plan.
//! - Buffers that live at the same time never overlap; offsets are multiples of 256 bytes and
//!   the same in every lane.
//! - A step's output overlaps none of its inputs.

mod arena;
mod dump;
mod fuse;
mod lower;
mod schedule;
#[cfg(test)]
mod tests;

pub use arena::Buffer;
pub(crate) use fuse::broadcast_strides;
pub use fuse::{INPUTS_MAX, INSTRUCTIONS_MAX, Instruction, Region, RegionOp};
pub use lower::{LowerOptions, lower};
pub use schedule::Job;
#[cfg(test)]
pub(crate) use tests::check_memory;

use super::graph::{DType, Shape};
use super::op::{Effect, Matrix, Op, StateId, TableId};
use super::program::{Section, StateDecl, TableDecl};

/// Storage width of the real family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementBytes {
    /// Bytes of an F32 or TF32 element.
    pub f32: usize,
    /// Bytes of a bf16 element.
    pub bf16: usize,
}

impl ElementBytes {
    /// Returns the bytes of an element.
    pub fn of(self, dtype: DType) -> usize {
        match dtype {
            DType::F32 | DType::Tf32 => self.f32,
            DType::Bf16 => self.bf16,
            DType::F64 => 8,
            DType::I32 => 4,
        }
    }
}

/// Index of a buffer within its plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BufferIdx(pub u32);

/// Where an operand lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// In the lane's arena, `offset` elements into a buffer.
    Lane {
        /// Which buffer.
        buffer: BufferIdx,
        /// Elements from its start.
        offset: usize,
    },
    /// In a table that all lanes share.
    Table(TableId),
}

/// A tensor that a step reads or writes.
#[derive(Debug, Clone, PartialEq)]
pub struct Operand {
    /// Where.
    pub source: Source,
    /// Extents.
    pub shape: Shape,
    /// Type.
    pub dtype: DType,
}

impl Operand {
    /// Returns the number of elements.
    pub fn n(&self) -> usize {
        self.shape.n_elements()
    }

    /// Whether both are the same elements; a part and the whole may begin at the same place.
    pub fn is_same(&self, other: &Self) -> bool {
        self.source == other.source && self.n() == other.n() && self.dtype == other.dtype
    }

    /// Returns the buffer it lies in; `None` for a table.
    pub fn buffer(&self) -> Option<BufferIdx> {
        match self.source {
            Source::Lane { buffer, .. } => Some(buffer),
            Source::Table(_) => None,
        }
    }
}

/// What a step runs.
#[derive(Debug, Clone, PartialEq)]
pub enum Kernel {
    /// A fused chain of pointwise ops over the real family.
    Region(Region),
    /// One op.
    Op(Op),
    /// Copies its operand.
    Copy,
    /// A loop over time.
    Loop(Box<LoopPlan>),
}

/// One launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// What runs.
    pub kernel: Kernel,
    /// Operands.
    pub inputs: Vec<Operand>,
    /// Result, always in the lane's arena.
    pub output: Operand,
    /// Whether somebody outside the step reads the result.
    pub is_stored: bool,
    /// Region that computes the first operand on the way, where nobody else reads that.
    pub head: Option<Box<Step>>,
    /// Regions that go on with each element as it is computed, in order; each reads results of the
    /// step or of tails before it, and operands that are ready before the step.
    pub tail: Vec<Step>,
}

/// A lowered loop body. Arguments that are carries or slices have buffers of their own, which the
/// executing backend fills; invariants read their operands in place.
#[derive(Debug, Clone, PartialEq)]
pub struct LoopPlan {
    /// Steps of the body.
    pub steps: Vec<Step>,
    /// Carry arguments.
    pub carries: Vec<Operand>,
    /// Slice arguments.
    pub slices: Vec<Operand>,
    /// Where the body leaves the next carries.
    pub next: Vec<Operand>,
    /// Where the body leaves its outputs.
    pub outputs: Vec<Operand>,
    /// Number of steps.
    pub n_steps: usize,
    /// Whether time runs backwards.
    pub is_reversed: bool,
}

/// A lowered effect: the fields of [`Effect`] with operands in place of nodes.
#[derive(Debug, Clone, PartialEq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a phase has a handful, and none is moved"
)]
pub enum Commit {
    /// See [`Effect::Store`].
    Store {
        /// Target.
        state: Operand,
        /// Value.
        value: Operand,
        /// Condition.
        guard: Option<Operand>,
    },
    /// See [`Effect::RingPush`].
    RingPush {
        /// Target.
        state: Operand,
        /// Row number.
        row: Operand,
        /// Value.
        value: Operand,
        /// Condition.
        guard: Option<Operand>,
    },
    /// See [`Effect::Adam`].
    Adam {
        /// Parameters, first and second moment.
        blocks: [Operand; 3],
        /// Target block and τ.
        target: Option<(Operand, Operand)>,
        /// Gradient.
        grad: Operand,
        /// Scalars: grad_scale, lr, beta1, beta2, eps, weight_decay.
        scalars: [Operand; 6],
        /// Number of the step.
        step: Operand,
        /// Condition.
        guard: Option<Operand>,
    },
    /// See [`Effect::SpectralNorm`].
    SpectralNorm {
        /// Parameters, left and right vectors.
        blocks: [Operand; 3],
        /// Parts of the block.
        matrices: Vec<Matrix>,
        /// Bound.
        sigma_max: Operand,
        /// Power iterations.
        n_iterations: u32,
        /// Condition.
        guard: Option<Operand>,
    },
}

/// A lowered phase.
#[derive(Debug, Clone, PartialEq)]
pub struct PhasePlan {
    /// Name of the phase.
    pub name: String,
    /// How often per visit.
    pub repeats: usize,
    /// Launches, in order.
    pub steps: Vec<Step>,
    /// Changes of states, in order.
    pub commits: Vec<Commit>,
    /// Steps and commits that may run side by side, wave after wave.
    pub waves: Vec<Vec<Job>>,
}

/// A lowered program.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Declarations, in the order of their ids.
    pub states: Vec<StateDecl>,
    /// Declarations, in the order of their ids.
    pub tables: Vec<TableDecl>,
    /// Where each state lies.
    pub state_operands: Vec<Operand>,
    /// Constants to write once per lane: operand and elements.
    pub constants: Vec<(Operand, Vec<f64>)>,
    /// Sections in order: init, begin, cycle, evaluate.
    pub sections: [Vec<PhasePlan>; 4],
    /// Cycles an epoch.
    pub n_cycles: usize,
    /// Every buffer with its offset.
    pub buffers: Vec<Buffer>,
    /// Bytes of one lane.
    pub lane_bytes: usize,
    /// Bytes of states and constants, which come first.
    pub persistent_bytes: usize,
    /// Storage widths.
    pub elements: ElementBytes,
    /// Digest of the program.
    pub digest: String,
}

impl Plan {
    /// Returns the phases of a section.
    pub fn section(&self, section: Section) -> &[PhasePlan] {
        &self.sections[section as usize]
    }

    /// Returns where a state lies.
    pub fn state(&self, id: StateId) -> &Operand {
        &self.state_operands[id.0 as usize]
    }

    /// Returns the byte range of an operand in a lane; `None` for a table.
    pub fn range(&self, operand: &Operand) -> Option<std::ops::Range<usize>> {
        let Source::Lane { buffer, offset } = operand.source else {
            return None;
        };
        let width = self.elements.of(operand.dtype);
        let start = self.buffers[buffer.0 as usize].offset + offset * width;
        Some(start..start + operand.n() * width)
    }

    /// Counts steps and commits of one pass over a section.
    pub fn n_launches(&self, section: Section) -> usize {
        self.section(section)
            .iter()
            .map(|phase| phase.repeats * (phase.steps.len() + phase.commits.len()))
            .sum()
    }
}

impl Commit {
    /// Returns what it reads, guard included.
    pub fn reads(&self) -> Vec<&Operand> {
        let mut reads = match self {
            Self::Store { value, .. } => vec![value],
            Self::RingPush { row, value, .. } => vec![row, value],
            Self::Adam {
                target,
                grad,
                scalars,
                step,
                ..
            } => {
                let mut reads = vec![grad, step];
                reads.extend(scalars);
                reads.extend(target.as_ref().map(|(_, tau)| tau));
                reads
            }
            Self::SpectralNorm { sigma_max, .. } => vec![sigma_max],
        };
        reads.extend(self.guard());
        reads
    }

    /// Returns the states that it changes.
    pub fn writes(&self) -> Vec<&Operand> {
        match self {
            Self::Store { state, .. } | Self::RingPush { state, .. } => vec![state],
            Self::Adam { blocks, target, .. } => {
                let target = target.as_ref().map(|(block, _)| block);
                blocks.iter().chain(target).collect()
            }
            Self::SpectralNorm { blocks, .. } => blocks.iter().collect(),
        }
    }

    /// Returns the guard.
    pub fn guard(&self) -> Option<&Operand> {
        match self {
            Self::Store { guard, .. }
            | Self::RingPush { guard, .. }
            | Self::Adam { guard, .. }
            | Self::SpectralNorm { guard, .. } => guard.as_ref(),
        }
    }
}

/// Lowers an effect, given the operand of each node and state.
pub(crate) fn commit(
    effect: &Effect,
    node: impl Fn(crate::engine::graph::NodeId) -> Operand,
    state: impl Fn(StateId) -> Operand,
) -> Commit {
    match effect {
        Effect::Store {
            state: target,
            value,
            guard,
        } => Commit::Store {
            state: state(*target),
            value: node(*value),
            guard: guard.map(node),
        },
        Effect::RingPush {
            state: target,
            row,
            value,
            guard,
        } => Commit::RingPush {
            state: state(*target),
            row: node(*row),
            value: node(*value),
            guard: guard.map(node),
        },
        Effect::Adam {
            param,
            m,
            v,
            target,
            grad,
            grad_scale,
            step,
            lr,
            beta1,
            beta2,
            eps,
            weight_decay,
            guard,
        } => Commit::Adam {
            blocks: [state(*param), state(*m), state(*v)],
            target: target.map(|(block, tau)| (state(block), node(tau))),
            grad: node(*grad),
            scalars: [*grad_scale, *lr, *beta1, *beta2, *eps, *weight_decay].map(&node),
            step: node(*step),
            guard: guard.map(node),
        },
        Effect::SpectralNorm {
            param,
            u,
            v,
            matrices,
            sigma_max,
            n_iterations,
            guard,
        } => Commit::SpectralNorm {
            blocks: [state(*param), state(*u), state(*v)],
            matrices: matrices.clone(),
            sigma_max: node(*sigma_max),
            n_iterations: *n_iterations,
            guard: guard.map(node),
        },
    }
}
