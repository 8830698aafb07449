//! Runs one step of a plan on one lane.

use super::gemm::Gemm as GemmShape;
use super::memory::{Arena, Inputs};
use super::project::Support;
use super::replay::{Fill, NStep, Ring};
use super::{Axis, Rows, convert, gather, layout, loops, project, reduce, region, replay, softmax};
use crate::engine::backend::Data;
use crate::engine::env::{
    self, ACCOUNT_WIDTH, ACTION_SIZES, Costs, ENV_COLUMNS, OBSERVED_WIDTH, RewardKind,
};
use crate::engine::graph::{DType, Shape};
use crate::engine::op::env::STEP_WIDTH;
use crate::engine::op::{
    EnvOp, Gather, Gemm, Layout, Loss, Op, Random, Reduce, ReduceKind, Replay,
};
use crate::engine::plan::{INPUTS_MAX, Kernel, Operand, Plan, Step};
use crate::engine::real::Real;
use crate::engine::rng;
use bytemuck::Pod;
use std::sync::Arc;

/// What every step of a lane needs besides its arena.
pub(crate) struct Ctx<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) tables: &'a [Arc<Data>],
}

/// Memory for a step's own use.
pub(crate) struct Scratch<R> {
    region: Vec<R>,
    uniform: Vec<f32>,
    index: Vec<i32>,
}

impl<R: Real> Scratch<R> {
    /// Allocates for the largest step of a plan.
    pub(crate) fn new(plan: &Plan) -> Self {
        let mut need = Need::default();
        for phase in plan.sections.iter().flatten() {
            need.count(&phase.steps);
        }
        Self {
            region: vec![R::ZERO; region::SCRATCH],
            uniform: vec![0.0; need.n_uniform],
            index: vec![0; need.n_index],
        }
    }
}

/// Elements that the largest step needs.
#[derive(Default)]
struct Need {
    n_uniform: usize,
    n_index: usize,
}

impl Need {
    fn count(&mut self, steps: &[Step]) {
        for step in steps {
            match &step.kernel {
                Kernel::Op(Op::Random(_) | Op::Replay(Replay::Sample { .. })) => {
                    self.n_uniform = self.n_uniform.max(step.output.n());
                }
                Kernel::Op(Op::Replay(Replay::NStep { .. })) => {
                    self.n_index = self.n_index.max(step.output.n() / 3);
                }
                Kernel::Loop(inner) => self.count(&inner.steps),
                Kernel::Op(_) | Kernel::Region(_) | Kernel::Copy => {}
            }
        }
    }
}

/// Runs a step.
pub(crate) fn run<R: Real>(
    ctx: &Ctx<'_>,
    arena: &mut Arena,
    scratch: &mut Scratch<R>,
    step: &Step,
) {
    match &step.kernel {
        Kernel::Copy => copy(ctx, arena, &step.inputs[0], &step.output),
        Kernel::Loop(plan) => loops::run(ctx, arena, scratch, plan, &step.inputs, &step.output),
        Kernel::Region(region) => {
            let (inputs, out) = split(ctx, arena, &step.output);
            let mut operands: [&[R]; INPUTS_MAX] = [&[]; INPUTS_MAX];
            for (slot, operand) in operands.iter_mut().zip(&step.inputs) {
                *slot = inputs.get(operand);
            }
            let operands = &operands[..step.inputs.len()];
            region::run(
                region,
                operands,
                &mut scratch.region,
                bytemuck::cast_slice_mut(out),
            );
        }
        Kernel::Op(op) => {
            let (inputs, out) = split(ctx, arena, &step.output);
            run_op(op, &Args { inputs, step }, scratch, out);
        }
    }
}

/// Splits the arena for a step that writes `output`.
pub(crate) fn split<'a>(
    ctx: &Ctx<'a>,
    arena: &'a mut Arena,
    output: &Operand,
) -> (Inputs<'a>, &'a mut [u8]) {
    let range = ctx.plan.range(output).expect("outputs lie in the arena");
    let (rest, out) = arena.split(range);
    (
        Inputs {
            plan: ctx.plan,
            rest,
            tables: ctx.tables,
        },
        out,
    )
}

