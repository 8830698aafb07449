//! What a node can compute: a closed enum, one file per family.
//!
//! # Invariants
//! - Every function over [`Op`] is an exhaustive match, so a new op is a list of compile errors.
//! - Ops derive `Eq` and `Hash`; float constants are held as bits.
//! - A family's file holds its shape rule, its gradient and its definition in simpler ops; what
//!   executes it lies under the same file name in the backends.

pub mod effect;
pub mod env;
pub mod gather;
pub mod gemm;
pub mod layout;
pub mod loss;
pub mod map;
pub mod random;
pub mod recur;
pub mod reduce;
pub mod replay;
#[doc(hidden)]
pub mod samples;
pub mod scalar;

pub use effect::{Effect, Matrix};
pub use env::EnvOp;
pub use gather::Gather;
pub use gemm::Gemm;
pub use layout::Layout;
pub use loss::Loss;
pub use random::Random;
pub use recur::Recur;
pub use reduce::{Reduce, ReduceKind};
pub use replay::Replay;
pub use scalar::ScalarOp;

use super::graph::{DType, Graph, GraphError, Node, NodeId, Shape};

/// Index of a mutable tensor of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StateId(pub u32);

/// Index of a constant table that all lanes of a device share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TableId(pub u32);

/// A value that comes from outside the graph.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Leaf {
    /// A state as of the start of the phase.
    State {
        /// Which one.
        id: StateId,
        /// Its shape.
        shape: Shape,
        /// Its type.
        dtype: DType,
    },
    /// A table shared by all lanes.
    Table {
        /// Which one.
        id: TableId,
        /// Its shape.
        shape: Shape,
        /// Its type.
        dtype: DType,
    },
    /// An argument of a [`Recur`] body.
    Argument {
        /// Position.
        position: u32,
        /// Its shape.
        shape: Shape,
        /// Its type.
        dtype: DType,
    },
    /// A real constant, given element by element as the bits of an f64.
    Constant {
        /// Its shape.
        shape: Shape,
        /// Elements, row-major, as f64 bits.
        bits: Vec<u64>,
        /// Its type.
        dtype: DType,
    },
}

/// An operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Op {
    /// A value from outside.
    Leaf(Leaf),
    /// One scalar function of each element, operands broadcast.
    Map(ScalarOp),
    /// Rounds to another type of the real family, or converts between families.
    Cast(DType),
    /// A reduction over one axis.
    Reduce(Reduce),
    /// Moves elements without arithmetic.
    Layout(Layout),
    /// Matrix product.
    Gemm(Gemm),
    /// Reads by index.
    Gather(Gather),
    /// Softmax, cross-entropy, categorical projection.
    Loss(Loss),
    /// A loop over time.
    Recur(Recur),
    /// Sampling from replay rings.
    Replay(Replay),
    /// The trading environment.
    Env(EnvOp),
    /// Counter-based random numbers.
    Random(Random),
}

impl Op {
    /// Returns the name used in dumps and errors.
    pub fn name(&self) -> String {
        match self {
            Self::Leaf(Leaf::State { id, .. }) => format!("state#{}", id.0),
            Self::Leaf(Leaf::Table { id, .. }) => format!("table#{}", id.0),
            Self::Leaf(Leaf::Argument { position, .. }) => format!("argument#{position}"),
            Self::Leaf(Leaf::Constant { bits, .. }) => match bits.as_slice() {
                [only] => format!("constant {:?}", f64::from_bits(*only)),
                _ => format!("constant[{}]", bits.len()),
            },
            Self::Map(op) => format!("{op:?}").to_lowercase(),
            Self::Cast(dtype) => format!("cast_{dtype:?}").to_lowercase(),
            Self::Reduce(op) => op.name(),
            Self::Layout(op) => op.name(),
            Self::Gemm(op) => op.name(),
            Self::Gather(op) => op.name(),
            Self::Loss(op) => op.name(),
            Self::Recur(op) => op.name(),
            Self::Replay(op) => op.name(),
            Self::Env(op) => op.name(),
            Self::Random(op) => op.name(),
        }
    }

    /// Infers shape and type of the output.
    ///
    /// # Errors
    /// [`GraphError`] if the operands do not fit.
    pub fn infer(&self, inputs: &[&Node]) -> Result<(Shape, DType), GraphError> {
        match self {
            Self::Leaf(leaf) => infer_leaf(leaf, inputs),
            Self::Map(op) => map::infer(*op, inputs),
            Self::Cast(dtype) => {
                arity("cast", inputs, 1)?;
                Ok((inputs[0].shape.clone(), *dtype))
            }
            Self::Reduce(op) => op.infer(inputs),
            Self::Layout(op) => op.infer(inputs),
            Self::Gemm(op) => op.infer(inputs),
            Self::Gather(op) => op.infer(inputs),
            Self::Loss(op) => op.infer(inputs),
            Self::Recur(op) => op.infer(inputs),
            Self::Replay(op) => op.infer(inputs),
            Self::Env(op) => op.infer(inputs),
            Self::Random(op) => op.infer(inputs),
        }
    }

