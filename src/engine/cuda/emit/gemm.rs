//! Matrix products with what follows each element.

use super::{Emitter, JobCode};
use crate::engine::graph::DType;
use crate::engine::op::Gemm;
use crate::engine::op::gemm::GemmExtents;
use crate::engine::plan::Step;

/// Bytes that a copy moves at once.
const COPY_BYTES: usize = 16;

/// Rows and columns that a block computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tile {
    m: usize,
    n: usize,
}

impl Tile {
    /// Chooses from the shape and how much there is to do: large tiles read less, small ones keep
    /// more of the device busy. Every tile gives the same bits.
    fn choose(extents: &GemmExtents, n_lanes: usize, n_sm: usize) -> Self {
        let fits = |side: usize, extent: usize| {
            // No more than an eighth of the large tiles' work may be padding.
            let padded = extent.next_multiple_of(side);
            side == 64 || (padded - extent) * 8 <= extent
        };
        let n_blocks = |tile: &Self| {
            let tiles = extents.m.div_ceil(tile.m) * extents.n.div_ceil(tile.n);
            tiles * extents.batch * n_lanes
        };
        [(128, 128), (128, 64), (64, 128)]
            .into_iter()
            .map(|(m, n)| Self { m, n })
            .find(|tile| {
                // A wave runs several products side by side, so one need not fill the device.
                fits(tile.m, extents.m) && fits(tile.n, extents.n) && 4 * n_blocks(tile) >= 3 * n_sm
            })
            .unwrap_or(Self { m: 64, n: 64 })
    }

    fn n_blocks(self, extents: &GemmExtents) -> usize {
        extents.m.div_ceil(self.m) * extents.n.div_ceil(self.n) * extents.batch
    }
}

impl Emitter<'_> {
    /// Writes a product with its tail.
    ///
    /// Products that differ in shape and place alone share one function: it is most of what the
    /// compiler has to do.
    pub(super) fn gemm(&mut self, op: Gemm, step: &Step) -> JobCode {
        let (a, b) = (&step.inputs[0], &step.inputs[1]);
        let extents = op
            .extents(&a.shape, &b.shape)
            .expect("inferred with the graph");
        let GemmExtents { m, n, k, .. } = extents;
        let n_sm = self.target.n_sm as usize;
        let tile = Tile::choose(&extents, self.target.n_lanes, n_sm);
        let row_a = if op.trans_a { m } else { k };
        let row_b = if op.trans_b { k } else { n };
        let vector = |operand, row: usize, size: usize| {
            let whole = COPY_BYTES / self.width(operand);
            let is_whole = row.is_multiple_of(whole)
                && size.is_multiple_of(whole)
                && self.is_aligned(operand, COPY_BYTES);
            if is_whole { whole } else { 1 }
        };
        let (vec_a, vec_b) = (vector(a, row_a, m * k), vector(b, row_b, k * n));
        let n_pair = if n.is_multiple_of(2) { 2 } else { 1 };
        let mut pointers = Pointers::default();
        let epilogue = self.epilogue(step, &extents, n_pair, &mut pointers);
        let Tile { m: bm, n: bn } = tile;
        let shape = format!(
            "{bm}, {bn}, {}, {}, {vec_a}, {vec_b}",
            op.trans_a, op.trans_b
        );
        let (call, kind) = match a.dtype {
            DType::Tf32 => (format!("gemm_tensor<float, {shape}>"), "float"),
            DType::Bf16 => (format!("gemm_tensor<bf16, {shape}>"), "bf16"),
            DType::F32 | DType::F64 | DType::I32 => (format!("gemm_f32<{shape}>"), "float"),
        };
        let body = format!(
            "(const {kind}* a, const {kind}* b, int m, int n, int k, Job job{}) {{\n\
             {call}(a, b, m, n, k, job, {epilogue});\n}}",
            pointers.parameters()
        );
        let name = self.shared_function("product", body);
        let (pa, pb) = (self.pointer(a), self.pointer(b));
        JobCode {
            body: format!(
                "{name}({pa}, {pb}, {m}, {n}, {k}, job{});",
                pointers.arguments()
            ),
            n_blocks: tile.n_blocks(&extents),
            shared_bytes: shared_bytes(op, tile, a.dtype),
            is_product: true,
        }
    }

    fn epilogue(
        &self,
        step: &Step,
        extents: &GemmExtents,
        n_pair: usize,
        pointers: &mut Pointers,
    ) -> String {
        let mut one = |pair: &str, width: usize| {
            let mut text = format!("int i = (batch * m + row) * n + col;\n{pair}");
            if step.is_stored {
                text.push_str(&self.store_pair(&step.output, "x", width, pointers));
            }
            text.push_str(&self.tails(step, extents, width, pointers));
            text
        };
        let body = if n_pair == 2 {
            one("float x[2] = {x0, x1};\n", 2)
        } else {
            // The second neighbour of the last column lies outside.
            let element = one("float x[1] = {p == 0 ? x0 : x1};\n", 1);
            format!("for (int p = 0; p < 2; ++p, ++col) {{ if (col < n) {{\n{element}}} }}\n")
        };
        format!("[&](int batch, int row, int col, float x0, float x1) {{\n{body}}}")
    }
}

/// Addresses that a shared function takes.
#[derive(Debug, Default)]
pub(super) struct Pointers {
    types: Vec<&'static str>,
    values: Vec<String>,
}

impl Pointers {
    /// Adds an address; returns its name inside the function.
    pub(super) fn add(&mut self, kind: &'static str, value: String) -> String {
        self.types.push(kind);
        self.values.push(value);
        format!("p{}", self.values.len() - 1)
    }

    fn parameters(&self) -> String {
        let list = self.types.iter().enumerate();
        list.map(|(i, kind)| format!(", {kind}* p{i}")).collect()
    }

    fn arguments(&self) -> String {
        let types = self.types.iter().zip(&self.values);
        types
            .map(|(kind, value)| format!(", ({kind}*){value}"))
            .collect()
    }
}

/// Shared memory of a product's block, as `kernels/gemm.cuh` lays it out.
fn shared_bytes(op: Gemm, tile: Tile, dtype: DType) -> usize {
    const N_STAGES: usize = 3;
    let Tile { m, n } = tile;
    let width = match dtype {
        DType::Bf16 => 2,
        DType::Tf32 => 4,
        DType::F32 | DType::F64 | DType::I32 => {
            const BK: usize = 16;
            return 2 * BK * (m + 4 + n + 4) * 4;
        }
    };
    let depth = 64 / width;
    let (pad, pad_turned) = (16 / width, 8);
    let a = if op.trans_a {
        depth * (m + pad_turned)
    } else {
        m * (depth + pad)
    };
    let b = if op.trans_b {
        n * (depth + pad)
    } else {
        depth * (n + pad_turned)
    };
    N_STAGES * (a + b) * width
}
