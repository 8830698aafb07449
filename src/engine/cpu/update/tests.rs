use super::super::testing::{assert_close, bits, values, wide};
use super::*;

fn step<R: Real>(n_steps: u64) -> AdamStep<R> {
    let r = R::from_f64;
    AdamStep {
        lr: r(1e-3),
        beta1: r(0.9),
        beta2: r(0.999),
        eps: r(1e-8),
        weight_decay: R::ZERO,
        tau: r(0.005),
        grad_scale: R::ONE,
        bias1: r(bias_correction(0.9, n_steps)),
        bias2: r(bias_correction(0.999, n_steps)),
    }
}

struct Block<R> {
    theta: Vec<R>,
    m: Vec<R>,
    v: Vec<R>,
    target: Vec<R>,
}

impl<R: Real> Block<R> {
    fn new(theta: &[R]) -> Self {
        Self {
            theta: theta.to_vec(),
            m: vec![R::ZERO; theta.len()],
            v: vec![R::ZERO; theta.len()],
            target: theta.to_vec(),
        }
    }

    fn update(&mut self, step: &AdamStep<R>, grad: &[R], with_target: bool) {
        let state = AdamState {
            theta: &mut self.theta,
            m: &mut self.m,
            v: &mut self.v,
            target: with_target.then_some(&mut self.target[..]),
        };
        adam(step, state, grad);
    }
}

#[test]
fn the_first_step_is_the_sign_of_the_gradient() {
    let grad = [3.0, -0.5, 1e-6, 1e-8, 0.0];
    let mut block = Block::new(&[0f64; 5]);
    block.update(&step(1), &grad, false);
    let expected = grad.map(|g: f64| -1e-3 * g / (g.abs() + 1e-8));
    // f64 rounding, on a scale of lr.
    for (got, expected) in block.theta.iter().zip(expected) {
        assert!((got - expected).abs() <= 1e-15, "{got} {expected}");
    }
    let mut block = Block::new(&[0f32; 5]);
    block.update(&step(1), &grad.map(|g| g as f32), false);
    for (&got, expected) in block.theta.iter().zip(expected) {
        // Four f32 roundings and 1 − 0.999f32, which is off by 1.3e-5 before the root.
        assert!(
            (f64::from(got) - expected).abs() <= 2e-8,
            "{got} {expected}"
        );
    }
}

#[test]
fn several_steps_follow_the_published_recurrence() {
    for n in [1, 7, 8, 33, 100] {
        let start = wide(&values("theta", n, -1.0, 1.0));
        let mut block = Block::new(&start);
        let (mut theta, mut m, mut v) = (start.clone(), vec![0.0; n], vec![0.0; n]);
        let mut target = start;
        for t in 1..=20u64 {
            let grad = wide(&values(&format!("g {t}"), n, -2.0, 2.0));
            let step = AdamStep {
                weight_decay: 0.1,
                grad_scale: 0.25,
                ..step(t)
            };
            block.update(&step, &grad, true);
            for i in 0..n {
                let g = 0.25 * grad[i];
                m[i] = 0.9 * m[i] + 0.1 * g;
                v[i] = 0.999 * v[i] + 0.001 * g * g;
                let m_hat = m[i] / (1.0 - 0.9f64.powi(t as i32));
                let v_hat = v[i] / (1.0 - 0.999f64.powi(t as i32));
                theta[i] -= 1e-3 * (m_hat / (v_hat.sqrt() + 1e-8) + 0.1 * theta[i]);
                target[i] = 0.995 * target[i] + 0.005 * theta[i];
            }
        }
        // f64 rounding over 20 steps.
        assert_close(&block.theta, &theta, 1e-13);
        assert_close(&block.m, &m, 1e-13);
        assert_close(&block.v, &v, 1e-13);
        assert_close(&block.target, &target, 1e-13);
    }
}

#[test]
fn the_target_changes_nothing_else() {
    let (theta, grad) = (values("theta", 51, -1.0, 1.0), values("g", 51, -1.0, 1.0));
    let (mut with, mut without) = (Block::new(&theta), Block::new(&theta));
    with.update(&step(1), &grad, true);
    without.update(&step(1), &grad, false);
    assert_eq!(bits(&with.theta), bits(&without.theta));
    assert_eq!(bits(&with.m), bits(&without.m));
    assert_eq!(bits(&with.v), bits(&without.v));
    assert_eq!(bits(&without.target), bits(&theta));
}

#[test]
fn a_dead_gradient_leaves_no_denormals() {
    let mut block = Block::new(&[0.5f32; 9]);
    block.update(&step(1), &[1e-3; 9], false);
    for t in 2..2000 {
        block.update(&step(t), &[0.0; 9], false);
        assert!(block.m.iter().all(|m| *m == 0.0 || m.is_normal()), "{t}");
    }
    assert!(block.m.iter().all(|&m| m == 0.0));
}

#[test]
fn nan_stays_with_its_parameter() {
    let mut grad = [0.1f32; 20];
    grad[13] = f32::NAN;
    let mut block = Block::new(&[0.5f32; 20]);
    block.update(&step(1), &grad, true);
    for i in 0..20 {
        let is_nan = [&block.theta, &block.m, &block.v, &block.target].map(|x| x[i].is_nan());
        assert_eq!(is_nan, [i == 13; 4]);
    }
}

#[test]
fn bias_corrections() {
    assert_eq!(bias_correction(0.9, 1), 1.0 - 0.9);
    assert_eq!(bias_correction(0.0, 3), 1.0);
    for n in [2u64, 3, 10, 1000, 123_457] {
        let expected = 1.0 - 0.999f64.powf(n as f64);
        // Relative rounding of some 17 squarings.
        assert!((bias_correction(0.999, n) - expected).abs() < 1e-12);
    }
    assert_eq!(bias_correction(0.9, u64::MAX), 1.0);
}
