//! Ops that move elements without arithmetic.

use super::{arity, map::broadcast_shape, map::unbroadcast, shape_error, type_error};
use crate::engine::graph::{Builder, DType, Graph, GraphError, Node, NodeId, Shape};
use crate::engine::op::Op;

/// A movement of elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Same elements in row-major order, another shape. Costs nothing: a view.
    Reshape(Shape),
    /// Swaps the last two axes.
    Transpose,
    /// Positions `start .. start + len` of an axis. A view where the axis is the first.
    Slice {
        /// Axis.
        axis: usize,
        /// First position.
        start: usize,
        /// Number of positions.
        len: usize,
    },
    /// Zeros around the operand along one axis: the transpose of `Slice`.
    Pad {
        /// Axis.
        axis: usize,
        /// Zeros in front.
        before: usize,
        /// Zeros behind.
        after: usize,
    },
    /// Joins operands along an axis; along the first, operands are computed in place.
    Concat {
        /// Axis.
        axis: usize,
    },
    /// Repeats along missing and unit axes, aligned at the last axis.
    Broadcast(Shape),
    /// Same value; the gradient stops here. A view.
    StopGradient,
}

impl Layout {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Reshape(_) => "reshape".to_owned(),
            Self::Transpose => "transpose".to_owned(),
            Self::Slice { axis, start, len } => format!("slice[{axis}: {start}+{len}]"),
            Self::Pad {
                axis,
                before,
                after,
            } => format!("pad[{axis}: {before}+{after}]"),
            Self::Concat { axis } => format!("concat[{axis}]"),
            Self::Broadcast(_) => "broadcast".to_owned(),
            Self::StopGradient => "stop_gradient".to_owned(),
        }
    }

    // tidy: long, because it is one match with an arm per movement.
    pub(crate) fn infer(&self, inputs: &[&Node]) -> Result<(Shape, DType), GraphError> {
        let name = self.name();
        let Some(first) = inputs.first() else {
            return Err(GraphError::Arity {
                op: name,
                expected: 1,
                got: 0,
            });
        };
        let dtype = first.dtype;
        let fail = |why| Err(shape_error(&name, inputs, why));
        if !matches!(self, Self::Concat { .. }) {
            arity(&name, inputs, 1)?;
        }
        let mut dims = first.shape.0.clone();
        match self {
            Self::Reshape(shape) => {
                if shape.n_elements() != first.shape.n_elements() {
                    return fail("element counts must be equal");
                }
                dims.clone_from(&shape.0);
            }
            Self::Transpose => {
                let rank = dims.len();
                if rank < 2 {
                    return fail("two axes are needed");
                }
                dims.swap(rank - 2, rank - 1);
            }
            Self::Slice { axis, start, len } => {
                if *axis >= dims.len() || start + len > dims[*axis] || *len == 0 {
                    return fail("the range must lie within the axis");
                }
                dims[*axis] = *len;
            }
            Self::Pad {
                axis,
                before,
                after,
            } => {
                if *axis >= dims.len() {
                    return fail("the axis must exist");
                }
                dims[*axis] += before + after;
            }
            Self::Concat { axis } => {
                if *axis >= dims.len() {
                    return fail("the axis must exist");
                }
                for other in &inputs[1..] {
                    let same_rank = other.shape.rank() == dims.len();
                    let fits = |(i, extent): (usize, &usize)| i == *axis || *extent == dims[i];
                    if !same_rank || !other.shape.0.iter().enumerate().all(fits) {
                        return fail("other axes must be equal");
                    }
                    if other.dtype != dtype {
                        return Err(type_error(&name, inputs, "operands must be of one type"));
                    }
                    dims[*axis] += other.shape.0[*axis];
                }
            }
            Self::Broadcast(shape) => {
                if broadcast_shape(&[&first.shape, shape]).as_ref() != Some(shape) {
                    return fail("extents must be equal, 1 or missing");
                }
                dims.clone_from(&shape.0);
            }
            Self::StopGradient => {}
        }
        Ok((Shape(dims), dtype))
    }

    pub(crate) fn gradient(
        &self,
        graph: &mut Graph,
        node: NodeId,
        grad: NodeId,
    ) -> Vec<Option<NodeId>> {
        let inputs = graph.node(node).inputs.clone();
        let shape = graph.node(inputs[0]).shape.clone();
        let mut b = Builder::new(graph);
        match self {
            Self::Reshape(_) => vec![Some(b.reshape(grad, shape))],
            Self::Transpose => vec![Some(b.transpose(grad))],
            Self::Slice { axis, start, len } => {
                let after = shape.0[*axis] - start - len;
                let pad = Self::Pad {
                    axis: *axis,
                    before: *start,
                    after,
                };
                vec![Some(b.push(Op::Layout(pad), &[grad]))]
            }
            Self::Pad { axis, before, .. } => {
                vec![Some(b.slice(grad, *axis, *before, shape.0[*axis]))]
            }
            Self::Concat { axis } => {
                let mut start = 0;
                inputs
                    .iter()
                    .map(|input| {
                        let len = b.shape(*input).0[*axis];
                        start += len;
                        Some(b.slice(grad, *axis, start - len, len))
                    })
                    .collect()
            }
            Self::Broadcast(_) => vec![Some(unbroadcast(&mut b, grad, inputs[0]))],
            Self::StopGradient => vec![None],
        }
    }
}
