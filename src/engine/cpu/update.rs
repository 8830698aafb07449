//! The optimizer's pass over a flat block of parameters.
//!
//! # Invariants
//! - Elementwise: a parameter's new value depends on its own old values alone.
//! - Master weights, moments and target are never stored below the compute type.

use super::check_len;
use super::simd::{self, kernel};
use crate::engine::real::Real;

/// Coefficients of one AdamW step with Polyak averaging.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AdamStep<R> {
    /// Learning rate.
    pub lr: R,
    /// Decay of the first moment.
    pub beta1: R,
    /// Decay of the second moment.
    pub beta2: R,
    /// Added to the root of the second moment.
    pub eps: R,
    /// Decoupled weight decay per step, times `lr`.
    pub weight_decay: R,
    /// Share of the new weights in the target.
    pub tau: R,
    /// Factor on the gradient: unscaling and clipping.
    pub grad_scale: R,
    /// `1 − beta1^t` at this step, [`bias_correction`].
    pub bias1: R,
    /// `1 − beta2^t` at this step.
    pub bias2: R,
}

/// State of a flat block of `[N]` parameters.
pub(crate) struct AdamState<'a, R> {
    /// Weights.
    pub theta: &'a mut [R],
    /// First moment.
    pub m: &'a mut [R],
    /// Second moment.
    pub v: &'a mut [R],
    /// Polyak average of the weights, if the model keeps one.
    pub target: Option<&'a mut [R]>,
}

/// Makes one AdamW step and then moves the target.
///
/// - `grad`: `[N]`, before scaling.
///
/// In this order, each operation rounded: `g = grad·grad_scale`, `m = β₁m + (1−β₁)g`,
/// `v = β₂v + (1−β₂)(g·g)`, `d = √(v·(1/bias₂)) + ε`,
/// `θ = (θ − (lr·weight_decay)·θ) − (lr/bias₁)·m / d`, `target = target + τ(θ − target)`.
///
/// Moments below 2⁻¹⁰⁰ in magnitude become 0, far below what ε lets through: a unit whose
/// gradient has died would otherwise hold its first moment among the denormals for good, where
/// processors are slow.
///
/// Source: Loshchilov and Hutter 2019, Algorithm 2, with the decay scaled by `lr` (PyTorch).
pub(crate) fn adam<R: Real>(step: &AdamStep<R>, state: AdamState<'_, R>, grad: &[R]) {
    let AdamState {
        theta,
        m,
        v,
        target,
    } = state;
    check_len("theta", theta.len(), grad.len());
    check_len("m", m.len(), grad.len());
    check_len("v", v.len(), grad.len());
    let step = *step;
    match target {
        Some(target) => {
            check_len("target", target.len(), grad.len());
            simd::run(AdamWithTarget {
                step,
                theta,
                m,
                v,
                target,
                grad,
            });
        }
        None => simd::run(Adam {
            step,
            theta,
            m,
            v,
            grad,
        }),
    }
}

/// Returns `1 − beta^n_steps`, with `n_steps` counted from 1 at the first update.
///
/// Powers by squaring in `f64`, so that every backend and machine gets the same bits.
pub(crate) fn bias_correction(beta: f64, n_steps: u64) -> f64 {
    let (mut power, mut base, mut left) = (1.0, beta, n_steps);
    while left > 0 {
        if left & 1 == 1 {
            power *= base;
        }
        base *= base;
        left >>= 1;
    }
    1.0 - power
}

kernel!(Adam<'a, R> {
    step: AdamStep<R>, theta: &'a mut [R], m: &'a mut [R], v: &'a mut [R], grad: &'a [R],
} -> () = adam_kernel);
kernel!(AdamWithTarget<'a, R> {
    step: AdamStep<R>, theta: &'a mut [R], m: &'a mut [R], v: &'a mut [R], target: &'a mut [R],
    grad: &'a [R],
} -> () = adam_with_target_kernel);

#[inline(always)]
fn adam_kernel<R: Real>(step: AdamStep<R>, theta: &mut [R], m: &mut [R], v: &mut [R], grad: &[R]) {
    let scalars = Scalars::new(step);
    for (((theta, m), v), &grad) in theta.iter_mut().zip(m).zip(v).zip(grad) {
        scalars.apply(theta, m, v, grad);
    }
}

#[inline(always)]
fn adam_with_target_kernel<R: Real>(
    step: AdamStep<R>,
    theta: &mut [R],
    m: &mut [R],
    v: &mut [R],
    target: &mut [R],
    grad: &[R],
) {
    let scalars = Scalars::new(step);
    let entries = theta.iter_mut().zip(m).zip(v).zip(target).zip(grad);
    for ((((theta, m), v), target), &grad) in entries {
        scalars.apply(theta, m, v, grad);
        *target += step.tau * (*theta - *target);
    }
}

/// What a step computes once for all parameters.
#[derive(Clone, Copy)]
struct Scalars<R> {
    step: AdamStep<R>,
    rest1: R,
    rest2: R,
    lr_corrected: R,
    inverse_bias2: R,
    decay: R,
    tiny: R,
}

impl<R: Real> Scalars<R> {
    #[inline(always)]
    fn new(step: AdamStep<R>) -> Self {
        Self {
            step,
            rest1: R::ONE - step.beta1,
            rest2: R::ONE - step.beta2,
            lr_corrected: step.lr / step.bias1,
            inverse_bias2: R::ONE / step.bias2,
            decay: step.lr * step.weight_decay,
            tiny: R::from_f64((-100f64).exp2()),
        }
    }

    /// Turns a moment below 2⁻¹⁰⁰ into 0; NaN passes.
    #[inline(always)]
    fn flush(&self, moment: R) -> R {
        if moment.abs() < self.tiny {
            R::ZERO
        } else {
            moment
        }
    }

    #[inline(always)]
    fn apply(&self, theta: &mut R, m: &mut R, v: &mut R, grad: R) {
        let g = grad * self.step.grad_scale;
        *m = self.flush(self.step.beta1 * *m + self.rest1 * g);
        *v = self.flush(self.step.beta2 * *v + self.rest2 * (g * g));
        let denominator = (*v * self.inverse_bias2).sqrt() + self.step.eps;
        *theta = (*theta - self.decay * *theta) - self.lr_corrected * *m / denominator;
    }
}

#[cfg(test)]
mod tests;
