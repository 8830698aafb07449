//! A model's parameters as parts of one flat block.

use crate::engine::graph::{Builder, NodeId, Shape};
use crate::engine::op::Matrix;
use crate::engine::rng::{fill_uniform, stream_id};

/// One tensor of the block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParamEntry {
    /// Stable name, as in safetensors: `trunk.0.weight`.
    pub name: String,
    /// Shape as stored.
    pub shape: Shape,
    /// First element within the block.
    pub offset: usize,
    /// The last axis holds groups of this width …
    pub group_width: usize,
    /// … of which the first this many are used; the rest stay 0.
    pub group_valid: usize,
    /// Inputs of a unit, 0 for a bias.
    pub fan_in: usize,
}

impl ParamEntry {
    fn n(&self) -> usize {
        self.shape.n_elements()
    }

    /// Returns the number of used elements.
    pub fn n_valid(&self) -> usize {
        self.n() / self.group_width * self.group_valid
    }

    /// Returns the shape without padding.
    pub fn logical_shape(&self) -> Vec<usize> {
        let mut dims = self.shape.0.clone();
        if let Some(last) = dims.last_mut() {
            *last = *last / self.group_width * self.group_valid;
        }
        dims
    }

    /// Takes the used elements out of a flat block.
    pub fn extract(&self, block: &[f32]) -> Vec<f32> {
        block[self.offset..self.offset + self.n()]
            .chunks_exact(self.group_width)
            .flat_map(|group| &group[..self.group_valid])
            .copied()
            .collect()
    }

    /// Puts used elements into a flat block.
    pub fn insert(&self, block: &mut [f32], values: &[f32]) {
        let part = &mut block[self.offset..self.offset + self.n()];
        for (group, values) in part
            .chunks_exact_mut(self.group_width)
            .zip(values.chunks_exact(self.group_valid))
        {
            group[..self.group_valid].copy_from_slice(values);
        }
    }
}

/// Names, shapes and offsets of a block.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParamLayout {
    entries: Vec<ParamEntry>,
    len: usize,
}

impl ParamLayout {
    /// Appends `{name}.weight [n_in, n_out]` and `{name}.bias [n_out]`.
    pub fn dense(&mut self, name: &str, n_in: usize, n_out: usize) {
        self.grouped(name, n_in, 1, n_out, n_out);
    }

    /// Appends a dense layer whose outputs are `n_groups` groups of `width`, `valid` of them used.
    pub fn grouped(
        &mut self,
        name: &str,
        n_in: usize,
        n_groups: usize,
        width: usize,
        valid: usize,
    ) {
        let n_out = n_groups * width;
        for (part, shape, fan_in) in [
            ("weight", Shape::from([n_in, n_out]), n_in),
            ("bias", Shape::from([n_out]), 0),
        ] {
            let entry = ParamEntry {
                name: format!("{name}.{part}"),
                offset: self.len,
                group_width: width,
                group_valid: valid,
                fan_in,
                shape,
            };
            self.len += entry.n();
            self.entries.push(entry);
        }
    }

    /// Returns the tensors in order.
    pub fn entries(&self) -> &[ParamEntry] {
        &self.entries
    }

    /// Returns the elements of the block, padding included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the block has no element.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Counts parameters, padding excluded.
    pub fn n_params(&self) -> usize {
        self.entries.iter().map(ParamEntry::n_valid).sum()
    }

    /// Reads a tensor from the block.
    ///
    /// # Panics
    /// If no tensor has this name, a defect of the model.
    pub fn read(&self, b: &mut Builder<'_>, block: NodeId, name: &str) -> NodeId {
        let entry = self.entries.iter().find(|entry| entry.name == name);
        let entry = entry.unwrap_or_else(|| panic!("no parameter is called {name}"));
        Self::read_entry(b, block, entry)
    }

    fn read_entry(b: &mut Builder<'_>, block: NodeId, entry: &ParamEntry) -> NodeId {
        let flat = b.slice(block, 0, entry.offset, entry.n());
        b.reshape(flat, entry.shape.clone())
    }

    /// Reads every tensor, in order: the nodes to differentiate by.
    pub fn read_all(&self, b: &mut Builder<'_>, block: NodeId) -> Vec<NodeId> {
        self.entries
            .iter()
            .map(|entry| Self::read_entry(b, block, entry))
            .collect()
    }

    /// Joins one gradient per tensor into a gradient of the block; absent ones are zero.
    pub fn join(&self, b: &mut Builder<'_>, grads: &[Option<NodeId>]) -> NodeId {
        let parts: Vec<NodeId> = self
            .entries
            .iter()
            .zip(grads)
            .map(|(entry, grad)| match grad {
                Some(grad) => b.flatten(*grad),
                None => {
                    let zero = b.scalar(0.0);
                    b.broadcast(zero, [entry.n()])
                }
            })
            .collect();
        b.concat(&parts, 0)
    }

    /// Lists the weight matrices, with vectors packed in the same order.
    ///
    /// Returns them with the lengths of all left and all right vectors.
    pub fn matrices(&self) -> (Vec<Matrix>, usize, usize) {
        let (mut u_offset, mut v_offset) = (0, 0);
        let mut matrices = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.shape.rank() == 2) {
            let (rows, cols) = (entry.shape.0[0], entry.shape.0[1]);
            matrices.push(Matrix {
                offset: entry.offset,
                rows,
                cols,
                u_offset,
                v_offset,
            });
            u_offset += rows;
            v_offset += cols;
        }
        (matrices, u_offset, v_offset)
    }

    /// Draws initial values: weights uniform within ±1/√fan_in, biases 0.
    ///
    /// Streams are keyed by name and drawn without padding, so neither order nor padding moves a
    /// value.
    pub fn initial(&self, seed: u64) -> Vec<f32> {
        let mut block = vec![0.0; self.len];
        for entry in self.entries.iter().filter(|entry| entry.fan_in > 0) {
            let mut draws = vec![0.0; entry.n_valid()];
            let stream = stream_id(&format!("initial.{}", entry.name));
            fill_uniform(seed, 0, stream, &mut draws);
            let bound = 1.0 / (entry.fan_in as f32).sqrt();
            for draw in &mut draws {
                *draw = (2.0 * *draw - 1.0) * bound;
            }
            entry.insert(&mut block, &draws);
        }
        block
    }
}
