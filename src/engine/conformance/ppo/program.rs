//! The program, phase by phase.
//!
//! Source: Schulman et al. 2017 (PPO), 2016 (GAE).

use crate::engine::autodiff::grad;
use crate::engine::backend::{Data, StateValues};
use crate::engine::graph::{Builder, DType, Graph, NodeId, Shape};
use crate::engine::op::recur::Body;
use crate::engine::op::samples::draw;
use crate::engine::op::{Effect, Loss, Recur, ScalarOp, StateId};
use crate::engine::program::{Init, Program, Section};
use std::sync::Arc;

/// Environments E.
pub(super) const N_ENV: usize = 8;
/// Steps L of a rollout.
pub(super) const N_STEPS: usize = 16;
/// Transitions of a rollout.
const N: usize = N_ENV * N_STEPS;
/// Transitions of a minibatch.
pub(super) const BATCH: usize = 32;
/// Minibatches of a pass.
pub(super) const N_BATCHES: usize = N / BATCH;
/// Most passes of any lane.
pub(super) const PASSES_MAX: usize = 4;
const OBSERVED: usize = 4;
const HIDDEN: usize = 8;
/// Weights: W [4, 8], b [8], policy [8, 2], value [8, 1].
pub(super) const N_PARAMS: usize = OBSERVED * HIDDEN + HIDDEN + 2 * HIDDEN + HIDDEN;

/// Values that a lane chooses.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lane {
    pub(super) seed: u32,
    pub(super) lr: f32,
    pub(super) target_kl: f32,
    pub(super) n_passes: f32,
}

/// States of the program.
pub(super) struct Ppo {
    pub(super) program: Program,
    pub(super) block: StateId,
    pub(super) mean_reward: StateId,
    pub(super) n_updates: StateId,
    pub(super) stop: StateId,
    pub(super) probe: [StateId; 3],
    m: StateId,
    v: StateId,
    seed: StateId,
    tick: StateId,
    row: StateId,
    env: StateId,
    seen: StateId,
    action: StateId,
    log_prob: StateId,
    reward: StateId,
    value: StateId,
    done: StateId,
    advantage: StateId,
    returns: StateId,
    batch_idx: StateId,
    adam_step: StateId,
    lr: StateId,
    target_kl: StateId,
    n_passes: StateId,
}

impl Ppo {
    pub(super) fn new() -> Self {
        let mut p = Program::default();
        p.n_cycles = 1;
        let real = DType::F32;
        let host = |p: &mut Program, name: &str| p.state(name, [], real, Init::Host);
        let ring = |p: &mut Program, name: &str| p.state(name, [N_STEPS, N_ENV], real, Init::Zero);
        let scalar = |p: &mut Program, name: &str| p.state(name, [], real, Init::Zero);
        let counter = |p: &mut Program, name: &str| p.state(name, [], DType::I32, Init::Zero);
        let mut ppo = Self {
            block: p.state("block", [N_PARAMS], real, Init::Host),
            m: p.state("m", [N_PARAMS], real, Init::Zero),
            v: p.state("v", [N_PARAMS], real, Init::Zero),
            seed: p.state("seed", [2], DType::I32, Init::Host),
            tick: counter(&mut p, "tick"),
            row: counter(&mut p, "row"),
            env: p.state("env", [N_ENV], real, Init::Zero),
            seen: p.state("seen", [N_STEPS, N_ENV, OBSERVED], real, Init::Zero),
            action: p.state("action", [N_STEPS, N_ENV, 2], real, Init::Zero),
            log_prob: ring(&mut p, "log_prob"),
            reward: ring(&mut p, "reward"),
            value: ring(&mut p, "value"),
            done: ring(&mut p, "done"),
            advantage: ring(&mut p, "advantage"),
            returns: ring(&mut p, "returns"),
            batch_idx: counter(&mut p, "batch_idx"),
            adam_step: counter(&mut p, "adam_step"),
            stop: scalar(&mut p, "stop"),
            n_updates: scalar(&mut p, "n_updates"),
            mean_reward: scalar(&mut p, "mean_reward"),
            lr: host(&mut p, "lr"),
            target_kl: host(&mut p, "target_kl"),
            n_passes: host(&mut p, "n_passes"),
            probe: [
                p.state("ratio", [BATCH], real, Init::Zero),
                p.state("clipped gradient", [N_PARAMS], real, Init::Zero),
                p.state("policy gradient", [N_PARAMS], real, Init::Zero),
            ],
            program: Program::default(),
        };
        p.blocks = vec![ppo.block];
        p.phase(Section::Cycle, "rollout", N_STEPS, |p, b| ppo.rollout(p, b));
        p.phase(Section::Cycle, "advantages", 1, |p, b| ppo.advantages(p, b));
        let n_updates = PASSES_MAX * N_BATCHES;
        p.phase(Section::Cycle, "update", n_updates, |p, b| ppo.update(p, b));
        p.phase(Section::Evaluate, "probe", 1, |p, b| ppo.compare(p, b));
        ppo.program = p;
        ppo
    }

