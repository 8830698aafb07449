//! Runs a loop over time, step by step.

use super::memory::Arena;
use super::step::{self, Ctx, Scratch};
use crate::engine::plan::{LoopPlan, Operand, Source};
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
    let order = (0..plan.n_steps).map(|i| if plan.is_reversed { plan.n_steps - 1 - i } else { i });
    for time in order {
        for (argument, input) in plan.slices.iter().zip(&inputs[n_carries..]) {
            let slice = part(input, time * argument.n(), argument);
            step::copy(ctx, arena, &slice, argument);
        }
        let mut start = n_final;
        for carry in &plan.carries {
            step::copy(ctx, arena, carry, &part(output, start + time * carry.n(), carry));
            start += plan.n_steps * carry.n();
        }
        for inner in &plan.steps {
            step::run(ctx, arena, scratch, inner);
        }
        for value in &plan.outputs {
            step::copy(ctx, arena, value, &part(output, start + time * value.n(), value));
            start += plan.n_steps * value.n();
        }
        for (carry, next) in plan.carries.iter().zip(&plan.next) {
            step::copy(ctx, arena, next, carry);
        }
    }
    let mut start = 0;
    for carry in &plan.carries {
        step::copy(ctx, arena, carry, &part(output, start, carry));
        start += carry.n();
    }
}

/// The piece of `whole` from element `at` on, with the extents of `like`.
fn part(whole: &Operand, at: usize, like: &Operand) -> Operand {
    let Source::Lane { buffer, offset } = whole.source else {
        unreachable!("sequences lie in the arena")
    };
    let source = Source::Lane { buffer, offset: offset + at };
    Operand { source, shape: like.shape.clone(), dtype: whole.dtype }
}
