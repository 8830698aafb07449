//! Comparisons of results, with the element in the message.

use crate::engine::backend::Data;
use crate::engine::op::samples::Tolerance;

/// Panics unless `got` agrees with the oracle's `expected`, rounded to `got`'s type.
///
/// NaN, infinities and, where nothing may round, the sign of zero must agree.
#[track_caller]
pub(super) fn agree(label: &str, got: &Data, expected: &Data, tolerance: Tolerance) {
    assert_eq!(got.len(), expected.len(), "{label}");
    let is_narrow = matches!(got, Data::F32(_));
    let round = |value: f64| {
        if is_narrow {
            f64::from(value as f32)
        } else {
            value
        }
    };
    let expected: Vec<f64> = expected.to_f64().into_iter().map(round).collect();
    let got = got.to_f64();
    for (i, (g, e)) in got.iter().zip(&expected).enumerate() {
        let alike = (g.is_nan() && e.is_nan()) || (g.is_finite() && e.is_finite()) || g == e;
        assert!(alike, "{label}: element {i} is {g}, the oracle says {e}");
    }
    match tolerance {
        Tolerance::Ulp(ulp_max) => {
            for (i, (g, e)) in got.iter().zip(&expected).enumerate() {
                let apart = if is_narrow {
                    ordered(*g as f32).abs_diff(ordered(*e as f32))
                } else {
                    u64::from(g.to_bits() != e.to_bits())
                };
                // Elementary functions may give 0 for what would be denormal (math.rs says why).
                let is_flushed = ulp_max > 0 && *g == 0.0 && e.abs() < f64::from(f32::MIN_POSITIVE);
                let fits = g.is_nan() || is_flushed || apart <= u64::from(ulp_max);
                assert!(
                    fits,
                    "{label}: element {i} is {g}, the oracle says {e}: {apart} ulp"
                );
            }
        }
        Tolerance::Norm(share) => {
            let error = norm_apart(&got, &expected);
            assert!(
                error <= share,
                "{label}: norm-wise error {error:e} above {share:e}"
            );
        }
    }
}

/// Returns ‖got − expected‖ / ‖expected‖ over the finite elements; absolute below a norm of 1e-30.
pub(super) fn norm_apart(got: &[f64], expected: &[f64]) -> f64 {
    let finite = || {
        got.iter()
            .zip(expected)
            .filter(|(g, e)| g.is_finite() && e.is_finite())
    };
    let apart: f64 = finite().map(|(g, e)| (g - e) * (g - e)).sum();
    let norm: f64 = finite().map(|(_, e)| e * e).sum();
    apart.sqrt() / if norm > 1e-60 { norm.sqrt() } else { 1.0 }
}

/// Numbers F32 so that neighbours differ by one; −0 and 0 differ too.
fn ordered(value: f32) -> i64 {
    let bits = i64::from(value.to_bits());
    if bits < 0x8000_0000 {
        bits
    } else {
        0x7fff_ffff - bits
    }
}

/// The bits of a tensor; every NaN counts as the same one, since payloads are undefined.
pub(super) fn bits(data: &Data) -> Vec<u64> {
    let of = |value: f64| {
        if value.is_nan() {
            u64::MAX
        } else {
            value.to_bits()
        }
    };
    data.to_f64().into_iter().map(of).collect()
}
