//! One update.

use super::collect::store;
use super::{Dqn, N_METRICS, Switch};
use crate::engine::autodiff::grad;
use crate::engine::env::{ACTION_SIZES, OBSERVED_WIDTH};
use crate::engine::graph::{Builder, DType, NodeId};
use crate::engine::op::{Effect, Loss, ReduceKind, Replay, ScalarOp};
use crate::engine::program::Program;
use crate::models::EpochMetrics;

/// Slots of the metrics state.
const METRIC_UPDATES: usize = 0;
const METRIC_LOSS: usize = 1;
const METRIC_GRAD_NORM: usize = 2;
const METRIC_Q_MEAN: usize = 3;
const METRIC_Q_MAX: usize = 4;
const METRIC_TD_ERROR: usize = 5;
const METRIC_EDGE_MASS: usize = 6;

/// A sampled batch.
pub(super) struct Batch {
    /// `[B, S]`.
    pub(super) x: NodeId,
    /// `[B, S]`, n bars on.
    pub(super) next_x: NodeId,
    /// Per branch `[B]` I32.
    pub(super) actions: Vec<NodeId>,
    /// Discounted n-step reward, `[B]`.
    pub(super) reward: NodeId,
    /// Discount of the bootstrap, `[B]`; 0 after a terminal.
    pub(super) discount: NodeId,
}

/// Target distribution and what is measured on the way.
struct Target {
    /// `[B, W]`.
    m: NodeId,
    /// Mean greedy value, `[]`.
    q_mean: NodeId,
    /// Largest greedy value, `[]`.
    q_max: NodeId,
}

impl Dqn {
    /// Samples, learns, clips, updates, averages the target, projects.
    pub(super) fn learn(&self, program: &Program, b: &mut Builder<'_>) -> Vec<Effect> {
        let states = &self.states;
        let lane = &states.lane;
        let step = program.read(b, states.learn_step);
        let step = b.increment(step);
        let batch = self.sample(program, b, step);
        let target = self.target(program, b, &batch);
        let theta = program.read(b, states.theta);
        let v_max = program.read(b, lane.v_max);

        let heads = self.network.forward(b, theta, batch.x);
        let logits: Vec<NodeId> = (0..ACTION_SIZES.len())
            .map(|d| self.network.logits_of(b, &heads, d, batch.actions[d]))
            .collect();
        let logits = b.concat(&logits, 0);
        let targets = b.concat(&[target.m; ACTION_SIZES.len()], 0);
        let op = Loss::CrossEntropy {
            n_valid: self.network.atoms,
        };
        let terms = b.loss(op, &[logits, targets]);
        let loss = b.mean_all(terms);
        let params = self.network.layout.read_all(b, theta);
        let grads = grad(b.graph(), loss, &params);
        let gradient = self.network.layout.join(b, &grads);

        let (norm, grad_scale) = self.clip(program, b, gradient);
        let (trains, diverged) = self.guards(program, b, loss, norm);

        let predicted = self.network.expectation(b, logits, v_max);
        let expected = self.network.mean_of(b, targets, v_max);
        let metrics = self.measure(program, b, [loss, norm, predicted, expected], &target);
        let n_updates = program.read(b, states.n_updates);
        let n_updates = b.increment(n_updates);
        let guard = Some(trains);
        let read = |b: &mut Builder<'_>, state| program.read(b, state);
        let mut effects = vec![
            Effect::Adam {
                param: states.theta,
                m: states.m,
                v: states.v,
                target: Some((states.target, read(b, lane.tau))),
                grad: gradient,
                grad_scale,
                step: n_updates,
                lr: read(b, lane.lr),
                beta1: read(b, lane.beta1),
                beta2: read(b, lane.beta2),
                eps: read(b, lane.adam_eps),
                weight_decay: read(b, lane.weight_decay),
                guard,
            },
            Effect::Store {
                state: states.n_updates,
                value: n_updates,
                guard,
            },
            Effect::Store {
                state: states.metrics,
                value: metrics,
                guard,
            },
            store(states.learn_step, step),
            store(states.diverged, diverged),
        ];
        // One power iteration a step, ahead of the next forward.
        effects.extend(self.spectral_effect(program, b, 1, guard));
        effects
    }

