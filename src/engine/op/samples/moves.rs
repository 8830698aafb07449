//! Samples of reductions, movements and reads by index.

use super::{EDGES, Input, Sample, drawn, real, table_of, whole, wide};
use crate::engine::graph::Shape;
use crate::engine::op::{Gather, Layout, Op, Reduce, ReduceKind};

/// Samples of one reduction, and the reduction after it.
pub(super) fn of_reduce(kind: &ReduceKind) -> (Vec<Sample>, Option<ReduceKind>) {
    let op = |axis| Op::Reduce(Reduce { kind: *kind, axis });
    let input = |shape: &[usize]| drawn("reduce", shape, -2.0, 2.0);
    let next = match kind {
        ReduceKind::Sum => Some(ReduceKind::Max),
        ReduceKind::Max => Some(ReduceKind::ArgMax),
        ReduceKind::ArgMax => None,
    };
    let ties = [1.0, 1.0, -1.0, -1.0, 0.0, -0.0, -0.0, 0.0];
    let samples = vec![
        Sample::smooth(op(0), vec![input(&[37])]),
        Sample::smooth(op(0), vec![input(&[1])]),
        Sample::smooth(op(1), vec![input(&[3, 5])]),
        Sample::smooth(op(0), vec![input(&[3, 5])]),
        Sample::smooth(op(1), vec![input(&[2, 3, 1])]),
        // Longer than the 32 partials, along an inner axis wider than a block of columns.
        Sample::rough(op(1), vec![input(&[2, 70, 67])]),
        Sample::rough(op(0), vec![real([9], &EDGES)]),
        Sample::rough(op(1), vec![real([9, 1], &EDGES)]),
        Sample::rough(op(1), vec![real([4, 2], &ties)]),
        Sample::rough(op(0), vec![real([4, 2], &ties)]),
        Sample::rough(op(0), vec![real([2], &[f64::NAN; 2])]),
    ];
    (samples, next)
}

/// Samples of one movement, and the movement after it.
// tidy: long, because it is a table.
pub(super) fn of_layout(op: &Layout) -> (Vec<Sample>, Option<Layout>) {
    match op {
        Layout::Reshape(_) => {
            let moves = vec![
                (Layout::Reshape(Shape::from([5, 3])), vec![vec![3, 5]]),
                (Layout::Reshape(Shape::default()), vec![vec![1]]),
            ];
            (moved(moves), Some(Layout::Transpose))
        }
        Layout::Transpose => {
            let moves = [vec![1, 7], vec![17, 33], vec![2, 3, 5]];
            let moves = moves
                .into_iter()
                .map(|shape| (Layout::Transpose, vec![shape]))
                .collect();
            (
                moved(moves),
                Some(Layout::Slice {
                    axis: 0,
                    start: 0,
                    len: 1,
                }),
            )
        }
        Layout::Slice { .. } => {
            let moves = vec![
                (
                    Layout::Slice {
                        axis: 0,
                        start: 1,
                        len: 2,
                    },
                    vec![vec![4, 3]],
                ),
                (
                    Layout::Slice {
                        axis: 1,
                        start: 2,
                        len: 3,
                    },
                    vec![vec![2, 7, 3]],
                ),
                (
                    Layout::Slice {
                        axis: 1,
                        start: 0,
                        len: 1,
                    },
                    vec![vec![2, 1]],
                ),
            ];
            (
                moved(moves),
                Some(Layout::Pad {
                    axis: 0,
                    before: 0,
                    after: 1,
                }),
            )
        }
        Layout::Pad { .. } => {
            let moves = vec![
                (
                    Layout::Pad {
                        axis: 0,
                        before: 1,
                        after: 2,
                    },
                    vec![vec![3]],
                ),
                (
                    Layout::Pad {
                        axis: 1,
                        before: 0,
                        after: 5,
                    },
                    vec![vec![2, 3]],
                ),
                (
                    Layout::Pad {
                        axis: 1,
                        before: 2,
                        after: 0,
                    },
                    vec![vec![2, 1, 3]],
                ),
            ];
            (moved(moves), Some(Layout::Concat { axis: 0 }))
        }
        Layout::Concat { .. } => {
            let moves = vec![
                (
                    Layout::Concat { axis: 0 },
                    vec![vec![2, 3], vec![1, 3], vec![4, 3]],
                ),
                (Layout::Concat { axis: 1 }, vec![vec![2, 3], vec![2, 1]]),
                (
                    Layout::Concat { axis: 2 },
                    vec![vec![2, 2, 1], vec![2, 2, 3]],
                ),
            ];
            (moved(moves), Some(Layout::Broadcast(Shape::default())))
        }
        Layout::Broadcast(_) => {
            let to = |dims: &[usize]| Layout::Broadcast(Shape(dims.to_vec()));
            let moves = vec![
                (to(&[4]), vec![vec![]]),
                (to(&[3, 5]), vec![vec![5]]),
                (to(&[2, 3, 5]), vec![vec![3, 1]]),
            ];
            (moved(moves), Some(Layout::StopGradient))
        }
        Layout::StopGradient => {
            let input = drawn("moved 0", [5], -2.0, 2.0);
            let stop = Op::Layout(Layout::StopGradient);
            (vec![Sample::smooth(stop, vec![input]).held(&[0])], None)
        }
    }
}

