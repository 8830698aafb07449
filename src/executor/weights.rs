//! Best weights as safetensors.
//!
//! Names and shapes are those of the model's layout, without padding; all tensors are F32. The
//! metadata says which trial, fold and epoch they are of.

use crate::models::layers::ParamLayout;
use safetensors::tensor::{Dtype, TensorView};
use std::collections::HashMap;

/// Serialises a parameter block.
///
/// - `block`: flat parameters as trained, padding included.
pub(super) fn serialize(
    layout: &ParamLayout,
    block: &[f32],
    metadata: HashMap<String, String>,
) -> Vec<u8> {
    let tensors: Vec<(&str, Vec<usize>, Vec<u8>)> = layout
        .entries()
        .iter()
        .map(|entry| {
            let bytes = entry.extract(block).iter().flat_map(|value| value.to_le_bytes()).collect();
            (entry.name.as_str(), entry.logical_shape(), bytes)
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes);
        (*name, view.expect("four bytes an element"))
    });
    safetensors::serialize(views, Some(metadata)).expect("names are distinct")
}

#[cfg(test)]
mod tests;
