//! Acting in the training environments, and what precedes the first step.

use super::{Dqn, N_METRICS};
use crate::engine::env::{ACCOUNT_EQUITY, ACCOUNT_PEAK, ACCOUNT_WIDTH, ACTION_SIZES};
use crate::engine::graph::{Builder, DType, NodeId, Shape};
use crate::engine::op::env::{STEP_DONE, STEP_REWARD};
use crate::engine::op::{Effect, EnvOp};
use crate::engine::program::{Program, Section};

/// Power iterations before the first step, so that the first bound is not underestimated.
///
/// Source: PyTorch's `spectral_norm` runs as many when it is registered.
const SPECTRAL_WARMUP: u32 = 15;

impl Dqn {
    /// Projects the initial weights, copies them to the target, and places the environments.
    pub(super) fn init_phases(&self, program: &mut Program) {
        program.phase(Section::Init, "init_weights", 1, |program, b| {
            self.spectral_effect(program, b, SPECTRAL_WARMUP, None)
                .into_iter()
                .collect()
        });
        program.phase(Section::Init, "init_run", 1, |program, b| {
            let theta = program.read(b, self.states.theta);
            let step = program.read(b, self.states.collect_step);
            let bar = self.random_bar(program, b, step);
            let account = fresh_accounts(b, self.settings.environments, DType::F32);
            vec![
                store(self.states.target, theta),
                store(self.states.bar, bar),
                store(self.states.account, account),
            ]
        });
    }

    /// Clears the epoch's metrics.
    pub(super) fn begin_phase(&self, program: &mut Program) {
        program.phase(Section::Begin, "begin_epoch", 1, |_, b| {
            let zeros = b.constant([N_METRICS].into(), &[0.0; N_METRICS], DType::F32);
            vec![store(self.states.metrics, zeros)]
        });
    }

    /// One power iteration (or more) on every weight matrix and its projection.
    pub(super) fn spectral_effect(
        &self,
        program: &Program,
        b: &mut Builder<'_>,
        n_iterations: u32,
        guard: Option<NodeId>,
    ) -> Option<Effect> {
        let [u, v] = self.states.spectral?;
        let (matrices, _, _) = self.network.layout.matrices();
        let sigma_max = program.read(b, self.states.lane.sigma_max);
        let param = self.states.theta;
        Some(Effect::SpectralNorm {
            param,
            u,
            v,
            matrices,
            sigma_max,
            n_iterations,
            guard,
        })
    }

    /// A random first bar per environment, `[E]` I32.
    ///
    /// An episode ends where its next state would be the last bar of the train range, so the
    /// first decision lies at least two bars before the end.
    fn random_bar(&self, program: &Program, b: &mut Builder<'_>, step: NodeId) -> NodeId {
        let seed = program.read(b, self.states.seed);
        let start = program.read(b, self.states.lane.train_start);
        let end = program.read(b, self.states.lane.train_end);
        let uniform = b.uniform(
            "collect.first_bar",
            seed,
            step,
            [self.settings.environments],
        );
        let span = b.sub(end, start);
        let span = b.cast(span, DType::F32);
        let two = b.scalar(2.0);
        let span = b.sub(span, two);
        let offset = b.mul(uniform, span);
        let offset = b.floor(offset);
        let offset = b.cast(offset, DType::I32);
        b.add(start, offset)
    }

    /// Acts once in every environment.
    pub(super) fn collect(&self, program: &Program, b: &mut Builder<'_>) -> Vec<Effect> {
        let states = &self.states;
        let n_env = self.settings.environments;
        let account = program.read(b, states.account);
        let bar = program.read(b, states.bar);
        let step = program.read(b, states.collect_step);
        let step = b.increment(step);
        let observed = self.observe(program, b, account, bar);
        let x = self.state(program, b, bar, observed);
        let greedy = self.greedy(program, b, x);
        let action = self.explore(program, b, step, &greedy);

        let table = program.read_table(b, self.environment);
        let costs = program.read(b, states.lane.costs);
        let risk_lambda = program.read(b, states.lane.risk_lambda);
        let out = b.env(
            EnvOp::Step,
            &[account, bar, table, costs, action, risk_lambda],
        );
        let moved = b.slice(out, 1, 0, ACCOUNT_WIDTH);
        let column = |b: &mut Builder<'_>, column: usize| {
            let part = b.slice(out, 1, column, 1);
            b.reshape(part, [n_env])
        };
        let reward = column(b, STEP_REWARD);
        let done = column(b, STEP_DONE);
        let next_bar = b.increment(bar);
        let next_observed = self.observe(program, b, moved, next_bar);

