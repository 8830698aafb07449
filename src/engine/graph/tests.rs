//! Shapes, types, sharing and the dump.

use super::{Builder, DType, Graph, GraphError, NodeId, Shape};
use crate::engine::autodiff::{grad, gradients};
use crate::engine::op::samples;
use crate::engine::op::{
    Gather, Gemm, Layout, Leaf, Loss, Op, Random, Reduce, ReduceKind, ScalarOp, StateId,
};

/// Shapes and types of operands.
type Operands = Vec<(&'static [usize], DType)>;

/// A graph with leaves of these shapes and types.
fn leaves(of: &[(&[usize], DType)]) -> (Graph, Vec<NodeId>) {
    let mut graph = Graph::default();
    let mut b = Builder::new(&mut graph);
    let ids = (0..)
        .zip(of)
        .map(|(id, (shape, dtype))| b.state(StateId(id), &Shape(shape.to_vec()), *dtype))
        .collect();
    (graph, ids)
}

#[test]
fn equal_nodes_are_one_node() {
    let (mut graph, x) = leaves(&[(&[3], DType::F32), (&[3], DType::F32)]);
    let mut b = Builder::new(&mut graph);
    let one = b.add(x[0], x[1]);
    assert_eq!(b.add(x[0], x[1]), one);
    assert_ne!(
        b.add(x[1], x[0]),
        one,
        "the order of operands is part of a node"
    );
    let (zero, minus_zero) = (b.scalar(0.0), b.scalar(-0.0));
    assert_ne!(zero, minus_zero, "constants are equal by their bits");
    assert_eq!(b.scalar(f64::NAN), b.scalar(f64::NAN));
}

// tidy: long, because it is a table.
#[test]
fn misfits_are_errors_that_name_the_rule() {
    let real = DType::F32;
    let cases: Vec<(Op, Operands)> = vec![
        (Op::Map(ScalarOp::Add), vec![(&[3], real)]),
        (Op::Map(ScalarOp::Add), vec![(&[3], real), (&[4], real)]),
        (
            Op::Map(ScalarOp::Add),
            vec![(&[3], real), (&[3], DType::I32)],
        ),
        (
            Op::Map(ScalarOp::Add),
            vec![(&[3], real), (&[3], DType::F64)],
        ),
        (
            Op::Map(ScalarOp::Mul),
            vec![(&[3], DType::I32), (&[3], DType::I32)],
        ),
        (
            Op::Map(ScalarOp::Select),
            vec![(&[3], DType::I32), (&[3], real), (&[3], real)],
        ),
        (
            Op::Reduce(Reduce {
                kind: ReduceKind::Sum,
                axis: 1,
            }),
            vec![(&[3], real)],
        ),
        (
            Op::Reduce(Reduce {
                kind: ReduceKind::Sum,
                axis: 0,
            }),
            vec![(&[3], DType::I32)],
        ),
        (
            Op::Layout(Layout::Reshape(Shape::from([4]))),
            vec![(&[3], real)],
        ),
        (Op::Layout(Layout::Transpose), vec![(&[3], real)]),
        (
            Op::Layout(Layout::Slice {
                axis: 0,
                start: 2,
                len: 2,
            }),
            vec![(&[3], real)],
        ),
        (
            Op::Layout(Layout::Slice {
                axis: 0,
                start: 0,
                len: 0,
            }),
            vec![(&[3], real)],
        ),
        (
            Op::Layout(Layout::Pad {
                axis: 1,
                before: 0,
                after: 1,
            }),
            vec![(&[3], real)],
        ),
        (Op::Layout(Layout::Concat { axis: 0 }), vec![]),
        (
            Op::Layout(Layout::Concat { axis: 0 }),
            vec![(&[1, 2], real), (&[1, 3], real)],
        ),
        (
            Op::Layout(Layout::Concat { axis: 0 }),
            vec![(&[2], real), (&[2], DType::Bf16)],
        ),
        (
            Op::Layout(Layout::Broadcast(Shape::from([2]))),
            vec![(&[3], real)],
        ),
        (
            Op::Layout(Layout::Broadcast(Shape::from([3]))),
            vec![(&[2, 3], real)],
        ),
        (
            Op::Gemm(Gemm {
                trans_a: false,
                trans_b: false,
            }),
            vec![(&[2, 3], real), (&[2, 3], real)],
        ),
        (
            Op::Gemm(Gemm {
                trans_a: false,
                trans_b: false,
            }),
            vec![(&[2, 3], real), (&[3, 2], DType::Bf16)],
        ),
        (
            Op::Gather(Gather::Rows),
            vec![(&[4, 2], real), (&[3], real)],
        ),
        (
            Op::Gather(Gather::Pick),
            vec![(&[4, 2, 1], real), (&[3], DType::I32)],
        ),
        (
            Op::Loss(Loss::Softmax { n_valid: 4 }),
            vec![(&[2, 3], real)],
        ),
        (
            Op::Loss(Loss::Softmax { n_valid: 0 }),
            vec![(&[2, 3], real)],
        ),
        (
            Op::Loss(Loss::CrossEntropy { n_valid: 3 }),
            vec![(&[2, 3], real), (&[1, 3], real)],
        ),
        (
            Op::Random(Random::Uniform {
                stream: 0,
                shape: Shape::default(),
            }),
            vec![(&[2], DType::I32), (&[1], DType::I32)],
        ),
        (
            Op::Leaf(Leaf::Constant {
                shape: Shape::from([2]),
                bits: vec![0],
                dtype: real,
            }),
            vec![],
        ),
        (
            Op::Leaf(Leaf::Constant {
                shape: Shape::from([1]),
                bits: vec![0],
                dtype: DType::Bf16,
            }),
            vec![],
        ),
    ];
    for (op, operands) in cases {
        let (mut graph, ids) = leaves(&operands);
        let found = graph.push(op.clone(), ids);
        assert!(
            found.is_err(),
            "{} of {operands:?} gave {found:?}",
            op.name()
        );
        assert_eq!(graph.nodes().len(), operands.len(), "nothing was appended");
    }
    let (mut graph, x) = leaves(&[(&[2, 3], real), (&[4, 2], real)]);
    let error = graph.push(
        Op::Gemm(Gemm {
            trans_a: false,
            trans_b: false,
        }),
        x,
    );
    let text = error.map_err(|error: GraphError| error.to_string());
    let rule = "gemm cannot take shapes [2, 3] [4, 2]: inner and batch extents must be equal";
    assert_eq!(text, Err(rule.to_owned()));
}

#[test]
fn every_sample_verifies_with_its_gradient_and_definition() {
    for sample in samples::all() {
        let of: Vec<(&[usize], DType)> = sample
            .inputs
            .iter()
            .map(|input| (&input.shape.0[..], input.dtype))
            .collect();
        let (mut graph, ids) = leaves(&of);
        let operands = if matches!(sample.op, Op::Leaf(_)) {
            Vec::new()
        } else {
            ids.clone()
        };
        let out = graph
            .push(sample.op.clone(), operands.clone())
            .expect("samples fit");
        let node = graph.node(out).clone();
        if let Some(definition) = sample.op.expand(&mut graph, &operands) {
            let definition = graph.node(definition);
            assert_eq!(
                (&definition.shape, definition.dtype),
                (&node.shape, node.dtype)
            );
        }
        if node.dtype.is_real() {
            let n = node.shape.n_elements();
            let seed = Builder::new(&mut graph).constant(node.shape, &vec![1.0; n], DType::F32);
            let found = gradients(&mut graph, &[(out, seed)], &ids);
            for (id, part) in ids.iter().zip(found) {
                let Some(part) = part else { continue };
                assert_eq!(
                    graph.node(part).shape,
                    graph.node(*id).shape,
                    "{}",
                    sample.label()
                );
                assert!(graph.node(*id).dtype.is_real(), "{}", sample.label());
            }
        }
        assert_eq!(graph.verify(), Ok(()), "{}", sample.label());
    }
}

#[test]
fn losses_share_their_forward() {
    let (mut graph, x) = leaves(&[(&[3, 3], DType::F32)]);
    let mut b = Builder::new(&mut graph);
    let y = b.gemm(x[0], x[0]);
    let y = b.map(ScalarOp::Tanh, &[y]);
    let (one, two) = (b.sum_all(y), b.mean_all(y));
    let n_forward = graph.nodes().len();
    assert!(grad(&mut graph, one, &x)[0].is_some());
    let n_one = graph.nodes().len() - n_forward;
    assert!(grad(&mut graph, two, &x)[0].is_some());
    let n_two = graph.nodes().len() - n_forward - n_one;
    // The slope of tanh and what leads to it exist already.
    assert!(n_two < n_one, "{n_two} nodes after {n_one}");
}

#[test]
fn what_a_loss_does_not_reach_has_no_gradient() {
    let (mut graph, x) = leaves(&[(&[3], DType::F32), (&[3], DType::F32), (&[3], DType::F32)]);
    let mut b = Builder::new(&mut graph);
    let stopped = b.stop_gradient(x[1]);
    let product = b.mul(x[0], stopped);
    let loss = b.sum_all(product);
    let found = grad(&mut graph, loss, &x);
    assert_eq!(
        found.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, false, false]
    );
}

#[test]
fn rewrites_copy_what_roots_need() {
    let (mut graph, x) = leaves(&[(&[3], DType::F32), (&[3], DType::F32)]);
    let mut b = Builder::new(&mut graph);
    let kept = b.neg(x[0]);
    b.neg(x[1]);
    let mut target = Graph::default();
    let image = graph.rewrite(&[kept], &mut target, |target, node, inputs| {
        target.push(node.op.clone(), inputs).expect("a copy fits")
    });
    assert_eq!(target.nodes().len(), 2);
    assert_eq!(image.iter().filter(|id| id.is_some()).count(), 2);
    assert_eq!(
        target.to_string(),
        "%0 = state#0() F32[3]\n%1 = neg(%0) F32[3]\n"
    );
}
