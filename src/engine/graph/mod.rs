//! The static-graph IR: typed, shaped nodes without a lane axis.
//!
//! # Invariants
//! - Nodes are in topological order: a node's inputs have smaller ids.
//! - Every node has exactly one output; shapes and types are inferred when it is pushed.
//! - Equal nodes (same op, same inputs) are one node: common subexpressions never exist twice.
//! - The lane axis is absent here; the backend gives every tensor a leading one.

mod builder;
mod dump;
#[cfg(test)]
mod tests;

pub use builder::Builder;

use super::op::Op;
use std::collections::HashMap;
use std::fmt;

/// Element type of a tensor.
///
/// `F32`, `Tf32` and `Bf16` are one family, *real*: the F64 oracle holds all three in double
/// precision, and the CPU holds all three in 32 bits, rounded as the type says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DType {
    /// Single precision.
    F32,
    /// Single precision rounded to a 10-bit mantissa.
    Tf32,
    /// bfloat16.
    Bf16,
    /// Double precision on every backend: evaluation accounting.
    F64,
    /// 32-bit integers: indices, counters, seed words.
    I32,
}

impl DType {
    /// Whether the type belongs to the real family.
    pub fn is_real(self) -> bool {
        match self {
            Self::F32 | Self::Tf32 | Self::Bf16 => true,
            Self::F64 | Self::I32 => false,
        }
    }
}

/// Extents of a tensor, outermost first, without the lane axis.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape(pub Vec<usize>);

impl Shape {
    /// Returns the number of elements; 1 for a scalar.
    pub fn n_elements(&self) -> usize {
        self.0.iter().product()
    }

    /// Returns the number of axes.
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// Splits the shape around `axis` into `(outer, n, inner)` element counts.
    pub fn around(&self, axis: usize) -> (usize, usize, usize) {
        let outer = self.0[..axis].iter().product();
        let inner = self.0[axis + 1..].iter().product();
        (outer, self.0[axis], inner)
    }
}

impl<const N: usize> From<[usize; N]> for Shape {
    fn from(dims: [usize; N]) -> Self {
        Self(dims.to_vec())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[")?;
        for (axis, extent) in self.0.iter().enumerate() {
            let comma = if axis == 0 { "" } else { ", " };
            write!(f, "{comma}{extent}")?;
        }
        write!(f, "]")
    }
}

/// Index of a node within its graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl NodeId {
    /// Returns the id as an index.
    pub fn idx(self) -> usize {
        self.0 as usize
    }
}

/// One operation, its inputs, and what comes out.
#[derive(Debug, Clone)]
pub struct Node {
    /// What is computed.
    pub op: Op,
    /// Operands, in the op's order.
    pub inputs: Vec<NodeId>,
    /// Shape of the output.
    pub shape: Shape,
    /// Type of the output.
    pub dtype: DType,
}

/// A mistake in building a graph; always a defect of the model that builds it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// Operand count differs from what the op takes.
    #[error("{op} takes {expected} inputs, got {got}")]
    Arity {
        /// Op name.
        op: String,
        /// Inputs it takes.
        expected: usize,
        /// Inputs given.
        got: usize,
    },
    /// Shapes do not fit the op.
    #[error("{op} cannot take shapes {shapes}: {why}")]
    Shape {
        /// Op name.
        op: String,
        /// Operand shapes.
        shapes: String,
        /// The rule that is broken.
        why: &'static str,
    },
    /// Types do not fit the op.
    #[error("{op} cannot take types {dtypes}: {why}")]
    Type {
        /// Op name.
        op: String,
        /// Operand types.
        dtypes: String,
        /// The rule that is broken.
        why: &'static str,
    },
}

/// A graph of nodes in topological order.
#[derive(Clone, Default)]
pub struct Graph {
    nodes: Vec<Node>,
    by_content: HashMap<(Op, Vec<NodeId>), NodeId>,
}

impl Graph {
    /// Appends a node, or returns the equal one that exists.
    ///
    /// # Errors
    /// [`GraphError`] if the inputs do not fit the op.
    pub fn push(&mut self, op: Op, inputs: Vec<NodeId>) -> Result<NodeId, GraphError> {
        let key = (op, inputs);
        if let Some(&id) = self.by_content.get(&key) {
            return Ok(id);
        }
        let operands: Vec<&Node> = key.1.iter().map(|id| &self.nodes[id.idx()]).collect();
        let (shape, dtype) = key.0.infer(&operands)?;
        let id =
            NodeId(u32::try_from(self.nodes.len()).expect("a graph has fewer than 2^32 nodes"));
        self.nodes.push(Node {
            op: key.0.clone(),
            inputs: key.1.clone(),
            shape,
            dtype,
        });
        self.by_content.insert(key, id);
        Ok(id)
    }

    /// Returns a node.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.idx()]
    }

    /// Returns the nodes in topological order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Iterates over ids in topological order.
    pub fn ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..u32::try_from(self.nodes.len()).expect("checked when pushed")).map(NodeId)
    }

    /// Marks what `roots` need.
    pub fn reachable(&self, roots: &[NodeId]) -> Vec<bool> {
        let mut needed = vec![false; self.nodes.len()];
        for root in roots {
            needed[root.idx()] = true;
        }
        for id in self.ids().rev() {
            if needed[id.idx()] {
                for input in &self.node(id).inputs {
                    needed[input.idx()] = true;
                }
            }
        }
        needed
    }

    /// Infers every node again and compares.
    ///
    /// # Errors
    /// The first [`GraphError`], which means a rewrite broke the graph.
    pub fn verify(&self) -> Result<(), GraphError> {
        for node in &self.nodes {
            let operands: Vec<&Node> = node.inputs.iter().map(|id| self.node(*id)).collect();
            let (shape, dtype) = node.op.infer(&operands)?;
            if shape != node.shape || dtype != node.dtype {
                return Err(GraphError::Shape {
                    op: node.op.name(),
                    shapes: format!("{} recorded, {shape} inferred", node.shape),
                    why: "a rewrite left a stale shape or type",
                });
            }
        }
        Ok(())
    }

    /// Copies the nodes that `roots` need into `target`, mapping each op and its inputs.
    ///
    /// - `map`: `(target, op, mapped inputs) -> node in target`.
    ///
    /// Returns, per node of `self`, its image where it was needed.
    pub fn rewrite(
        &self,
        roots: &[NodeId],
        target: &mut Graph,
        mut map: impl FnMut(&mut Graph, &Node, Vec<NodeId>) -> NodeId,
    ) -> Vec<Option<NodeId>> {
        let needed = self.reachable(roots);
        let mut image: Vec<Option<NodeId>> = vec![None; self.nodes.len()];
        for id in self.ids().filter(|id| needed[id.idx()]) {
            let node = self.node(id);
            let inputs = node
                .inputs
                .iter()
                .map(|i| image[i.idx()].expect("inputs come first"))
                .collect();
            image[id.idx()] = Some(map(target, node, inputs));
        }
        image
    }
}