    /// Emits the gradient of each input, given the gradient of the output.
    ///
    /// `None` means zero or not differentiable: nothing is materialised.
    pub fn gradient(&self, graph: &mut Graph, node: NodeId, grad: NodeId) -> Vec<Option<NodeId>> {
        let n_inputs = graph.node(node).inputs.len();
        match self {
            Self::Leaf(_) | Self::Replay(_) | Self::Env(_) | Self::Random(_) => {
                vec![None; n_inputs]
            }
            Self::Map(op) => map::gradient(*op, graph, node, grad),
            Self::Cast(dtype) => {
                let from = graph.node(graph.node(node).inputs[0]).dtype;
                let passes = dtype.is_real() && from.is_real();
                vec![passes.then_some(grad)]
            }
            Self::Reduce(op) => op.gradient(graph, node, grad),
            Self::Layout(op) => op.gradient(graph, node, grad),
            Self::Gemm(op) => op.gradient(graph, node, grad),
            Self::Gather(op) => op.gradient(graph, node, grad),
            Self::Loss(op) => op.gradient(graph, node, grad),
            Self::Recur(op) => op.gradient(graph, node, grad),
        }
    }

    /// Emits the definition of a fused op in simpler ops; `None` for ops that are simple.
    ///
    /// The F64 oracle runs the definition.
    pub fn expand(&self, graph: &mut Graph, inputs: &[NodeId]) -> Option<NodeId> {
        match self {
            Self::Loss(op) => Some(op.expand(graph, inputs)),
            Self::Leaf(_)
            | Self::Map(_)
            | Self::Cast(_)
            | Self::Reduce(_)
            | Self::Layout(_)
            | Self::Gemm(_)
            | Self::Gather(_)
            | Self::Recur(_)
            | Self::Replay(_)
            | Self::Env(_)
            | Self::Random(_) => None,
        }
    }
}

fn infer_leaf(leaf: &Leaf, inputs: &[&Node]) -> Result<(Shape, DType), GraphError> {
    arity("leaf", inputs, 0)?;
    match leaf {
        Leaf::State { shape, dtype, .. }
        | Leaf::Table { shape, dtype, .. }
        | Leaf::Argument { shape, dtype, .. } => Ok((shape.clone(), *dtype)),
        Leaf::Constant { shape, bits, dtype } => {
            if shape.n_elements() != bits.len() {
                return Err(shape_error(
                    "constant",
                    inputs,
                    "element count must equal the shape's",
                ));
            }
            if matches!(dtype, DType::Tf32 | DType::Bf16) {
                return Err(type_error(
                    "constant",
                    inputs,
                    "a narrow constant is an F32 one, cast",
                ));
            }
            Ok((shape.clone(), *dtype))
        }
    }
}

/// Checks the operand count.
pub(crate) fn arity(op: &str, inputs: &[&Node], expected: usize) -> Result<(), GraphError> {
    if inputs.len() == expected {
        return Ok(());
    }
    Err(GraphError::Arity {
        op: op.to_owned(),
        expected,
        got: inputs.len(),
    })
}

/// Reports operand shapes that break a rule.
pub(crate) fn shape_error(op: &str, inputs: &[&Node], why: &'static str) -> GraphError {
    let shapes: Vec<String> = inputs.iter().map(|node| node.shape.to_string()).collect();
    GraphError::Shape {
        op: op.to_owned(),
        shapes: shapes.join(" "),
        why,
    }
}

/// Reports operand types that break a rule.
pub(crate) fn type_error(op: &str, inputs: &[&Node], why: &'static str) -> GraphError {
    let dtypes: Vec<String> = inputs
        .iter()
        .map(|node| format!("{:?}", node.dtype))
        .collect();
    GraphError::Type {
        op: op.to_owned(),
        dtypes: dtypes.join(" "),
        why,
    }
}

/// Checks that an operand has a type.
pub(crate) fn expect_type(
    op: &str,
    inputs: &[&Node],
    position: usize,
    dtype: DType,
    why: &'static str,
) -> Result<(), GraphError> {
    let got = inputs[position].dtype;
    let fits = got == dtype || (dtype == DType::F32 && got.is_real());
    if fits {
        Ok(())
    } else {
        Err(type_error(op, inputs, why))
    }
}
