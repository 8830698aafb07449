//! States and greedy actions.

use super::Dqn;
use crate::engine::env::{ACTION_SIZES, OBSERVED_WIDTH};
use crate::engine::graph::{Builder, DType, NodeId};
use crate::engine::op::{EnvOp, ReduceKind};
use crate::engine::program::Program;

impl Dqn {
    /// Assembles states `[B, S]`: features, recent returns, account values, zeros.
    ///
    /// - `bar`: `[B]` I32.
    /// - `observed`: `[B, 10]` real.
    pub(super) fn state(
        &self,
        program: &Program,
        b: &mut Builder<'_>,
        bar: NodeId,
        observed: NodeId,
    ) -> NodeId {
        let table = program.read_table(b, self.features);
        let base = program.read(b, self.states.lane.table_base);
        let row = b.add(bar, base);
        let features = b.rows(table, row);
        let features = b.slice(features, 1, 0, self.market.n_features);
        let n_rows = b.shape(bar).0[0];
        let n_used = self.market.n_features + OBSERVED_WIDTH;
        let mut parts = vec![features, observed];
        if self.network.state_width > n_used {
            let width = self.network.state_width - n_used;
            let zeros = vec![0.0; n_rows * width];
            parts.push(b.constant([n_rows, width].into(), &zeros, DType::F32));
        }
        b.concat(&parts, 1)
    }

    /// Observes accounts: `[E, 10]`, real.
    pub(super) fn observe(
        &self,
        program: &Program,
        b: &mut Builder<'_>,
        account: NodeId,
        bar: NodeId,
    ) -> NodeId {
        let table = program.read_table(b, self.environment);
        let costs = program.read(b, self.states.lane.costs);
        let observed = b.env(EnvOp::Observe, &[account, bar, table, costs]);
        b.cast(observed, DType::F32)
    }

    /// Best action of every branch, each `[E]` I32; ties go to the lowest index.
    pub(super) fn greedy(&self, program: &Program, b: &mut Builder<'_>, x: NodeId) -> Vec<NodeId> {
        let theta = program.read(b, self.states.theta);
        let v_max = program.read(b, self.states.lane.v_max);
        let heads = self.network.forward(b, theta, x);
        (0..ACTION_SIZES.len())
            .map(|d| {
                let logits = self.network.logits(b, &heads, d);
                let q = self.network.expectation(b, logits, v_max);
                b.reduce(ReduceKind::ArgMax, q, 1)
            })
            .collect()
    }

    /// Joins actions by branch to `[E, 3]`.
    pub(super) fn stack(b: &mut Builder<'_>, actions: &[NodeId]) -> NodeId {
        let columns: Vec<NodeId> = actions
            .iter()
            .map(|action| {
                let n = b.shape(*action).0[0];
                b.reshape(*action, [n, 1])
            })
            .collect();
        b.concat(&columns, 1)
    }
}
