use super::super::testing::{assert_close, bits, values, wide};
use super::*;

const SHAPES: &[(usize, usize, usize)] = &[
    (1, 1, 1),
    (3, 1, 1),
    (2, 8, 3),
    (5, 56, 51),
    (25, 64, 51),
    (2, 101, 101),
    (3, 1100, 1057),
];

fn shapes() -> impl Iterator<Item = Rows> {
    SHAPES
        .iter()
        .map(|&(n, width, n_valid)| Rows { n, width, n_valid })
}

/// Values with NaN in the padding, which nothing may read.
fn padded_values(name: &str, rows: Rows, low: f32, high: f32) -> Vec<f32> {
    let mut x = values(name, rows.len(), low, high);
    for row in x.chunks_mut(rows.width) {
        row[rows.n_valid..].fill(f32::NAN);
    }
    x
}

fn assert_padding_is_zero(x: &[f32], rows: Rows) {
    for row in x.chunks(rows.width) {
        assert!(row[rows.n_valid..].iter().all(|x| x.to_bits() == 0));
    }
}

/// Cross-entropy by the textbook, in `f64`.
fn cross_entropy_plain(x: &[f64], t: &[f64]) -> f64 {
    let sum: f64 = x.iter().map(|x| x.exp()).sum();
    x.iter()
        .zip(t)
        .map(|(x, t)| -t * (x.exp() / sum).ln())
        .sum()
}

#[test]
fn softmax_is_the_textbook_one() {
    for rows in shapes() {
        let x = padded_values("x", rows, -5.0, 5.0);
        let mut out = vec![f32::NAN; rows.len()];
        softmax(&x, &mut out, rows);
        assert_padding_is_zero(&out, rows);
        for (x, out) in x.chunks(rows.width).zip(out.chunks(rows.width)) {
            let e: Vec<f64> = wide(&x[..rows.n_valid]).iter().map(|x| x.exp()).collect();
            let sum: f64 = e.iter().sum();
            let expected: Vec<f64> = e.iter().map(|e| e / sum).collect();
            // A few f32 roundings.
            assert_close(&wide(&out[..rows.n_valid]), &expected, 1e-6);
        }
    }
}

#[test]
fn known_values() {
    // models.md, CQL fixture: the softmax of (1, 2, 3), and its logsumexp.
    let rows = Rows {
        n: 1,
        width: 3,
        n_valid: 3,
    };
    let mut out = [0f64; 3];
    softmax(&[1.0, 2.0, 3.0], &mut out, rows);
    assert_close(&out, &[0.090_031, 0.244_728, 0.665_241], 1e-6);
    let mut loss = [0f64];
    cross_entropy(&[1.0, 2.0, 3.0], &[0.0, 1.0, 0.0], &mut loss, rows);
    assert_close(&loss, &[1.407_606_0], 1e-7);
    let mut grad = [0f64; 3];
    cross_entropy_grad(&[1.0, 2.0, 3.0], &[0.0, 1.0, 0.0], &[1.0], &mut grad, rows);
    assert_close(&grad, &[0.090_031, -0.755_272, 0.665_241], 1e-6);
}

#[test]
fn cross_entropy_is_the_textbook_one() {
    for rows in shapes() {
        let x = padded_values("x", rows, -5.0, 5.0);
        let t = padded_values("t", rows, 0.0, 1.0);
        let mut out = vec![f32::NAN; rows.n];
        cross_entropy(&x, &t, &mut out, rows);
        for (row, &out) in out.iter().enumerate() {
            let at = row * rows.width..row * rows.width + rows.n_valid;
            let expected = cross_entropy_plain(&wide(&x[at.clone()]), &wide(&t[at]));
            // Relative: a sum of up to 1057 positive terms in f32.
            assert_close(&[f64::from(out)], &[expected], 2e-6);
        }
    }
}

#[test]
fn the_gradient_agrees_with_central_differences() {
    for rows in shapes().filter(|rows| rows.len() < 300) {
        let x = wide(&values("x", rows.len(), -2.0, 2.0));
        let t = wide(&values("t", rows.len(), 0.0, 1.0));
        let g = wide(&values("g", rows.len(), -1.0, 1.0));
        let mut ce_grad = vec![f64::NAN; rows.len()];
        cross_entropy_grad(&x, &t, &g[..rows.n], &mut ce_grad, rows);
        let total = |x: &[f64]| -> f64 {
            let mut loss = vec![0f64; rows.n];
            cross_entropy(x, &t, &mut loss, rows);
            loss.iter().zip(&g).map(|(l, g)| l * g).sum()
        };
        let step = 1e-6;
        for i in 0..rows.len() {
            let (mut up, mut down) = (x.clone(), x.clone());
            up[i] += step;
            down[i] -= step;
            let expected = (total(&up) - total(&down)) / (2.0 * step);
            // Differences of f64 values near 10 at step 1e-6 carry about 1e-9.
            assert_close(&[ce_grad[i]], &[expected], 1e-7);
        }
    }
}