    /// First values of a run.
    pub(super) fn values(&self, lane: Lane) -> StateValues {
        let weights = draw(&format!("weights {}", lane.seed), N_PARAMS, -0.5, 0.5);
        let scalar = |value: f32| Data::F32(vec![value]);
        [
            (
                self.block,
                Data::F32(weights.into_iter().map(|value| value as f32).collect()),
            ),
            (self.seed, Data::I32(vec![lane.seed as i32, 1])),
            (self.lr, scalar(lane.lr)),
            (self.target_kl, scalar(lane.target_kl)),
            (self.n_passes, scalar(lane.n_passes)),
        ]
        .into()
    }

    /// One step of all environments; one row of every ring.
    fn rollout(&self, p: &Program, b: &mut Builder<'_>) -> Vec<Effect> {
        let (block, env) = (p.read(b, self.block), p.read(b, self.env));
        let (seed, tick, row) = (
            p.read(b, self.seed),
            p.read(b, self.tick),
            p.read(b, self.row),
        );
        let seen = observe(b, env);
        let (logits, value) = network(b, block, seen, N_ENV);
        let p_both = b.loss(Loss::Softmax { n_valid: 2 }, &[logits]);
        let p_move = b.slice(p_both, 1, 1, 1);
        let p_move = b.flatten(p_move);
        let draw = b.uniform("action", seed, tick, [N_ENV]);
        let moves = b.less(draw, p_move);
        let action = pair(b, moves);
        let log_prob = log_prob(b, logits, action);

        let one = b.scalar(1.0);
        let stays = b.sub(one, moves);
        let (base, more) = (b.scalar(0.2), b.scalar(0.8));
        let extra = b.mul(more, env);
        let pay = b.add(base, extra);
        let reward = b.mul(stays, pay);
        let draw = b.uniform("end", seed, tick, [N_ENV]);
        let tenth = b.scalar(0.1);
        let done = b.less(draw, tenth);
        let gap = b.sub(env, moves);
        let moved = b.mul(gap, gap);
        let zero = b.scalar(0.0);
        let next_env = b.select(done, zero, moved);

        let next_row = wrap(b, row, N_STEPS);
        let next_tick = b.increment(tick);
        let push = |state, value| Effect::RingPush {
            state,
            row,
            value,
            guard: None,
        };
        vec![
            push(self.seen, seen),
            push(self.action, action),
            push(self.log_prob, log_prob),
            push(self.reward, reward),
            push(self.value, value),
            push(self.done, done),
            Effect::Store {
                state: self.env,
                value: next_env,
                guard: None,
            },
            Effect::Store {
                state: self.row,
                value: next_row,
                guard: None,
            },
            Effect::Store {
                state: self.tick,
                value: next_tick,
                guard: None,
            },
        ]
    }

    fn advantages(&self, p: &Program, b: &mut Builder<'_>) -> Vec<Effect> {
        let (block, env) = (p.read(b, self.block), p.read(b, self.env));
        let seen = observe(b, env);
        let (_, last) = network(b, block, seen, N_ENV);
        let [reward, done, value] = [self.reward, self.done, self.value].map(|id| p.read(b, id));
        let (gamma, lambda) = (b.scalar(0.95), b.scalar(0.9));
        let advantage = gae(b, [reward, done, value], last, gamma, lambda);
        let returns = b.add(advantage, value);
        let mean_reward = b.mean_all(reward);
        let zero = b.scalar(0.0);
        let none = b.constant(Shape::default(), &[0.0], DType::I32);
        let store = |state, value| Effect::Store {
            state,
            value,
            guard: None,
        };
        vec![
            store(self.advantage, advantage),
            store(self.returns, returns),
            store(self.mean_reward, mean_reward),
            store(self.stop, zero),
            store(self.n_updates, zero),
            store(self.batch_idx, none),
        ]
    }

