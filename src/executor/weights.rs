//! Best weights as safetensors.
//!
//! Names and shapes are those of the model's layout, without padding; all tensors are F32. The
//! metadata's one entry, `hyperopt`, says as JSON which run and epoch they are of.
//!
//! # Invariants
//! - Equal runs give equal bytes, whatever else the database holds and in whatever process.

use crate::models::layers::ParamLayout;
use safetensors::tensor::{Dtype, TensorView};
use serde::Serialize;
use std::collections::HashMap;

/// Version of the names and of the metadata.
pub(super) const FORMAT: &str = "hyperopt-weights-1";
/// Key of the metadata. There is one only, since the format keeps no order of them.
const METADATA: &str = "hyperopt";

/// Where weights come from.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Origin<'a> {
    pub(super) format: &'static str,
    /// Of the run, which names it in its study.
    pub(super) seed: u64,
    pub(super) fold: u32,
    pub(super) epoch: u32,
    pub(super) precision: &'static str,
    pub(super) plan_key: &'a str,
    pub(super) data_digest: &'a str,
}

/// Serialises a parameter block.
///
/// - `block`: flat parameters as trained, padding included.
pub(super) fn serialize(layout: &ParamLayout, block: &[f32], origin: &Origin<'_>) -> Vec<u8> {
    let tensors: Vec<(&str, Vec<usize>, Vec<u8>)> = layout
        .entries()
        .iter()
        .map(|entry| {
            let bytes = entry
                .extract(block)
                .iter()
                .flat_map(|value| value.to_le_bytes())
                .collect();
            (entry.name.as_str(), entry.logical_shape(), bytes)
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes);
        (*name, view.expect("four bytes an element"))
    });
    let origin = serde_json::to_string(origin).expect("an origin is plain data");
    let metadata = HashMap::from([(METADATA.to_owned(), origin)]);
    safetensors::serialize(views, Some(metadata)).expect("names are distinct")
}

#[cfg(test)]
mod tests;
