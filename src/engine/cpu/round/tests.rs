use super::super::testing::{bits, values, wide};
use super::*;
use crate::engine::math;

#[test]
fn slices_round_as_single_values_do() {
    for n in [0, 1, 7, 8, 51, 100] {
        let mut x = values("x", n, -300.0, 300.0);
        if n > 8 {
            x[1] = f32::NAN;
            x[2] = f32::INFINITY;
            x[3] = -0.0;
            x[4] = f32::from_bits(1);
        }
        let mut out = vec![0f32; n];
        bf16(&x, &mut out);
        let expected: Vec<f32> = x.iter().map(|&x| math::round_bf16(x)).collect();
        assert_eq!(bits(&out), bits(&expected));
        tf32(&x, &mut out);
        let expected: Vec<f32> = x.iter().map(|&x| math::round_tf32(x)).collect();
        assert_eq!(bits(&out), bits(&expected));
        let once = out.clone();
        tf32(&once, &mut out);
        assert_eq!(bits(&out), bits(&once));
    }
}

#[test]
fn doubles_pass() {
    let x = wide(&values("x", 33, -1.0, 1.0));
    let mut out = vec![0f64; 33];
    bf16(&x, &mut out);
    assert_eq!(out, x);
    tf32(&x, &mut out);
    assert_eq!(out, x);
}
