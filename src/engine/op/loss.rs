//! Softmax, cross-entropy and the categorical projection: rows in, rows out.
//!
//! Widths may be padded: only the first `n_valid` columns take part, the rest come out as 0.

use super::{arity, shape_error};
use crate::engine::graph::{Builder, DType, Graph, GraphError, Node, NodeId, Shape};
use crate::engine::op::Op;
use crate::engine::op::reduce::ReduceKind;

/// A fused row function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Loss {
    /// `x […, W] -> […, W]`.
    Softmax {
        /// Columns that take part.
        n_valid: usize,
    },
    /// `(logits […, W], target […, W]) -> […]`: −Σ target·log softmax(logits). The target is a
    /// constant: it gets no gradient.
    CrossEntropy {
        /// Columns that take part.
        n_valid: usize,
    },
    /// `(logits […, W], target […, W], grad […]) -> […, W]`: the gradient of `CrossEntropy`,
    /// grad·(softmax·Σtarget − target). Has no gradient of its own.
    CrossEntropyGrad {
        /// Columns that take part.
        n_valid: usize,
    },
    /// `(p [B, W], reward [B], discount [B], v_max []) -> [B, W]`: projects the distribution of
    /// reward + discount·z back onto the support z of `n_valid` atoms in ±v_max. No gradient.
    ///
    /// Source: Bellemare, Dabney and Munos 2017, Algorithm 1, as a dense triangular kernel.
    Project {
        /// Number of atoms.
        n_valid: usize,
    },
}

impl Loss {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Softmax { n_valid } => format!("softmax[{n_valid}]"),
            Self::CrossEntropy { n_valid } => format!("cross_entropy[{n_valid}]"),
            Self::CrossEntropyGrad { n_valid } => format!("cross_entropy_grad[{n_valid}]"),
            Self::Project { n_valid } => format!("project[{n_valid}]"),
        }
    }

    pub(crate) fn infer(self, inputs: &[&Node]) -> Result<(Shape, DType), GraphError> {
        let name = self.name();
        let (n_inputs, n_valid) = match self {
            Self::Softmax { n_valid } => (1, n_valid),
            Self::CrossEntropy { n_valid } => (2, n_valid),
            Self::CrossEntropyGrad { n_valid } => (3, n_valid),
            Self::Project { n_valid } => (4, n_valid),
        };
        arity(&name, inputs, n_inputs)?;
        let fail = |why| Err(shape_error(&name, inputs, why));
        let x = &inputs[0].shape;
        let Some(&width) = x.0.last() else {
            return fail("rows are needed");
        };
        if n_valid == 0 || n_valid > width {
            return fail("the valid width must lie within the row");
        }
        let rows = Shape(x.0[..x.rank() - 1].to_vec());
        let fits = match self {
            Self::Softmax { .. } => true,
            Self::CrossEntropy { .. } => inputs[1].shape == *x,
            Self::CrossEntropyGrad { .. } => inputs[1].shape == *x && inputs[2].shape == rows,
            Self::Project { .. } => {
                n_valid >= 2
                    && x.rank() == 2
                    && inputs[1].shape == rows
                    && inputs[2].shape == rows
                    && inputs[3].shape.rank() == 0
            }
        };
        if !fits {
            return fail("operands must agree in rows and width");
        }
        let shape = match self {
            Self::CrossEntropy { .. } => rows,
            Self::Softmax { .. } | Self::CrossEntropyGrad { .. } | Self::Project { .. } => {
                x.clone()
            }
        };
        Ok((shape, DType::F32))
    }

    pub(crate) fn gradient(
        self,
        graph: &mut Graph,
        node: NodeId,
        grad: NodeId,
    ) -> Vec<Option<NodeId>> {
        let inputs = graph.node(node).inputs.clone();
        let mut b = Builder::new(graph);
        match self {
            Self::Softmax { .. } => {
                let last = b.shape(node).rank() - 1;
                let weighted = b.mul(grad, node);
                let total = b.sum(weighted, last);
                let mut unit = b.shape(node).0;
                unit[last] = 1;
                let total = b.reshape(total, unit);
                let centred = b.sub(grad, total);
                vec![Some(b.mul(node, centred))]
            }
            Self::CrossEntropy { n_valid } => {
                let op = Self::CrossEntropyGrad { n_valid };
                vec![Some(b.loss(op, &[inputs[0], inputs[1], grad])), None]
            }
            Self::CrossEntropyGrad { .. } | Self::Project { .. } => vec![None; inputs.len()],
        }
    }

    /// Emits the definition in simpler ops.
    pub(crate) fn expand(self, graph: &mut Graph, inputs: &[NodeId]) -> NodeId {
        let mut b = Builder::new(graph);
        match self {
            Self::Softmax { n_valid } => expand_softmax(&mut b, inputs[0], n_valid),
            Self::CrossEntropy { n_valid } => {
                let last = b.shape(inputs[0]).rank() - 1;
                let x = b.slice(inputs[0], last, 0, n_valid);
                let target = b.slice(inputs[1], last, 0, n_valid);
                let lse = log_sum_exp(&mut b, x);
                let distance = b.sub(lse, x);
                let terms = b.mul(target, distance);
                b.sum(terms, last)
            }
            Self::CrossEntropyGrad { n_valid } => {
                let last = b.shape(inputs[0]).rank() - 1;
                let mut unit = b.shape(inputs[0]).0;
                unit[last] = 1;
                let width = b.shape(inputs[0]).0[last];
                let p = expand_softmax(&mut b, inputs[0], n_valid);
                let valid = b.slice(inputs[1], last, 0, n_valid);
                let total = b.sum(valid, last);
                let total = b.reshape(total, unit.clone());
                let scaled = b.mul(p, total);
                let target = pad_last(&mut b, valid, width);
                let difference = b.sub(scaled, target);
                let grad = b.reshape(inputs[2], unit);
                b.mul(grad, difference)
            }
            Self::Project { n_valid } => expand_project(&mut b, inputs, n_valid),
        }
    }
}

