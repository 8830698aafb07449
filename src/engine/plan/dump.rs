//! A plan as text: one launch a line, operands with their place and size in bytes.

use super::{Commit, Kernel, LoopPlan, Operand, Plan, RegionOp, Source, Step};
use crate::engine::program::SECTIONS;
use std::fmt::{Display, Formatter, Result};

impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        writeln!(
            f,
            "lane {} bytes, {} persistent",
            self.lane_bytes, self.persistent_bytes
        )?;
        for (state, operand) in self.states.iter().zip(&self.state_operands) {
            writeln!(f, "state {} {}", state.name, Place(self, operand))?;
        }
        for (operand, values) in &self.constants {
            writeln!(f, "constant {} {values:?}", Place(self, operand))?;
        }
        for section in SECTIONS {
            for phase in self.section(section) {
                writeln!(f, "{section:?} {} ×{}", phase.name, phase.repeats)?;
                self.steps(f, &phase.steps, 1)?;
                for commit in &phase.commits {
                    self.commit(f, commit)?;
                }
            }
        }
        Ok(())
    }
}

impl Plan {
    fn steps(&self, f: &mut Formatter<'_>, steps: &[Step], depth: usize) -> Result {
        for step in steps {
            write!(
                f,
                "{:1$}{2} <- {3}",
                "",
                2 * depth,
                Place(self, &step.output),
                step.kernel
            )?;
            self.list(f, &step.inputs)?;
            writeln!(f)?;
            if let Kernel::Loop(inner) = &step.kernel {
                self.body(f, inner, depth + 1)?;
            }
        }
        Ok(())
    }

    fn body(&self, f: &mut Formatter<'_>, inner: &LoopPlan, depth: usize) -> Result {
        let named = [
            ("carries", &inner.carries),
            ("slices", &inner.slices),
            ("next", &inner.next),
            ("outputs", &inner.outputs),
        ];
        for (name, operands) in &named[..2] {
            write!(f, "{:1$}{name}", "", 2 * depth)?;
            self.list(f, operands)?;
            writeln!(f)?;
        }
        self.steps(f, &inner.steps, depth)?;
        for (name, operands) in &named[2..] {
            write!(f, "{:1$}{name}", "", 2 * depth)?;
            self.list(f, operands)?;
            writeln!(f)?;
        }
        Ok(())
    }

    fn list(&self, f: &mut Formatter<'_>, operands: &[Operand]) -> Result {
        operands
            .iter()
            .try_for_each(|operand| write!(f, " {}", Place(self, operand)))
    }

    fn commit(&self, f: &mut Formatter<'_>, commit: &Commit) -> Result {
        let place = |operand| Place(self, operand);
        match commit {
            Commit::Store { state, value, .. } => {
                write!(f, "  store {} <- {}", place(state), place(value))?;
            }
            Commit::RingPush {
                state, row, value, ..
            } => {
                write!(
                    f,
                    "  push {}[{}] <- {}",
                    place(state),
                    place(row),
                    place(value)
                )?;
            }
            Commit::Adam {
                blocks,
                target,
                grad,
                scalars,
                step,
                ..
            } => {
                write!(f, "  adam")?;
                self.list(f, blocks)?;
                if let Some((block, tau)) = target {
                    write!(f, " target {} by {}", place(block), place(tau))?;
                }
                write!(f, " <- {} step {} with", place(grad), place(step))?;
                self.list(f, scalars)?;
            }
            Commit::SpectralNorm {
                blocks,
                matrices,
                sigma_max,
                n_iterations,
                ..
            } => {
                write!(
                    f,
                    "  spectral_norm ×{n_iterations} of {} matrices",
                    matrices.len()
                )?;
                self.list(f, blocks)?;
                write!(f, " below {}", place(sigma_max))?;
            }
        }
        match commit.guard() {
            Some(guard) => writeln!(f, " if {}", place(guard)),
            None => writeln!(f),
        }
    }
}

impl Display for Kernel {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Self::Region(region) => {
                write!(f, "region[")?;
                for (k, instruction) in region.code.iter().enumerate() {
                    let gap = if k == 0 { "" } else { " " };
                    match instruction.op {
                        RegionOp::Scalar(op) => {
                            write!(f, "{gap}{}", format!("{op:?}").to_lowercase())?
                        }
                        RegionOp::Round(dtype) => {
                            write!(f, "{gap}{}", format!("round_{dtype:?}").to_lowercase())?;
                        }
                    }
                }
                write!(f, "]")
            }
            Self::Op(op) => f.write_str(&op.name()),
            Self::Copy => f.write_str("copy"),
            Self::Loop(inner) => {
                let direction = if inner.is_reversed {
                    "reversed"
                } else {
                    "forward"
                };
                write!(f, "loop[{} {direction}]", inner.n_steps)
            }
        }
    }
}

/// An operand as `type[shape]@offset+bytes`.
struct Place<'a>(&'a Plan, &'a Operand);

impl Display for Place<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let Self(plan, operand) = self;
        write!(f, "{:?}{}", operand.dtype, operand.shape)?;
        match (operand.source, plan.range(operand)) {
            (Source::Table(id), _) => write!(f, "@table#{}", id.0),
            (Source::Lane { .. }, Some(range)) => write!(f, "@{}+{}", range.start, range.len()),
            (Source::Lane { .. }, None) => unreachable!("lane operands have a range"),
        }
    }
}
