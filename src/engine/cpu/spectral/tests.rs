use super::super::testing::{bits, values, wide};
use super::*;

fn how<R: Real>(sigma_max: f64, n_iterations: usize, project: bool) -> Spectral<R> {
    Spectral {
        sigma_max: R::from_f64(sigma_max),
        n_iterations,
        project,
    }
}

#[test]
fn published_sequence() {
    let mut w = [3.0, 0.0, 4.0, 5.0];
    let (mut u, mut v) = ([1.0, 0.0], [f64::NAN; 2]);
    for expected in [5.0, 6.671_746, 6.707_75] {
        let sigma = spectral_norm(&mut w, &mut u, &mut v, how(1.0, 1, false));
        assert!((sigma - expected).abs() < 1e-6, "{sigma} {expected}");
    }
    // σ² is the larger root of λ² − 50 λ + 225: σ = √45.
    let sigma = spectral_norm(&mut w, &mut u, &mut v, how(1.0, 40, false));
    assert!((sigma - 45f64.sqrt()).abs() < 1e-12);
    assert!((sigma - 6.708_204).abs() < 1e-6);
    assert_eq!(w, [3.0, 0.0, 4.0, 5.0]);

    let sigma = spectral_norm(&mut w, &mut u, &mut v, how(3.0, 1, true));
    assert!((sigma - 45f64.sqrt()).abs() < 1e-12);
    let sigma = spectral_norm(&mut w, &mut u, &mut v, how(3.0, 1, true));
    assert!((sigma - 3.0).abs() < 1e-12, "{sigma}");
}

#[test]
fn f32_gives_the_published_sequence_too() {
    let mut w = [3f32, 0.0, 4.0, 5.0];
    let (mut u, mut v) = ([1f32, 0.0], [0f32; 2]);
    for expected in [5.0, 6.671_746, 6.707_75] {
        let sigma = spectral_norm(&mut w, &mut u, &mut v, how(1.0, 1, false));
        assert!((sigma - expected).abs() < 1e-5, "{sigma} {expected}");
    }
}

#[test]
fn both_types_agree_on_every_shape() {
    for (rows, cols) in [(1, 1), (1, 7), (7, 1), (5, 33), (6, 64), (35, 20)] {
        let w = values("w", rows * cols, -1.0, 1.0);
        let u = values("u", rows, 0.1, 1.0);
        let (mut w64, mut u64, mut v64) = (wide(&w), wide(&u), vec![f64::NAN; cols]);
        let (mut w32, mut u32, mut v32) = (w, u, vec![f32::NAN; cols]);
        let a = spectral_norm(&mut w64, &mut u64, &mut v64, how(0.5, 15, true));
        let b = spectral_norm(&mut w32, &mut u32, &mut v32, how(0.5, 15, true));
        // Sums of up to 64 products in f32.
        assert!(
            (a - f64::from(b)).abs() < 1e-5 * a,
            "{rows} {cols}: {a} {b}"
        );
        for (a, &b) in w64.iter().zip(&w32) {
            assert!((a - f64::from(b)).abs() < 1e-5);
        }
    }
}

#[test]
fn a_matrix_within_the_bound_keeps_its_bits() {
    let w = values("w", 15, -0.1, 0.1);
    let mut scaled = w.clone();
    let (mut u, mut v) = (values("u", 3, 0.1, 1.0), vec![0f32; 5]);
    spectral_norm(&mut scaled, &mut u, &mut v, how(3.0, 5, true));
    assert_eq!(bits(&scaled), bits(&w));
}

#[test]
fn zero_and_nan_do_not_scale() {
    let mut w = [0f32; 6];
    let (mut u, mut v) = ([1f32, 0.0], [0f32; 3]);
    let sigma = spectral_norm(&mut w, &mut u, &mut v, how(3.0, 2, true));
    assert_eq!((sigma, w), (0.0, [0f32; 6]));
    let mut w = [1f32, f32::NAN, 1.0, 1.0, 1.0, 1.0];
    let (mut u, mut v) = ([1f32, 0.0], [0f32; 3]);
    let sigma = spectral_norm(&mut w, &mut u, &mut v, how(0.1, 2, true));
    assert!(sigma.is_nan());
    assert_eq!(w[0], 1.0);
}