/// Each movement on F32, on F64 and on integers, then on edge values.
fn moved(moves: Vec<(Layout, Vec<Vec<usize>>)>) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (layout, shapes) in moves {
        let op = Op::Layout(layout);
        let inputs: Vec<Input> = shapes
            .iter()
            .enumerate()
            .map(|(k, shape)| drawn(&format!("moved {k}"), shape.as_slice(), -2.0, 2.0))
            .collect();
        let edges = inputs.iter().map(|input| {
            let n = input.shape.n_elements();
            let values: Vec<f64> = EDGES.iter().cycle().take(n).copied().collect();
            real(input.shape.clone(), &values)
        });
        let wholes = inputs.iter().map(|input| {
            let n = i32::try_from(input.shape.n_elements()).expect("samples are small");
            whole(
                input.shape.clone(),
                &(0..n).map(|i| i - 2).collect::<Vec<_>>(),
            )
        });
        samples.push(Sample::rough(op.clone(), edges.collect()));
        samples.push(Sample::rough(op.clone(), wholes.collect()));
        samples.push(Sample::rough(
            op.clone(),
            inputs.iter().cloned().map(wide).collect(),
        ));
        samples.push(Sample::smooth(op, inputs));
    }
    samples
}

/// Samples of one read, and the read after it.
pub(super) fn of_gather(op: &Gather) -> (Vec<Sample>, Option<Gather>) {
    let with = |gather, x: Input, index: Input| Sample::smooth(Op::Gather(gather), vec![x, index]);
    match op {
        Gather::Rows => {
            let index = || whole([2, 3], &[3, 0, 0, 1, 3, 2]);
            let x = |shape: &[usize]| drawn("table", shape, -2.0, 2.0);
            let samples = vec![
                with(Gather::Rows, x(&[4, 5]), index()).held(&[0]),
                with(Gather::Rows, x(&[4]), index()).held(&[0]),
                with(Gather::Rows, table_of(x(&[4, 3, 1])), index()).held(&[0]),
                Sample::rough(Op::Gather(Gather::Rows), vec![wide(x(&[4, 2])), index()]),
                Sample::rough(
                    Op::Gather(Gather::Rows),
                    vec![table_of(whole([4], &[5, 6, 7, 8])), index()],
                ),
            ];
            (samples, Some(Gather::Pick))
        }
        Gather::Pick => {
            let x = drawn("pick", [3, 4, 2], -2.0, 2.0);
            let edges = real([9, 1, 1], &EDGES);
            let samples = vec![
                with(Gather::Pick, x, whole([3], &[0, 3, 3])),
                Sample::rough(Op::Gather(Gather::Pick), vec![edges, whole([9], &[0; 9])]),
                Sample::rough(
                    Op::Gather(Gather::Pick),
                    vec![whole([2, 2, 1], &[1, 2, 3, 4]), whole([2], &[1, 0])],
                ),
            ];
            (samples, Some(Gather::Spread { n: 1 }))
        }
        Gather::Spread { .. } => {
            let x = drawn("spread", [3, 2], -2.0, 2.0);
            let edges = real([9, 1], &EDGES);
            let samples = vec![
                with(Gather::Spread { n: 4 }, x, whole([3], &[0, 3, 3])),
                Sample::rough(
                    Op::Gather(Gather::Spread { n: 2 }),
                    vec![edges, whole([9], &[1, 0, 1, 0, 1, 0, 1, 0, 1])],
                ),
            ];
            (samples, None)
        }
    }
}
