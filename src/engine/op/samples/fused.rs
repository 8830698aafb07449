//! Samples of matrix products and fused row functions.

use super::{Input, Sample, draw, drawn, real};
use crate::engine::op::{Gemm, Loss, Op};

/// Samples of the matrix product: every transposition, unit, odd and aligned extents.
pub(super) fn of_gemm() -> Vec<Sample> {
    let mut samples = Vec::new();
    for (trans_a, trans_b) in [(false, false), (false, true), (true, false), (true, true)] {
        let op = Op::Gemm(Gemm { trans_a, trans_b });
        for (batch, m, n, k) in [(1, 3, 5, 4), (2, 1, 1, 1), (3, 2, 3, 7), (1, 33, 17, 65)] {
            let order = |rows, cols, swaps| if swaps { [cols, rows] } else { [rows, cols] };
            let shape = |matrix: [usize; 2]| {
                if batch == 1 {
                    matrix.to_vec()
                } else {
                    vec![batch, matrix[0], matrix[1]]
                }
            };
            let a = drawn("gemm a", shape(order(m, k, trans_a)), -1.0, 1.0);
            let b = drawn("gemm b", shape(order(k, n, trans_b)), -1.0, 1.0);
            // The large one is left to comparison between backends: differences would be slow.
            let make = if m * n * k > 1_000 {
                Sample::rough
            } else {
                Sample::smooth
            };
            samples.push(make(op.clone(), vec![a, b]));
        }
        // A NaN in one row of A stays in one row of the result.
        let mut poisoned = drawn("gemm a", [3, 3], -1.0, 1.0);
        poisoned.values[4] = f64::NAN;
        samples.push(Sample::rough(
            op,
            vec![poisoned, drawn("gemm b", [3, 3], -1.0, 1.0)],
        ));
    }
    samples
}

/// Samples of one row function, and the function after it. Padding of inputs holds NaN.
pub(super) fn of_loss(op: &Loss) -> (Vec<Sample>, Option<Loss>) {
    match op {
        Loss::Softmax { .. } => {
            let sample = |shape: &[usize], n_valid| {
                Sample::smooth(
                    Op::Loss(Loss::Softmax { n_valid }),
                    vec![logits(shape, n_valid)],
                )
            };
            let mut samples = vec![
                sample(&[3, 5], 5),
                sample(&[2, 1], 1),
                sample(&[2, 2, 8], 3),
            ];
            samples.push(Sample::rough(
                Op::Loss(Loss::Softmax { n_valid: 51 }),
                vec![logits(&[5, 56], 51)],
            ));
            samples.push(hard_rows(Loss::Softmax { n_valid: 3 }, 1));
            (samples, Some(Loss::CrossEntropy { n_valid: 1 }))
        }
        Loss::CrossEntropy { .. } => {
            let sample = |shape: &[usize], n_valid| {
                let inputs = vec![logits(shape, n_valid), target(shape, n_valid)];
                Sample::smooth(Op::Loss(Loss::CrossEntropy { n_valid }), inputs).held(&[1])
            };
            let mut samples = vec![
                sample(&[3, 5], 5),
                sample(&[2, 1], 1),
                sample(&[2, 2, 8], 3),
            ];
            samples.push(Sample {
                is_smooth: false,
                ..sample(&[5, 56], 51)
            });
            samples.push(hard_rows(Loss::CrossEntropy { n_valid: 3 }, 2));
            (samples, Some(Loss::CrossEntropyGrad { n_valid: 1 }))
        }
        Loss::CrossEntropyGrad { .. } => {
            let sample = |rows: &[usize], width, n_valid| {
                let shape = [rows, &[width]].concat();
                let grad = drawn("row grad", rows, -1.0, 1.0);
                let inputs = vec![logits(&shape, n_valid), target(&shape, n_valid), grad];
                Sample::smooth(Op::Loss(Loss::CrossEntropyGrad { n_valid }), inputs)
                    .held(&[0, 1, 2])
            };
            let samples = vec![
                sample(&[3], 5, 5),
                sample(&[2], 1, 1),
                sample(&[2, 2], 8, 3),
                Sample {
                    is_smooth: false,
                    ..sample(&[5], 56, 51)
                },
            ];
            (samples, Some(Loss::Project { n_valid: 2 }))
        }
        Loss::Project { .. } => (projections(), None),
    }
}

fn projections() -> Vec<Sample> {
    let sample = |rows: usize, width: usize, n_valid, reach: f64| {
        let inputs = vec![
            target(&[rows, width], n_valid),
            drawn("reward", [rows], -reach, reach),
            drawn("discount", [rows], 0.0, 1.0),
            real([], &[2.5]),
        ];
        Sample::rough(Op::Loss(Loss::Project { n_valid }), inputs)
    };
    let mut terminal = sample(3, 8, 5, 1.0);
    terminal.inputs[2].values[1] = 0.0;
    // Rewards beyond the support are clamped to its ends.
    vec![
        sample(3, 5, 5, 1.0),
        sample(2, 2, 2, 1.0),
        terminal,
        sample(5, 56, 51, 9.0),
    ]
}

/// Rows of large, equal, infinite and NaN logits; the mask value is −1e30.
fn hard_rows(op: Loss, n_inputs: usize) -> Sample {
    let rows = [
        [80.0, 79.0, -80.0],
        [1.0, 1.0, 1.0],
        [-1e30, 0.5, -1e30],
        [f64::NAN, 0.0, 1.0],
        [0.0, -0.0, 0.0],
    ];
    let mut inputs = vec![real([5, 3], &rows.concat())];
    if n_inputs == 2 {
        let one_hot = [
            [1.0, 0.0, 0.0],
            [0.2, 0.3, 0.5],
            [0.0, 1.0, 0.0],
            [0.0; 3],
            [0.5; 3],
        ];
        inputs.push(real([5, 3], &one_hot.concat()));
    }
    Sample::rough(Op::Loss(op), inputs)
}

fn logits(shape: &[usize], n_valid: usize) -> Input {
    pad(drawn("logits", shape, -2.0, 2.0), n_valid)
}

/// Rows of a distribution.
fn target(shape: &[usize], n_valid: usize) -> Input {
    let width = shape[shape.len() - 1];
    let n: usize = shape.iter().product();
    let mut values = draw("target", n, 0.1, 1.0);
    for row in values.chunks_mut(width) {
        let total: f64 = row[..n_valid].iter().sum();
        row.iter_mut()
            .for_each(|p| *p = f64::from((*p / total) as f32));
    }
    pad(real(shape, &values), n_valid)
}

fn pad(mut input: Input, n_valid: usize) -> Input {
    let width = input.shape.0[input.shape.rank() - 1];
    for row in input.values.chunks_mut(width) {
        row[n_valid..].fill(f64::NAN);
    }
    input
}
