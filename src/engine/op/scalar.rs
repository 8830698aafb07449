//! Scalar functions: value, derivative, and answers for NaN, signed zeros and ties, in one place.

use crate::engine::graph::{Builder, NodeId};
use crate::engine::real::Real;

/// A function of one, two or three scalars.
///
/// Comparisons give 1 or 0. Masks are reals; anything but 0 selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ScalarOp {
    /// a + b.
    Add,
    /// a − b.
    Sub,
    /// a · b.
    Mul,
    /// a / b, IEEE.
    Div,
    /// Larger of the two; a NaN in either comes out; a tie gives b.
    Max,
    /// Smaller of the two; a NaN in either comes out; a tie gives b.
    Min,
    /// −a.
    Neg,
    /// |a|.
    Abs,
    /// Square root; NaN below 0.
    Sqrt,
    /// e^a.
    Exp,
    /// Natural logarithm; −∞ at 0, NaN below.
    Ln,
    /// Hyperbolic tangent.
    Tanh,
    /// 1 / (1 + e^−a).
    Sigmoid,
    /// ln(1 + e^a).
    Softplus,
    /// a above 0, else 0; NaN stays NaN; derivative 0 at 0.
    Relu,
    /// Largest integer not above a.
    Floor,
    /// 1 where a < b, else 0; 0 with a NaN.
    Less,
    /// 1 where a ≤ b, else 0; 0 with a NaN.
    LessEqual,
    /// 1 where a = b, else 0; 0 with a NaN; −0 equals 0.
    Equal,
    /// b where a ≠ 0, else c; a NaN condition selects b.
    Select,
    /// 1 where a is finite, else 0.
    IsFinite,
}

impl ScalarOp {
    /// Returns the operand count.
    pub fn arity(self) -> usize {
        match self {
            Self::Neg
            | Self::Abs
            | Self::Sqrt
            | Self::Exp
            | Self::Ln
            | Self::Tanh
            | Self::Sigmoid
            | Self::Softplus
            | Self::Relu
            | Self::Floor
            | Self::IsFinite => 1,
            Self::Add
            | Self::Sub
            | Self::Mul
            | Self::Div
            | Self::Max
            | Self::Min
            | Self::Less
            | Self::LessEqual
            | Self::Equal => 2,
            Self::Select => 3,
        }
    }

    /// Returns how many units in the last place F32 may differ from the exact value.
    ///
    /// Functions that IEEE 754 rounds correctly, and those that round nothing, differ by none.
    pub fn ulp_max(self) -> u32 {
        match self {
            Self::Exp | Self::Ln => 2,
            Self::Tanh | Self::Sigmoid | Self::Softplus => 4,
            Self::Add
            | Self::Sub
            | Self::Mul
            | Self::Div
            | Self::Max
            | Self::Min
            | Self::Neg
            | Self::Abs
            | Self::Sqrt
            | Self::Relu
            | Self::Floor
            | Self::Less
            | Self::LessEqual
            | Self::Equal
            | Self::Select
            | Self::IsFinite => 0,
        }
    }

    /// Evaluates the function; unused operands are ignored.
    #[inline(always)]
    pub fn eval<R: Real>(self, a: R, b: R, c: R) -> R {
        let truth = |holds: bool| if holds { R::ONE } else { R::ZERO };
        match self {
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::Mul => a * b,
            Self::Div => a / b,
            Self::Max => {
                if a > b || a.is_nan() {
                    a
                } else {
                    b
                }
            }
            Self::Min => {
                if a < b || a.is_nan() {
                    a
                } else {
                    b
                }
            }
            Self::Neg => -a,
            Self::Abs => a.abs(),
            Self::Sqrt => a.sqrt(),
            Self::Exp => a.exp(),
            Self::Ln => a.ln(),
            Self::Tanh => a.tanh(),
            Self::Sigmoid => a.sigmoid(),
            Self::Softplus => a.softplus(),
            Self::Relu => {
                if a > R::ZERO || a.is_nan() {
                    a
                } else {
                    R::ZERO
                }
            }
            Self::Floor => a.floor(),
            Self::Less => truth(a < b),
            Self::LessEqual => truth(a <= b),
            Self::Equal => truth(a == b),
            Self::Select => {
                if a != R::ZERO {
                    b
                } else {
                    c
                }
            }
            Self::IsFinite => truth(a.is_finite()),
        }
    }

    /// Emits the partial derivative times `grad` for each operand; `None` where it is zero.
    ///
    /// Derivatives of `Relu`, `Exp`, `Tanh`, `Sigmoid` and `Sqrt` are written from the output.
    pub(crate) fn derivative(
        self,
        b: &mut Builder<'_>,
        x: &[NodeId],
        out: NodeId,
        grad: NodeId,
    ) -> Vec<Option<NodeId>> {
        match self {
            Self::Add => vec![Some(grad), Some(grad)],
            Self::Sub => vec![Some(grad), Some(b.neg(grad))],
            Self::Mul => vec![Some(b.mul(grad, x[1])), Some(b.mul(grad, x[0]))],
            Self::Div => {
                let da = b.div(grad, x[1]);
                let scaled = b.mul(da, out);
                vec![Some(da), Some(b.neg(scaled))]
            }
            Self::Max | Self::Min => {
                let zero = b.scalar(0.0);
                let takes_a = if self == Self::Max {
                    b.less(x[1], x[0])
                } else {
                    b.less(x[0], x[1])
                };
                let da = b.select(takes_a, grad, zero);
                let db = b.select(takes_a, zero, grad);
                vec![Some(da), Some(db)]
            }
            Self::Neg => vec![Some(b.neg(grad))],
            Self::Abs => {
                let zero = b.scalar(0.0);
                let negated = b.neg(grad);
                let below = b.less(x[0], zero);
                let above = b.less(zero, x[0]);
                let right = b.select(above, grad, zero);
                vec![Some(b.select(below, negated, right))]
            }
            Self::Sqrt => {
                let two = b.scalar(2.0);
                let twice = b.mul(two, out);
                vec![Some(b.div(grad, twice))]
            }
            Self::Exp => vec![Some(b.mul(grad, out))],
            Self::Ln => vec![Some(b.div(grad, x[0]))],
            Self::Tanh => {
                let one = b.scalar(1.0);
                let square = b.mul(out, out);
                let slope = b.sub(one, square);
                vec![Some(b.mul(grad, slope))]
            }
            Self::Sigmoid => {
                let one = b.scalar(1.0);
                let complement = b.sub(one, out);
                let slope = b.mul(out, complement);
                vec![Some(b.mul(grad, slope))]
            }
            Self::Softplus => {
                let slope = b.sigmoid(x[0]);
                vec![Some(b.mul(grad, slope))]
            }
            Self::Relu => {
                let zero = b.scalar(0.0);
                let is_on = b.less(zero, out);
                vec![Some(b.select(is_on, grad, zero))]
            }
            Self::Floor | Self::IsFinite => vec![None],
            Self::Less | Self::LessEqual | Self::Equal => vec![None, None],
            Self::Select => {
                let zero = b.scalar(0.0);
                let db = b.select(x[0], grad, zero);
                let dc = b.select(x[0], zero, grad);
                vec![None, Some(db), Some(dc)]
            }
        }
    }
}
