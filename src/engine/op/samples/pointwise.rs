//! Samples of scalar functions and conversions.

use super::{EDGES, Input, Sample, draw, drawn, edge_pairs, real, whole, wide};
use crate::engine::graph::DType;
use crate::engine::op::{Op, ScalarOp};

/// Samples of one function, and the function after it.
pub(super) fn of_scalar(op: &ScalarOp) -> (Vec<Sample>, Option<ScalarOp>) {
    use ScalarOp as S;
    match op {
        S::Add => (binary(*op, -2.0, true), Some(S::Sub)),
        S::Sub => (binary(*op, -2.0, true), Some(S::Mul)),
        S::Mul => (binary(*op, -2.0, false), Some(S::Div)),
        S::Div => (binary(*op, 0.5, false), Some(S::Max)),
        S::Max => (binary(*op, -2.0, true), Some(S::Min)),
        S::Min => (binary(*op, -2.0, true), Some(S::Neg)),
        S::Neg => (unary(*op, -2.0), Some(S::Abs)),
        S::Abs => (unary(*op, -2.0), Some(S::Sqrt)),
        S::Sqrt => (unary(*op, 0.1), Some(S::Exp)),
        S::Exp => (unary(*op, -3.0), Some(S::Ln)),
        S::Ln => (unary(*op, 0.1), Some(S::Tanh)),
        S::Tanh => (unary(*op, -3.0), Some(S::Sigmoid)),
        S::Sigmoid => (unary(*op, -3.0), Some(S::Softplus)),
        S::Softplus => (unary(*op, -3.0), Some(S::Relu)),
        S::Relu => (unary(*op, -2.0), Some(S::Floor)),
        S::Floor => (unary(*op, -2.0), Some(S::Less)),
        S::Less => (binary(*op, -2.0, true), Some(S::LessEqual)),
        S::LessEqual => (binary(*op, -2.0, true), Some(S::Equal)),
        S::Equal => (binary(*op, -2.0, true), Some(S::Select)),
        S::Select => (select(), Some(S::IsFinite)),
        S::IsFinite => (unary(*op, -2.0), None),
    }
}

/// Values above 0.1 avoid the poles of ln and the root; kinks lie between the drawn values.
fn unary(op: ScalarOp, low: f64) -> Vec<Sample> {
    let map = Op::Map(op);
    let mut samples = vec![
        Sample::smooth(map.clone(), vec![drawn("unary", [37], low, 3.0)]),
        Sample::smooth(map.clone(), vec![drawn("unary one", [1], low, 3.0)]),
        Sample::rough(map.clone(), vec![real([9], &EDGES)]),
        Sample::rough(
            map.clone(),
            vec![drawn("unary far", [513], 20.0 * low, 60.0)],
        ),
    ];
    samples.push(Sample::rough(
        map,
        vec![wide(drawn("unary", [5], low, 3.0))],
    ));
    samples
}

/// - `low`: of the second operand, above 0 where it divides.
/// - `knows_i32`: whether integers have the function.
fn binary(op: ScalarOp, low: f64, knows_i32: bool) -> Vec<Sample> {
    let map = Op::Map(op);
    let left = |shape: &[usize]| drawn("left", shape, -2.0, 2.0);
    let right = |shape: &[usize]| drawn("right", shape, low, 2.0);
    let (a, b) = edge_pairs();
    let mut samples = vec![
        Sample::smooth(map.clone(), vec![left(&[37]), right(&[37])]),
        Sample::smooth(map.clone(), vec![left(&[1]), right(&[])]),
        // Broadcast along a leading, an inner and a trailing axis, on either side.
        Sample::smooth(map.clone(), vec![left(&[3, 5]), right(&[5])]),
        Sample::smooth(map.clone(), vec![left(&[3, 1]), right(&[2, 1, 5])]),
        Sample::smooth(map.clone(), vec![left(&[]), right(&[2, 3])]),
        Sample::rough(map.clone(), vec![a, b]),
        Sample::rough(map.clone(), vec![wide(left(&[4])), wide(right(&[4]))]),
    ];
    if knows_i32 {
        let left = whole([4], &[-3, 0, 7, 2]);
        samples.push(Sample::rough(map, vec![left, whole([4], &[5, 0, -7, 2])]));
    }
    samples
}

fn select() -> Vec<Sample> {
    let map = Op::Map(ScalarOp::Select);
    let mask: Vec<f64> = draw("mask", 15, 0.0, 1.0)
        .iter()
        .map(|u| (2.0 * u).floor())
        .collect();
    let branch = |name: &str| drawn(name, [3, 5], -2.0, 2.0);
    let ends = || (whole([9], &[1; 9]), whole([9], &[-2; 9]));
    vec![
        Sample::smooth(
            map.clone(),
            vec![real([3, 5], &mask), branch("then"), branch("else")],
        )
        .held(&[0]),
        Sample::smooth(
            map.clone(),
            vec![
                real([5], &mask[..5]),
                drawn("then", [], -1.0, 1.0),
                branch("else"),
            ],
        )
        .held(&[0]),
        // NaN and −0 as conditions, NaN in the branch that is not taken.
        Sample::rough(
            map.clone(),
            vec![
                real([9], &EDGES),
                real([9], &[1.0; 9]),
                real([9], &[f64::NAN; 9]),
            ],
        ),
        Sample::rough(map, vec![real([9], &EDGES), ends().0, ends().1]),
    ]
}

/// Samples of the conversion to one type, and the type after it.
pub(super) fn of_cast(to: &DType) -> (Vec<Sample>, Option<DType>) {
    let next = match to {
        DType::F32 => Some(DType::Tf32),
        DType::Tf32 => Some(DType::Bf16),
        DType::Bf16 => Some(DType::F64),
        DType::F64 => Some(DType::I32),
        DType::I32 => None,
    };
    let sample = |input: Input| Sample::rough(Op::Cast(*to), vec![input]);
    let mut samples = vec![
        sample(drawn("cast", [33], -300.0, 300.0)),
        sample(whole([4], &[-3, 0, 7, 1 << 20])),
        sample(wide(real([3], &[-2.75, 0.0, 1e6]))),
        sample(real([9], &EDGES)),
    ];
    if to.is_real() {
        samples.push(Sample::smooth(
            Op::Cast(*to),
            vec![drawn("cast", [1], -1.0, 1.0)],
        ));
    }
    (samples, next)
}