/// Copies an operand of any source, byte for byte.
pub(crate) fn copy(ctx: &Ctx<'_>, arena: &mut Arena, from: &Operand, to: &Operand) {
    copy_part(ctx, arena, (from, 0), (to, 0), from.n());
}

/// Copies `n` elements between parts of two operands, each given with its first element.
pub(crate) fn copy_part(
    ctx: &Ctx<'_>,
    arena: &mut Arena,
    (from, from_at): (&Operand, usize),
    (to, to_at): (&Operand, usize),
    n: usize,
) {
    let width = ctx.plan.elements.of(to.dtype);
    let start = ctx.plan.range(to).expect("outputs lie in the arena").start + to_at * width;
    let (rest, out) = arena.split(start..start + n * width);
    let inputs = Inputs {
        plan: ctx.plan,
        rest,
        tables: ctx.tables,
    };
    out.copy_from_slice(inputs.bytes(from, from_at, n));
}

/// Operands of a step by position.
struct Args<'a> {
    inputs: Inputs<'a>,
    step: &'a Step,
}

impl<'a> Args<'a> {
    fn get<T: Pod>(&self, position: usize) -> &'a [T] {
        self.inputs.get(&self.step.inputs[position])
    }

    fn scalar<T: Pod>(&self, position: usize) -> T {
        self.get(position)[0]
    }

    fn count(&self, position: usize) -> usize {
        let value: i32 = self.scalar(position);
        usize::try_from(value).unwrap_or_else(|_| panic!("a counter is {value}"))
    }

    fn shape(&self, position: usize) -> &Shape {
        &self.step.inputs[position].shape
    }

    fn axis(&self, position: usize, axis: usize) -> Axis {
        let (outer, n, inner) = self.shape(position).around(axis);
        Axis { outer, n, inner }
    }
}

fn run_op<R: Real>(op: &Op, args: &Args<'_>, scratch: &mut Scratch<R>, out: &mut [u8]) {
    let step = args.step;
    match op {
        Op::Leaf(_) | Op::Recur(_) => unreachable!("lowered to no step of this kind"),
        Op::Map(op) => convert::map::<R>(*op, args.inputs, &step.inputs, &step.output, out),
        Op::Cast(_) => convert::cast::<R>(args.inputs, &step.inputs[0], &step.output, out),
        Op::Reduce(op) => run_reduce::<R>(*op, args, out),
        Op::Layout(op) => match step.output.dtype {
            DType::F32 | DType::Tf32 | DType::Bf16 => run_layout::<R, R>(op, args, out),
            DType::F64 => run_layout::<f64, R>(op, args, out),
            DType::I32 => run_layout::<i32, R>(op, args, out),
        },
        Op::Gather(op) => match step.output.dtype {
            DType::F32 | DType::Tf32 | DType::Bf16 => run_gather::<R>(*op, args, out),
            DType::F64 => run_gather::<f64>(*op, args, out),
            DType::I32 => run_gather::<i32>(*op, args, out),
        },
        Op::Gemm(op) => run_gemm::<R>(*op, args, out),
        Op::Loss(op) => run_loss::<R>(*op, args, bytemuck::cast_slice_mut(out)),
        Op::Replay(op) => run_replay::<R>(*op, args, scratch, out),
        Op::Env(op) => {
            if step.output.dtype == DType::F64 {
                run_env::<f64, R>(*op, args, bytemuck::cast_slice_mut(out));
            } else {
                run_env::<R, R>(*op, args, bytemuck::cast_slice_mut(out));
            }
        }
        Op::Random(Random::Uniform { stream, .. }) => {
            let seed: &[i32] = args.get(0);
            let seed = u64::from(seed[0] as u32) | (u64::from(seed[1] as u32) << 32);
            let tick: i32 = args.scalar(1);
            let uniform = &mut scratch.uniform[..step.output.n()];
            rng::fill_uniform(seed, tick as u32, *stream, uniform);
            let out: &mut [R] = bytemuck::cast_slice_mut(out);
            for (out, value) in out.iter_mut().zip(uniform) {
                *out = R::from_f64(f64::from(*value));
            }
        }
    }
}

