//! Answers for NaN, ±0, ±∞ and ties, written down: here oracle and backend could err alike.

use super::case::Case;
use super::compare::bits;
use crate::engine::backend::{Backend, Data};
use crate::engine::graph::{DType, Shape};
use crate::engine::op::samples::Input;
use crate::engine::op::{Op, Reduce, ReduceKind, ScalarOp};

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

/// Compares every answer bit by bit.
pub(super) fn run(backend: &dyn Backend) {
    let mut op = Some(ScalarOp::Add);
    while let Some(current) = op {
        let (answers, next) = of_scalar(current);
        for (operands, expected) in answers {
            let inputs: Vec<Input> = operands.iter().map(|value| real(&[*value])).collect();
            check(backend, &Op::Map(current), &inputs, *expected);
        }
        op = next;
    }
    for (kind, elements, expected) in REDUCED {
        let op = Op::Reduce(Reduce {
            kind: *kind,
            axis: 0,
        });
        check(backend, &op, &[real(elements)], *expected);
    }
}

fn check(backend: &dyn Backend, op: &Op, inputs: &[Input], expected: f64) {
    let case = Case::new(inputs, |b, operands| vec![b.push(op.clone(), operands)]);
    let got = case.run(backend);
    let expected = bits(&Data::F64(vec![expected]));
    let operands: Vec<&[f64]> = inputs.iter().map(|input| &input.values[..]).collect();
    assert_eq!(
        bits(&got[0]),
        expected,
        "{} of {operands:?} gave {:?}",
        op.name(),
        got[0]
    );
}

fn real(values: &[f64]) -> Input {
    let shape = Shape::from([values.len()]);
    Input {
        shape,
        dtype: DType::F32,
        values: values.to_vec(),
        is_table: false,
    }
}

/// Operands and result.
type Answers = &'static [(&'static [f64], f64)];

/// Answers of one function, and the function after it.
// tidy: long, because it is one table of answers.
fn of_scalar(op: ScalarOp) -> (Answers, Option<ScalarOp>) {
    use ScalarOp as S;
    match op {
        S::Add => (
            &[
                (&[-0.0, 0.0], 0.0),
                (&[-0.0, -0.0], -0.0),
                (&[INF, -INF], NAN),
            ],
            Some(S::Sub),
        ),
        S::Sub => (
            &[(&[0.0, 0.0], 0.0), (&[-0.0, 0.0], -0.0), (&[INF, INF], NAN)],
            Some(S::Mul),
        ),
        S::Mul => (&[(&[0.0, INF], NAN), (&[-0.0, 2.0], -0.0)], Some(S::Div)),
        S::Div => (
            &[(&[1.0, -0.0], -INF), (&[0.0, 0.0], NAN), (&[1.0, INF], 0.0)],
            Some(S::Max),
        ),
        S::Max => (
            &[
                (&[0.0, -0.0], -0.0),
                (&[-0.0, 0.0], 0.0),
                (&[NAN, 1.0], NAN),
                (&[1.0, NAN], NAN),
            ],
            Some(S::Min),
        ),
        S::Min => (
            &[
                (&[0.0, -0.0], -0.0),
                (&[-0.0, 0.0], 0.0),
                (&[NAN, 1.0], NAN),
                (&[1.0, NAN], NAN),
            ],
            Some(S::Neg),
        ),
        S::Neg => (&[(&[0.0], -0.0), (&[-INF], INF)], Some(S::Abs)),
        S::Abs => (
            &[(&[-0.0], 0.0), (&[-INF], INF), (&[NAN], NAN)],
            Some(S::Sqrt),
        ),
        S::Sqrt => (
            &[(&[-0.0], -0.0), (&[-1.0], NAN), (&[INF], INF)],
            Some(S::Exp),
        ),
        S::Exp => (
            &[(&[-INF], 0.0), (&[-0.0], 1.0), (&[INF], INF), (&[NAN], NAN)],
            Some(S::Ln),
        ),
        S::Ln => (
            &[
                (&[0.0], -INF),
                (&[-0.0], -INF),
                (&[1.0], 0.0),
                (&[-1.0], NAN),
            ],
            Some(S::Tanh),
        ),
        S::Tanh => (
            &[(&[-0.0], -0.0), (&[INF], 1.0), (&[-INF], -1.0)],
            Some(S::Sigmoid),
        ),
        S::Sigmoid => (
            &[(&[0.0], 0.5), (&[-INF], 0.0), (&[INF], 1.0)],
            Some(S::Softplus),
        ),
        S::Softplus => (
            &[(&[-INF], 0.0), (&[INF], INF), (&[NAN], NAN)],
            Some(S::Relu),
        ),
        S::Relu => (
            &[(&[-0.0], 0.0), (&[NAN], NAN), (&[-INF], 0.0)],
            Some(S::Floor),
        ),
        S::Floor => (
            &[(&[-0.0], -0.0), (&[-0.5], -1.0), (&[INF], INF)],
            Some(S::Less),
        ),
        S::Less => (
            &[(&[-0.0, 0.0], 0.0), (&[NAN, 1.0], 0.0), (&[1.0, NAN], 0.0)],
            Some(S::LessEqual),
        ),
        S::LessEqual => (&[(&[0.0, -0.0], 1.0), (&[NAN, NAN], 0.0)], Some(S::Equal)),
        S::Equal => (
            &[(&[-0.0, 0.0], 1.0), (&[NAN, NAN], 0.0), (&[INF, INF], 1.0)],
            Some(S::Select),
        ),
        S::Select => (
            &[
                (&[NAN, 1.0, 2.0], 1.0),
                (&[-0.0, 1.0, 2.0], 2.0),
                (&[0.0, NAN, 2.0], 2.0),
            ],
            Some(S::IsFinite),
        ),
        S::IsFinite => (&[(&[NAN], 0.0), (&[-INF], 0.0), (&[-0.0], 1.0)], None),
    }
}

/// Reductions of one row: ties, zeros of both signs, NaN.
const REDUCED: &[(ReduceKind, &[f64], f64)] = &[
    (ReduceKind::Sum, &[-0.0, -0.0], 0.0),
    (ReduceKind::Sum, &[INF, -INF], NAN),
    (ReduceKind::Max, &[-0.0, -0.0], 0.0),
    (ReduceKind::Max, &[1.0, NAN, 2.0], NAN),
    (ReduceKind::Max, &[-INF, -INF], -INF),
    (ReduceKind::ArgMax, &[1.0, 3.0, 3.0], 1.0),
    (ReduceKind::ArgMax, &[-0.0, 0.0], 0.0),
    (ReduceKind::ArgMax, &[NAN, 1.0, NAN], 1.0),
    (ReduceKind::ArgMax, &[NAN, NAN], 0.0),
];