fn pad_last(b: &mut Builder<'_>, x: NodeId, width: usize) -> NodeId {
    let axis = b.shape(x).rank() - 1;
    let after = width - b.shape(x).0[axis];
    if after == 0 {
        return x;
    }
    b.push(
        Op::Layout(super::Layout::Pad {
            axis,
            before: 0,
            after,
        }),
        &[x],
    )
}

/// ln Σ e^x over the last axis, kept as a unit axis.
fn log_sum_exp(b: &mut Builder<'_>, x: NodeId) -> NodeId {
    let last = b.shape(x).rank() - 1;
    let mut unit = b.shape(x).0;
    unit[last] = 1;
    let top = b.reduce(ReduceKind::Max, x, last);
    let top = b.reshape(top, unit.clone());
    let top = b.stop_gradient(top);
    let shifted = b.sub(x, top);
    let powers = b.exp(shifted);
    let total = b.sum(powers, last);
    let total = b.reshape(total, unit);
    let log = b.ln(total);
    b.add(log, top)
}

fn expand_softmax(b: &mut Builder<'_>, x: NodeId, n_valid: usize) -> NodeId {
    let last = b.shape(x).rank() - 1;
    let width = b.shape(x).0[last];
    let valid = b.slice(x, last, 0, n_valid);
    let mut unit = b.shape(valid).0;
    unit[last] = 1;
    let top = b.reduce(ReduceKind::Max, valid, last);
    let top = b.reshape(top, unit.clone());
    let top = b.stop_gradient(top);
    let shifted = b.sub(valid, top);
    let powers = b.exp(shifted);
    let total = b.sum(powers, last);
    let total = b.reshape(total, unit);
    let p = b.div(powers, total);
    pad_last(b, p, width)
}

/// m_i = Σ_j p_j · clip(1 − |clip(r + γ z_j) − z_i| / Δz, 0, 1).
fn expand_project(b: &mut Builder<'_>, inputs: &[NodeId], n_valid: usize) -> NodeId {
    let (p, reward, discount, v_max) = (inputs[0], inputs[1], inputs[2], inputs[3]);
    let dims = b.shape(p).0;
    let (rows, width) = (dims[0], dims[1]);
    let unit: Vec<f64> = (0..n_valid)
        .map(|i| 2.0 * i as f64 / (n_valid - 1) as f64 - 1.0)
        .collect();
    let unit = b.constant(Shape::from([n_valid]), &unit, DType::F32);
    let z = b.mul(unit, v_max);
    let reward = b.reshape(reward, [rows, 1]);
    let discount = b.reshape(discount, [rows, 1]);
    let scaled = b.mul(discount, z);
    let moved = b.add(reward, scaled);
    let v_min = b.neg(v_max);
    let moved = b.min(moved, v_max);
    let moved = b.max(moved, v_min);
    let moved = b.reshape(moved, [rows, n_valid, 1]);
    let distance = b.sub(moved, z);
    let distance = b.map(super::ScalarOp::Abs, &[distance]);
    let atoms = b.scalar((n_valid - 1) as f64 / 2.0);
    let per_unit = b.div(atoms, v_max);
    let distance = b.mul(distance, per_unit);
    let one = b.scalar(1.0);
    let zero = b.scalar(0.0);
    let weight = b.sub(one, distance);
    let weight = b.max(weight, zero);
    let valid = b.slice(p, 1, 0, n_valid);
    let mass = b.reshape(valid, [rows, n_valid, 1]);
    let terms = b.mul(mass, weight);
    let m = b.sum(terms, 1);
    pad_last(b, m, width)
}
