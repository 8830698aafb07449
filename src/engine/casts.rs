//! The precision pass: one graph in, the same graph with explicit casts out.
//!
//! # Invariants
//! - Operands of every matrix product are of the arm's type, in the bodies of loops too;
//!   accumulation, carries and all else stay F32.
//! - In bf16, flat parameter blocks are cast whole: weights and biases are read from one shadow
//!   copy. In tf32 the rounding belongs to the matrix product's operands alone.
//! - Effects receive the types they received before: a block that is stored elsewhere as it is
//!   (a snapshot, a hard target update) is the F32 master, not its shadow.
//! - No backend adds or removes a rounding: what is not a cast node here is not rounded there.
//! - Applying the pass twice is applying it once.

use super::graph::{Builder, DType, Graph, Node, NodeId};
use super::op::{Layout, Leaf, Op, Recur, StateId};

/// Rewrites `graph` for an arm.
///
/// - `dtype`: `F32` (every needed node comes back as it is), `Tf32` or `Bf16`.
/// - `blocks`: states that hold parameters; every read of one becomes a read of its cast.
///
/// Returns the new graph and the image of each root, of the root's own type.
pub fn apply(
    graph: &Graph,
    roots: &[NodeId],
    dtype: DType,
    blocks: &[StateId],
) -> (Graph, Vec<NodeId>) {
    Pass {
        dtype,
        blocks,
        arguments: &[],
    }
    .run(graph, roots)
}

struct Pass<'a> {
    dtype: DType,
    blocks: &'a [StateId],
    /// Types of a body's arguments; empty outside loops.
    arguments: &'a [DType],
}

impl Pass<'_> {
    fn run(&self, graph: &Graph, roots: &[NodeId]) -> (Graph, Vec<NodeId>) {
        let mut target = Graph::default();
        let image = graph.rewrite(roots, &mut target, |target, node, inputs| {
            self.node(target, node, inputs)
        });
        let images = roots
            .iter()
            .map(|root| {
                if self.is_moved_block(graph, *root) {
                    return plain(graph, *root, &mut target);
                }
                let id = image[root.idx()].expect("roots are needed");
                Builder::new(&mut target).cast(id, graph.node(*root).dtype)
            })
            .collect();
        (target, images)
    }

    fn node(&self, target: &mut Graph, node: &Node, mut inputs: Vec<NodeId>) -> NodeId {
        let mut b = Builder::new(target);
        let op = match &node.op {
            Op::Gemm(_) if self.dtype != DType::F32 => {
                for input in &mut inputs {
                    *input = b.cast(*input, self.dtype);
                }
                node.op.clone()
            }
            Op::Layout(Layout::Concat { .. }) => {
                let first = b.dtype(inputs[0]);
                if inputs.iter().any(|input| b.dtype(*input) != first) {
                    // Parts of a shadow meet F32: widened, which rounds nothing.
                    for input in &mut inputs {
                        *input = b.cast(*input, DType::F32);
                    }
                }
                node.op.clone()
            }
            Op::Cast(to) if b.dtype(inputs[0]) == *to => return inputs[0],
            Op::Leaf(Leaf::Argument {
                position,
                shape,
                dtype,
            }) => {
                let dtype = self
                    .arguments
                    .get(*position as usize)
                    .copied()
                    .unwrap_or(*dtype);
                Op::Leaf(Leaf::Argument {
                    position: *position,
                    shape: shape.clone(),
                    dtype,
                })
            }
            Op::Recur(op) => Op::Recur(self.recur(&mut b, op, &mut inputs)),
            other => other.clone(),
        };
        let id = target.push(op, inputs).expect("casts keep shapes");
        if self.is_shadowed(node) {
            Builder::new(target).cast(id, self.dtype)
        } else {
            id
        }
    }

    /// Rewrites a loop's body: carries stay F32, other arguments take their operands' types.
    fn recur(&self, b: &mut Builder<'_>, op: &Recur, inputs: &mut [NodeId]) -> Recur {
        for carry in &mut inputs[..op.n_carries] {
            *carry = b.cast(*carry, DType::F32);
        }
        let arguments: Vec<DType> = inputs.iter().map(|input| b.dtype(*input)).collect();
        let body = Pass {
            dtype: self.dtype,
            blocks: self.blocks,
            arguments: &arguments,
        };
        op.map_body(|graph, roots| body.run(graph, roots))
    }

    fn is_shadowed(&self, node: &Node) -> bool {
        let Op::Leaf(Leaf::State { id, .. }) = &node.op else {
            return false;
        };
        self.dtype == DType::Bf16 && self.blocks.contains(id)
    }

    /// Whether a node is a block whose elements are only moved.
    fn is_moved_block(&self, graph: &Graph, mut id: NodeId) -> bool {
        while let (Op::Layout(_), [only]) = (&graph.node(id).op, graph.node(id).inputs.as_slice()) {
            id = *only;
        }
        self.is_shadowed(graph.node(id))
    }
}

/// Copies a node and what it needs without casts.
fn plain(graph: &Graph, root: NodeId, target: &mut Graph) -> NodeId {
    let image = graph.rewrite(&[root], target, |target, node, inputs| {
        target
            .push(node.op.clone(), inputs)
            .expect("the graph was verified")
    });
    image[root.idx()].expect("the root is needed")
}
