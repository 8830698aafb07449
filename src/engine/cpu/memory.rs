//! A lane's arena, and disjoint views into it.

use crate::engine::backend::Data;
use crate::engine::op::TableId;
use crate::engine::plan::{Operand, Plan, Source};
use bytemuck::{Pod, Zeroable};
use std::ops::Range;
use std::sync::Arc;

/// A block that gives the arena its 256-byte alignment, so that every buffer has it too.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(256))]
struct Block([u8; 256]);

/// The memory of one lane.
pub(crate) struct Arena {
    blocks: Vec<Block>,
}

impl Arena {
    /// Allocates at least `bytes`; `None` if the system refuses.
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        let n_blocks = bytes.div_ceil(256);
        let mut blocks = Vec::new();
        blocks.try_reserve_exact(n_blocks).ok()?;
        blocks.resize(n_blocks, Block([0; 256]));
        Some(Self { blocks })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.blocks)
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(&mut self.blocks)
    }

    /// Splits into one range to write and everything else to read.
    pub(crate) fn split(&mut self, out: Range<usize>) -> (Rest<'_>, &mut [u8]) {
        let (before, tail) = self.bytes_mut().split_at_mut(out.start);
        let (out_bytes, after) = tail.split_at_mut(out.end - out.start);
        (
            Rest {
                before,
                after,
                after_start: out.end,
            },
            out_bytes,
        )
    }
}

/// An arena without the range that is being written.
#[derive(Clone, Copy)]
pub(crate) struct Rest<'a> {
    before: &'a [u8],
    after: &'a [u8],
    after_start: usize,
}

impl<'a> Rest<'a> {
    fn get(&self, range: Range<usize>) -> &'a [u8] {
        if range.end <= self.before.len() {
            &self.before[range]
        } else {
            &self.after[range.start - self.after_start..range.end - self.after_start]
        }
    }
}

/// What a step can read: the rest of the arena and the tables.
#[derive(Clone, Copy)]
pub(crate) struct Inputs<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) rest: Rest<'a>,
    pub(crate) tables: &'a [Arc<Data>],
}

impl<'a> Inputs<'a> {
    /// Returns the elements of an operand.
    ///
    /// - `T`: its storage type; `R` for the real family.
    pub(crate) fn get<T: Pod>(&self, operand: &Operand) -> &'a [T] {
        let elements = match self.plan.range(operand) {
            Some(range) => bytemuck::cast_slice(self.rest.get(range)),
            None => table_elements(self.tables, operand),
        };
        debug_assert_eq!(
            elements.len(),
            operand.n(),
            "a slice of the operand's own type"
        );
        elements
    }

    /// Returns the bytes of `n` elements of an operand from element `at` on.
    pub(crate) fn bytes(&self, operand: &Operand, at: usize, n: usize) -> &'a [u8] {
        let width = self.plan.elements.of(operand.dtype);
        match self.plan.range(operand) {
            Some(range) => {
                let start = range.start + at * width;
                self.rest.get(start..start + n * width)
            }
            None => &table_elements::<u8>(self.tables, operand)[at * width..][..n * width],
        }
    }
}

fn table_elements<'a, T: Pod>(tables: &'a [Arc<Data>], operand: &Operand) -> &'a [T] {
    let Source::Table(TableId(id)) = operand.source else {
        unreachable!("lane operands have a range")
    };
    match &*tables[id as usize] {
        Data::F32(values) => bytemuck::cast_slice(values),
        Data::F64(values) => bytemuck::cast_slice(values),
        Data::I32(values) => bytemuck::cast_slice(values),
    }
}
