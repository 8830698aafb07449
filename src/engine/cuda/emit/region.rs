//! Fused pointwise regions, alone or behind a matrix product.

use super::gemm::Pointers;
use super::{Emitter, JobCode, blocks, c_type};
use crate::engine::graph::DType;
use crate::engine::op::gemm::GemmExtents;
use crate::engine::plan::{Kernel, Operand, Region, RegionOp, Step};
use std::fmt::Write as _;

/// Elements that a thread takes at once where rows allow.
const VECTOR: usize = 4;

impl Emitter<'_> {
    /// Writes a region as a job of its own.
    pub(super) fn region(&mut self, region: &Region, inputs: &[Operand], out: &Operand) -> JobCode {
        let n = out.n();
        let inner = *region.extents.last().expect("at least one extent");
        let body = if inner.is_multiple_of(VECTOR) && self.is_aligned(out, self.width(out) * VECTOR)
        {
            self.region_by_vectors(region, inputs, out)
        } else {
            self.region_by_elements(region, inputs, out)
        };
        let call = self.function(&body);
        JobCode::light(call, blocks(n), 0)
    }

    fn region_by_elements(&self, region: &Region, inputs: &[Operand], out: &Operand) -> String {
        let mut body = format!(
            "#pragma unroll\nfor (int u = 0; u < 4; ++u) {{\n\
             int i = job.block * 1024 + u * 256 + threadIdx.x;\nif (i < {}) {{\n",
            out.n()
        );
        let mut registers = Vec::new();
        for (k, input) in inputs.iter().enumerate() {
            let at = position(region, k, "i");
            let _ = writeln!(body, "float r{k} = ld({}, {at});", self.pointer(input));
            registers.push(format!("r{k}"));
        }
        let result = code(region, &registers, "v", &mut body);
        let _ = writeln!(body, "st({}, i, {result});\n}}\n}}", self.pointer(out));
        body
    }

    fn region_by_vectors(&self, region: &Region, inputs: &[Operand], out: &Operand) -> String {
        let mut body = format!(
            "int i = (job.block * 256 + threadIdx.x) * 4;\nif (i < {}) {{\n",
            out.n()
        );
        let mut registers = Vec::new();
        for (k, input) in inputs.iter().enumerate() {
            let (at, pointer) = (position(region, k, "i"), self.pointer(input));
            let strides = &region.strides[k];
            let (inner, outer) = strides.split_last().expect("one per extent");
            let is_vector = outer.iter().all(|stride| stride.is_multiple_of(VECTOR))
                && self.is_aligned(input, self.width(input) * VECTOR);
            match inner {
                0 => {
                    let _ = writeln!(body, "float r{k} = ld({pointer}, {at});");
                    registers.push(format!("r{k}"));
                    continue;
                }
                _one if is_vector => {
                    let _ = writeln!(body, "float r{k}[4]; ld4({pointer}, {at}, r{k});");
                }
                _one => {
                    let _ = writeln!(
                        body,
                        "float r{k}[4]; {{ int at = {at}; for (int q = 0; q < 4; ++q) r{k}[q] = \
                         ld({pointer}, at + q); }}"
                    );
                }
            }
            registers.push(format!("r{k}[q]"));
        }
        body.push_str("float y[4];\n#pragma unroll\nfor (int q = 0; q < 4; ++q) {\n");
        let result = code(region, &registers, "v", &mut body);
        let _ = writeln!(
            body,
            "y[q] = {result};\n}}\nst4({}, i, y);\n}}",
            self.pointer(out)
        );
        body
    }

    /// Writes a region as a function of the element's index, for a kernel that reads its result
    /// once.
    pub(super) fn computed(&self, step: &Step) -> String {
        let Kernel::Region(region) = &step.kernel else {
            unreachable!("heads are regions")
        };
        let mut text = "[&](long at) -> float {\nint i = (int)at;\n".to_owned();
        let mut registers = Vec::new();
        for (k, input) in step.inputs.iter().enumerate() {
            let place = position(region, k, "i");
            let _ = writeln!(text, "float r{k} = ld({}, {place});", self.pointer(input));
            registers.push(format!("r{k}"));
        }
        let result = code(region, &registers, "v", &mut text);
        let _ = write!(text, "return {result};\n}}");
        text
    }

    /// Writes what a product's element goes through before it is stored: `x` holds `n_pair`
    /// neighbours of a row, `i` is the first one's index in the result.
    pub(super) fn tails(
        &self,
        host: &Step,
        extents: &GemmExtents,
        n_pair: usize,
        pointers: &mut Pointers,
    ) -> String {
        let mut text = String::new();
        let mut known = vec![(&host.output, "x".to_owned())];
        for (t, tail) in host.tail.iter().enumerate() {
            let Kernel::Region(region) = &tail.kernel else {
                unreachable!("tails are regions")
            };
            let mut registers = Vec::new();
            for (k, input) in tail.inputs.iter().enumerate() {
                let inside = known.iter().rev().find(|(known, _)| known.is_same(input));
                if let Some((_, register)) = inside {
                    registers.push(format!("{register}[q]"));
                    continue;
                }
                let name = format!("t{t}_{k}");
                let pointer = pointers.add(c_type(input.dtype), self.pointer(input));
                let inner = *region.strides[k].last().expect("one per extent");
                let at = tail_position(region, k, extents);
                let outer = &region.strides[k][..region.strides[k].len() - 1];
                let is_pair = n_pair == 2
                    && outer.iter().all(|stride| stride.is_multiple_of(2))
                    && self.is_aligned(input, self.width(input) * 2);
                if inner == 0 {
                    let _ = writeln!(text, "float {name} = ld({pointer}, {at});");
                    registers.push(name);
                } else if is_pair {
                    let _ = writeln!(text, "float {name}[2]; ld2({pointer}, {at}, {name});");
                    registers.push(format!("{name}[q]"));
                } else {
                    let _ = writeln!(
                        text,
                        "float {name}[{n_pair}]; {{ int at = {at}; for (int q = 0; q < {n_pair}; \
                         ++q) {name}[q] = ld({pointer}, at + q); }}"
                    );
                    registers.push(format!("{name}[q]"));
                }
            }
            let result_name = format!("y{t}");
            let _ = writeln!(
                text,
                "float {result_name}[{n_pair}];\n#pragma unroll\nfor (int q = 0; q < {n_pair}; \
                 ++q) {{"
            );
            let result = code(region, &registers, &format!("v{t}_"), &mut text);
            let _ = writeln!(text, "{result_name}[q] = {result};\n}}");
            if tail.is_stored {
                text.push_str(&self.store_pair(&tail.output, &result_name, n_pair, pointers));
            }
            known.push((&tail.output, result_name));
        }
        text
    }

    /// Stores one or two neighbours at `i`.
    pub(super) fn store_pair(
        &self,
        out: &Operand,
        name: &str,
        n_pair: usize,
        pointers: &mut Pointers,
    ) -> String {
        let pointer = pointers.add(c_type(out.dtype), self.pointer(out));
        if n_pair == 2 && self.is_aligned(out, self.width(out) * 2) {
            return format!("st2({pointer}, i, {name}[0], {name}[1]);\n");
        }
        (0..n_pair)
            .map(|q| format!("st({pointer}, i + {q}, {name}[{q}]);\n"))
            .collect()
    }

    pub(super) fn width(&self, operand: &Operand) -> usize {
        self.plan.elements.of(operand.dtype)
    }
}

