//! Commits the effects of a phase on one lane.

use super::memory::Arena;
use super::spectral::{Spectral, spectral_norm};
use super::step::{self, Ctx};
use super::update::{AdamState, AdamStep, adam, bias_correction};
use crate::engine::op::Matrix;
use crate::engine::plan::{Commit, Operand};
use crate::engine::real::Real;
use bytemuck::Pod;

/// Applies an effect where its guard holds.
// tidy: long, because it is one match with an arm per effect.
pub(crate) fn run<R: Real>(ctx: &Ctx<'_>, arena: &mut Arena, commit: &Commit) {
    if let Some(guard) = commit.guard()
        && scalar::<R>(ctx, arena, guard) == R::ZERO
    {
        return;
    }
    match commit {
        Commit::Store { state, value, .. } => {
            if state.source != value.source {
                step::copy(ctx, arena, value, state);
            }
        }
        Commit::RingPush {
            state, row, value, ..
        } => {
            let at: i32 = scalar(ctx, arena, row);
            let n_rows = state.shape.0[0];
            let at = usize::try_from(at).ok().filter(|at| *at < n_rows);
            let at = at.unwrap_or_else(|| panic!("row outside a ring of {n_rows}"));
            step::copy_part(ctx, arena, (value, 0), (state, at * value.n()), value.n());
        }
        Commit::Adam {
            blocks,
            target,
            grad,
            scalars,
            step,
            ..
        } => {
            let [grad_scale, lr, beta1, beta2, eps, weight_decay] = scalars
                .each_ref()
                .map(|operand| scalar::<R>(ctx, arena, operand));
            let n_steps: i32 = scalar(ctx, arena, step);
            let n_steps = u64::try_from(n_steps).expect("steps count from 1");
            let tau = target
                .as_ref()
                .map_or(R::ZERO, |(_, tau)| scalar(ctx, arena, tau));
            let coefficients = AdamStep {
                lr,
                beta1,
                beta2,
                eps,
                weight_decay,
                tau,
                grad_scale,
                bias1: R::from_f64(bias_correction(beta1.to_f64(), n_steps)),
                bias2: R::from_f64(bias_correction(beta2.to_f64(), n_steps)),
            };
            let [theta, m, v] = blocks;
            match target {
                Some((target, _)) => {
                    let [theta, m, v, target, grad] =
                        disjoint::<R, 5>(ctx, arena, [theta, m, v, target, grad]);
                    let state = AdamState {
                        theta,
                        m,
                        v,
                        target: Some(target),
                    };
                    adam(&coefficients, state, grad);
                }
                None => {
                    let [theta, m, v, grad] = disjoint::<R, 4>(ctx, arena, [theta, m, v, grad]);
                    adam(
                        &coefficients,
                        AdamState {
                            theta,
                            m,
                            v,
                            target: None,
                        },
                        grad,
                    );
                }
            }
        }
        Commit::SpectralNorm {
            blocks,
            matrices,
            sigma_max,
            n_iterations,
            ..
        } => {
            let how = Spectral {
                sigma_max: scalar(ctx, arena, sigma_max),
                n_iterations: *n_iterations as usize,
                project: true,
            };
            let [param, u, v] = blocks;
            let [param, u, v] = disjoint::<R, 3>(ctx, arena, [param, u, v]);
            for matrix in matrices {
                let Matrix {
                    offset,
                    rows,
                    cols,
                    u_offset,
                    v_offset,
                } = *matrix;
                let w = &mut param[offset..offset + rows * cols];
                let (u, v) = (&mut u[u_offset..][..rows], &mut v[v_offset..][..cols]);
                spectral_norm(w, u, v, how);
            }
        }
    }
}

fn scalar<T: Pod>(ctx: &Ctx<'_>, arena: &Arena, operand: &Operand) -> T {
    let range = ctx.plan.range(operand).expect("scalars lie in the arena");
    bytemuck::cast_slice::<u8, T>(&arena.bytes()[range])[0]
}

/// Returns non-overlapping operands, all writable.
fn disjoint<'a, R: Pod, const N: usize>(
    ctx: &Ctx<'_>,
    arena: &'a mut Arena,
    operands: [&Operand; N],
) -> [&'a mut [R]; N] {
    let ranges = operands.map(|operand| ctx.plan.range(operand).expect("they lie in the arena"));
    let parts = arena
        .bytes_mut()
        .get_disjoint_mut(ranges)
        .expect("planned apart");
    parts.map(bytemuck::cast_slice_mut)
}
