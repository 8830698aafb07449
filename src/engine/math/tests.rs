use super::*;

/// Largest error of `got` in units of the last place of the exact result, over every 1999th
/// positive and negative bit pattern in a range; results below the normal numbers are skipped.
fn ulp_max(low: f32, high: f32, got: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64) -> f64 {
    let mut worst = 0f64;
    for sign in [0u32, 0x8000_0000] {
        for bits in (0..f32::INFINITY.to_bits()).step_by(1999) {
            let x = f32::from_bits(bits | sign);
            let expected = exact(f64::from(x));
            let is_normal = expected.abs() >= f64::from(f32::MIN_POSITIVE);
            if x < low || x > high || !is_normal {
                continue;
            }
            let exponent = expected.abs().log2().floor().min(127.0);
            let error = (f64::from(got(x)) - expected).abs() / (exponent - 23.0).exp2();
            assert!(
                error.is_finite(),
                "{x:e}: got {:e}, exact {expected:e}",
                got(x)
            );
            worst = worst.max(error);
        }
    }
    worst
}

fn softplus_exact(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

#[test]
fn errors_stay_within_the_stated_ulps() {
    let exp_error = ulp_max(-87.336, 88.722, exp, f64::exp);
    let ln_error = ulp_max(f32::from_bits(1), f32::MAX, ln, f64::ln);
    let tanh_error = ulp_max(f32::MIN, f32::MAX, tanh, f64::tanh);
    let sigmoid_error = ulp_max(-87.3, f32::MAX, sigmoid, |x| 1.0 / (1.0 + (-x).exp()));
    let softplus_error = ulp_max(-87.3, f32::MAX, softplus, softplus_exact);
    let errors = [
        exp_error,
        ln_error,
        tanh_error,
        sigmoid_error,
        softplus_error,
    ];
    assert!(exp_error <= 2.0 && ln_error <= 2.0, "{errors:?}");
    assert!(
        tanh_error <= 4.0 && sigmoid_error <= 4.0 && softplus_error <= 4.0,
        "{errors:?}"
    );
}

#[test]
fn exp_has_its_limits() {
    assert_eq!(exp(0.0), 1.0);
    assert_eq!(exp(-0.0), 1.0);
    assert_eq!(exp(f32::INFINITY), f32::INFINITY);
    assert_eq!(exp(88.73), f32::INFINITY);
    assert!(exp(EXP_MAX).is_finite() && exp(EXP_MIN) >= f32::MIN_POSITIVE);
    for x in [-87.4, -104.0, -1e4, -1e30, f32::MIN, f32::NEG_INFINITY] {
        assert_eq!(exp(x).to_bits(), 0, "{x}");
    }
    assert_eq!(exp(f32::MAX), f32::INFINITY);
    assert!(exp(f32::NAN).is_nan());
}

#[test]
fn ln_has_its_limits() {
    assert_eq!(ln(1.0).to_bits(), 0);
    assert_eq!(ln(0.0), f32::NEG_INFINITY);
    assert_eq!(ln(-0.0), f32::NEG_INFINITY);
    assert_eq!(ln(f32::INFINITY), f32::INFINITY);
    assert!(ln(-1.0).is_nan() && ln(f32::NEG_INFINITY).is_nan() && ln(f32::NAN).is_nan());
}

#[test]
fn sigmoids_have_their_limits() {
    assert_eq!(tanh(0.0).to_bits(), 0);
    assert_eq!(tanh(-0.0).to_bits(), (-0f32).to_bits());
    assert_eq!((tanh(f32::INFINITY), tanh(f32::NEG_INFINITY)), (1.0, -1.0));
    assert_eq!(tanh(1e-30), 1e-30);
    assert_eq!(tanh(0.7).to_bits(), (-tanh(-0.7)).to_bits());
    assert_eq!((sigmoid(0.0), sigmoid(f32::INFINITY)), (0.5, 1.0));
    assert_eq!(sigmoid(f32::NEG_INFINITY).to_bits(), 0);
    assert_eq!(softplus(f32::INFINITY), f32::INFINITY);
    assert_eq!(softplus(f32::NEG_INFINITY).to_bits(), 0);
    assert_eq!(softplus(100.0), 100.0);
    assert!(tanh(f32::NAN).is_nan() && sigmoid(f32::NAN).is_nan() && softplus(f32::NAN).is_nan());
}

#[test]
fn bits_are_those_that_other_backends_must_give() {
    // Written down once: a change of the formulas must be seen, since CUDA copies them.
    let bits = |f: fn(f32) -> f32| [0.1f32, -1.7, 3.3].map(|x| f(x).to_bits());
    assert_eq!(bits(exp), [0x3f8d_763e, 0x3e3b_1163, 0x41d8_e6ae]);
    assert_eq!(
        bits(|x| ln(x.abs())),
        [0xc013_5d8e, 0x3f07_d741, 0x3f98_d274]
    );
    assert_eq!(bits(tanh), [0x3dcc_1ebc, 0xbf6f_76f8, 0x3f7f_4df0]);
    assert_eq!(bits(sigmoid), [0x3f06_6509, 0x3e1e_2c24, 0x3f76_e4cf]);
    assert_eq!(bits(softplus), [0x3f3e_90c9, 0x3e2b_d01a, 0x4055_849e]);
}

#[test]
fn bf16_rounds_to_nearest_even() {
    // models.md's own values, then ties both ways, then the edges.
    assert_eq!(round_bf16(4512.25), 4512.0);
    assert_eq!(round_bf16(0.999), 1.0);
    assert_eq!((round_bf16(9.2), round_bf16(9.6)), (9.1875, 9.625));
    assert_eq!(round_bf16(1.0 + 1.0 / 256.0), 1.0);
    assert_eq!(round_bf16(1.0 + 3.0 / 256.0), 1.0 + 4.0 / 256.0);
    assert_eq!(round_bf16(f32::MAX), f32::INFINITY);
    assert_eq!(round_bf16(f32::NEG_INFINITY), f32::NEG_INFINITY);
    assert_eq!(round_bf16(-0.0).to_bits(), (-0f32).to_bits());
    for bits in [0x7f80_0001u32, 0xff80_0001, 0x7fff_ffff, 0x7fc0_0000] {
        assert!(round_bf16(f32::from_bits(bits)).is_nan(), "{bits:x}");
        assert!(round_tf32(f32::from_bits(bits)).is_nan(), "{bits:x}");
    }
    for bits in (0..u32::MAX).step_by(65_521) {
        let x = f32::from_bits(bits);
        let expected = half::bf16::from_f32(x).to_f32();
        assert!(round_bf16(x) == expected || x.is_nan(), "{x:e}");
    }
}

#[test]
fn tf32_rounds_ties_away() {
    let ulp = 1.0 / 1024.0;
    assert_eq!(round_tf32(1.0 + 0.49 * ulp), 1.0);
    assert_eq!(round_tf32(1.0 + 0.5 * ulp), 1.0 + ulp);
    assert_eq!(round_tf32(1.0 + 1.5 * ulp), 1.0 + 2.0 * ulp);
    assert_eq!(round_tf32(-1.0 - 0.5 * ulp), -1.0 - ulp);
    assert_eq!(round_tf32(f32::MAX), f32::INFINITY);
    assert_eq!(round_tf32(f32::INFINITY), f32::INFINITY);
    assert_eq!(round_tf32(-0.0).to_bits(), (-0f32).to_bits());
}
