//! Single ops, by family: calls of `kernels/` with shapes as constants.

use super::{Emitter, JobCode, THREADS, blocks, c_type};
use crate::engine::graph::{DType, Shape};
use crate::engine::op::{
    EnvOp, Gather, Layout, Loss, Op, Random, Reduce, ReduceKind, Replay, ScalarOp,
};
use crate::engine::plan::{Kernel, Operand, Step, broadcast_strides};
use std::fmt::Write as _;

/// Rows of a block where a warp takes one.
const WARPS: usize = 8;
/// Length of an axis up to which a thread reduces it alone: `FEW` of `kernels/reduce.cuh`.
const FEW: usize = 16;
/// Columns of a block of a reduction over an axis that is not the last.
const COLUMNS: usize = 32;

impl Emitter<'_> {
    /// Writes a step that is not a loop.
    pub(super) fn step(&mut self, step: &Step) -> Vec<JobCode> {
        let out = &step.output;
        match &step.kernel {
            Kernel::Region(region) => vec![self.region(region, &step.inputs, out)],
            Kernel::Copy => vec![self.copy(&step.inputs[0], out)],
            Kernel::Loop(_) => unreachable!("loops are unrolled"),
            Kernel::Op(op) => match op {
                Op::Leaf(_) | Op::Recur(_) => unreachable!("lowered to no step of this kind"),
                Op::Map(op) => vec![self.map(*op, step)],
                Op::Cast(_) => vec![self.cast(&step.inputs[0], out)],
                Op::Reduce(op) => vec![self.reduce(*op, step)],
                Op::Layout(op) => self.layout(op, step),
                Op::Gather(op) => vec![self.gather(*op, step)],
                Op::Gemm(op) => vec![self.gemm(*op, step)],
                Op::Loss(op) => vec![self.loss(*op, step)],
                Op::Replay(op) => vec![self.replay(*op, step)],
                Op::Env(op) => vec![self.env(*op, step)],
                Op::Random(Random::Uniform { stream, .. }) => {
                    let list = self.pointers(&step.inputs);
                    let (out, n) = (self.pointer(out), out.n());
                    let body = format!("job_uniform({list}, {stream}u, {out}, {n}, job);");
                    vec![JobCode::light(body, blocks(n), 0)]
                }
            },
        }
    }

    fn pointers(&self, operands: &[Operand]) -> String {
        let list: Vec<String> = operands
            .iter()
            .map(|operand| self.pointer(operand))
            .collect();
        list.join(", ")
    }

    fn copy(&self, from: &Operand, to: &Operand) -> JobCode {
        let n = from.n();
        let kind = c_type(to.dtype);
        let (from, to) = (self.pointer(from), self.pointer(to));
        JobCode::light(
            format!("job_copy<{kind}>({from}, {to}, {n}, job);"),
            blocks(n),
            0,
        )
    }

    /// Writes a job that computes element `i` of `out`; `statements` end in a store.
    fn each_element(&mut self, out: &Operand, statements: &str) -> JobCode {
        let n = out.n();
        let body = format!(
            "#pragma unroll\nfor (int u = 0; u < 4; ++u) {{\n\
             int i = job.block * 1024 + u * 256 + threadIdx.x;\n\
             if (i < {n}) {{\n{statements}}}\n}}\n"
        );
        let call = self.function(&body);
        JobCode::light(call, blocks(n), 0)
    }

    /// Pointwise ops that leave the real family: in double, as the CPU does.
    fn map(&mut self, op: ScalarOp, step: &Step) -> JobCode {
        let mut text = String::new();
        let mut arguments = Vec::new();
        for (k, input) in step.inputs.iter().enumerate() {
            let at = walk(&input.shape, &step.output.shape);
            let _ = writeln!(
                text,
                "double a{k} = ld_wide({}, {at});",
                self.pointer(input)
            );
            arguments.push(format!("a{k}"));
        }
        let name = format!("{op:?}").to_lowercase();
        let value = format!("op_{name}({})", arguments.join(", "));
        text.push_str(&self.store_wide(&step.output, &value));
        self.each_element(&step.output, &text)
    }

    fn cast(&mut self, input: &Operand, out: &Operand) -> JobCode {
        let at = walk(&input.shape, &out.shape);
        let value = format!("ld_wide({}, {at})", self.pointer(input));
        let text = self.store_wide(out, &value);
        self.each_element(out, &text)
    }

    fn store_wide(&self, out: &Operand, value: &str) -> String {
        let pointer = self.pointer(out);
        match out.dtype {
            DType::Tf32 => format!("st({pointer}, i, round_tf32((float)({value})));\n"),
            DType::F32 | DType::Bf16 | DType::F64 | DType::I32 => {
                format!("st_wide({pointer}, i, {value});\n")
            }
        }
    }

    fn reduce(&mut self, op: Reduce, step: &Step) -> JobCode {
        let (outer, n, inner) = step.inputs[0].shape.around(op.axis);
        let name = match op.kind {
            ReduceKind::Sum => "job_sum",
            ReduceKind::Max => "job_max",
            ReduceKind::ArgMax => "job_argmax",
        };
        let out = self.pointer(&step.output);
        let n_blocks = if n <= FEW {
            blocks(outer * inner)
        } else if inner == 1 {
            outer.div_ceil(WARPS)
        } else {
            outer * inner.div_ceil(COLUMNS)
        };
        let elements = match &step.head {
            Some(head) => self.computed(head),
            None => {
                let kind = c_type(step.inputs[0].dtype);
                format!("Stored<{kind}>{{{}}}", self.pointer(&step.inputs[0]))
            }
        };
        let body = format!("{name}({elements}, {out}, {outer}, {n}, {inner}, job);");
        // `smem_reduce` of `kernels/reduce.cuh`.
        let shared_bytes = if inner == 1 || n <= FEW {
            0
        } else {
            WARPS * COLUMNS * 8
        };
        JobCode::light(body, n_blocks, shared_bytes)
    }

    fn layout(&mut self, op: &Layout, step: &Step) -> Vec<JobCode> {
        let (input, out) = (&step.inputs[0], &step.output);
        let (from, to) = (self.pointer(input), self.pointer(out));
        match op {
            Layout::Reshape(_) | Layout::StopGradient => vec![self.copy(input, out)],
            Layout::Transpose => {
                let (_, n, inner) = input.shape.around(input.shape.rank() - 2);
                let size = n * inner;
                let text = format!(
                    "int o = i / {size}, r = i % {size};\n\
                     {to}[i] = {from}[o * {size} + r % {n} * {inner} + r / {n}];\n"
                );
                vec![self.each_element(out, &text)]
            }
            Layout::Slice { axis, start, len } => {
                let (_, n, inner) = input.shape.around(*axis);
                let (size, whole, skip) = (len * inner, n * inner, start * inner);
                let text =
                    format!("{to}[i] = {from}[i / {size} * {whole} + {skip} + i % {size}];\n");
                vec![self.each_element(out, &text)]
            }
            Layout::Pad { axis, before, .. } => {
                let (_, n, inner) = input.shape.around(*axis);
                let whole = out.shape.around(*axis).1 * inner;
                let (size, skip) = (n * inner, before * inner);
                let kind = c_type(out.dtype);
                let text = format!(
                    "int r = i % {whole} - {skip};\n{kind} nothing = {{}};\n\
                     {to}[i] = r >= 0 && r < {size} ? {from}[i / {whole} * {size} + r] : \
                     nothing;\n"
                );
                vec![self.each_element(out, &text)]
            }
            Layout::Concat { axis } => {
                let (_, n, inner) = out.shape.around(*axis);
                let whole = n * inner;
                let mut start = 0;
                let mut jobs = Vec::new();
                for part in &step.inputs {
                    let size = part.shape.0[*axis] * inner;
                    let from = self.pointer(part);
                    let text =
                        format!("{to}[i / {size} * {whole} + {start} + i % {size}] = {from}[i];\n");
                    start += size;
                    jobs.push(self.each_element(part, &text));
                }
                jobs
            }
            Layout::Broadcast(_) => vec![self.cast(input, out)],
        }
    }

    fn gather(&self, op: Gather, step: &Step) -> JobCode {
        let kind = c_type(step.output.dtype);
        let list = self.pointers(&step.inputs);
        let (out, shape) = (self.pointer(&step.output), &step.inputs[0].shape);
        let body = match op {
            Gather::Rows => {
                let (_, n_table, width) = shape.around(0);
                let n_index = step.inputs[1].n();
                format!("job_rows<{kind}>({list}, {out}, {n_table}, {width}, {n_index}, job);")
            }
            Gather::Pick => {
                let (outer, n, inner) = shape.around(1);
                format!("job_pick<{kind}>({list}, {out}, {outer}, {n}, {inner}, job);")
            }
            Gather::Spread { n } => {
                let (outer, inner) = (shape.0[0], shape.0[1]);
                format!("job_spread<{kind}>({list}, {out}, {outer}, {n}, {inner}, job);")
            }
        };
        JobCode::light(body, blocks(step.output.n()), 0)
    }

    fn loss(&self, op: Loss, step: &Step) -> JobCode {
        let shape = &step.inputs[0].shape;
        let width = *shape.0.last().expect("rows are needed");
        let n_rows = shape.n_elements() / width;
        let (name, n_valid, shared_bytes) = match op {
            Loss::Softmax { n_valid } => ("job_softmax", n_valid, 0),
            Loss::CrossEntropy { n_valid } => ("job_cross_entropy", n_valid, 0),
            Loss::CrossEntropyGrad { n_valid } => ("job_cross_entropy_grad", n_valid, 0),
            Loss::Project { n_valid } => ("job_project", n_valid, project_bytes(width)),
        };
        let (list, out) = (self.pointers(&step.inputs), self.pointer(&step.output));
        let body = format!("{name}({list}, {out}, {n_rows}, {width}, {n_valid}, job);");
        JobCode::light(body, n_rows.div_ceil(WARPS), shared_bytes)
    }

    fn replay(&self, op: Replay, step: &Step) -> JobCode {
        let (list, out) = (self.pointers(&step.inputs), self.pointer(&step.output));
        match op {
            Replay::Sample { n_env, n_step_max } => {
                let n = step.output.n();
                // The ring itself is no operand: its rows are bounded by what an index can count.
                let n_rows_max = i32::MAX as usize / n_env;
                let body = format!(
                    "job_sample({list}, {out}, {n}, {n_env}, {n_step_max}, {n_rows_max}, job);"
                );
                JobCode::light(body, n.div_ceil(THREADS), 0)
            }
            Replay::NStep { .. } => {
                let (n_rows, n_env) = (step.inputs[0].shape.0[0], step.inputs[0].shape.0[1]);
                let batch = step.inputs[2].n();
                let body = format!("job_n_step({list}, {out}, {batch}, {n_env}, {n_rows}, job);");
                JobCode::light(body, batch.div_ceil(THREADS), 0)
            }
        }
    }

    fn env(&self, op: EnvOp, step: &Step) -> JobCode {
        let (list, out) = (self.pointers(&step.inputs), self.pointer(&step.output));
        let (n_env, n_bars) = (step.inputs[0].shape.0[0], step.inputs[2].shape.0[0]);
        let name = match op {
            EnvOp::Observe => "job_observe",
            EnvOp::Step => "job_env_step",
        };
        let body = format!("{name}({list}, {out}, {n_env}, {n_bars}, job);");
        JobCode::light(body, n_env.div_ceil(THREADS), 0)
    }
}

/// Position of an operand for element `i` of a broadcast output.
fn walk(operand: &Shape, output: &Shape) -> String {
    let strides = broadcast_strides(operand, output);
    let mut terms = Vec::new();
    let mut below: usize = 1;
    for (extent, stride) in output.0.iter().zip(strides).rev() {
        if stride > 0 {
            terms.push(format!("i / {below} % {extent} * {stride}"));
        }
        below *= extent;
    }
    if terms.is_empty() {
        "0".to_owned()
    } else {
        terms.join(" + ")
    }
}

/// Shared memory of `job_project`: `smem_project` of `kernels/rows.cuh`.
fn project_bytes(width: usize) -> usize {
    const BYTES_MAX: usize = 32 << 10;
    let bytes = WARPS * width.next_multiple_of(4) * 12;
    if bytes <= BYTES_MAX { bytes } else { 0 }
}