    /// Norm of the gradient, and the factor that brings it to at most the lane's bound.
    fn clip(&self, program: &Program, b: &mut Builder<'_>, gradient: NodeId) -> (NodeId, NodeId) {
        let norm = b.sum_squares(gradient);
        let norm = b.sqrt(norm);
        let max_norm = program.read(b, self.states.lane.max_grad_norm);
        let tiny = b.scalar(1e-6);
        let padded = b.add(norm, tiny);
        let ratio = b.div(max_norm, padded);
        let one = b.scalar(1.0);
        (norm, b.min(ratio, one))
    }

    /// Whether this update counts, and the run's new `diverged`.
    ///
    /// Once broken a run stays as it was: a later batch that happens to be finite trains nothing.
    fn guards(
        &self,
        program: &Program,
        b: &mut Builder<'_>,
        loss: NodeId,
        norm: NodeId,
    ) -> (NodeId, NodeId) {
        let size = program.read(b, self.states.ring.size);
        let warmup = program.read(b, self.states.lane.warmup_rows);
        let is_warm = b.less_equal(warmup, size);
        let has_norm = b.is_finite(norm);
        let has_loss = b.is_finite(loss);
        let is_finite = b.mul(has_norm, has_loss);
        let one = b.scalar(1.0);
        let breaks = b.sub(one, is_finite);
        let breaks = b.mul(is_warm, breaks);
        let diverged = program.read(b, self.states.diverged);
        let diverged = b.max(diverged, breaks);
        let is_sound = b.sub(one, diverged);
        (b.mul(is_warm, is_sound), diverged)
    }

