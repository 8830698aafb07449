//! Layers that models share.
//!
//! # Invariants
//! - Weights are stored `[in, out]`, so that `y = x·W + b`.
//! - All parameters of a model lie in one flat block; a layer reads its part by name.

mod params;

pub use params::{ParamEntry, ParamLayout};

use crate::engine::graph::{Builder, NodeId};

/// Widths of matrix products are multiples of this: 16 bytes in bf16.
pub const WIDTH_MULTIPLE: usize = 8;

/// `x [B, in] · W + b`, with `W` and `b` called `{name}.weight` and `{name}.bias`.
pub fn dense(
    b: &mut Builder<'_>,
    layout: &ParamLayout,
    block: NodeId,
    name: &str,
    x: NodeId,
) -> NodeId {
    let weight = layout.read(b, block, &format!("{name}.weight"));
    let bias = layout.read(b, block, &format!("{name}.bias"));
    let product = b.gemm(x, weight);
    b.add(product, bias)
}