        // 1 where the account is ruined, else 2 where the range ends, else 0.
        let end = program.read(b, states.lane.train_end);
        let after = b.increment(next_bar);
        let is_last = b.less_equal(end, after);
        let (zero, one, two) = (b.scalar(0.0), b.scalar(1.0), b.scalar(2.0));
        let limit = b.select(is_last, two, zero);
        let ended = b.select(done, one, limit);
        let end_code = b.cast(ended, DType::I32);

        let first_bar = self.random_bar(program, b, step);
        let kept_bar = b.select(ended, first_bar, next_bar);
        let fresh = fresh_accounts(b, n_env, DType::F32);
        let ended_column = b.reshape(ended, [n_env, 1]);
        let kept_account = b.select(ended_column, fresh, moved);

        let (head, next_head, next_size) = self.next_row(program, b);
        let push = |state, value| Effect::RingPush {
            state,
            row: head,
            value,
            guard: None,
        };
        vec![
            push(states.ring.bar, bar),
            push(states.ring.observed, observed),
            push(states.ring.next_observed, next_observed),
            push(states.ring.action, action),
            push(states.ring.reward, reward),
            push(states.ring.end, end_code),
            store(states.account, kept_account),
            store(states.bar, kept_bar),
            store(states.ring.head, next_head),
            store(states.ring.size, next_size),
            store(states.collect_step, step),
        ]
    }

    /// The ring's row to write, the one after it, and the size then.
    fn next_row(&self, program: &Program, b: &mut Builder<'_>) -> (NodeId, NodeId, NodeId) {
        let head = program.read(b, self.states.ring.head);
        let size = program.read(b, self.states.ring.size);
        let capacity = program.read(b, self.states.lane.capacity_rows);
        let first = b.constant(Shape::default(), &[0.0], DType::I32);
        let next_head = b.increment(head);
        let wraps = b.equal(next_head, capacity);
        let next_head = b.select(wraps, first, next_head);
        let next_size = b.increment(size);
        (head, next_head, b.min(next_size, capacity))
    }

    /// ε-greedy over whole actions: one draw decides for all branches of an environment.
    fn explore(
        &self,
        program: &Program,
        b: &mut Builder<'_>,
        step: NodeId,
        greedy: &[NodeId],
    ) -> NodeId {
        let n_env = self.settings.environments;
        let lane = &self.states.lane;
        let seed = program.read(b, self.states.seed);
        let start = program.read(b, lane.epsilon_start);
        let end = program.read(b, lane.epsilon_end);
        let n_decay = program.read(b, lane.epsilon_updates);
        let n_updates = program.read(b, self.states.n_updates);
        let n_updates = b.cast(n_updates, DType::F32);
        let progress = b.div(n_updates, n_decay);
        let one = b.scalar(1.0);
        let progress = b.min(progress, one);
        let change = b.sub(end, start);
        let change = b.mul(change, progress);
        let epsilon = b.add(start, change);
        let draw = b.uniform("collect.explore", seed, step, [n_env]);
        let explores = b.less(draw, epsilon);
        let mut actions = Vec::new();
        for (d, n) in ACTION_SIZES.iter().enumerate() {
            let stream = format!("collect.action.{d}");
            let uniform = b.uniform(&stream, seed, step, [n_env]);
            let n = b.scalar(*n as f64);
            let scaled = b.mul(uniform, n);
            let random = b.floor(scaled);
            let random = b.cast(random, DType::I32);
            actions.push(b.select(explores, random, greedy[d]));
        }
        Self::stack(b, &actions)
    }
}

/// Flat accounts of equity 1, `[n, 8]`.
pub(super) fn fresh_accounts(b: &mut Builder<'_>, n: usize, dtype: DType) -> NodeId {
    let mut values = vec![0.0; n * ACCOUNT_WIDTH];
    for account in values.chunks_exact_mut(ACCOUNT_WIDTH) {
        account[ACCOUNT_EQUITY] = 1.0;
        account[ACCOUNT_PEAK] = 1.0;
    }
    b.constant([n, ACCOUNT_WIDTH].into(), &values, dtype)
}

/// An unguarded store.
pub(super) fn store(state: crate::engine::op::StateId, value: NodeId) -> Effect {
    Effect::Store {
        state,
        value,
        guard: None,
    }
}
