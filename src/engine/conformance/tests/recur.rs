//! Loops against the same cell unrolled into the graph.

use super::cpu;
use crate::engine::backend::Backend;
use crate::engine::conformance::case::{Case, oracle};
use crate::engine::conformance::compare::{bits, norm_apart};
use crate::engine::conformance::ops::{gradient_case, weighted_gradients};
use crate::engine::graph::{Builder, DType, NodeId, Shape};
use crate::engine::op::recur::Body;
use crate::engine::op::samples::{self, Sample, swapping};
use crate::engine::op::{Leaf, Op, Recur};
use crate::engine::plan::{LowerOptions, lower};
use std::sync::Arc;

/// Emits the loop step by step, and joins the parts as the op does.
fn unrolled(b: &mut Builder<'_>, op: &Recur, operands: &[NodeId]) -> NodeId {
    let (n_carries, n_sequences) = (op.n_carries, op.n_sequences);
    let mut carries = operands[..n_carries].to_vec();
    let mut saved = vec![vec![NodeId(0); op.n_steps]; n_carries];
    let mut outputs = vec![vec![NodeId(0); op.n_steps]; op.body.outputs.len()];
    for step in 0..op.n_steps {
        let time = if op.is_reversed {
            op.n_steps - 1 - step
        } else {
            step
        };
        let mut arguments = carries.clone();
        for sequence in &operands[n_carries..n_carries + n_sequences] {
            let dims = b.shape(*sequence).0[1..].to_vec();
            let row = b.slice(*sequence, 0, time, 1);
            arguments.push(b.reshape(row, dims));
        }
        arguments.extend(&operands[n_carries + n_sequences..]);
        for (saved, carry) in saved.iter_mut().zip(&carries) {
            saved[time] = *carry;
        }
        let roots: Vec<NodeId> = op
            .body
            .next
            .iter()
            .chain(&op.body.outputs)
            .copied()
            .collect();
        let image = op
            .body
            .graph
            .rewrite(&roots, b.graph(), |target, node, inputs| {
                if let Op::Leaf(Leaf::Argument { position, .. }) = &node.op {
                    return arguments[*position as usize];
                }
                target
                    .push(node.op.clone(), inputs)
                    .expect("the body was verified")
            });
        let of = |id: &NodeId| image[id.idx()].expect("roots are rewritten");
        carries = op.body.next.iter().map(of).collect();
        for (stack, out) in outputs.iter_mut().zip(&op.body.outputs) {
            stack[time] = of(out);
        }
    }
    let parts: Vec<NodeId> = carries
        .into_iter()
        .chain(saved.concat())
        .chain(outputs.concat())
        .collect();
    let flat: Vec<NodeId> = parts.into_iter().map(|part| b.flatten(part)).collect();
    b.concat(&flat, 0)
}

fn loops() -> Vec<(Sample, Recur)> {
    let of = |sample: Sample| match &sample.op {
        Op::Recur(op) => {
            let op = op.clone();
            Some((sample, op))
        }
        _other => None,
    };
    samples::all().into_iter().filter_map(of).collect()
}

fn unrolled_case(sample: &Sample, op: &Recur) -> Case {
    Case::new(&sample.inputs, |b, operands| {
        let out = unrolled(b, op, operands);
        let found = weighted_gradients(b, out, operands);
        [out]
            .into_iter()
            .chain(found.into_iter().flatten())
            .collect()
    })
}

#[test]
fn a_loop_has_the_bits_of_its_unrolling() {
    let backend = cpu();
    for (sample, op) in loops() {
        let (case, unrolled) = (gradient_case(&sample).0, unrolled_case(&sample, &op));
        let run = |case: &Case| {
            let elements = backend.lower(&case.program).elements;
            let options = LowerOptions {
                elements,
                expand: false,
                fuse: false,
                waves: false,
            };
            bits(&case.run_plan(&backend, lower(&case.program, options))[0])
        };
        assert_eq!(run(&case), run(&unrolled), "{}", sample.label());
    }
}