    /// One minibatch; whether anything is stored is the guard's.
    fn update(&self, p: &Program, b: &mut Builder<'_>) -> Vec<Effect> {
        let block = p.read(b, self.block);
        let batch_idx = p.read(b, self.batch_idx);
        let (batch, pass) = self.minibatch(p, b, block, batch_idx);
        let loss = batch.loss(b);
        let grad = grad(b.graph(), loss, &[block])[0].expect("the loss reads the block");
        let square = b.mul(grad, grad);
        let norm = b.sum_all(square);
        let norm = b.sqrt(norm);
        let (most, tiny, one) = (b.scalar(0.5), b.scalar(1e-6), b.scalar(1.0));
        let floor = b.add(norm, tiny);
        let scale = b.div(most, floor);
        let grad_scale = b.min(scale, one);

        let target_kl = p.read(b, self.target_kl);
        let kl = batch.kl(b);
        let exceeds = b.less(target_kl, kl);
        let stop = p.read(b, self.stop);
        let next_stop = b.max(stop, exceeds);
        let n_passes = p.read(b, self.n_passes);
        let goes_on = b.sub(one, next_stop);
        let is_due = b.less(pass, n_passes);
        let is_sound = b.is_finite(norm);
        let may = b.mul(goes_on, is_due);
        let may = b.mul(may, is_sound);

        let n_updates = p.read(b, self.n_updates);
        let n_updates = b.add(n_updates, may);
        let next_batch = b.increment(batch_idx);
        let adam_step = p.read(b, self.adam_step);
        let step = b.increment(adam_step);
        let (lr, zero) = (p.read(b, self.lr), b.scalar(0.0));
        let (beta1, beta2, eps) = (b.scalar(0.9), b.scalar(0.999), b.scalar(1e-8));
        let store = |state, value, guard| Effect::Store {
            state,
            value,
            guard,
        };
        vec![
            Effect::Adam {
                param: self.block,
                m: self.m,
                v: self.v,
                target: None,
                grad,
                grad_scale,
                step,
                lr,
                beta1,
                beta2,
                eps,
                weight_decay: zero,
                guard: Some(may),
            },
            store(self.adam_step, step, Some(may)),
            store(self.stop, next_stop, None),
            store(self.n_updates, n_updates, None),
            store(self.batch_idx, next_batch, None),
        ]
    }

    /// The first minibatch's ratio, and its gradient by the clipped and by the plain objective.
    fn compare(&self, p: &Program, b: &mut Builder<'_>) -> Vec<Effect> {
        let block = p.read(b, self.block);
        let first = b.constant(Shape::default(), &[0.0], DType::I32);
        let (batch, _) = self.minibatch(p, b, block, first);
        let clipped = batch.objective(b);
        let plain = b.mul(batch.log_prob, batch.advantage);
        let plain = b.mean_all(plain);
        let mut of = |loss| grad(b.graph(), loss, &[block])[0].expect("it reads the block");
        let (clipped, plain) = (of(clipped), of(plain));
        let [ratio_id, clipped_id, plain_id] = self.probe;
        let store = |state, value| Effect::Store {
            state,
            value,
            guard: None,
        };
        vec![
            store(ratio_id, batch.ratio),
            store(clipped_id, clipped),
            store(plain_id, plain),
        ]
    }