fn run_reduce<R: Real>(op: Reduce, args: &Args<'_>, out: &mut [u8]) {
    let axis = args.axis(0, op.axis);
    let x: &[R] = args.get(0);
    match op.kind {
        ReduceKind::Sum => reduce::sum(x, bytemuck::cast_slice_mut(out), axis),
        ReduceKind::Max => reduce::max(x, bytemuck::cast_slice_mut(out), axis),
        ReduceKind::ArgMax => reduce::argmax(x, bytemuck::cast_slice_mut(out), axis),
    }
}

fn run_layout<T: Pod, R: Real>(op: &Layout, args: &Args<'_>, out: &mut [u8]) {
    let typed: &mut [T] = bytemuck::cast_slice_mut(out);
    match op {
        Layout::Reshape(_) | Layout::StopGradient => typed.copy_from_slice(args.get(0)),
        Layout::Transpose => {
            let rank = args.shape(0).rank();
            let (outer, n, inner) = args.shape(0).around(rank - 2);
            layout::transpose(args.get(0), typed, Axis { outer, n, inner });
        }
        Layout::Slice { axis, start, len } => {
            layout::slice(args.get(0), typed, args.axis(0, *axis), *start, *len);
        }
        Layout::Pad {
            axis,
            before,
            after,
        } => {
            typed.fill(T::zeroed());
            let Axis { outer, n, inner } = args.axis(0, *axis);
            let whole = Axis {
                outer,
                n: before + n + after,
                inner,
            };
            layout::concat_part(args.get(0), typed, whole, *before, n);
        }
        Layout::Concat { axis } => {
            let (outer, n, inner) = args.step.output.shape.around(*axis);
            let mut start = 0;
            for position in 0..args.step.inputs.len() {
                let len = args.shape(position).0[*axis];
                let whole = Axis { outer, n, inner };
                layout::concat_part(args.get(position), typed, whole, start, len);
                start += len;
            }
        }
        Layout::Broadcast(_) => {
            convert::cast::<R>(args.inputs, &args.step.inputs[0], &args.step.output, out);
        }
    }
}

fn run_gather<T: Pod>(op: Gather, args: &Args<'_>, out: &mut [u8]) {
    let out: &mut [T] = bytemuck::cast_slice_mut(out);
    match op {
        Gather::Rows => {
            let width = args.shape(0).around(0).2;
            gather::rows(args.get(0), args.get(1), out, width);
        }
        Gather::Pick => gather::pick(args.get(0), args.get(1), out, args.axis(0, 1)),
        Gather::Spread { n } => {
            let Axis { outer, inner, .. } = args.axis(0, 1);
            let inner = inner * args.shape(0).0[1];
            gather::spread(args.get(0), args.get(1), out, Axis { outer, n, inner });
        }
    }
}

fn run_gemm<R: Real>(op: Gemm, args: &Args<'_>, out: &mut [u8]) {
    let extents = op
        .extents(args.shape(0), args.shape(1))
        .expect("inferred with the graph");
    let (a, b): (&[R], &[R]) = (args.get(0), args.get(1));
    let c: &mut [R] = bytemuck::cast_slice_mut(out);
    let (m, n, k) = (extents.m, extents.n, extents.k);
    let shape = GemmShape {
        m,
        n,
        k,
        trans_a: op.trans_a,
        trans_b: op.trans_b,
    };
    for (i, c) in c.chunks_exact_mut(m * n).enumerate() {
        super::gemm::gemm(&a[i * m * k..][..m * k], &b[i * k * n..][..k * n], c, shape);
    }
}

fn run_loss<R: Real>(op: Loss, args: &Args<'_>, out: &mut [R]) {
    let shape = args.shape(0);
    let width = shape.0[shape.rank() - 1];
    let rows = |n_valid| Rows {
        n: shape.n_elements() / width,
        width,
        n_valid,
    };
    match op {
        Loss::Softmax { n_valid } => softmax::softmax(args.get(0), out, rows(n_valid)),
        Loss::CrossEntropy { n_valid } => {
            softmax::cross_entropy(args.get(0), args.get(1), out, rows(n_valid));
        }
        Loss::CrossEntropyGrad { n_valid } => {
            let (logits, target, grad) = (args.get(0), args.get(1), args.get(2));
            softmax::cross_entropy_grad(logits, target, grad, out, rows(n_valid));
        }
        Loss::Project { n_valid } => {
            let support = Support::symmetric(args.scalar(3));
            let (p, reward, discount) = (args.get(0), args.get(1), args.get(2));
            project::project(p, reward, discount, support, out, rows(n_valid));
        }
    }
}