/// Position of operand `k` for element `i` of a region's output.
fn position(region: &Region, k: usize, i: &str) -> String {
    let strides = &region.strides[k];
    let mut terms = Vec::new();
    let mut below: usize = 1;
    for (axis, extent) in region.extents.iter().enumerate().rev() {
        let stride = strides[axis];
        if stride > 0 && *extent > 1 {
            let high = if below == 1 {
                i.to_owned()
            } else {
                format!("{i} / {below}")
            };
            let index = if axis == 0 {
                format!("({high})")
            } else {
                format!("({high}) % {extent}")
            };
            terms.push(format!("({index}) * {stride}"));
        }
        below *= extent;
    }
    if terms.is_empty() {
        "0".to_owned()
    } else {
        terms.join(" + ")
    }
}

/// The same inside a product, whose element is also known by row and column; without the shape
/// where it can be.
fn tail_position(region: &Region, k: usize, extents: &GemmExtents) -> String {
    let GemmExtents { m, n, .. } = *extents;
    match (region.extents.as_slice(), region.strides[k].as_slice()) {
        ([_], [1]) => "i".to_owned(),
        ([rows, columns], [row, column]) if (*rows, *columns) == (m, n) => match (*row, *column) {
            (0, 1) => "col".to_owned(),
            (1, 0) => "row".to_owned(),
            (row, 1) if row == n => "i".to_owned(),
            (row, column) => format!("row * {row} + col * {column}"),
        },
        _other => position(region, k, "i"),
    }
}

/// Writes a region's straight-line code; returns the name of its result.
fn code(region: &Region, registers: &[String], prefix: &str, text: &mut String) -> String {
    let mut names: Vec<String> = registers.to_vec();
    for bits in &region.constants {
        let bits = (f64::from_bits(*bits) as f32).to_bits();
        names.push(format!("__uint_as_float(0x{bits:08x}u)"));
    }
    for (k, instruction) in region.code.iter().enumerate() {
        let argument = |n: usize| names[usize::from(instruction.args[n])].clone();
        let value = match instruction.op {
            RegionOp::Round(DType::Bf16) => format!("round_bf16({})", argument(0)),
            RegionOp::Round(DType::Tf32) => format!("round_tf32({})", argument(0)),
            RegionOp::Round(DType::F32 | DType::F64 | DType::I32) => argument(0),
            RegionOp::Scalar(op) => {
                let arguments: Vec<String> = (0..op.arity()).map(argument).collect();
                let name = format!("{op:?}").to_lowercase();
                format!("op_{name}({})", arguments.join(", "))
            }
        };
        let name = format!("{prefix}{k}");
        let _ = writeln!(text, "float {name} = {value};");
        names.push(name);
    }
    names.last().expect("a region has code").clone()
}
