//! Fuses chains of pointwise ops of the real family into regions.
//!
//! # Invariants
//! - A region computes exactly what its nodes compute one by one, casts included: it changes no
//!   bit, only how often memory is touched.
//! - A node joins its only consumer, never two, so nothing is computed twice.

use crate::engine::graph::{DType, Graph, NodeId, Shape};
use crate::engine::op::{Layout, Leaf, Op, ScalarOp};

/// Longest region: registers of a chunk stay in the first-level cache.
pub const INSTRUCTIONS_MAX: usize = 24;
/// Most operands of a region.
pub const INPUTS_MAX: usize = 12;

/// One scalar operation of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RegionOp {
    /// A scalar function.
    Scalar(ScalarOp),
    /// A rounding within the real family; to F32 it changes nothing.
    Round(DType),
}

/// One instruction; registers are numbered operands first, then constants, then results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// What.
    pub op: RegionOp,
    /// Operand registers; unused ones repeat the first.
    pub args: [u16; 3],
}

/// A fused pointwise kernel.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Region {
    /// Number of operands.
    pub n_inputs: usize,
    /// Scalar constants, as f64 bits.
    pub constants: Vec<u64>,
    /// Straight-line code; the last result is the output.
    pub code: Vec<Instruction>,
    /// Collapsed extents of the output, outermost first, at least one.
    pub extents: Vec<usize>,
    /// Per operand, element strides per extent; the innermost is 0 or 1.
    pub strides: Vec<Vec<usize>>,
}

/// Whether a node may be part of a region.
pub(crate) fn is_fusible(graph: &Graph, id: NodeId) -> bool {
    let node = graph.node(id);
    let inputs_real = node
        .inputs
        .iter()
        .all(|input| graph.node(*input).dtype.is_real());
    let kind = matches!(
        node.op,
        Op::Map(_) | Op::Cast(_) | Op::Layout(Layout::Broadcast(_))
    );
    kind && node.dtype.is_real() && inputs_real
}

/// Decides, for each node, whether it is computed inside its consumer's region.
///
/// - `n_uses`: consumers of each node, effects included.
pub(crate) fn absorbed(graph: &Graph, needed: &[bool], n_uses: &[usize]) -> Vec<bool> {
    let mut inside = vec![false; graph.nodes().len()];
    let mut head: Vec<NodeId> = graph.ids().collect();
    let mut n_code = vec![1usize; graph.nodes().len()];
    let mut n_inputs: Vec<usize> = graph.nodes().iter().map(|node| node.inputs.len()).collect();
    for id in graph
        .ids()
        .rev()
        .filter(|id| needed[id.idx()] && is_fusible(graph, *id))
    {
        let root = head[id.idx()];
        for input in &graph.node(id).inputs {
            let joins = !inside[input.idx()]
                && is_fusible(graph, *input)
                && n_uses[input.idx()] == 1
                && graph.node(*input).shape == graph.node(id).shape
                && n_code[root.idx()] < INSTRUCTIONS_MAX
                && n_inputs[root.idx()] + n_inputs[input.idx()] <= INPUTS_MAX;
            if joins {
                inside[input.idx()] = true;
                head[input.idx()] = root;
                n_code[root.idx()] += 1;
                n_inputs[root.idx()] += n_inputs[input.idx()];
            }
        }
    }
    inside
}

