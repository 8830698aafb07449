//! Pointwise ops that leave the real family: conversions, integers, F64. Computed in f64, which
//! holds every element type exactly.

use super::memory::Inputs;
use crate::engine::graph::{DType, Shape};
use crate::engine::op::ScalarOp;
use crate::engine::plan::{Operand, broadcast_strides};
use crate::engine::real::Real;

/// Reads one element as f64.
fn load<R: Real>(inputs: Inputs<'_>, operand: &Operand, at: usize) -> f64 {
    match operand.dtype {
        DType::F32 | DType::Tf32 | DType::Bf16 => inputs.get::<R>(operand)[at].to_f64(),
        DType::F64 => inputs.get::<f64>(operand)[at],
        DType::I32 => f64::from(inputs.get::<i32>(operand)[at]),
    }
}

/// Writes one element; integers truncate towards zero and saturate.
fn store<R: Real>(out: &mut [u8], dtype: DType, at: usize, value: f64) {
    match dtype {
        DType::F32 | DType::Tf32 | DType::Bf16 => {
            let value = R::from_f64(value);
            bytemuck::cast_slice_mut::<u8, R>(out)[at] = match dtype {
                DType::Bf16 => value.round_bf16(),
                DType::Tf32 => value.round_tf32(),
                DType::F32 | DType::F64 | DType::I32 => value,
            };
        }
        DType::F64 => bytemuck::cast_slice_mut::<u8, f64>(out)[at] = value,
        DType::I32 => bytemuck::cast_slice_mut::<u8, i32>(out)[at] = value as i32,
    }
}

/// Applies a scalar function element by element, operands broadcast.
pub(crate) fn map<R: Real>(
    op: ScalarOp,
    inputs: Inputs<'_>,
    operands: &[Operand],
    output: &Operand,
    out: &mut [u8],
) {
    let mut walk = Walk::new(&output.shape, operands);
    for at in 0..output.n() {
        let mut x = [0.0; 3];
        for (k, operand) in operands.iter().enumerate() {
            x[k] = load::<R>(inputs, operand, walk.base[k]);
        }
        store::<R>(out, output.dtype, at, op.eval(x[0], x[1], x[2]));
        walk.advance();
    }
}

/// Converts element by element, repeating along missing and unit axes.
pub(crate) fn cast<R: Real>(
    inputs: Inputs<'_>,
    operand: &Operand,
    output: &Operand,
    out: &mut [u8],
) {
    let mut walk = Walk::new(&output.shape, std::slice::from_ref(operand));
    for at in 0..output.n() {
        store::<R>(
            out,
            output.dtype,
            at,
            load::<R>(inputs, operand, walk.base[0]),
        );
        walk.advance();
    }
}

/// Row-major walk over a shape with one broadcast position per operand.
struct Walk<'s> {
    shape: &'s Shape,
    strides: [[usize; 8]; 3],
    position: [usize; 8],
    base: [usize; 3],
}

impl<'s> Walk<'s> {
    fn new(shape: &'s Shape, operands: &[Operand]) -> Self {
        let mut strides = [[0; 8]; 3];
        for (row, operand) in strides.iter_mut().zip(operands) {
            for (slot, stride) in row.iter_mut().zip(broadcast_strides(&operand.shape, shape)) {
                *slot = stride;
            }
        }
        Self {
            shape,
            strides,
            position: [0; 8],
            base: [0; 3],
        }
    }

    fn advance(&mut self) {
        for axis in (0..self.shape.rank()).rev() {
            self.position[axis] += 1;
            for (base, strides) in self.base.iter_mut().zip(&self.strides) {
                *base += strides[axis];
            }
            if self.position[axis] < self.shape.0[axis] {
                return;
            }
            self.position[axis] = 0;
            for (base, strides) in self.base.iter_mut().zip(&self.strides) {
                *base -= strides[axis] * self.shape.0[axis];
            }
        }
    }
}
