//! The validation walk: bar by bar, in order, from flat, accounting in F64.

use super::Dqn;
use super::collect::{fresh_accounts, store};
use crate::engine::env::ACCOUNT_WIDTH;
use crate::engine::graph::{Builder, DType, Shape};
use crate::engine::op::env::{
    STEP_COST, STEP_GROSS_RETURN, STEP_NET_RETURN, STEP_POSITION, STEP_TURNOVER,
};
use crate::engine::op::{Effect, EnvOp};
use crate::engine::program::{Program, Section};
use crate::models::EVALUATION_COLUMNS;

impl Dqn {
    pub(super) fn evaluate_phases(&self, program: &mut Program) {
        program.phase(Section::Evaluate, "evaluate_reset", 1, |program, b| {
            let start = program.read(b, self.states.lane.validation_start);
            let bar = b.reshape(start, [1]);
            let count = b.constant(Shape::default(), &[0.0], DType::I32);
            let account = fresh_accounts(b, 1, DType::F64);
            vec![
                store(self.states.evaluation_bar, bar),
                store(self.states.evaluation_count, count),
                store(self.states.evaluation_account, account),
            ]
        });
        let n_bars = self.market.n_evaluate_max;
        program.phase(Section::Evaluate, "evaluate_bar", n_bars, |program, b| {
            self.evaluate_bar(program, b)
        });
    }

    /// Decides at one bar; past the end of the lane's block nothing is stored.
    fn evaluate_bar(&self, program: &Program, b: &mut Builder<'_>) -> Vec<Effect> {
        let states = &self.states;
        let account = program.read(b, states.evaluation_account);
        let bar = program.read(b, states.evaluation_bar);
        let count = program.read(b, states.evaluation_count);
        let n_bars = program.read(b, states.lane.n_validation);
        let observed = self.observe(program, b, account, bar);
        let x = self.state(program, b, bar, observed);
        let greedy = self.greedy(program, b, x);
        let action = Self::stack(b, &greedy);
        let table = program.read_table(b, self.environment);
        let costs = program.read(b, states.lane.costs);
        let no_risk = b.scalar(0.0);
        let out = b.env(EnvOp::Step, &[account, bar, table, costs, action, no_risk]);
        let next_account = b.slice(out, 1, 0, ACCOUNT_WIDTH);
        let columns = [
            STEP_NET_RETURN,
            STEP_GROSS_RETURN,
            STEP_COST,
            STEP_TURNOVER,
            STEP_POSITION,
        ];
        let parts = columns.map(|column| b.slice(out, 1, column, 1));
        let row = b.concat(&parts, 1);
        let row = b.reshape(row, [EVALUATION_COLUMNS]);
        let guard = Some(b.less(count, n_bars));
        let next_bar = b.increment(bar);
        let next_count = b.increment(count);
        vec![
            Effect::RingPush {
                state: states.evaluation,
                row: count,
                value: row,
                guard,
            },
            Effect::Store {
                state: states.evaluation_account,
                value: next_account,
                guard,
            },
            Effect::Store {
                state: states.evaluation_bar,
                value: next_bar,
                guard,
            },
            Effect::Store {
                state: states.evaluation_count,
                value: next_count,
                guard,
            },
        ]
    }
}
