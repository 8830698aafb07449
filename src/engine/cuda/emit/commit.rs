//! What a phase does to states at its end.

use super::{Emitter, JobCode, blocks, c_type};
use crate::engine::plan::{Commit, Operand};

impl Emitter<'_> {
    pub(super) fn commit(&mut self, commit: &Commit) -> Vec<JobCode> {
        let guard = match commit.guard() {
            Some(guard) => self.pointer(guard),
            None => "(const float*)0".to_owned(),
        };
        match commit {
            Commit::Store { state, value, .. } => {
                if state.source == value.source {
                    return Vec::new();
                }
                let (from, to) = (self.pointer(value), self.pointer(state));
                let n = value.n();
                let body = format!("job_store({from}, {to}, {guard}, {n}, job);");
                vec![JobCode::light(body, blocks(n), 0)]
            }
            Commit::RingPush {
                state, row, value, ..
            } => {
                let (from, to, row) = (self.pointer(value), self.pointer(state), self.pointer(row));
                let (n_rows, width) = (state.shape.0[0], value.n());
                let kind = c_type(value.dtype);
                let body = format!(
                    "job_ring_push<{kind}>({from}, {to}, {row}, {guard}, {n_rows}, {width}, job);"
                );
                vec![JobCode::light(body, blocks(width), 0)]
            }
            Commit::Adam {
                blocks: parts,
                target,
                grad,
                scalars,
                step,
                ..
            } => vec![self.adam(parts, target.as_ref(), grad, scalars, step, &guard)],
            Commit::SpectralNorm {
                blocks: [param, u, v],
                matrices,
                sigma_max,
                n_iterations,
                ..
            } => {
                let sigma_max = self.pointer(sigma_max);
                let [param, u, v] = [param, u, v].map(|block| self.pointer(block));
                // One job a shape: its sizes are constants, and its code is compiled once.
                let mut shapes: Vec<(usize, usize)> = Vec::new();
                for matrix in matrices {
                    if !shapes.contains(&(matrix.rows, matrix.cols)) {
                        shapes.push((matrix.rows, matrix.cols));
                    }
                }
                let job = |(rows, cols): (usize, usize)| {
                    let alike = matrices.iter().filter(|m| (m.rows, m.cols) == (rows, cols));
                    let places: Vec<String> = alike
                        .map(|m| format!("{{{}, {}, {}}}", m.offset, m.u_offset, m.v_offset))
                        .collect();
                    let n = places.len();
                    let body = format!(
                        "const int at[{n}][3] = {{{}}};\n\
                         job_spectral({param} + at[job.block][0], {u} + at[job.block][1], \
                         {v} + at[job.block][2], {sigma_max}, {guard}, {rows}, {cols}, \
                         {n_iterations}, job);",
                        places.join(", ")
                    );
                    JobCode::light(body, n, spectral_bytes(rows, cols))
                };
                shapes.into_iter().map(job).collect()
            }
        }
    }

    fn adam(
        &self,
        parts: &[Operand; 3],
        target: Option<&(Operand, Operand)>,
        grad: &Operand,
        scalars: &[Operand; 6],
        step: &Operand,
        guard: &str,
    ) -> JobCode {
        let [theta, m, v] = parts.each_ref().map(|part| self.pointer(part));
        let scalars = scalars
            .each_ref()
            .map(|scalar| self.pointer(scalar))
            .join(", ");
        let (has_target, target, tau) = match target {
            Some((block, tau)) => (true, self.pointer(block), self.pointer(tau)),
            None => (false, "(float*)0".to_owned(), "(const float*)0".to_owned()),
        };
        let n = grad.n();
        let (grad, step) = (self.pointer(grad), self.pointer(step));
        let body = format!(
            "job_adam<{has_target}>({theta}, {m}, {v}, {target}, {grad}, {scalars}, {tau}, {step}, \
             {guard}, {n}, job);"
        );
        JobCode::light(body, blocks(n), ADAM_BYTES)
    }
}

/// Shared memory of `job_adam`: the scalars of a step.
const ADAM_BYTES: usize = 64;

/// Shared memory of `job_spectral`: `smem_spectral` of `kernels/spectral.cuh`.
fn spectral_bytes(rows: usize, cols: usize) -> usize {
    const AHEAD: usize = 16;
    const FLOATS_MAX: usize = 8192;
    let n = rows.next_multiple_of(AHEAD) + cols + rows.max(cols);
    if n <= FLOATS_MAX { 4 * n } else { 0 }
}
