//! Operands to try every op on: plain ones, unit and odd and padded widths, NaN, ±0, ±∞, ties.
//!
//! # Invariants
//! - Every arm of an exhaustive match gives the samples of its op and leads to the next one, so an
//!   op without samples does not compile.
//! - Values are F32 numbers held in f64, so that every backend starts from the same ones.

mod fused;
mod moves;
mod pointwise;
mod recur;
mod world;

pub(crate) use recur::rnn;
#[cfg(test)]
pub(crate) use recur::swapping;

use super::{
    EnvOp, Gather, Gemm, Layout, Leaf, Loss, Op, Random, Reduce, ReduceKind, Replay, ScalarOp,
    StateId, TableId,
};
use crate::engine::graph::{DType, Shape};
use crate::engine::rng::{fill_uniform, stream_id};

/// An operand with its elements.
#[derive(Debug, Clone)]
pub struct Input {
    /// Extents.
    pub shape: Shape,
    /// Type.
    pub dtype: DType,
    /// Elements, row-major.
    pub values: Vec<f64>,
    /// Whether it lies in a table that all lanes share.
    pub is_table: bool,
}

/// An op with operands.
#[derive(Debug, Clone)]
pub struct Sample {
    /// What to run.
    pub op: Op,
    /// Operands, in the op's order.
    pub inputs: Vec<Input>,
    /// Whether the op has two derivatives at these operands.
    pub is_smooth: bool,
    /// Real operands that the op's definition holds constant.
    pub held: Vec<usize>,
}

impl Sample {
    /// A sample on which differences approximate the gradient.
    fn smooth(op: Op, inputs: Vec<Input>) -> Self {
        Self {
            op,
            inputs,
            is_smooth: true,
            held: Vec::new(),
        }
    }

    /// A sample with kinks, ties or values that are not finite.
    fn rough(op: Op, inputs: Vec<Input>) -> Self {
        Self {
            op,
            inputs,
            is_smooth: false,
            held: Vec::new(),
        }
    }

    /// Marks operands that get no gradient by definition.
    fn held(mut self, positions: &[usize]) -> Self {
        self.held = positions.to_vec();
        self
    }

    /// Returns a name for messages.
    pub fn label(&self) -> String {
        let shapes: Vec<String> = self
            .inputs
            .iter()
            .map(|input| format!("{:?}{}", input.dtype, input.shape))
            .collect();
        format!("{}({})", self.op.name(), shapes.join(", "))
    }
}

/// How far F32 may lie from F64 rounded to F32.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tolerance {
    /// Units in the last place, element by element.
    Ulp(u32),
    /// Share of the result's norm.
    Norm(f64),
}

/// Norm-wise bound of an op that sums or chains roundings in F32: a few hundred units of
/// 2⁻²⁴ = 6e-8 at the sizes in use, with a margin of ten.
const NORM_F32: f64 = 1e-5;

/// Returns how exact the F32 result of an op must be.
pub fn tolerance(op: &Op) -> Tolerance {
    match op {
        Op::Leaf(_) | Op::Layout(_) | Op::Gather(_) | Op::Random(_) => Tolerance::Ulp(0),
        Op::Map(op) => Tolerance::Ulp(op.ulp_max()),
        // One rounding: half a unit of 2⁻⁸ (bf16) and of 2⁻¹¹ (tf32), relative.
        Op::Cast(DType::Bf16) => Tolerance::Norm(1.0 / 256.0),
        Op::Cast(DType::Tf32) => Tolerance::Norm(1.0 / 2048.0),
        Op::Cast(DType::F32 | DType::F64 | DType::I32) => Tolerance::Ulp(0),
        Op::Reduce(op) => match op.kind {
            ReduceKind::Sum => Tolerance::Norm(NORM_F32),
            ReduceKind::Max | ReduceKind::ArgMax => Tolerance::Ulp(0),
        },
        Op::Replay(Replay::Sample { .. }) => Tolerance::Ulp(0),
        Op::Gemm(_)
        | Op::Loss(_)
        | Op::Recur(_)
        | Op::Replay(Replay::NStep { .. })
        | Op::Env(_) => Tolerance::Norm(NORM_F32),
    }
}

/// Returns samples of every op.
pub fn all() -> Vec<Sample> {
    let constant = Leaf::Constant {
        shape: Shape::default(),
        bits: vec![0],
        dtype: DType::F32,
    };
    chain(Op::Leaf(constant), of_family)
}

/// Follows the links from a first variant on.
fn chain<T>(first: T, link: impl Fn(&T) -> (Vec<Sample>, Option<T>)) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut at = Some(first);
    while let Some(current) = at {
        let (found, next) = link(&current);
        samples.extend(found);
        at = next;
    }
    samples
}