#[test]
fn a_loop_has_the_gradients_of_its_unrolling() {
    for (sample, op) in loops() {
        let (case, unrolled) = (gradient_case(&sample).0, unrolled_case(&sample, &op));
        let (got, expected) = (case.run(&oracle()), unrolled.run(&oracle()));
        assert_eq!(
            got.len(),
            1 + sample.inputs.len(),
            "every operand is differentiable"
        );
        for (k, (got, expected)) in got.iter().zip(&expected).enumerate() {
            // F64 sums of a few dozen terms in another order.
            let apart = norm_apart(&got.to_f64(), &expected.to_f64());
            assert!(
                apart < 1e-12,
                "result {k} of {}: {apart:e} apart",
                sample.label()
            );
        }
    }
}

#[test]
fn a_part_of_one_carry_may_become_another() {
    // (a [4], c [2])' = (2a, last half of a): the half must be that of the old carry.
    let mut graph = crate::engine::graph::Graph::default();
    let mut b = Builder::new(&mut graph);
    let a = b.argument(0, &Shape::from([4]), DType::F32);
    let doubled = b.add(a, a);
    let half = b.slice(a, 0, 2, 2);
    let body = Arc::new(Body::new(graph, vec![doubled, half], Vec::new()));
    let op = Recur {
        body,
        n_steps: 3,
        n_carries: 2,
        n_sequences: 0,
        is_reversed: false,
    };
    let real = |n: usize, values: &[f64]| samples::Input {
        shape: Shape::from([n]),
        dtype: DType::F32,
        values: values.to_vec(),
        is_table: false,
    };
    let inputs = [real(4, &[1.0, 2.0, 3.0, 4.0]), real(2, &[0.0, 0.0])];
    let case = Case::new(&inputs, |b, operands| {
        let out = b.recur(op.clone(), operands);
        vec![op.carry(b, out, 0), op.carry(b, out, 1)]
    });
    let found = case.run(&cpu());
    assert_eq!(found[0].to_f64(), [8.0, 16.0, 24.0, 32.0]);
    assert_eq!(found[1].to_f64(), [12.0, 16.0]);
}

#[test]
fn a_sequence_may_lie_in_a_table() {
    let op = swapping(4, false);
    let mut inputs: Vec<samples::Input> = loops()
        .into_iter()
        .find(|(_, found)| found.n_carries == 2)
        .expect("a sample")
        .0
        .inputs;
    inputs[2].values.truncate(12);
    inputs[2].shape = Shape::from([4, 3]);
    inputs[3].values.truncate(4);
    inputs[3].shape = Shape::from([4, 1]);
    let run = |inputs: &[samples::Input]| {
        bits(&Case::new(inputs, |b, operands| vec![b.recur(op.clone(), operands)]).run(&cpu())[0])
    };
    let expected = run(&inputs);
    inputs[3].is_table = true;
    assert_eq!(run(&inputs), expected);
}

#[test]
fn carries_must_keep_shape_and_type() {
    let mut graph = crate::engine::graph::Graph::default();
    let mut b = Builder::new(&mut graph);
    let bad_carry = b.constant(Shape::from([3]), &[0.0; 3], DType::I32);
    let q = b.constant(Shape::from([3]), &[0.0; 3], DType::F32);
    let s = b.constant(Shape::from([2, 3]), &[0.0; 6], DType::F32);
    let t = b.constant(Shape::from([2, 1]), &[0.0; 2], DType::F32);
    let k = b.scalar(0.0);
    let op = |n_steps| Op::Recur(swapping(n_steps, false));
    assert!(graph.push(op(2), vec![q, q, s, t, k]).is_ok());
    assert!(
        graph.push(op(2), vec![bad_carry, q, s, t, k]).is_err(),
        "an integer carry"
    );
    assert!(
        graph.push(op(2), vec![q, q, q, t, k]).is_err(),
        "a sequence without time"
    );
    assert!(
        graph.push(op(3), vec![q, q, s, t, k]).is_err(),
        "another number of steps"
    );
    assert!(
        graph.push(op(2), vec![q, q, k, t, k]).is_err(),
        "a scalar for a sequence"
    );
    assert!(
        graph.push(op(2), vec![q, q, s]).is_err(),
        "missing operands"
    );
}
