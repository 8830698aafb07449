//! The precision pass: one graph in, the same graph with explicit casts out.
//!
//! # Invariants
//! - Operands of every matrix product are of the arm's type; accumulation and all else stay F32.
//! - In bf16, flat parameter blocks are cast whole: weights and biases are read from one shadow
//!   copy. In tf32 the rounding belongs to the matrix product's operands alone.
//! - No backend adds or removes a rounding: what is not a cast node here is not rounded there.

use super::graph::{Builder, DType, Graph, NodeId};
use super::op::{Leaf, Op, StateId};

/// Rewrites `graph` for an arm.
///
/// - `dtype`: `F32` (the graph comes back as it is), `Tf32` or `Bf16`.
/// - `blocks`: states that hold parameters; every read of one becomes a read of its cast.
///
/// Returns the new graph and the image of each root.
pub fn apply(
    graph: &Graph,
    roots: &[NodeId],
    dtype: DType,
    blocks: &[StateId],
) -> (Graph, Vec<NodeId>) {
    let mut target = Graph::default();
    let image = graph.rewrite(roots, &mut target, |target, node, mut inputs| {
        let narrow = dtype != DType::F32;
        if narrow && matches!(node.op, Op::Gemm(_)) {
            let mut b = Builder::new(target);
            for input in &mut inputs {
                *input = b.cast(*input, dtype);
            }
        }
        let id = target.push(node.op.clone(), inputs).expect("casts keep shapes");
        match &node.op {
            Op::Leaf(Leaf::State { id: state, .. })
                if dtype == DType::Bf16 && blocks.contains(state) =>
            {
                Builder::new(target).cast(id, dtype)
            }
            _ => id,
        }
    });
    let roots = roots.iter().map(|root| image[root.idx()].expect("roots are needed")).collect();
    (target, roots)
}