fn run_replay<R: Real>(op: Replay, args: &Args<'_>, scratch: &mut Scratch<R>, out: &mut [u8]) {
    match op {
        Replay::Sample { n_env, n_step_max } => {
            let uniform: &[R] = args.get(0);
            let draws = &mut scratch.uniform[..uniform.len()];
            for (draw, value) in draws.iter_mut().zip(uniform) {
                *draw = value.to_f64() as f32;
            }
            let fill = Fill {
                size: args.count(1),
                head: args.count(2),
            };
            let ring = Ring {
                capacity: args.count(3),
                n_env,
            };
            replay::sample(draws, ring, fill, n_step_max, bytemuck::cast_slice_mut(out));
        }
        Replay::NStep { .. } => {
            let n_env = args.shape(0).0[1];
            let capacity = args.count(3);
            let ring = Ring { capacity, n_env };
            let used = capacity * n_env;
            let index: &[i32] = args.get(2);
            let out: &mut [R] = bytemuck::cast_slice_mut(out);
            let (returns, rest) = out.split_at_mut(index.len());
            let (discount, last_out) = rest.split_at_mut(index.len());
            let last = &mut scratch.index[..index.len()];
            let result = NStep {
                returns,
                discount,
                last,
            };
            let (reward, end) = (&args.get::<R>(0)[..used], &args.get::<i32>(1)[..used]);
            replay::n_step(
                reward,
                end,
                ring,
                index,
                args.count(4),
                args.scalar(5),
                result,
            );
            for (out, at) in last_out.iter_mut().zip(&*last) {
                *out = R::from_f64(f64::from(*at));
            }
        }
    }
}

/// - `E`: type of the account; `R`: storage of the real family.
fn run_env<E: Real, R: Real>(op: EnvOp, args: &Args<'_>, out: &mut [E]) {
    let accounts: &[E] = args.get(0);
    let bars: &[i32] = args.get(1);
    let table: &[f64] = args.get(2);
    let costs: &[f64] = args.get(3);
    let costs = Costs {
        fee: E::from_f64(costs[0]),
        maker_fee: E::from_f64(costs[1]),
        half_spread: E::from_f64(costs[2]),
        impact: E::from_f64(costs[3]),
    };
    for (e, account) in accounts.chunks_exact(ACCOUNT_WIDTH).enumerate() {
        let bar = usize::try_from(bars[e]).expect("bars are not negative");
        let row = &table[bar * ENV_COLUMNS..][..ENV_COLUMNS];
        let row: [E; ENV_COLUMNS] = std::array::from_fn(|i| E::from_f64(row[i]));
        match op {
            EnvOp::Observe => {
                let seen = env::observe(&row, &costs, account);
                out[e * OBSERVED_WIDTH..][..OBSERVED_WIDTH].copy_from_slice(&seen);
            }
            EnvOp::Step => {
                let actions: &[i32] = &args.get(4)[e * 3..][..3];
                let action = std::array::from_fn(|d| {
                    let index = usize::try_from(actions[d]).unwrap_or(usize::MAX);
                    assert!(index < ACTION_SIZES[d], "action {index} of branch {d}");
                    index
                });
                let lambda: R = args.scalar(5);
                let reward = RewardKind::RiskAdjusted {
                    lambda: E::from_f64(lambda.to_f64()),
                };
                let (next, result) =
                    out[e * STEP_WIDTH..][..STEP_WIDTH].split_at_mut(ACCOUNT_WIDTH);
                next.copy_from_slice(account);
                let outcome = env::step(&row, &costs, reward, next, action);
                let truth = |holds| if holds { E::ONE } else { E::ZERO };
                result.copy_from_slice(&[
                    outcome.reward,
                    truth(outcome.done),
                    outcome.net_return,
                    outcome.gross_return,
                    outcome.cost,
                    outcome.turnover,
                    outcome.position,
                    truth(outcome.traded),
                ]);
            }
        }
    }
}
