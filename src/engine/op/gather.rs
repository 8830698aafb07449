//! Reads by index.

use super::{arity, expect_type, shape_error};
use crate::engine::graph::{Builder, DType, Graph, GraphError, Node, NodeId, Shape};
use crate::engine::op::Op;

/// A read by index. Indices out of range are a defect of the program that made them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Gather {
    /// `(table [N, …], index I32 [B…]) -> [B…, …]`. Tables carry no gradient.
    Rows,
    /// `(x [B, n, C], index I32 [B]) -> [B, C]`.
    Pick,
    /// `(x [B, C], index I32 [B]) -> [B, n, C]`, zero elsewhere: the transpose of `Pick`.
    Spread {
        /// Extent of the new axis.
        n: usize,
    },
}

impl Gather {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Rows => "rows".to_owned(),
            Self::Pick => "pick".to_owned(),
            Self::Spread { n } => format!("spread[{n}]"),
        }
    }

    pub(crate) fn infer(self, inputs: &[&Node]) -> Result<(Shape, DType), GraphError> {
        let name = self.name();
        arity(&name, inputs, 2)?;
        expect_type(&name, inputs, 1, DType::I32, "the index must be I32")?;
        let (x, index) = (&inputs[0].shape, &inputs[1].shape);
        let fail = |why| Err(shape_error(&name, inputs, why));
        let dims = match self {
            Self::Rows => {
                if x.rank() == 0 {
                    return fail("the table needs an axis");
                }
                [&index.0[..], &x.0[1..]].concat()
            }
            Self::Pick => {
                if x.rank() != 3 || index.0 != [x.0[0]] {
                    return fail("x is [B, n, C], index [B]");
                }
                vec![x.0[0], x.0[2]]
            }
            Self::Spread { n } => {
                if x.rank() != 2 || index.0 != [x.0[0]] {
                    return fail("x is [B, C], index [B]");
                }
                vec![x.0[0], n, x.0[1]]
            }
        };
        Ok((Shape(dims), inputs[0].dtype))
    }

    pub(crate) fn gradient(
        self,
        graph: &mut Graph,
        node: NodeId,
        grad: NodeId,
    ) -> Vec<Option<NodeId>> {
        let inputs = graph.node(node).inputs.clone();
        match self {
            Self::Rows => vec![None, None],
            Self::Pick => {
                let n = graph.node(inputs[0]).shape.0[1];
                let mut b = Builder::new(graph);
                let spread = b.push(Op::Gather(Self::Spread { n }), &[grad, inputs[1]]);
                vec![Some(spread), None]
            }
            Self::Spread { .. } => vec![Some(Builder::new(graph).pick(grad, inputs[1])), None],
        }
    }
}
