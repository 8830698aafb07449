//! Builds graphs in the notation of the models.

use super::{DType, Graph, NodeId, Shape};
use crate::engine::op::{
    EnvOp, Gather, Gemm, Layout, Leaf, Loss, Op, Random, Recur, Reduce, ReduceKind, Replay,
    ScalarOp, StateId, TableId,
};
use crate::engine::rng::stream_id;

/// Elements of a chunk of a long sum.
const SUM_CHUNK: usize = 8192;

/// Appends nodes to a graph.
///
/// # Panics
/// Every method panics at the caller's line where shapes or types do not fit: a model that builds
/// a wrong graph is a defect of this program, found by its first test.
pub struct Builder<'g> {
    graph: &'g mut Graph,
}

impl<'g> Builder<'g> {
    /// Starts appending to `graph`.
    pub fn new(graph: &'g mut Graph) -> Self {
        Self { graph }
    }

    /// Returns the graph.
    pub fn graph(&mut self) -> &mut Graph {
        self.graph
    }

    /// Returns the shape of a node.
    pub fn shape(&self, id: NodeId) -> Shape {
        self.graph.node(id).shape.clone()
    }

    /// Returns the type of a node.
    pub fn dtype(&self, id: NodeId) -> DType {
        self.graph.node(id).dtype
    }

    /// Appends any op.
    #[track_caller]
    pub fn push(&mut self, op: Op, inputs: &[NodeId]) -> NodeId {
        match self.graph.push(op, inputs.to_vec()) {
            Ok(id) => id,
            Err(error) => panic!("malformed graph: {error}"),
        }
    }

    /// Reads a state as of the start of the phase.
    pub fn state(&mut self, id: StateId, shape: &Shape, dtype: DType) -> NodeId {
        self.push(
            Op::Leaf(Leaf::State {
                id,
                shape: shape.clone(),
                dtype,
            }),
            &[],
        )
    }

    /// Reads a table that all lanes share.
    pub fn table(&mut self, id: TableId, shape: &Shape, dtype: DType) -> NodeId {
        self.push(
            Op::Leaf(Leaf::Table {
                id,
                shape: shape.clone(),
                dtype,
            }),
            &[],
        )
    }

    /// Declares an argument of a loop body.
    pub fn argument(&mut self, position: usize, shape: &Shape, dtype: DType) -> NodeId {
        let position = u32::try_from(position).expect("a body has few arguments");
        self.push(
            Op::Leaf(Leaf::Argument {
                position,
                shape: shape.clone(),
                dtype,
            }),
            &[],
        )
    }

    /// A real constant.
    pub fn scalar(&mut self, value: f64) -> NodeId {
        self.constant(Shape::default(), &[value], DType::F32)
    }

    /// A constant tensor, row-major.
    #[track_caller]
    pub fn constant(&mut self, shape: Shape, values: &[f64], dtype: DType) -> NodeId {
        let bits = values.iter().map(|value| value.to_bits()).collect();
        self.push(Op::Leaf(Leaf::Constant { shape, bits, dtype }), &[])
    }

    /// Applies a scalar function element by element, operands broadcast.
    #[track_caller]
    pub fn map(&mut self, op: ScalarOp, inputs: &[NodeId]) -> NodeId {
        self.push(Op::Map(op), inputs)
    }

    /// a + b.
    #[track_caller]
    pub fn add(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.map(ScalarOp::Add, &[a, b])
    }

    /// a − b.
    #[track_caller]
    pub fn sub(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.map(ScalarOp::Sub, &[a, b])
    }

    /// a · b, element by element.
    #[track_caller]
    pub fn mul(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.map(ScalarOp::Mul, &[a, b])
    }

    /// a / b.
    #[track_caller]
    pub fn div(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.map(ScalarOp::Div, &[a, b])
    }

    /// Larger of a and b.
    #[track_caller]
    pub fn max(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.map(ScalarOp::Max, &[a, b])
    }

    /// Smaller of a and b.
    #[track_caller]
    pub fn min(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.map(ScalarOp::Min, &[a, b])
    }

    /// 1 where a < b.
    #[track_caller]
    pub fn less(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.map(ScalarOp::Less, &[a, b])
    }

    /// 1 where a ≤ b.
    #[track_caller]
    pub fn less_equal(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.map(ScalarOp::LessEqual, &[a, b])
    }