    /// Draws transitions and follows each for n bars, or to the end of its episode.
    pub(super) fn sample(&self, program: &Program, b: &mut Builder<'_>, step: NodeId) -> Batch {
        let states = &self.states;
        let ring = &states.ring;
        let (n_env, rows) = (self.settings.environments, self.settings.replay_rows_max);
        let n_step_max = self.settings.n_step_max;
        let seed = program.read(b, states.seed);
        let size = program.read(b, ring.size);
        let head = program.read(b, ring.head);
        let capacity = program.read(b, states.lane.capacity_rows);
        let uniform = b.uniform("learn.sample", seed, step, [self.settings.batch_size]);
        let op = Replay::Sample { n_env, n_step_max };
        let index = b.replay(op, &[uniform, size, head, capacity]);
        let reward = program.read(b, ring.reward);
        let end = program.read(b, ring.end);
        let n_step = program.read(b, states.lane.n_step);
        let gamma = program.read(b, states.lane.gamma);
        let inputs = [reward, end, index, capacity, n_step, gamma];
        let outcome = b.replay(Replay::NStep { n_step_max }, &inputs);
        let part = |b: &mut Builder<'_>, i: usize| {
            let row = b.slice(outcome, 0, i, 1);
            b.flatten(row)
        };
        let (reward, discount, last) = (part(b, 0), part(b, 1), part(b, 2));
        let last = b.cast(last, DType::I32);
        let mut gather = |state, index, tail: &[usize]| {
            let ring = program.read(b, state);
            let dims = [&[rows * n_env], tail].concat();
            let flat = b.reshape(ring, dims);
            b.rows(flat, index)
        };
        let bar = gather(ring.bar, index, &[]);
        let observed = gather(ring.observed, index, &[OBSERVED_WIDTH]);
        let action = gather(ring.action, index, &[3]);
        let last_bar = gather(ring.bar, last, &[]);
        let next_observed = gather(ring.next_observed, last, &[OBSERVED_WIDTH]);
        let next_bar = b.increment(last_bar);
        let x = self.state(program, b, bar, observed);
        let next_x = self.state(program, b, next_bar, next_observed);
        let actions = (0..ACTION_SIZES.len())
            .map(|d| {
                let column = b.slice(action, 1, d, 1);
                b.flatten(column)
            })
            .collect();
        Batch {
            x,
            next_x,
            actions,
            reward,
            discount,
        }
    }

    /// Projects the mean over branches of the chosen actions' distributions: the projection is
    /// linear in them, so one serves all.
    fn target(&self, program: &Program, b: &mut Builder<'_>, batch: &Batch) -> Target {
        let network = &self.network;
        let v_max = program.read(b, self.states.lane.v_max);
        let slow = program.read(b, self.states.target);
        let slow = network.forward(b, slow, batch.next_x);
        let fast = match self.settings.double {
            Switch::Fixed(false) => None,
            Switch::Fixed(true) | Switch::Lane => {
                let theta = program.read(b, self.states.theta);
                Some(network.forward(b, theta, batch.next_x))
            }
        };
        let mut p_sum: Option<NodeId> = None;
        let mut best: Option<NodeId> = None;
        for d in 0..ACTION_SIZES.len() {
            let values = |b: &mut Builder<'_>, heads| {
                let logits = network.logits(b, heads, d);
                network.expectation(b, logits, v_max)
            };
            let q = match (&fast, self.settings.double) {
                (None, _) => values(b, &slow),
                (Some(fast), Switch::Fixed(_)) => values(b, fast),
                (Some(fast), Switch::Lane) => {
                    let double = program.read(b, self.states.lane.double);
                    let (fast, slow) = (values(b, fast), values(b, &slow));
                    b.select(double, fast, slow)
                }
            };
            let choice = b.reduce(ReduceKind::ArgMax, q, 1);
            let logits = network.logits_of(b, &slow, d, choice);
            let p = b.loss(
                Loss::Softmax {
                    n_valid: network.atoms,
                },
                &[logits],
            );
            p_sum = Some(p_sum.map_or(p, |sum| b.add(sum, p)));
            let top = b.reduce(ReduceKind::Max, q, 1);
            best = Some(best.map_or(top, |sum| b.add(sum, top)));
        }
        let third = b.scalar(1.0 / ACTION_SIZES.len() as f64);
        let p = b.mul(p_sum.expect("there are branches"), third);
        let op = Loss::Project {
            n_valid: network.atoms,
        };
        let m = b.loss(op, &[p, batch.reward, batch.discount, v_max]);
        let q = b.mul(best.expect("there are branches"), third);
        Target {
            m,
            q_mean: b.mean_all(q),
            q_max: b.reduce(ReduceKind::Max, q, 0),
        }
    }

    /// Adds this update to the epoch's metrics.
    ///
    /// - `parts`: loss, gradient norm, predictions `[3·B]`, target means `[3·B]`.
    fn measure(
        &self,
        program: &Program,
        b: &mut Builder<'_>,
        parts: [NodeId; 4],
        target: &Target,
    ) -> NodeId {
        let [loss, norm, predicted, expected] = parts;
        let error = b.sub(expected, predicted);
        let error = b.map(ScalarOp::Abs, &[error]);
        let error = b.mean_all(error);
        let n_atoms = self.network.atoms;
        let low = b.slice(target.m, 1, 0, 1);
        let high = b.slice(target.m, 1, n_atoms - 1, 1);
        let edge = b.add(low, high);
        let edge = b.mean_all(edge);
        let metrics = program.read(b, self.states.metrics);
        let slot = |b: &mut Builder<'_>, i: usize| b.slice(metrics, 0, i, 1);
        let n_before = slot(b, METRIC_UPDATES);
        let old_max = slot(b, METRIC_Q_MAX);
        let q_max = b.reshape(target.q_max, [1]);
        let larger = b.max(old_max, q_max);
        // The first update of an epoch has no maximum to compare with.
        let q_max = b.select(n_before, larger, q_max);
        let one = b.scalar(1.0);
        let terms = [
            (METRIC_UPDATES, one),
            (METRIC_LOSS, loss),
            (METRIC_GRAD_NORM, norm),
            (METRIC_Q_MEAN, target.q_mean),
            (METRIC_TD_ERROR, error),
            (METRIC_EDGE_MASS, edge),
        ];
        let mut parts = [q_max; N_METRICS];
        for (i, term) in terms {
            let old = slot(b, i);
            let term = b.reshape(term, [1]);
            parts[i] = b.add(old, term);
        }
        b.concat(&parts, 0)
    }
}

/// Reads the metrics of an epoch.
///
/// - `sums`: the metrics state.
pub(super) fn explain(sums: &[f64], n_env_steps: usize) -> EpochMetrics {
    let n = sums[METRIC_UPDATES];
    // An epoch in which the replay never warmed up made no update and has no means.
    let mean = |slot: usize| if n > 0.0 { sums[slot] / n } else { f64::NAN };
    EpochMetrics {
        n_updates: n as u64,
        n_env_steps: n_env_steps as u64,
        loss: mean(METRIC_LOSS),
        grad_norm: mean(METRIC_GRAD_NORM),
        q_mean: mean(METRIC_Q_MEAN),
        q_max: if n > 0.0 {
            sums[METRIC_Q_MAX]
        } else {
            f64::NAN
        },
        td_error: mean(METRIC_TD_ERROR),
        edge_atom_mass: mean(METRIC_EDGE_MASS),
    }
}
