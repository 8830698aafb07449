//! Runs a fused pointwise region, chunk by chunk, one vectorised loop per instruction.

use super::simd;
use crate::engine::graph::DType;
use crate::engine::op::ScalarOp;
use crate::engine::plan::{INPUTS_MAX, INSTRUCTIONS_MAX, Region, RegionOp};
use crate::engine::real::Real;
use pulp::{Simd, WithSimd};

/// Elements of a register: a region's registers stay in the first-level cache.
const CHUNK: usize = 256;
/// Constants of a region are fewer than its instructions' operands.
const REGISTERS_MAX: usize = INPUTS_MAX + 3 * INSTRUCTIONS_MAX;
/// Elements of scratch that [`run`] needs.
pub(crate) const SCRATCH: usize = CHUNK * (REGISTERS_MAX + INSTRUCTIONS_MAX);
/// Most extents after collapsing.
const RANK_MAX: usize = 8;

/// Computes `out [extents]` from the operands.
///
/// - `scratch`: [`SCRATCH`] elements of any content.
pub(crate) fn run<R: Real>(region: &Region, inputs: &[&[R]], scratch: &mut [R], out: &mut [R]) {
    simd::run(Run {
        region,
        inputs,
        scratch,
        out,
    });
}

struct Run<'a, R> {
    region: &'a Region,
    inputs: &'a [&'a [R]],
    scratch: &'a mut [R],
    out: &'a mut [R],
}

impl<R: Real> WithSimd for Run<'_, R> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        kernel(self.region, self.inputs, self.scratch, self.out);
    }
}

#[inline(always)]
fn kernel<R: Real>(region: &Region, inputs: &[&[R]], scratch: &mut [R], out: &mut [R]) {
    let rank = region.extents.len();
    assert!(rank <= RANK_MAX, "a region of {rank} extents");
    let n_inner = region.extents[rank - 1];
    let n_fixed = region.n_inputs + region.constants.len();
    for (k, bits) in region.constants.iter().enumerate() {
        let value = R::from_f64(f64::from_bits(*bits));
        scratch[(region.n_inputs + k) * CHUNK..][..CHUNK].fill(value);
    }
    let mut position = [0usize; RANK_MAX];
    let mut base = [0usize; INPUTS_MAX];
    for row in out.chunks_exact_mut(n_inner) {
        for (k, input) in inputs.iter().enumerate() {
            if region.strides[k][rank - 1] == 0 {
                scratch[k * CHUNK..][..CHUNK.min(n_inner)].fill(input[base[k]]);
            }
        }
        let mut start = 0;
        while start < n_inner {
            let n = CHUNK.min(n_inner - start);
            for (k, instruction) in region.code.iter().enumerate() {
                let (done, rest) = scratch.split_at_mut((n_fixed + k) * CHUNK);
                let done = &*done;
                let read = |register: u16| {
                    let register = usize::from(register);
                    if register < region.n_inputs && region.strides[register][rank - 1] == 1 {
                        &inputs[register][base[register] + start..][..n]
                    } else {
                        &done[register * CHUNK..][..n]
                    }
                };
                let is_last = k + 1 == region.code.len();
                let target = if is_last {
                    &mut row[start..start + n]
                } else {
                    &mut rest[..n]
                };
                let [a, b, c] = instruction.args.map(read);
                apply(instruction.op, a, b, c, target);
            }
            start += n;
        }
        advance(region, &mut position, &mut base);
    }
}

/// Moves the operands' bases to the next row.
#[inline(always)]
fn advance(region: &Region, position: &mut [usize; RANK_MAX], base: &mut [usize; INPUTS_MAX]) {
    for axis in (0..region.extents.len() - 1).rev() {
        position[axis] += 1;
        for (k, strides) in region.strides.iter().enumerate() {
            base[k] += strides[axis];
        }
        if position[axis] < region.extents[axis] {
            return;
        }
        position[axis] = 0;
        for (k, strides) in region.strides.iter().enumerate() {
            base[k] -= strides[axis] * region.extents[axis];
        }
    }
}

#[inline(always)]
fn apply<R: Real>(op: RegionOp, a: &[R], b: &[R], c: &[R], out: &mut [R]) {
    macro_rules! loops {
        ($($name:ident),*) => {
            match op {
                RegionOp::Round(DType::Bf16) => {
                    for (out, a) in out.iter_mut().zip(a) {
                        *out = a.round_bf16();
                    }
                }
                RegionOp::Round(DType::Tf32) => {
                    for (out, a) in out.iter_mut().zip(a) {
                        *out = a.round_tf32();
                    }
                }
                RegionOp::Round(DType::F32 | DType::F64 | DType::I32) => out.copy_from_slice(a),
                $(RegionOp::Scalar(ScalarOp::$name) => {
                    for (((out, a), b), c) in out.iter_mut().zip(a).zip(b).zip(c) {
                        *out = ScalarOp::$name.eval(*a, *b, *c);
                    }
                })*
            }
        };
    }
    loops!(
        Add, Sub, Mul, Div, Max, Min, Neg, Abs, Sqrt, Exp, Ln, Tanh, Sigmoid, Softplus, Relu,
        Floor, Less, LessEqual, Equal, Select, IsFinite
    );
}