    /// Emits minibatch `batch_idx` of the epoch, and the number of its pass.
    ///
    /// A pass visits transition `(37 i + shift) mod N` at place i: a permutation, since 37 and N
    /// share no factor. All numbers are whole and below 2²⁴, exact in F32.
    fn minibatch(
        &self,
        p: &Program,
        b: &mut Builder<'_>,
        block: NodeId,
        batch_idx: NodeId,
    ) -> (Minibatch, NodeId) {
        let number = b.cast(batch_idx, DType::F32);
        let (n_batches, n) = (b.scalar(N_BATCHES as f64), b.scalar(N as f64));
        let pass = b.div(number, n_batches);
        let pass = b.floor(pass);
        let before = b.mul(pass, n_batches);
        let within = b.sub(number, before);
        let (seed, tick) = (p.read(b, self.seed), p.read(b, self.tick));
        let whole_pass = b.cast(pass, DType::I32);
        // A rollout advances the tick by more than the passes do.
        let step = b.add(tick, whole_pass);
        let shift = b.uniform("shift", seed, step, []);
        let shift = b.mul(shift, n);
        let shift = b.floor(shift);
        let places: Vec<f64> = (0..BATCH).map(|i| i as f64).collect();
        let places = b.constant(Shape::from([BATCH]), &places, DType::F32);
        let (batch, stride) = (b.scalar(BATCH as f64), b.scalar(37.0));
        let first = b.mul(within, batch);
        let place = b.add(places, first);
        let far = b.mul(place, stride);
        let far = b.add(far, shift);
        let turns = b.div(far, n);
        let turns = b.floor(turns);
        let turns = b.mul(turns, n);
        let index = b.sub(far, turns);
        let index = b.cast(index, DType::I32);

        let mut rows = |id: StateId, width: usize| {
            let ring = p.read(b, id);
            let flat: Vec<usize> = if width == 1 { vec![N] } else { vec![N, width] };
            let flat = b.reshape(ring, flat);
            b.rows(flat, index)
        };
        let (seen, action) = (rows(self.seen, OBSERVED), rows(self.action, 2));
        let (old, advantage) = (rows(self.log_prob, 1), rows(self.advantage, 1));
        let returns = rows(self.returns, 1);
        let (logits, value) = network(b, block, seen, BATCH);
        let log_prob = log_prob(b, logits, action);
        let log_ratio = b.sub(log_prob, old);
        let ratio = b.exp(log_ratio);
        let advantage = normalised(b, advantage);
        let probs = b.loss(Loss::Softmax { n_valid: 2 }, &[logits]);
        (
            Minibatch {
                ratio,
                log_ratio,
                log_prob,
                advantage,
                returns,
                value,
                probs,
            },
            pass,
        )
    }
}

/// Values of one minibatch, each `[B]`, probabilities `[B, 2]`.
struct Minibatch {
    ratio: NodeId,
    log_ratio: NodeId,
    log_prob: NodeId,
    advantage: NodeId,
    returns: NodeId,
    value: NodeId,
    probs: NodeId,
}

impl Minibatch {
    fn objective(&self, b: &mut Builder<'_>) -> NodeId {
        let eps = b.scalar(0.2);
        clipped_objective(b, self.ratio, self.advantage, eps)
    }

    /// −objective + ½·½(v − R)² − 0.01·H.
    fn loss(&self, b: &mut Builder<'_>) -> NodeId {
        let objective = self.objective(b);
        let error = b.sub(self.value, self.returns);
        let square = b.mul(error, error);
        let value_loss = b.mean_all(square);
        let quarter = b.scalar(0.25);
        let value_loss = b.mul(value_loss, quarter);
        let logs = b.ln(self.probs);
        let terms = b.mul(self.probs, logs);
        let terms = b.sum(terms, 1);
        let negative_entropy = b.mean_all(terms);
        let weight = b.scalar(0.01);
        let entropy_loss = b.mul(negative_entropy, weight);
        let loss = b.sub(value_loss, objective);
        b.add(loss, entropy_loss)
    }

    /// mean((ρ − 1) − log ρ), never negative.
    fn kl(&self, b: &mut Builder<'_>) -> NodeId {
        let one = b.scalar(1.0);
        let excess = b.sub(self.ratio, one);
        let terms = b.sub(excess, self.log_ratio);
        b.mean_all(terms)
    }
}

/// mean min(ρA, clip(ρ, 1 ± ε)A).
pub(super) fn clipped_objective(
    b: &mut Builder<'_>,
    ratio: NodeId,
    advantage: NodeId,
    eps: NodeId,
) -> NodeId {
    let one = b.scalar(1.0);
    let (low, high) = (b.sub(one, eps), b.add(one, eps));
    let clipped = b.min(ratio, high);
    let clipped = b.max(clipped, low);
    let (free, bound) = (b.mul(ratio, advantage), b.mul(clipped, advantage));
    let least = b.min(free, bound);
    b.mean_all(least)
}