fn of_family(op: &Op) -> (Vec<Sample>, Option<Op>) {
    match op {
        Op::Leaf(_) => (leaves(), Some(Op::Map(ScalarOp::Add))),
        Op::Map(first) => (
            chain(*first, pointwise::of_scalar),
            Some(Op::Cast(DType::F32)),
        ),
        Op::Cast(first) => {
            let sum = Reduce {
                kind: ReduceKind::Sum,
                axis: 0,
            };
            (chain(*first, pointwise::of_cast), Some(Op::Reduce(sum)))
        }
        Op::Reduce(first) => {
            let next = Op::Layout(Layout::Reshape(Shape::default()));
            (chain(first.kind, moves::of_reduce), Some(next))
        }
        Op::Layout(first) => {
            let next = Op::Gemm(Gemm {
                trans_a: false,
                trans_b: false,
            });
            (chain(first.clone(), moves::of_layout), Some(next))
        }
        Op::Gemm(_) => (fused::of_gemm(), Some(Op::Gather(Gather::Rows))),
        Op::Gather(first) => {
            let next = Op::Loss(Loss::Softmax { n_valid: 1 });
            (chain(*first, moves::of_gather), Some(next))
        }
        Op::Loss(first) => (
            chain(*first, fused::of_loss),
            Some(Op::Recur(rnn(1, 1, 1, false))),
        ),
        Op::Recur(_) => {
            let next = Replay::Sample {
                n_env: 1,
                n_step_max: 1,
            };
            (recur::samples(), Some(Op::Replay(next)))
        }
        Op::Replay(first) => (
            chain(*first, world::of_replay),
            Some(Op::Env(EnvOp::Observe)),
        ),
        Op::Env(first) => {
            let next = Random::Uniform {
                stream: 0,
                shape: Shape::default(),
            };
            (chain(*first, world::of_env), Some(Op::Random(next)))
        }
        Op::Random(first) => (chain(first.clone(), world::of_random), None),
    }
}

fn leaves() -> Vec<Sample> {
    let constant = |values: &[f64], dtype| {
        let bits = values.iter().map(|value| value.to_bits()).collect();
        let shape = Shape::from([values.len()]);
        Sample::rough(Op::Leaf(Leaf::Constant { shape, bits, dtype }), Vec::new())
    };
    let state = Leaf::State {
        id: StateId(0),
        shape: Shape::from([9]),
        dtype: DType::F32,
    };
    let table = Leaf::Table {
        id: TableId(0),
        shape: Shape::from([9]),
        dtype: DType::F32,
    };
    vec![
        constant(&EDGES, DType::F32),
        constant(&[0.1, -3.0], DType::F64),
        constant(&[-7.0, 0.0, 16_777_217.0], DType::I32),
        Sample::rough(Op::Leaf(state), vec![real([9], &EDGES)]),
        Sample::rough(Op::Leaf(table), vec![table_of(real([9], &EDGES))]),
    ]
}

/// Numbers at which functions differ if they differ anywhere.
const EDGES: [f64; 9] = [
    f64::NAN,
    -0.0,
    0.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    1.0,
    -1.0,
    0.5,
    -100.0,
];

/// An F32 operand with these elements.
fn real(shape: impl Into<Shape>, values: &[f64]) -> Input {
    let shape = shape.into();
    assert_eq!(shape.n_elements(), values.len(), "one value per element");
    Input {
        shape,
        dtype: DType::F32,
        values: values.to_vec(),
        is_table: false,
    }
}

/// An I32 operand with these elements.
fn whole(shape: impl Into<Shape>, values: &[i32]) -> Input {
    let values: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
    Input {
        dtype: DType::I32,
        ..real(shape, &values)
    }
}

/// An F32 operand with reproducible elements from `low` to `high`.
fn drawn(name: &str, shape: impl Into<Shape>, low: f64, high: f64) -> Input {
    let shape = shape.into();
    let values = draw(name, shape.n_elements(), low, high);
    real(shape, &values)
}

/// `n` reproducible F32 numbers from `low` to `high`.
pub(crate) fn draw(name: &str, n: usize, low: f64, high: f64) -> Vec<f64> {
    let mut uniform = vec![0.0; n];
    fill_uniform(0x5EED, 0, stream_id(name), &mut uniform);
    uniform
        .iter()
        .map(|u| f64::from((low + f64::from(*u) * (high - low)) as f32))
        .collect()
}

/// The operand as F64.
fn wide(input: Input) -> Input {
    Input {
        dtype: DType::F64,
        ..input
    }
}

/// The operand in a table.
fn table_of(input: Input) -> Input {
    Input {
        is_table: true,
        ..input
    }
}

/// Every pair of [`EDGES`], as two operands.
fn edge_pairs() -> (Input, Input) {
    let n = EDGES.len();
    let left: Vec<f64> = (0..n * n).map(|i| EDGES[i / n]).collect();
    let right: Vec<f64> = (0..n * n).map(|i| EDGES[i % n]).collect();
    (real([n * n], &left), real([n * n], &right))
}
