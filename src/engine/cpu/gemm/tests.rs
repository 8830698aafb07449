use super::super::testing::{bits, values, wide};
use super::*;

const SHAPES: &[(usize, usize, usize)] = &[
    (1, 1, 1),
    (1, 8, 5),
    (8, 1, 5),
    (3, 5, 0),
    (2, 3, 1),
    (4, 4, 2),
    (7, 13, 9),
    (64, 56, 33),
    (130, 70, 257),
];

fn shapes() -> impl Iterator<Item = Gemm> {
    SHAPES.iter().flat_map(|&(m, n, k)| {
        [(false, false), (true, false), (false, true), (true, true)].map(|(trans_a, trans_b)| {
            Gemm {
                m,
                n,
                k,
                trans_a,
                trans_b,
            }
        })
    })
}

fn inputs(shape: Gemm) -> (Vec<f32>, Vec<f32>) {
    let a = values("a", shape.m * shape.k, -1.0, 1.0);
    let b = values("b", shape.k * shape.n, -1.0, 1.0);
    (a, b)
}

#[test]
fn a_small_product_by_hand() {
    let shape = Gemm {
        m: 2,
        n: 2,
        k: 3,
        trans_a: false,
        trans_b: false,
    };
    let (a, b) = (
        [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        [7.0, 8.0, 9.0, 10.0, 11.0, 12.0],
    );
    let mut c = [f64::NAN; 4];
    gemm(&a, &b, &mut c, shape);
    assert_eq!(c, [58.0, 64.0, 139.0, 154.0]);
    let mut c = [f32::NAN; 4];
    gemm(&a.map(|x| x as f32), &b.map(|x| x as f32), &mut c, shape);
    assert_eq!(c, [58.0, 64.0, 139.0, 154.0]);
}

#[test]
fn both_types_agree_in_every_shape_and_old_contents_do_not_leak() {
    for shape in shapes() {
        let (a, b) = inputs(shape);
        let mut c32 = vec![f32::NAN; shape.m * shape.n];
        let mut c64 = vec![f64::NAN; shape.m * shape.n];
        gemm(&a, &b, &mut c32, shape);
        gemm(&wide(&a), &wide(&b), &mut c64, shape);
        let error: f64 = c32
            .iter()
            .zip(&c64)
            .map(|(&got, expected)| (f64::from(got) - expected).powi(2))
            .sum();
        let size: f64 = c64.iter().map(|c| c * c).sum();
        // Norm-wise: some √k roundings of 2⁻²⁴ each, and k is at most 257.
        assert!(error.sqrt() <= 1e-6 * size.sqrt(), "{shape:?}: {error}");
    }
}

#[test]
fn transposes_are_only_layout() {
    for shape in shapes() {
        let (a, b) = inputs(shape);
        let mut expected = vec![0f64; shape.m * shape.n];
        for i in 0..shape.m {
            for j in 0..shape.n {
                for p in 0..shape.k {
                    let a = if shape.trans_a {
                        a[p * shape.m + i]
                    } else {
                        a[i * shape.k + p]
                    };
                    let b = if shape.trans_b {
                        b[j * shape.k + p]
                    } else {
                        b[p * shape.n + j]
                    };
                    expected[i * shape.n + j] += f64::from(a) * f64::from(b);
                }
            }
        }
        let mut c = vec![f64::NAN; shape.m * shape.n];
        gemm(&wide(&a), &wide(&b), &mut c, shape);
        assert_eq!(c, expected, "{shape:?}");
    }
}

#[test]
fn addresses_and_old_contents_change_no_bit() {
    for shape in shapes() {
        let (a, b) = inputs(shape);
        let mut expected = vec![0f32; shape.m * shape.n];
        gemm(&a, &b, &mut expected, shape);
        for offset in [1, 3, 4, 7, 16, 1023] {
            let shifted = |x: &[f32], by: usize| {
                let mut moved = vec![f32::NAN; by];
                moved.extend_from_slice(x);
                moved
            };
            let (a, b) = (shifted(&a, offset), shifted(&b, offset / 2));
            let mut c = vec![f32::NAN; offset + expected.len()];
            gemm(&a[offset..], &b[offset / 2..], &mut c[offset..], shape);
            assert_eq!(bits(&c[offset..]), bits(&expected), "{shape:?} {offset}");
        }
    }
}

#[test]
fn nan_stays_in_its_row() {
    for shape in shapes().filter(|shape| shape.m > 1 && shape.k > 0 && !shape.trans_a) {
        let (mut a, b) = inputs(shape);
        let mut clean = vec![0f32; shape.m * shape.n];
        gemm(&a, &b, &mut clean, shape);
        a[shape.k] = f32::NAN;
        let mut dirty = vec![0f32; shape.m * shape.n];
        gemm(&a, &b, &mut dirty, shape);
        let n = shape.n;
        assert!(dirty[n..2 * n].iter().all(|x| x.is_nan()), "{shape:?}");
        assert_eq!(bits(&dirty[..n]), bits(&clean[..n]), "{shape:?}");
        assert_eq!(bits(&dirty[2 * n..]), bits(&clean[2 * n..]), "{shape:?}");
    }
}

#[test]
#[should_panic(expected = "`a` has 5 elements, its shape has 6")]
fn a_wrong_length_is_refused() {
    let shape = Gemm {
        m: 2,
        n: 1,
        k: 3,
        trans_a: false,
        trans_b: false,
    };
    gemm(&[0f32; 5], &[0f32; 3], &mut [0f32; 2], shape);
}
