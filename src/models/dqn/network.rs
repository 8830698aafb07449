//! The branching dueling network.

use super::Settings;
use crate::engine::env::ACTION_SIZES;
use crate::engine::graph::{Builder, DType, NodeId, Shape};
use crate::engine::op::Loss;
use crate::models::layers::{ParamLayout, WIDTH_MULTIPLE, dense};

/// Shapes of the network and its parameter block.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    /// Width S of the state.
    pub state_width: usize,
    /// Atoms K.
    pub atoms: usize,
    /// Stored width W of a distribution, K rounded up.
    pub atom_width: usize,
    n_trunk: usize,
    /// Parameters.
    pub layout: ParamLayout,
}

/// Outputs of the heads.
#[derive(Debug, Clone)]
pub struct Heads {
    /// `[B, W]`.
    pub value: NodeId,
    /// Per branch `[B, n, W]`.
    pub advantage: Vec<NodeId>,
}

impl Network {
    /// Lays out the network.
    ///
    /// - `state_width`: S, at least the natural width.
    pub fn new(settings: &Settings, state_width: usize) -> Self {
        let atom_width = settings.atoms.next_multiple_of(WIDTH_MULTIPLE);
        let mut layout = ParamLayout::default();
        let mut width = state_width;
        for layer in 0..settings.trunk_layers {
            layout.dense(&format!("trunk.{layer}"), width, settings.trunk_width);
            width = settings.trunk_width;
        }
        let heads = std::iter::once(("value".to_owned(), 1)).chain(
            ACTION_SIZES
                .iter()
                .enumerate()
                .map(|(d, n)| (format!("branch.{d}"), *n)),
        );
        for (name, n) in heads {
            layout.dense(&format!("{name}.hidden"), width, settings.head_width);
            let output = format!("{name}.output");
            layout.grouped(&output, settings.head_width, n, atom_width, settings.atoms);
        }
        let n_trunk = settings.trunk_layers;
        Self {
            state_width,
            atoms: settings.atoms,
            atom_width,
            n_trunk,
            layout,
        }
    }

    /// Runs trunk and heads on states `x [B, S]`.
    ///
    /// - `block`: flat parameters.
    pub fn forward(&self, b: &mut Builder<'_>, block: NodeId, x: NodeId) -> Heads {
        let n_rows = b.shape(x).0[0];
        let mut h = x;
        for layer in 0..self.n_trunk {
            let z = dense(b, &self.layout, block, &format!("trunk.{layer}"), h);
            h = b.relu(z);
        }
        let mut head = |name: &str| {
            let z = dense(b, &self.layout, block, &format!("{name}.hidden"), h);
            let hidden = b.relu(z);
            dense(b, &self.layout, block, &format!("{name}.output"), hidden)
        };
        let value = head("value");
        let outputs: Vec<NodeId> = (0..ACTION_SIZES.len())
            .map(|d| head(&format!("branch.{d}")))
            .collect();
        let advantage = outputs
            .into_iter()
            .zip(ACTION_SIZES)
            .map(|(output, n)| b.reshape(output, [n_rows, n, self.atom_width]))
            .collect();
        Heads { value, advantage }
    }

    /// Combines value and advantages of branch `d`: V + A − mean A per atom, `[B, n, W]`.
    ///
    /// Source: Wang et al. 2016, equation 9, per branch and atom (Tavakoli et al. 2018).
    pub fn logits(&self, b: &mut Builder<'_>, heads: &Heads, d: usize) -> NodeId {
        let advantage = heads.advantage[d];
        let n_rows = b.shape(advantage).0[0];
        let base = self.base(b, heads, d);
        let base = b.reshape(base, [n_rows, 1, self.atom_width]);
        b.add(advantage, base)
    }

    /// The logits of one action per row, `[B, W]`; the same as picking from [`Network::logits`].
    pub fn logits_of(
        &self,
        b: &mut Builder<'_>,
        heads: &Heads,
        d: usize,
        action: NodeId,
    ) -> NodeId {
        let picked = b.pick(heads.advantage[d], action);
        let base = self.base(b, heads, d);
        b.add(picked, base)
    }

    /// V − mean A, `[B, W]`.
    fn base(&self, b: &mut Builder<'_>, heads: &Heads, d: usize) -> NodeId {
        let mean = b.mean(heads.advantage[d], 1);
        b.sub(heads.value, mean)
    }

    /// Expected values of distributions: logits `[…, W]` to q `[…]`.
    ///
    /// - `v_max`: `[]`.
    pub fn expectation(&self, b: &mut Builder<'_>, logits: NodeId, v_max: NodeId) -> NodeId {
        let p = b.loss(
            Loss::Softmax {
                n_valid: self.atoms,
            },
            &[logits],
        );
        self.mean_of(b, p, v_max)
    }

    /// Means of distributions p `[…, W]` over the support.
    pub fn mean_of(&self, b: &mut Builder<'_>, p: NodeId, v_max: NodeId) -> NodeId {
        let unit: Vec<f64> = (0..self.atom_width)
            .map(|i| {
                if i < self.atoms {
                    2.0 * i as f64 / (self.atoms - 1) as f64 - 1.0
                } else {
                    0.0
                }
            })
            .collect();
        let unit = b.constant(Shape::from([self.atom_width]), &unit, DType::F32);
        let weighted = b.mul(p, unit);
        let last = b.shape(p).rank() - 1;
        let mean = b.sum(weighted, last);
        b.mul(mean, v_max)
    }
}