/// Generalised advantages `[T, E]` by a loop backwards in time:
/// `A_t = δ_t + γλ(1 − d_t) A_{t+1}` with `δ_t = r_t + γ(1 − d_t) v_{t+1} − v_t`.
///
/// - `[reward, done, value]`: `[T, E]`; `last`: `[E]`, the value after the rollout.
pub(super) fn gae(
    b: &mut Builder<'_>,
    [reward, done, value]: [NodeId; 3],
    last: NodeId,
    gamma: NodeId,
    lambda: NodeId,
) -> NodeId {
    let shape = b.shape(value);
    let (n_steps, n_env) = (shape.0[0], shape.0[1]);
    let later = b.slice(value, 0, 1, n_steps - 1);
    let last = b.reshape(last, [1, n_env]);
    let next_value = b.concat(&[later, last], 0);
    let one = b.scalar(1.0);
    let alive = b.sub(one, done);
    let discount = b.mul(gamma, alive);
    let future = b.mul(discount, next_value);
    let delta = b.add(reward, future);
    let delta = b.sub(delta, value);
    let keep = b.mul(discount, lambda);

    let mut graph = Graph::default();
    let mut body = Builder::new(&mut graph);
    let row = Shape::from([n_env]);
    let [carry, delta_t, keep_t] = [0, 1, 2].map(|i| body.argument(i, &row, DType::F32));
    let kept = body.mul(keep_t, carry);
    let next = body.add(delta_t, kept);
    let body = Arc::new(Body::new(graph, vec![next], vec![next]));
    let scan = Recur {
        body,
        n_steps,
        n_carries: 1,
        n_sequences: 2,
        is_reversed: true,
    };
    let start = b.constant(row, &vec![0.0; n_env], DType::F32);
    let out = b.recur(scan.clone(), &[start, delta, keep]);
    scan.output(b, out, 0)
}

/// One-hot state, a one, and a zero that pads the width: `[E, 4]`.
fn observe(b: &mut Builder<'_>, env: NodeId) -> NodeId {
    let state = pair(b, env);
    let rest: Vec<f64> = (0..2 * N_ENV)
        .map(|i| if i % 2 == 0 { 1.0 } else { 0.0 })
        .collect();
    let rest = b.constant(Shape::from([N_ENV, 2]), &rest, DType::F32);
    b.concat(&[state, rest], 1)
}

/// `[E]` of 0 and 1 as one-hot rows `[E, 2]`.
fn pair(b: &mut Builder<'_>, flag: NodeId) -> NodeId {
    let n = b.shape(flag).n_elements();
    let one = b.scalar(1.0);
    let other = b.sub(one, flag);
    let (first, second) = (b.reshape(other, [n, 1]), b.reshape(flag, [n, 1]));
    b.concat(&[first, second], 1)
}

/// Logits `[n, 2]` and values `[n]`.
fn network(b: &mut Builder<'_>, block: NodeId, seen: NodeId, n: usize) -> (NodeId, NodeId) {
    let mut start = 0;
    let mut part = |b: &mut Builder<'_>, shape: &[usize]| {
        let len = shape.iter().product();
        start += len;
        let flat = b.slice(block, 0, start - len, len);
        b.reshape(flat, shape)
    };
    let (w, bias) = (part(b, &[OBSERVED, HIDDEN]), part(b, &[HIDDEN]));
    let (policy, critic) = (part(b, &[HIDDEN, 2]), part(b, &[HIDDEN, 1]));
    let hidden = b.gemm(seen, w);
    let hidden = b.add(hidden, bias);
    let hidden = b.map(ScalarOp::Tanh, &[hidden]);
    let value = b.gemm(hidden, critic);
    (b.gemm(hidden, policy), b.reshape(value, [n]))
}

/// log π of one-hot actions: minus the cross-entropy.
fn log_prob(b: &mut Builder<'_>, logits: NodeId, action: NodeId) -> NodeId {
    let loss = b.loss(Loss::CrossEntropy { n_valid: 2 }, &[logits, action]);
    b.neg(loss)
}

/// (A − mean) / (std + 1e-8).
fn normalised(b: &mut Builder<'_>, advantage: NodeId) -> NodeId {
    let mean = b.mean_all(advantage);
    let centred = b.sub(advantage, mean);
    let square = b.mul(centred, centred);
    let variance = b.mean_all(square);
    let (std, tiny) = (b.sqrt(variance), b.scalar(1e-8));
    let std = b.add(std, tiny);
    b.div(centred, std)
}

/// Next position of a ring of `n` rows.
fn wrap(b: &mut Builder<'_>, row: NodeId, n: usize) -> NodeId {
    let next = b.increment(row);
    let n = b.constant(Shape::default(), &[n as f64], DType::I32);
    let zero = b.constant(Shape::default(), &[0.0], DType::I32);
    let inside = b.less(next, n);
    b.select(inside, next, zero)
}
