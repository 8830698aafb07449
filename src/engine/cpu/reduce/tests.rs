use super::super::sum::sum_ordered;
use super::super::testing::{bits, values, wide};
use super::*;

const AXES: &[(usize, usize, usize)] = &[
    (1, 1, 1),
    (3, 5, 1),
    (2, 56, 1),
    (2, 101, 1),
    (3, 5, 7),
    (2, 32, 65),
    (1, 33, 64),
    (2, 100, 3),
    (1, 70, 130),
    (2, 0, 3),
    (2, 0, 1),
];

fn column<T: Copy>(x: &[T], axis: Axis, o: usize, c: usize) -> Vec<T> {
    (0..axis.n)
        .map(|i| x[(o * axis.n + i) * axis.inner + c])
        .collect()
}

#[test]
fn sums_along_any_axis_have_the_written_order() {
    for &(outer, n, inner) in AXES {
        let axis = Axis { outer, n, inner };
        let x = values("x", axis.len(), -1.0, 2.0);
        let mut out = vec![f32::NAN; axis.reduced()];
        sum(&x, &mut out, axis);
        for o in 0..outer {
            for c in 0..inner {
                let expected = sum_ordered(&column(&x, axis, o, c));
                let got = out[o * inner + c];
                assert_eq!(got.to_bits(), expected.to_bits(), "{axis:?} {o} {c}");
            }
        }
    }
}

#[test]
fn a_sum_over_a_middle_axis_loses_the_sign_of_zero_too() {
    let mut out = [1f32; 2];
    let axis = Axis {
        outer: 1,
        n: 1,
        inner: 2,
    };
    sum(&[-0.0, -0.0], &mut out, axis);
    assert_eq!(bits(&out), [0, 0]);
}

#[test]
fn maxima_and_their_indices_agree_with_a_plain_search() {
    for &(outer, n, inner) in AXES.iter().filter(|axis| axis.1 > 0) {
        let axis = Axis { outer, n, inner };
        // Rounded, so that there are ties.
        let x: Vec<f32> = values("x", axis.len(), -4.0, 4.0)
            .iter()
            .map(|x| x.round())
            .collect();
        let (mut top, mut index) = (vec![0f32; axis.reduced()], vec![-1; axis.reduced()]);
        max(&x, &mut top, axis);
        argmax(&x, &mut index, axis);
        for o in 0..outer {
            for c in 0..inner {
                let column = column(&x, axis, o, c);
                let expected = column.iter().copied().fold(f32::NEG_INFINITY, f32::max);
                let at = o * inner + c;
                assert_eq!(top[at], expected, "{axis:?} {o} {c}");
                let first = column.iter().position(|&x| x == expected);
                assert_eq!(Some(index[at] as usize), first, "{axis:?} {o} {c}");
            }
        }
        let mut index_f64 = vec![-1; axis.reduced()];
        argmax(&wide(&x), &mut index_f64, axis);
        assert_eq!(index, index_f64);
    }
}

#[test]
fn maxima_of_special_values_do_not_depend_on_order() {
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    let rows: [([f32; 3], f32, i32); 8] = [
        ([-0.0, 0.0, -1.0], 0.0, 0),
        ([-0.0, -0.0, -0.0], 0.0, 0),
        ([1.0, nan, 2.0], nan, 2),
        ([nan, nan, nan], nan, 0),
        ([nan, -inf, -inf], nan, 1),
        ([-inf, -inf, -inf], -inf, 0),
        ([inf, nan, inf], nan, 0),
        ([1.0, inf, inf], inf, 1),
    ];
    for (row, expected, expected_index) in rows {
        for inner in [1, 3] {
            let axis = Axis {
                outer: 2,
                n: 3,
                inner,
            };
            // The other rows and columns are finite: NaN must not reach them.
            let mut x = vec![0.5f32; axis.len()];
            for (i, &value) in row.iter().enumerate() {
                x[i * inner] = value;
            }
            let (mut top, mut index) = (vec![0f32; axis.reduced()], vec![-1; axis.reduced()]);
            max(&x, &mut top, axis);
            argmax(&x, &mut index, axis);
            assert_eq!(top[0].to_bits(), expected.to_bits(), "{row:?} {inner}");
            assert_eq!(index[0], expected_index, "{row:?} {inner}");
            assert!(top[1..].iter().all(|&x| x == 0.5));
            assert!(index[1..].iter().all(|&i| i == 0));
        }
    }
}