/// Builds the region whose output is `root`.
///
/// Returns it with the nodes that are its operands.
// tidy: long, because registers, code and strides are numbered by one scheme.
pub(crate) fn build(graph: &Graph, root: NodeId, inside: &[bool]) -> (Region, Vec<NodeId>) {
    let mut members = Vec::new();
    collect(graph, root, inside, &mut members);
    let mut operands: Vec<NodeId> = Vec::new();
    let mut constants: Vec<u64> = Vec::new();
    for member in &members {
        for input in graph
            .node(*member)
            .inputs
            .iter()
            .filter(|input| !members.contains(input))
        {
            match scalar_constant(graph, *input) {
                Some(bits) if !constants.contains(&bits) => constants.push(bits),
                Some(_) => {}
                None if !operands.contains(input) => operands.push(*input),
                None => {}
            }
        }
    }
    let register = |id: NodeId| {
        let position = members.iter().position(|member| *member == id);
        let number = match (position, scalar_constant(graph, id)) {
            (Some(position), _) => operands.len() + constants.len() + position,
            (None, Some(bits)) => {
                let at = constants
                    .iter()
                    .position(|c| *c == bits)
                    .expect("collected above");
                operands.len() + at
            }
            (None, None) => operands
                .iter()
                .position(|operand| *operand == id)
                .expect("collected above"),
        };
        u16::try_from(number).expect("regions are short")
    };
    let code = members
        .iter()
        .map(|member| {
            let node = graph.node(*member);
            let op = match &node.op {
                Op::Cast(dtype) => RegionOp::Round(*dtype),
                Op::Layout(Layout::Broadcast(_)) => RegionOp::Round(DType::F32),
                Op::Map(op) => RegionOp::Scalar(*op),
                other => unreachable!("{} is not pointwise", other.name()),
            };
            let first = register(node.inputs[0]);
            let mut args = [first; 3];
            for (slot, input) in args.iter_mut().zip(&node.inputs) {
                *slot = register(*input);
            }
            Instruction { op, args }
        })
        .collect();
    let shape = &graph.node(root).shape;
    let strides: Vec<Vec<usize>> = operands
        .iter()
        .map(|id| broadcast_strides(&graph.node(*id).shape, shape))
        .collect();
    let (extents, strides) = collapse(&shape.0, strides);
    let region = Region {
        n_inputs: operands.len(),
        constants,
        code,
        extents,
        strides,
    };
    (region, operands)
}

/// Members in topological order.
fn collect(graph: &Graph, id: NodeId, inside: &[bool], members: &mut Vec<NodeId>) {
    for input in &graph.node(id).inputs {
        if inside[input.idx()] && !members.contains(input) {
            collect(graph, *input, inside, members);
        }
    }
    members.push(id);
}

fn scalar_constant(graph: &Graph, id: NodeId) -> Option<u64> {
    match &graph.node(id).op {
        Op::Leaf(Leaf::Constant { bits, .. }) if bits.len() == 1 => Some(bits[0]),
        _other => None,
    }
}

/// Element strides of an operand over the output's axes; 0 along repeated ones.
pub(crate) fn broadcast_strides(operand: &Shape, output: &Shape) -> Vec<usize> {
    let skip = output.rank() - operand.rank();
    let mut strides = vec![0; output.rank()];
    let mut stride = 1;
    for axis in (0..operand.rank()).rev() {
        let extent = operand.0[axis];
        if extent != 1 {
            strides[skip + axis] = stride;
        }
        stride *= extent;
    }
    strides
}

/// Merges neighbouring axes that every operand walks alike, and drops unit axes.
fn collapse(dims: &[usize], strides: Vec<Vec<usize>>) -> (Vec<usize>, Vec<Vec<usize>>) {
    let mut extents: Vec<usize> = Vec::new();
    let mut merged: Vec<Vec<usize>> = vec![Vec::new(); strides.len()];
    for axis in (0..dims.len()).rev().filter(|&axis| dims[axis] != 1) {
        let joins = extents.last().is_some_and(|&inner| {
            strides
                .iter()
                .zip(&merged)
                .all(|(all, kept)| all[axis] == kept.last().expect("one per extent") * inner)
        });
        if joins {
            *extents.last_mut().expect("checked") *= dims[axis];
        } else {
            extents.push(dims[axis]);
            for (all, kept) in strides.iter().zip(&mut merged) {
                kept.push(all[axis]);
            }
        }
    }
    if extents.is_empty() {
        extents.push(1);
        merged.iter_mut().for_each(|kept| kept.push(0));
    }
    extents.reverse();
    merged.iter_mut().for_each(|kept| kept.reverse());
    (extents, merged)
}
