//! What a phase does to states at its end.

use super::StateId;
use crate::engine::graph::NodeId;

/// A matrix inside a flat parameter block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Matrix {
    /// First element within the block.
    pub offset: usize,
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// First element of its left vector within the state `u`.
    pub u_offset: usize,
    /// First element of its right vector within the state `v`.
    pub v_offset: usize,
}

/// A change of states, committed at the end of a phase, in the order of the phase's list, and only
/// where its guard is not 0. Graph nodes always see states as of the start of the phase.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// Replaces a state.
    Store {
        /// Target.
        state: StateId,
        /// Of the state's shape and type.
        value: NodeId,
        /// `[]` real.
        guard: Option<NodeId>,
    },
    /// Writes one row of a state `[C, …]`.
    RingPush {
        /// Target.
        state: StateId,
        /// `[]` I32, in `0..C`.
        row: NodeId,
        /// `[…]`.
        value: NodeId,
        /// `[]` real.
        guard: Option<NodeId>,
    },
    /// One AdamW step over a flat parameter block, and the Polyak average of its target.
    ///
    /// Source: Kingma and Ba 2015, Algorithm 1; decay decoupled as in Loshchilov and Hutter 2019.
    Adam {
        /// Parameters `[P]`.
        param: StateId,
        /// First moment `[P]`.
        m: StateId,
        /// Second moment `[P]`.
        v: StateId,
        /// Target parameters `[P]` and their rate τ (`[]` real).
        target: Option<(StateId, NodeId)>,
        /// Gradient `[P]`.
        grad: NodeId,
        /// Factor on the gradient, `[]`: unscaling and clipping.
        grad_scale: NodeId,
        /// Number of this step from 1, `[]` I32.
        step: NodeId,
        /// Learning rate, `[]`.
        lr: NodeId,
        /// Decay of the first moment, `[]`.
        beta1: NodeId,
        /// Decay of the second moment, `[]`.
        beta2: NodeId,
        /// Added to the root, `[]`.
        eps: NodeId,
        /// Decoupled decay, `[]`.
        weight_decay: NodeId,
        /// `[]` real.
        guard: Option<NodeId>,
    },
    /// Power iterations on each matrix of a block, then projection of its largest singular value
    /// to at most `sigma_max`.
    ///
    /// Source: Miyato et al. 2018, Algorithm 1, as a projection in place that is not
    /// differentiated.
    SpectralNorm {
        /// Parameters `[P]`.
        param: StateId,
        /// Left vectors.
        u: StateId,
        /// Right vectors.
        v: StateId,
        /// Which parts of the block.
        matrices: Vec<Matrix>,
        /// `[]` real.
        sigma_max: NodeId,
        /// Power iterations before the projection.
        n_iterations: u32,
        /// `[]` real.
        guard: Option<NodeId>,
    },
}

impl Effect {
    /// Returns the nodes that the effect reads, guard included.
    pub fn reads(&self) -> Vec<NodeId> {
        match self {
            Self::Store { value, guard, .. } => [*value].into_iter().chain(*guard).collect(),
            Self::RingPush {
                row, value, guard, ..
            } => [*row, *value].into_iter().chain(*guard).collect(),
            Self::Adam {
                target,
                grad,
                grad_scale,
                step,
                lr,
                beta1,
                beta2,
                eps,
                weight_decay,
                guard,
                ..
            } => [
                *grad,
                *grad_scale,
                *step,
                *lr,
                *beta1,
                *beta2,
                *eps,
                *weight_decay,
            ]
            .into_iter()
            .chain(target.map(|(_, tau)| tau))
            .chain(*guard)
            .collect(),
            Self::SpectralNorm {
                sigma_max, guard, ..
            } => [*sigma_max].into_iter().chain(*guard).collect(),
        }
    }

    /// Returns the states that the effect changes.
    pub fn writes(&self) -> Vec<StateId> {
        match self {
            Self::Store { state, .. } | Self::RingPush { state, .. } => vec![*state],
            Self::Adam {
                param,
                m,
                v,
                target,
                ..
            } => [*param, *m, *v]
                .into_iter()
                .chain(target.map(|(state, _)| state))
                .collect(),
            Self::SpectralNorm { param, u, v, .. } => vec![*param, *u, *v],
        }
    }

    /// Copies the effect with every node replaced.
    pub fn map_nodes(&self, map: impl Fn(NodeId) -> NodeId) -> Self {
        let mut copy = self.clone();
        match &mut copy {
            Self::Store { value, guard, .. } => {
                *value = map(*value);
                *guard = guard.map(&map);
            }
            Self::RingPush {
                row, value, guard, ..
            } => {
                *row = map(*row);
                *value = map(*value);
                *guard = guard.map(&map);
            }
            Self::Adam {
                target,
                grad,
                grad_scale,
                step,
                lr,
                beta1,
                beta2,
                eps,
                weight_decay,
                guard,
                ..
            } => {
                for node in [grad, grad_scale, step, lr, beta1, beta2, eps, weight_decay] {
                    *node = map(*node);
                }
                *target = target.map(|(state, tau)| (state, map(tau)));
                *guard = guard.map(&map);
            }
            Self::SpectralNorm {
                sigma_max, guard, ..
            } => {
                *sigma_max = map(*sigma_max);
                *guard = guard.map(&map);
            }
        }
        copy
    }
}