#[test]
fn masked_logits_get_nothing_and_cost_nothing() {
    let rows = Rows {
        n: 1,
        width: 4,
        n_valid: 3,
    };
    let x = [1.0f32, -1e30, 1.0, f32::NAN];
    let mut out = [f32::NAN; 4];
    softmax(&x, &mut out, rows);
    assert_eq!(bits(&out), bits(&[0.5, 0.0, 0.5, 0.0]));
    let mut loss = [f32::NAN];
    cross_entropy(&x, &[0.5, 0.0, 0.5, f32::NAN], &mut loss, rows);
    assert_close(&wide(&loss), &[2f64.ln()], 1e-7);
}

#[test]
fn large_logits_do_not_overflow() {
    let rows = Rows {
        n: 1,
        width: 2,
        n_valid: 2,
    };
    let mut out = [0f32; 2];
    softmax(&[3e38, 3e38], &mut out, rows);
    assert_eq!(out, [0.5, 0.5]);
}

#[test]
fn nan_stays_in_its_row() {
    let rows = Rows {
        n: 30,
        width: 56,
        n_valid: 51,
    };
    let x = values("x", rows.len(), -3.0, 3.0);
    let t = values("t", rows.len(), 0.0, 1.0);
    for bad in [f32::NAN, f32::INFINITY] {
        let mut spoilt = x.clone();
        spoilt[7 * 56 + 50] = bad;
        let run = |x: &[f32]| {
            let (mut p, mut loss) = (vec![0f32; rows.len()], vec![0f32; rows.n]);
            let mut grad = vec![0f32; rows.len()];
            softmax(x, &mut p, rows);
            cross_entropy(x, &t, &mut loss, rows);
            cross_entropy_grad(x, &t, &t[..rows.n], &mut grad, rows);
            (p, loss, grad)
        };
        let (clean, dirty) = (run(&x), run(&spoilt));
        for row in 0..rows.n {
            let at = row * 56..row * 56 + 51;
            if row == 7 {
                assert!(dirty.0[at.clone()].iter().all(|p| p.is_nan()));
                assert!(dirty.1[row].is_nan());
                assert!(dirty.2[at].iter().all(|g| g.is_nan()));
            } else {
                assert_eq!(bits(&clean.0[at.clone()]), bits(&dirty.0[at.clone()]));
                assert_eq!(clean.1[row].to_bits(), dirty.1[row].to_bits());
                assert_eq!(bits(&clean.2[at.clone()]), bits(&dirty.2[at]));
            }
        }
        assert_padding_is_zero(&dirty.0, rows);
        assert_padding_is_zero(&dirty.2, rows);
    }
}

#[test]
fn the_instruction_set_and_the_neighbours_change_no_bit() {
    let rows = Rows {
        n: 40,
        width: 56,
        n_valid: 51,
    };
    let x = values("x", rows.len(), -9.0, 3.0);
    let t = values("t", rows.len(), 0.0, 1.0);
    let (mut out, mut baseline) = (vec![0f32; rows.len()], vec![0f32; rows.len()]);
    softmax(&x, &mut out, rows);
    // Called directly, the kernel is compiled for the baseline.
    softmax_kernel(&x, &mut baseline, rows);
    assert_eq!(bits(&out), bits(&baseline));
    let (mut loss, mut loss_baseline) = (vec![0f32; rows.n], vec![0f32; rows.n]);
    cross_entropy(&x, &t, &mut loss, rows);
    cross_entropy_kernel(&x, &t, &mut loss_baseline, rows);
    assert_eq!(bits(&loss), bits(&loss_baseline));
    let alone = Rows { n: 1, ..rows };
    for row in [0, 17, 39] {
        let at = row * 56..(row + 1) * 56;
        let mut single = vec![0f32; 56];
        softmax(&x[at.clone()], &mut single, alone);
        assert_eq!(bits(&single), bits(&out[at]));
    }
}
