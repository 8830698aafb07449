use super::super::testing::{bits, values};
use super::*;

/// The written order, written the plain way.
fn reference(x: &[f32]) -> f32 {
    let mut p = [0f32; 32];
    for (i, &x) in x.iter().enumerate() {
        p[i % 32] += x;
    }
    for half in [16, 8, 4, 2, 1] {
        for j in 0..half {
            p[j] += p[j + half];
        }
    }
    p[0]
}

#[test]
fn sums_have_the_written_order() {
    for n in [0, 1, 2, 7, 8, 31, 32, 33, 51, 56, 64, 101, 1000, 1001] {
        let (x, y) = (values("x", n, -1.0, 3.0), values("y", n, -2.0, 1.0));
        let products: Vec<_> = x.iter().zip(&y).map(|(x, y)| x * y).collect();
        let squares: Vec<_> = x.iter().map(|x| x * x).collect();
        let got = [
            sum_ordered(&x),
            dot_ordered(&x, &y),
            sum_squares_ordered(&x),
        ];
        let expected = [&x, &products, &squares].map(|x| reference(x));
        assert_eq!(bits(&got), bits(&expected), "n = {n}");
    }
}

#[test]
fn the_instruction_set_changes_no_bit() {
    let (x, y) = (values("x", 1003, -1.0, 3.0), values("y", 1003, -2.0, 1.0));
    // Called directly, the functions are compiled for the baseline.
    assert_eq!(sum_ordered(&x).to_bits(), sum_kernel(&x).to_bits());
    assert_eq!(dot_ordered(&x, &y).to_bits(), dot_kernel(&x, &y).to_bits());
}

#[test]
fn a_sum_is_never_negative_zero() {
    assert_eq!(sum_ordered(&[-0f32]).to_bits(), 0);
    assert_eq!(sum_ordered::<f64>(&[]).to_bits(), 0);
}

#[test]
fn doubles_agree_with_plain_sums() {
    let x: Vec<f64> = (1..=100).map(f64::from).collect();
    assert_eq!(sum_ordered(&x), 5050.0);
    assert_eq!(sum_squares_ordered(&x), 338_350.0);
}