    /// 1 where a = b.
    #[track_caller]
    pub fn equal(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.map(ScalarOp::Equal, &[a, b])
    }

    /// `then` where `mask` is not 0, else `otherwise`.
    #[track_caller]
    pub fn select(&mut self, mask: NodeId, then: NodeId, otherwise: NodeId) -> NodeId {
        self.map(ScalarOp::Select, &[mask, then, otherwise])
    }

    /// −a.
    pub fn neg(&mut self, a: NodeId) -> NodeId {
        self.map(ScalarOp::Neg, &[a])
    }

    /// Logistic function.
    pub fn sigmoid(&mut self, a: NodeId) -> NodeId {
        self.map(ScalarOp::Sigmoid, &[a])
    }

    /// Rectifier.
    pub fn relu(&mut self, a: NodeId) -> NodeId {
        self.map(ScalarOp::Relu, &[a])
    }

    /// e^a.
    pub fn exp(&mut self, a: NodeId) -> NodeId {
        self.map(ScalarOp::Exp, &[a])
    }

    /// Natural logarithm.
    pub fn ln(&mut self, a: NodeId) -> NodeId {
        self.map(ScalarOp::Ln, &[a])
    }

    /// Square root.
    pub fn sqrt(&mut self, a: NodeId) -> NodeId {
        self.map(ScalarOp::Sqrt, &[a])
    }

    /// Largest integer not above a.
    pub fn floor(&mut self, a: NodeId) -> NodeId {
        self.map(ScalarOp::Floor, &[a])
    }

    /// 1 where a is finite.
    pub fn is_finite(&mut self, a: NodeId) -> NodeId {
        self.map(ScalarOp::IsFinite, &[a])
    }

    /// Converts to another type.
    pub fn cast(&mut self, a: NodeId, dtype: DType) -> NodeId {
        if self.graph.node(a).dtype == dtype {
            return a;
        }
        self.push(Op::Cast(dtype), &[a])
    }

    /// Reduces one axis, which disappears.
    #[track_caller]
    pub fn reduce(&mut self, kind: ReduceKind, a: NodeId, axis: usize) -> NodeId {
        self.push(Op::Reduce(Reduce { kind, axis }), &[a])
    }

    /// Sums over one axis.
    #[track_caller]
    pub fn sum(&mut self, a: NodeId, axis: usize) -> NodeId {
        self.reduce(ReduceKind::Sum, a, axis)
    }

    /// Sums over every axis.
    pub fn sum_all(&mut self, a: NodeId) -> NodeId {
        let flat = self.flatten(a);
        self.sum(flat, 0)
    }

    /// Sums the squares of a long vector in chunks: each chunk, and then their sums, in the written
    /// order.
    ///
    /// - `a`: `[N]`.
    ///
    /// One chain of additions over a whole parameter block would keep a GPU waiting.
    #[track_caller]
    pub fn sum_squares(&mut self, a: NodeId) -> NodeId {
        let n = self.shape(a).n_elements();
        let n_whole = n / SUM_CHUNK;
        let mut sums = Vec::new();
        if n_whole > 0 {
            let whole = self.slice(a, 0, 0, n_whole * SUM_CHUNK);
            let whole = self.reshape(whole, [n_whole, SUM_CHUNK]);
            let squares = self.mul(whole, whole);
            sums.push(self.sum(squares, 1));
        }
        let n_rest = n - n_whole * SUM_CHUNK;
        if n_rest > 0 {
            let rest = self.slice(a, 0, n_whole * SUM_CHUNK, n_rest);
            let squares = self.mul(rest, rest);
            let sum = self.sum(squares, 0);
            sums.push(self.reshape(sum, [1]));
        }
        let sums = self.concat(&sums, 0);
        self.sum(sums, 0)
    }

    /// Averages over one axis.
    #[track_caller]
    pub fn mean(&mut self, a: NodeId, axis: usize) -> NodeId {
        let extent = self.shape(a).0[axis];
        let total = self.sum(a, axis);
        let scale = self.scalar(1.0 / extent as f64);
        self.mul(total, scale)
    }

    /// Averages over every axis.
    pub fn mean_all(&mut self, a: NodeId) -> NodeId {
        let flat = self.flatten(a);
        self.mean(flat, 0)
    }

    /// Matrix product of the last two axes.
    #[track_caller]
    pub fn gemm(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.push(
            Op::Gemm(Gemm {
                trans_a: false,
                trans_b: false,
            }),
            &[a, b],
        )
    }

