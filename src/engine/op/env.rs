//! The trading environment as graph ops; the arithmetic lies in [`crate::engine::env`].

use super::{arity, expect_type, shape_error, type_error};
use crate::engine::env::{ACCOUNT_WIDTH, ENV_COLUMNS, OBSERVED_WIDTH};
use crate::engine::graph::{DType, GraphError, Node, Shape};

/// Width of a step's output row.
pub const STEP_WIDTH: usize = ACCOUNT_WIDTH + 8;
/// Columns of a step's output behind the new account.
pub const STEP_REWARD: usize = ACCOUNT_WIDTH;
/// 1 where the account is ruined.
pub const STEP_DONE: usize = ACCOUNT_WIDTH + 1;
/// Net return of the bar.
pub const STEP_NET_RETURN: usize = ACCOUNT_WIDTH + 2;
/// Gross return of the bar.
pub const STEP_GROSS_RETURN: usize = ACCOUNT_WIDTH + 3;
/// Costs, a fraction of equity.
pub const STEP_COST: usize = ACCOUNT_WIDTH + 4;
/// Traded value, a fraction of equity.
pub const STEP_TURNOVER: usize = ACCOUNT_WIDTH + 5;
/// Position held over the bar.
pub const STEP_POSITION: usize = ACCOUNT_WIDTH + 6;
/// 1 where at least [`crate::engine::env::TRADE_MIN`] was filled.
pub const STEP_TRADED: usize = ACCOUNT_WIDTH + 7;

/// An environment op. The output has the account's type: F32 when collecting, F64 when evaluating.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EnvOp {
    /// `(account [E, 8], bar I32 [E], table F64 [N, 8], costs F64 [4]) -> [E, 10]`.
    Observe,
    /// `(account [E, 8], bar I32 [E], table F64 [N, 8], costs F64 [4], action I32 [E, 3],
    /// risk_lambda []) -> [E, 16]`: the new account, then the `STEP_*` columns.
    Step,
}

impl EnvOp {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Observe => "env_observe".to_owned(),
            Self::Step => "env_step".to_owned(),
        }
    }

    pub(crate) fn infer(self, inputs: &[&Node]) -> Result<(Shape, DType), GraphError> {
        let name = self.name();
        let (n_inputs, width) = match self {
            Self::Observe => (4, OBSERVED_WIDTH),
            Self::Step => (6, STEP_WIDTH),
        };
        arity(&name, inputs, n_inputs)?;
        let account = inputs[0];
        if account.dtype == DType::I32 {
            return Err(type_error(&name, inputs, "the account is F32 or F64"));
        }
        expect_type(&name, inputs, 1, DType::I32, "bars are I32")?;
        expect_type(&name, inputs, 2, DType::F64, "the table is F64")?;
        expect_type(&name, inputs, 3, DType::F64, "costs are F64")?;
        let n_env = account.shape.0.first().copied().unwrap_or(0);
        let mut fits = account.shape.0 == [n_env, ACCOUNT_WIDTH]
            && inputs[1].shape.0 == [n_env]
            && inputs[2].shape.rank() == 2
            && inputs[2].shape.0[1] == ENV_COLUMNS
            && inputs[3].shape.0 == [4];
        if self == Self::Step {
            expect_type(&name, inputs, 4, DType::I32, "actions are I32")?;
            expect_type(&name, inputs, 5, DType::F32, "risk_lambda is real")?;
            fits &= inputs[4].shape.0 == [n_env, 3] && inputs[5].shape.rank() == 0;
        }
        if !fits {
            return Err(shape_error(&name, inputs, "see the op's documentation"));
        }
        Ok((Shape::from([n_env, width]), account.dtype))
    }
}
