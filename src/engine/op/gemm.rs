//! Matrix product.
//!
//! Accumulates in F32 (F64 in the oracle) whatever the operands' types; the order along k is the
//! backend's, pinned per shape, and never depends on the number of lanes.

use super::{arity, shape_error, type_error};
use crate::engine::graph::{DType, Graph, GraphError, Node, NodeId, Shape};
use crate::engine::op::Op;

/// `op(A) · op(B)` over the last two axes; leading axes are equal batch axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Gemm {
    /// Whether A is stored `[k, m]`.
    pub trans_a: bool,
    /// Whether B is stored `[n, k]`.
    pub trans_b: bool,
}

/// Extents of a matrix product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GemmExtents {
    /// Product of the leading axes.
    pub batch: usize,
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Summed extent.
    pub k: usize,
}

impl Gemm {
    pub(crate) fn name(self) -> String {
        let mark = |transposed| if transposed { "t" } else { "n" };
        format!("gemm_{}{}", mark(self.trans_a), mark(self.trans_b))
    }

    /// Returns the extents for operand shapes; `None` if they do not fit.
    pub fn extents(self, a: &Shape, b: &Shape) -> Option<GemmExtents> {
        let rank = a.rank();
        if rank < 2 || b.rank() != rank || a.0[..rank - 2] != b.0[..rank - 2] {
            return None;
        }
        let batch = a.0[..rank - 2].iter().product();
        let (a0, a1) = (a.0[rank - 2], a.0[rank - 1]);
        let (b0, b1) = (b.0[rank - 2], b.0[rank - 1]);
        let (m, k) = if self.trans_a { (a1, a0) } else { (a0, a1) };
        let (k_b, n) = if self.trans_b { (b1, b0) } else { (b0, b1) };
        (k == k_b).then_some(GemmExtents { batch, m, n, k })
    }

    pub(crate) fn infer(self, inputs: &[&Node]) -> Result<(Shape, DType), GraphError> {
        arity("gemm", inputs, 2)?;
        let (a, b) = (inputs[0], inputs[1]);
        if a.dtype != b.dtype || !a.dtype.is_real() {
            return Err(type_error(
                "gemm",
                inputs,
                "operands must share a real type",
            ));
        }
        let extents = self
            .extents(&a.shape, &b.shape)
            .ok_or_else(|| shape_error("gemm", inputs, "inner and batch extents must be equal"))?;
        let mut dims = a.shape.0[..a.shape.rank() - 2].to_vec();
        dims.extend([extents.m, extents.n]);
        Ok((Shape(dims), DType::F32))
    }

    /// C = AB: dA = dC·Bᵀ, dB = Aᵀ·dC, and their transposes.
    pub(crate) fn gradient(
        self,
        graph: &mut Graph,
        node: NodeId,
        grad: NodeId,
    ) -> Vec<Option<NodeId>> {
        let inputs = graph.node(node).inputs.clone();
        let (a, b) = (inputs[0], inputs[1]);
        let mut product = |x, trans_a, y, trans_b| {
            let op = Op::Gemm(Self { trans_a, trans_b });
            Some(
                graph
                    .push(op, vec![x, y])
                    .expect("extents follow from the product's"),
            )
        };
        let da = if self.trans_a {
            product(b, self.trans_b, grad, true)
        } else {
            product(grad, false, b, !self.trans_b)
        };
        let db = if self.trans_b {
            product(grad, true, a, self.trans_a)
        } else {
            product(a, !self.trans_a, grad, false)
        };
        vec![da, db]
    }
}
