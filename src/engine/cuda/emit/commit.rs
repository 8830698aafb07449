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
                // One copy of the code for all matrices: each would take the compiler a quarter second.
                let rows = matrices.iter().map(|m| {
                    let (offset, u, v) = (m.offset, m.u_offset, m.v_offset);
                    format!("{{{offset}, {}, {}, {u}, {v}}}", m.rows, m.cols)
                });
                let table = rows.collect::<Vec<_>>().join(", ");
                let n = matrices.len();
                let body = format!(
                    "const int matrices[{n}][5] = {{{table}}};\n\
                     job_spectral_of({param}, {u}, {v}, {sigma_max}, {guard}, {n_iterations}, \
                     matrices[job.block], job);"
                );
                let bytes = matrices
                    .iter()
                    .map(|m| spectral_bytes(m.rows, m.cols))
                    .max();
                vec![JobCode::light(body, n, bytes.unwrap_or(0))]
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
