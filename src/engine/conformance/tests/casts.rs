//! The precision pass: what is rounded, and what is not.

use crate::engine::casts;
use crate::engine::conformance::graphs;
use crate::engine::graph::{Builder, DType, Graph, NodeId};
use crate::engine::op::samples::rnn;
use crate::engine::op::{Effect, Gemm, Layout, Leaf, Op};
use crate::engine::program::{Init, Program, SECTIONS, Section};

/// Every graph of a program, bodies of loops included.
fn graphs_of(program: &Program) -> Vec<Graph> {
    let mut found = Vec::new();
    let mut open: Vec<Graph> = SECTIONS
        .iter()
        .flat_map(|section| program.section(*section))
        .map(|phase| phase.graph.clone())
        .collect();
    while let Some(graph) = open.pop() {
        for node in graph.nodes() {
            if let Op::Recur(op) = &node.op {
                open.push(op.body.graph.clone());
            }
        }
        found.push(graph);
    }
    found
}

/// The node that a chain of movements starts from.
fn source(graph: &Graph, mut id: NodeId) -> &Op {
    while let Op::Layout(_) = graph.node(id).op {
        id = graph.node(id).inputs[0];
    }
    &graph.node(id).op
}

#[test]
fn products_read_casts_and_nothing_else_is_rounded() {
    for narrow in [DType::Tf32, DType::Bf16] {
        let mut n_products = 0;
        for number in 0..12 {
            let program = graphs::program(number);
            for graph in graphs_of(&program.with_precision(narrow, narrow)) {
                graph.verify().expect("the pass keeps shapes and types");
                for node in graph.nodes() {
                    match &node.op {
                        Op::Gemm(Gemm { .. }) => {
                            n_products += 1;
                            for input in &node.inputs {
                                assert_eq!(graph.node(*input).dtype, narrow);
                                let from = source(&graph, *input);
                                let argument = matches!(from, Op::Leaf(Leaf::Argument { .. }));
                                assert!(*from == Op::Cast(narrow) || argument, "{}", from.name());
                            }
                        }
                        Op::Cast(to) => assert!([narrow, DType::F32].contains(to)),
                        // What is narrow is a cast, or a cast moved, or an argument.
                        Op::Layout(_) | Op::Leaf(Leaf::Argument { .. }) => {}
                        other => {
                            let is_narrow = [DType::Tf32, DType::Bf16].contains(&node.dtype);
                            assert!(!is_narrow, "{} is {:?}", other.name(), node.dtype);
                        }
                    }
                }
            }
        }
        assert!(n_products > 20, "only {n_products} products were seen");
    }
}

#[test]
fn casts_are_read_by_products_or_come_from_blocks() {
    for number in 0..12 {
        let program = graphs::program(number);
        for section in SECTIONS {
            for phase in program.section(section) {
                let (graph, _) =
                    casts::apply(&phase.graph, &phase.roots(), DType::Bf16, &program.blocks);
                for id in graph
                    .ids()
                    .filter(|id| graph.node(*id).op == Op::Cast(DType::Bf16))
                {
                    let from = &graph.node(graph.node(id).inputs[0]).op;
                    let of_block = matches!(
                        from,
                        Op::Leaf(Leaf::State { id, .. }) if program.blocks.contains(id)
                    );
                    let mut readers = graph
                        .nodes()
                        .iter()
                        .filter(|node| node.inputs.contains(&id));
                    assert!(of_block || readers.all(|node| matches!(node.op, Op::Gemm(_))));
                }
            }
        }
    }
}

