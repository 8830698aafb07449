//! Counter-based random numbers.

use super::{arity, expect_type, shape_error};
use crate::engine::graph::{DType, GraphError, Node, Shape};

/// Random tensors, a function of the run's seed, the lane-local step and the stream alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Random {
    /// `(seed I32 [2], step I32 []) -> F32 shape`, uniform in [0, 1), multiples of 2⁻²⁴.
    Uniform {
        /// Hash of the stream's name.
        stream: u32,
        /// Shape of the output.
        shape: Shape,
    },
}

impl Random {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Uniform { stream, .. } => format!("uniform#{stream:08x}"),
        }
    }

    pub(crate) fn infer(&self, inputs: &[&Node]) -> Result<(Shape, DType), GraphError> {
        let name = self.name();
        arity(&name, inputs, 2)?;
        expect_type(&name, inputs, 0, DType::I32, "seed words are I32")?;
        expect_type(&name, inputs, 1, DType::I32, "the step is I32")?;
        if inputs[0].shape.0 != [2] || inputs[1].shape.rank() != 0 {
            return Err(shape_error(&name, inputs, "seed is [2], step is []"));
        }
        match self {
            Self::Uniform { shape, .. } => Ok((shape.clone(), DType::F32)),
        }
    }
}
