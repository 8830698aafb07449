//! Sampling from replay rings.
//!
//! A ring is a state of C rows × E environments; a transition's flat index is row·E + environment.
//! `capacity` (lane value, at most C) is where rows wrap; `head` is the row written next; `size`
//! counts valid rows.

use super::{arity, expect_type, shape_error};
use crate::engine::graph::{DType, GraphError, Node, Shape};

/// A read of replay rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Replay {
    /// `(uniform [B], size, head, capacity: I32 []) -> I32 [B]`: flat indices, uniform over all
    /// transitions that have `n_step_max` rows from themselves on.
    Sample {
        /// Environments E.
        n_env: usize,
        /// Largest n-step of any lane.
        n_step_max: usize,
    },
    /// `(reward [C, E], end I32 [C, E], index I32 [B], capacity I32 [], n I32 [], gamma []) -> [3, B]`:
    /// discounted n-step reward, discount of the bootstrap (0 after a terminal), and flat index of
    /// the last transition. `end` is 0, 1 (terminal) or 2 (time limit); both stop the sum.
    NStep {
        /// Largest n-step of any lane.
        n_step_max: usize,
    },
}

impl Replay {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Sample { .. } => "replay_sample".to_owned(),
            Self::NStep { n_step_max } => format!("n_step[{n_step_max}]"),
        }
    }

    pub(crate) fn infer(self, inputs: &[&Node]) -> Result<(Shape, DType), GraphError> {
        let name = self.name();
        let is_scalar = |position: usize| inputs[position].shape.rank() == 0;
        let counters: &[usize] = match self {
            Self::Sample { .. } => {
                arity(&name, inputs, 4)?;
                &[1, 2, 3]
            }
            Self::NStep { .. } => {
                arity(&name, inputs, 6)?;
                expect_type(&name, inputs, 1, DType::I32, "ends are I32")?;
                expect_type(&name, inputs, 2, DType::I32, "indices are I32")?;
                &[3, 4]
            }
        };
        for &position in counters {
            expect_type(&name, inputs, position, DType::I32, "counters are I32")?;
            if !is_scalar(position) {
                return Err(shape_error(&name, inputs, "counters are scalars"));
            }
        }
        match self {
            Self::Sample { .. } => Ok((inputs[0].shape.clone(), DType::I32)),
            Self::NStep { .. } => {
                let rings_fit = inputs[0].shape.rank() == 2 && inputs[0].shape == inputs[1].shape;
                if !rings_fit || inputs[2].shape.rank() != 1 || !is_scalar(5) {
                    return Err(shape_error(
                        &name,
                        inputs,
                        "rings are [C, E], the index [B]",
                    ));
                }
                Ok((Shape::from([3, inputs[2].shape.0[0]]), DType::F32))
            }
        }
    }
}
