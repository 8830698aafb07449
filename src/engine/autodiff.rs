//! Reverse-mode differentiation, graph to graph. Walks and sums; the rules lie with the ops.

use super::graph::{Builder, DType, Graph, NodeId, Shape};

/// Emits the gradients of `loss` (a real scalar) with respect to `wrt`.
///
/// May be called once per loss: forwards are shared, since equal nodes are one node. `None` where
/// the loss does not depend on a node.
///
/// # Panics
/// If `loss` is not a scalar, a defect of the model that builds the graph.
pub fn grad(graph: &mut Graph, loss: NodeId, wrt: &[NodeId]) -> Vec<Option<NodeId>> {
    assert_eq!(
        graph.node(loss).shape,
        Shape::default(),
        "a loss is a scalar"
    );
    let one = Builder::new(graph).constant(Shape::default(), &[1.0], DType::F32);
    gradients(graph, &[(loss, one)], wrt)
}

/// Emits the gradients of Σ ⟨output, seed⟩ with respect to `wrt`.
///
/// - `seeds`: outputs with the gradient that arrives at each.
pub fn gradients(
    graph: &mut Graph,
    seeds: &[(NodeId, NodeId)],
    wrt: &[NodeId],
) -> Vec<Option<NodeId>> {
    let n = graph.nodes().len();
    let mut arrived: Vec<Option<NodeId>> = vec![None; n];
    for (output, seed) in seeds {
        accumulate(graph, &mut arrived[output.idx()], *seed);
    }
    let depends = depends_on(graph, wrt, n);
    for idx in (0..n).rev() {
        let Some(grad) = arrived[idx] else { continue };
        if !depends[idx] {
            continue;
        }
        let id = NodeId(u32::try_from(idx).expect("fewer than 2^32 nodes"));
        let node = graph.node(id);
        let inputs = node.inputs.clone();
        if !inputs.iter().any(|input| depends[input.idx()]) {
            continue;
        }
        let op = node.op.clone();
        let parts = op.gradient(graph, id, grad);
        for (input, part) in inputs.iter().zip(parts) {
            if let Some(part) = part.filter(|_| depends[input.idx()]) {
                accumulate(graph, &mut arrived[input.idx()], part);
            }
        }
    }
    wrt.iter().map(|id| arrived[id.idx()]).collect()
}

fn accumulate(graph: &mut Graph, slot: &mut Option<NodeId>, part: NodeId) {
    *slot = Some(match *slot {
        None => part,
        Some(sum) => Builder::new(graph).add(sum, part),
    });
}

/// Marks nodes below `n` that depend on any of `wrt`.
fn depends_on(graph: &Graph, wrt: &[NodeId], n: usize) -> Vec<bool> {
    let mut depends = vec![false; n];
    for id in wrt {
        depends[id.idx()] = true;
    }
    for id in graph.ids().take(n) {
        if graph
            .node(id)
            .inputs
            .iter()
            .any(|input| depends[input.idx()])
        {
            depends[id.idx()] = true;
        }
    }
    depends
}
