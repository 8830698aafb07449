//! What the kernels' tests share.

use crate::engine::rng;

/// `[n]` reproducible values from [low, high).
pub(super) fn values(name: &str, n: usize, low: f32, high: f32) -> Vec<f32> {
    let mut out = vec![0.0; n];
    rng::fill_uniform(7, 0, rng::stream_id(name), &mut out);
    for x in &mut out {
        *x = low + *x * (high - low);
    }
    out
}

/// The same values in `f64`.
pub(super) fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| f64::from(x)).collect()
}

/// The bit patterns, so that NaN and signed zeros compare.
pub(super) fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

/// Panics unless `got` is within `tolerance` of `expected` everywhere, relative to
/// max(1, |expected|).
#[track_caller]
pub(super) fn assert_close(got: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(got.len(), expected.len());
    for (i, (&g, &e)) in got.iter().zip(expected).enumerate() {
        let error = (g - e).abs() / e.abs().max(1.0);
        assert!(error <= tolerance, "element {i}: got {g}, expected {e}");
    }
}
