use super::super::testing::{bits, values};
use super::*;

const AXES: &[(usize, usize, usize)] = &[
    (1, 1, 1),
    (2, 3, 4),
    (3, 1, 5),
    (2, 9, 1),
    (1, 8, 16),
    (2, 17, 33),
    (2, 0, 3),
];

fn axes() -> impl Iterator<Item = Axis> {
    AXES.iter()
        .map(|&(outer, n, inner)| Axis { outer, n, inner })
}

#[test]
fn slices_put_together_give_the_whole() {
    for axis in axes() {
        let x = values("x", axis.len(), -1.0, 1.0);
        let mut whole = vec![f32::NAN; axis.len()];
        let cut = axis.n / 3;
        for (start, len) in [(0, cut), (cut, axis.n - cut)] {
            let mut part = vec![f32::NAN; axis.outer * len * axis.inner];
            slice(&x, &mut part, axis, start, len);
            for o in 0..axis.outer {
                let got = &part[o * len * axis.inner..(o + 1) * len * axis.inner];
                let from = (o * axis.n + start) * axis.inner;
                assert_eq!(got, &x[from..from + len * axis.inner]);
            }
            concat_part(&part, &mut whole, axis, start, len);
        }
        assert_eq!(bits(&whole), bits(&x), "{axis:?}");
    }
}

#[test]
fn transposes() {
    for axis in axes() {
        let x = values("x", axis.len(), -1.0, 1.0);
        let mut out = vec![f32::NAN; axis.len()];
        transpose(&x, &mut out, axis);
        for o in 0..axis.outer {
            for r in 0..axis.n {
                for c in 0..axis.inner {
                    let at = o * axis.n * axis.inner;
                    assert_eq!(out[at + c * axis.n + r], x[at + r * axis.inner + c]);
                }
            }
        }
    }
}

#[test]
#[should_panic(expected = "slice 2..5 of an axis of 4")]
fn a_slice_past_the_end_is_refused() {
    let axis = Axis {
        outer: 1,
        n: 4,
        inner: 1,
    };
    slice(&[0f32; 4], &mut [0f32; 3], axis, 2, 3);
}
