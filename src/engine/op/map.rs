//! Shape rule and gradient of pointwise ops.

use super::{ScalarOp, arity, shape_error, type_error};
use crate::engine::graph::{Builder, DType, Graph, GraphError, Node, NodeId, Shape};

/// Broadcasts shapes, aligned at their last axes; missing and unit axes repeat.
pub(crate) fn broadcast_shape(shapes: &[&Shape]) -> Option<Shape> {
    let rank = shapes.iter().map(|shape| shape.rank()).max().unwrap_or(0);
    let mut out = vec![1; rank];
    for shape in shapes {
        let skip = rank - shape.rank();
        for (axis, &extent) in shape.0.iter().enumerate() {
            let slot = &mut out[skip + axis];
            if *slot == 1 {
                *slot = extent;
            } else if extent != 1 && extent != *slot {
                return None;
            }
        }
    }
    Some(Shape(out))
}

/// Infers a pointwise node. Real operands mix and give F32; F64 and I32 mix with nothing.
///
/// I32 knows Add, Sub, Min, Max, comparisons and Select (its mask may be real).
pub(crate) fn infer(op: ScalarOp, inputs: &[&Node]) -> Result<(Shape, DType), GraphError> {
    let name = "map";
    arity(name, inputs, op.arity())?;
    let shapes: Vec<&Shape> = inputs.iter().map(|node| &node.shape).collect();
    let shape = broadcast_shape(&shapes)
        .ok_or_else(|| shape_error(name, inputs, "extents must be equal, 1 or missing"))?;
    let family = |node: &&Node| {
        if node.dtype.is_real() {
            DType::F32
        } else {
            node.dtype
        }
    };
    let valued = if op == ScalarOp::Select {
        &inputs[1..]
    } else {
        inputs
    };
    let dtype = family(&valued[0]);
    if valued.iter().any(|node| family(node) != dtype) {
        return Err(type_error(name, inputs, "operands must be of one family"));
    }
    if op == ScalarOp::Select && family(&inputs[0]) != DType::F32 {
        return Err(type_error(name, inputs, "a mask must be real"));
    }
    let is_comparison = matches!(
        op,
        ScalarOp::Less | ScalarOp::LessEqual | ScalarOp::Equal | ScalarOp::IsFinite
    );
    let fits_i32 = is_comparison
        || matches!(
            op,
            ScalarOp::Add | ScalarOp::Sub | ScalarOp::Min | ScalarOp::Max | ScalarOp::Select
        );
    if dtype == DType::I32 && !fits_i32 {
        return Err(type_error(
            name,
            inputs,
            "integers know add, sub, min, max, less, select",
        ));
    }
    Ok((shape, if is_comparison { DType::F32 } else { dtype }))
}

/// Emits the gradient of each operand, summed over the axes along which it was broadcast.
pub(crate) fn gradient(
    op: ScalarOp,
    graph: &mut Graph,
    node: NodeId,
    grad: NodeId,
) -> Vec<Option<NodeId>> {
    let inputs = graph.node(node).inputs.clone();
    if !graph.node(node).dtype.is_real() {
        return vec![None; inputs.len()];
    }
    let mut builder = Builder::new(graph);
    let partials = op.derivative(&mut builder, &inputs, node, grad);
    partials
        .into_iter()
        .zip(inputs)
        .map(|(partial, input)| partial.map(|partial| unbroadcast(&mut builder, partial, input)))
        .collect()
}

/// Sums `grad` down to the shape of `like`.
pub(crate) fn unbroadcast(b: &mut Builder<'_>, grad: NodeId, like: NodeId) -> NodeId {
    let target = b.shape(like);
    let mut grad = grad;
    let shape = b.shape(grad);
    if shape == target {
        return grad;
    }
    if shape.rank() < target.rank() || shape.n_elements() < target.n_elements() {
        // A partial of fewer elements than the operand (a constant slope) repeats instead.
        return b.broadcast(grad, target);
    }
    let n_missing = shape.rank() - target.rank();
    if n_missing > 0 {
        let collapsed: usize = shape.0[..n_missing].iter().product();
        let mut dims = vec![collapsed];
        dims.extend(&shape.0[n_missing..]);
        grad = b.reshape(grad, dims);
        grad = b.sum(grad, 0);
    }
    for axis in 0..target.rank() {
        let mut dims = b.shape(grad).0;
        if target.0[axis] == 1 && dims[axis] != 1 {
            grad = b.sum(grad, axis);
            dims[axis] = 1;
            grad = b.reshape(grad, dims);
        }
    }
    grad
}