    /// Same elements, another shape.
    #[track_caller]
    pub fn reshape(&mut self, a: NodeId, shape: impl Into<Shape>) -> NodeId {
        let shape = shape.into();
        if self.graph.node(a).shape == shape {
            return a;
        }
        self.push(Op::Layout(Layout::Reshape(shape)), &[a])
    }

    /// Same elements in one axis.
    pub fn flatten(&mut self, a: NodeId) -> NodeId {
        let n = self.shape(a).n_elements();
        self.reshape(a, [n])
    }

    /// Swaps the last two axes.
    #[track_caller]
    pub fn transpose(&mut self, a: NodeId) -> NodeId {
        self.push(Op::Layout(Layout::Transpose), &[a])
    }

    /// Takes `len` positions of an axis from `start`.
    #[track_caller]
    pub fn slice(&mut self, a: NodeId, axis: usize, start: usize, len: usize) -> NodeId {
        if start == 0 && self.shape(a).0[axis] == len {
            return a;
        }
        self.push(Op::Layout(Layout::Slice { axis, start, len }), &[a])
    }

    /// Joins along an axis.
    #[track_caller]
    pub fn concat(&mut self, parts: &[NodeId], axis: usize) -> NodeId {
        if let [only] = parts {
            return *only;
        }
        self.push(Op::Layout(Layout::Concat { axis }), parts)
    }

    /// Repeats along missing and unit axes, right-aligned.
    #[track_caller]
    pub fn broadcast(&mut self, a: NodeId, shape: impl Into<Shape>) -> NodeId {
        let shape = shape.into();
        if self.graph.node(a).shape == shape {
            return a;
        }
        self.push(Op::Layout(Layout::Broadcast(shape)), &[a])
    }

    /// Same value, no gradient.
    pub fn stop_gradient(&mut self, a: NodeId) -> NodeId {
        self.push(Op::Layout(Layout::StopGradient), &[a])
    }

    /// Reads rows of `table [N, …]` at `index`.
    #[track_caller]
    pub fn rows(&mut self, table: NodeId, index: NodeId) -> NodeId {
        self.push(Op::Gather(Gather::Rows), &[table, index])
    }

    /// Reads `x [B, n, C]` at `index [B]`, giving `[B, C]`.
    #[track_caller]
    pub fn pick(&mut self, x: NodeId, index: NodeId) -> NodeId {
        self.push(Op::Gather(Gather::Pick), &[x, index])
    }

    /// Applies a loss op.
    #[track_caller]
    pub fn loss(&mut self, op: Loss, inputs: &[NodeId]) -> NodeId {
        self.push(Op::Loss(op), inputs)
    }

    /// Samples from a replay ring.
    #[track_caller]
    pub fn replay(&mut self, op: Replay, inputs: &[NodeId]) -> NodeId {
        self.push(Op::Replay(op), inputs)
    }

    /// Applies an environment op.
    #[track_caller]
    pub fn env(&mut self, op: EnvOp, inputs: &[NodeId]) -> NodeId {
        self.push(Op::Env(op), inputs)
    }

    /// Uniforms in [0, 1) of the random stream called `name`.
    ///
    /// - `seed`: `[2]` I32, low and high word of the run's seed.
    /// - `step`: `[]` I32, lane-local step.
    #[track_caller]
    pub fn uniform(
        &mut self,
        name: &str,
        seed: NodeId,
        step: NodeId,
        shape: impl Into<Shape>,
    ) -> NodeId {
        let op = Random::Uniform {
            stream: stream_id(name),
            shape: shape.into(),
        };
        self.push(Op::Random(op), &[seed, step])
    }

    /// Runs a loop over time; see [`Recur`].
    #[track_caller]
    pub fn recur(&mut self, op: Recur, inputs: &[NodeId]) -> NodeId {
        self.push(Op::Recur(op), inputs)
    }

    /// Adds 1 to a counter.
    pub fn increment(&mut self, counter: NodeId) -> NodeId {
        let one = self.constant(Shape::default(), &[1.0], DType::I32);
        self.add(counter, one)
    }
}

impl From<&[usize]> for Shape {
    fn from(dims: &[usize]) -> Self {
        Self(dims.to_vec())
    }
}

impl From<Vec<usize>> for Shape {
    fn from(dims: Vec<usize>) -> Self {
        Self(dims)
    }
}
