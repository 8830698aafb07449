//! Samples of loops over time.

use super::{Sample, drawn};
use crate::engine::graph::{Builder, DType, Graph, Shape};
use crate::engine::op::recur::Body;
use crate::engine::op::{Op, Recur, ScalarOp};
use std::sync::Arc;

/// Samples of the loop: forwards and backwards, several carries and outputs, one step alone.
pub(super) fn samples() -> Vec<Sample> {
    let mut samples = Vec::new();
    for (n_steps, is_reversed) in [(5, false), (5, true), (1, false)] {
        let inputs = vec![
            drawn("h", [2, 3], -1.0, 1.0),
            drawn("x", [n_steps, 2, 4], -1.0, 1.0),
            drawn("w", [4, 3], -0.7, 0.7),
            drawn("u", [3, 3], -0.7, 0.7),
            drawn("b", [3], -0.5, 0.5),
        ];
        samples.push(Sample::smooth(
            Op::Recur(rnn(n_steps, 2, 3, is_reversed)),
            inputs,
        ));
        let inputs = vec![
            drawn("p", [3], -1.0, 1.0),
            drawn("q", [3], -1.0, 1.0),
            drawn("s", [n_steps, 3], -1.0, 1.0),
            drawn("t", [n_steps, 1], 0.5, 1.0),
            drawn("k", [], -1.0, 1.0),
        ];
        samples.push(Sample::smooth(
            Op::Recur(swapping(n_steps, is_reversed)),
            inputs,
        ));
    }
    samples
}

/// A tanh cell: `h' = tanh(x W + h U + b)`, `y = h'`.
///
/// Operands: `h [B, H]`; `x [T, B, 4]`; `W [4, H]`, `U [H, H]`, `b [H]`.
pub(crate) fn rnn(n_steps: usize, batch: usize, width: usize, is_reversed: bool) -> Recur {
    let mut graph = Graph::default();
    let mut b = Builder::new(&mut graph);
    let f32 = DType::F32;
    let h = b.argument(0, &Shape::from([batch, width]), f32);
    let x = b.argument(1, &Shape::from([batch, 4]), f32);
    let w = b.argument(2, &Shape::from([4, width]), f32);
    let u = b.argument(3, &Shape::from([width, width]), f32);
    let bias = b.argument(4, &Shape::from([width]), f32);
    let next = {
        let (from_x, from_h) = (b.gemm(x, w), b.gemm(h, u));
        let sum = b.add(from_x, from_h);
        let sum = b.add(sum, bias);
        b.map(ScalarOp::Tanh, &[sum])
    };
    let body = Arc::new(Body::new(graph, vec![next], vec![next]));
    Recur {
        body,
        n_steps,
        n_carries: 1,
        n_sequences: 1,
        is_reversed,
    }
}

/// Two carries that swap while one is updated: `(p, q)' = (q, p·t + s)`, outputs `p·q` and
/// `k + s` (which no carry reaches), and the carry `q` as it came.
///
/// Operands: `p [3]`, `q [3]`; `s [T, 3]`, `t [T, 1]`; `k []`.
pub(crate) fn swapping(n_steps: usize, is_reversed: bool) -> Recur {
    let mut graph = Graph::default();
    let mut b = Builder::new(&mut graph);
    let three = Shape::from([3]);
    let p = b.argument(0, &three, DType::F32);
    let q = b.argument(1, &three, DType::F32);
    let s = b.argument(2, &three, DType::F32);
    let t = b.argument(3, &Shape::from([1]), DType::F32);
    let k = b.argument(4, &Shape::default(), DType::F32);
    let scaled = b.mul(p, t);
    let moved = b.add(scaled, s);
    let product = b.mul(p, q);
    let shifted = b.add(k, s);
    let body = Arc::new(Body::new(graph, vec![q, moved], vec![product, shifted, q]));
    Recur {
        body,
        n_steps,
        n_carries: 2,
        n_sequences: 2,
        is_reversed,
    }
}