#[test]
fn the_f32_program_is_unchanged_and_the_pass_is_idempotent() {
    for number in 0..12 {
        let program = graphs::program(number);
        for phase in SECTIONS
            .iter()
            .flat_map(|section| program.section(*section))
        {
            let roots = phase.roots();
            let mut pruned = Graph::default();
            phase
                .graph
                .rewrite(&roots, &mut pruned, |target, node, inputs| {
                    target.push(node.op.clone(), inputs).expect("a copy")
                });
            let (same, _) = casts::apply(&phase.graph, &roots, DType::F32, &program.blocks);
            assert_eq!(format!("{same:?}"), format!("{pruned:?}"));
            let (once, images) = casts::apply(&phase.graph, &roots, DType::Bf16, &program.blocks);
            let (twice, _) = casts::apply(&once, &images, DType::Bf16, &program.blocks);
            assert_eq!(format!("{twice:?}"), format!("{once:?}"));
        }
    }
}

#[test]
fn a_block_stored_as_it_is_stays_the_master() {
    let mut program = Program::default();
    let block = program.state("block", [4], DType::F32, Init::Host);
    let target = program.state("target", [4], DType::F32, Init::Zero);
    let half = program.state("half", [2, 1], DType::F32, Init::Zero);
    let joined = program.state("joined", [6], DType::F32, Init::Zero);
    program.blocks = vec![block];
    program.phase(Section::Begin, "sync", 1, |p, b| {
        let read = p.read(b, block);
        let part = b.slice(read, 0, 2, 2);
        let part = b.reshape(part, [2, 1]);
        let two = b.constant([2].into(), &[1.0, 2.0], DType::F32);
        // A shadow joined with F32 must widen, not fail.
        let join = b.push(Op::Layout(Layout::Concat { axis: 0 }), &[read, two]);
        vec![
            Effect::Store {
                state: target,
                value: read,
                guard: None,
            },
            Effect::Store {
                state: half,
                value: part,
                guard: None,
            },
            Effect::Store {
                state: joined,
                value: join,
                guard: None,
            },
        ]
    });
    let narrow = program.with_precision(DType::Bf16, DType::Bf16);
    let phase = &narrow.section(Section::Begin)[0];
    let values: Vec<NodeId> = phase.roots();
    assert!(
        matches!(source(&phase.graph, values[0]), Op::Leaf(_)),
        "the target is the master"
    );
    assert!(
        matches!(source(&phase.graph, values[1]), Op::Leaf(_)),
        "so is a part of it"
    );
    assert_eq!(phase.graph.node(values[2]).dtype, DType::F32);
}

#[test]
fn weights_of_a_loop_are_cast_once_outside_it() {
    let mut graph = Graph::default();
    let mut b = Builder::new(&mut graph);
    let cell = rnn(3, 2, 3, false);
    let zeros = |b: &mut Builder<'_>, shape: &[usize]| {
        b.constant(shape.into(), &vec![0.0; shape.iter().product()], DType::F32)
    };
    let h = zeros(&mut b, &[2, 3]);
    let x = zeros(&mut b, &[3, 2, 4]);
    let block = b.state(crate::engine::op::StateId(0), &[24].into(), DType::F32);
    let cut = |b: &mut Builder<'_>, start, shape: &[usize]| {
        let flat = b.slice(block, 0, start, shape.iter().product());
        b.reshape(flat, shape)
    };
    let (w, u, bias) = (
        cut(&mut b, 0, &[4, 3]),
        cut(&mut b, 12, &[3, 3]),
        cut(&mut b, 21, &[3]),
    );
    let out = b.recur(cell, &[h, x, w, u, bias]);
    let (narrow, _) = casts::apply(
        &graph,
        &[out],
        DType::Bf16,
        &[crate::engine::op::StateId(0)],
    );
    let body = narrow
        .nodes()
        .iter()
        .find_map(|node| match &node.op {
            Op::Recur(op) => Some(op.body.clone()),
            _other => None,
        })
        .expect("the loop is still there");
    // Inside only the carry and the slice of the sequence are rounded, since they are F32 outside.
    let n_casts = body
        .graph
        .nodes()
        .iter()
        .filter(|n| n.op == Op::Cast(DType::Bf16))
        .count();
    assert_eq!(n_casts, 2);
    assert_eq!(body.graph.node(body.next[0]).dtype, DType::F32);
}
