//! Runs a loop over time, step by step.

use super::memory::Arena;
use super::step::{self, Ctx, Scratch};
use crate::engine::plan::{LoopPlan, Operand};
use crate::engine::real::Real;

/// Runs the loop; its output is laid out as [`crate::engine::op::Recur`] says.
pub(crate) fn run<R: Real>(
    ctx: &Ctx<'_>,
    arena: &mut Arena,
    scratch: &mut Scratch<R>,
    plan: &LoopPlan,
    inputs: &[Operand],
    output: &Operand,
) {
    let n_carries = plan.carries.len();
    for (argument, input) in plan.carries.iter().zip(inputs) {
        step::copy(ctx, arena, input, argument);
    }
    let n_final: usize = plan.carries.iter().map(Operand::n).sum();
    let order = (0..plan.n_steps).map(|i| {
        if plan.is_reversed {
            plan.n_steps - 1 - i
        } else {
            i
        }
    });
    for time in order {
        for (argument, input) in plan.slices.iter().zip(&inputs[n_carries..]) {
            let n = argument.n();
            step::copy_part(ctx, arena, (input, time * n), (argument, 0), n);
        }
        let mut start = n_final;
        for carry in &plan.carries {
            let n = carry.n();
            step::copy_part(ctx, arena, (carry, 0), (output, start + time * n), n);
            start += plan.n_steps * n;
        }
        for inner in &plan.steps {
            step::run(ctx, arena, scratch, inner);
        }
        for value in &plan.outputs {
            let n = value.n();
            step::copy_part(ctx, arena, (value, 0), (output, start + time * n), n);
            start += plan.n_steps * n;
        }
        for (carry, next) in plan.carries.iter().zip(&plan.next) {
            step::copy(ctx, arena, next, carry);
        }
    }
    let mut start = 0;
    for carry in &plan.carries {
        step::copy_part(ctx, arena, (carry, 0), (output, start), carry.n());
        start += carry.n();
    }
}
