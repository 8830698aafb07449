//! Reductions over one axis.
//!
//! Sums have a written order on every backend: element i goes to partial i mod 32, then the
//! partials are added as a tree (16, 8, 4, 2, 1).

use super::{arity, map, shape_error, type_error};
use crate::engine::graph::{Builder, DType, Graph, GraphError, Node, NodeId, Shape};

/// What is computed over the axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReduceKind {
    /// Sum, in the written order.
    Sum,
    /// Largest element; a NaN comes out. Ties share no gradient: the first largest takes it all.
    Max,
    /// Position of the largest element as I32; ties give the lowest, NaN never wins.
    ArgMax,
}

/// A reduction; the axis disappears.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Reduce {
    /// What is computed.
    pub kind: ReduceKind,
    /// Axis of the operand.
    pub axis: usize,
}

impl Reduce {
    pub(crate) fn name(&self) -> String {
        format!("{:?}[{}]", self.kind, self.axis).to_lowercase()
    }

    pub(crate) fn infer(&self, inputs: &[&Node]) -> Result<(Shape, DType), GraphError> {
        arity("reduce", inputs, 1)?;
        let node = inputs[0];
        if self.axis >= node.shape.rank() {
            return Err(shape_error("reduce", inputs, "the axis must exist"));
        }
        if !node.dtype.is_real() {
            return Err(type_error("reduce", inputs, "the operand must be real"));
        }
        let mut dims = node.shape.0.clone();
        dims.remove(self.axis);
        let dtype = match self.kind {
            ReduceKind::Sum | ReduceKind::Max => DType::F32,
            ReduceKind::ArgMax => DType::I32,
        };
        Ok((Shape(dims), dtype))
    }

    pub(crate) fn gradient(
        &self,
        graph: &mut Graph,
        node: NodeId,
        grad: NodeId,
    ) -> Vec<Option<NodeId>> {
        let input = graph.node(node).inputs[0];
        let shape = graph.node(input).shape.clone();
        let mut b = Builder::new(graph);
        let mut unit = shape.0.clone();
        unit[self.axis] = 1;
        let spread = b.reshape(grad, unit.clone());
        match self.kind {
            ReduceKind::Sum => vec![Some(b.broadcast(spread, shape))],
            ReduceKind::Max => {
                let winner = b.reduce(ReduceKind::ArgMax, input, self.axis);
                let winner = b.reshape(winner, unit);
                let n = shape.0[self.axis];
                let mut dims = vec![1; shape.rank()];
                dims[self.axis] = n;
                let positions: Vec<f64> = (0..n).map(|i| i as f64).collect();
                let positions = b.constant(Shape(dims), &positions, DType::I32);
                let is_winner = b.equal(positions, winner);
                let zero = b.scalar(0.0);
                let out = b.select(is_winner, spread, zero);
                vec![Some(map::unbroadcast(&mut b, out, input))]
            }
            ReduceKind::ArgMax => vec![None],
        }
    }
}
