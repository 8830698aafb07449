//! Copies that move values and compute nothing.
//!
//! # Invariants
//! - Every output element is written; every bit is kept.

use super::{Axis, check_len};
use bytemuck::Pod;

/// Side of the square tiles of a transpose.
const TILE: usize = 8;

/// Copies entries `start..start + len` of the axis.
///
/// - `x`: `[outer, n, inner]`; `out`: `[outer, len, inner]`.
pub(crate) fn slice<T: Pod>(x: &[T], out: &mut [T], axis: Axis, start: usize, len: usize) {
    let Axis { outer, n, inner } = axis;
    assert!(
        start + len <= n,
        "slice {start}..{} of an axis of {n}",
        start + len
    );
    check_len("x", x.len(), axis.len());
    check_len("out", out.len(), outer * len * inner);
    for o in 0..outer {
        let from = (o * n + start) * inner;
        out[o * len * inner..(o + 1) * len * inner].copy_from_slice(&x[from..from + len * inner]);
    }
}

/// Writes one part of a concatenation along the axis, at `start`; also the transpose of
/// [`slice`] on an output that holds zeros.
///
/// - `part`: `[outer, len, inner]`; `out`: `[outer, n, inner]`, the rest of it left alone.
pub(crate) fn concat_part<T: Pod>(part: &[T], out: &mut [T], axis: Axis, start: usize, len: usize) {
    let Axis { outer, n, inner } = axis;
    assert!(
        start + len <= n,
        "part {start}..{} of an axis of {n}",
        start + len
    );
    check_len("part", part.len(), outer * len * inner);
    check_len("out", out.len(), axis.len());
    for o in 0..outer {
        let to = (o * n + start) * inner;
        out[to..to + len * inner].copy_from_slice(&part[o * len * inner..(o + 1) * len * inner]);
    }
}

/// Exchanges the last two axes.
///
/// - `x`: `[outer, n, inner]`; `out`: `[outer, inner, n]`.
pub(crate) fn transpose<T: Pod>(x: &[T], out: &mut [T], axis: Axis) {
    check_len("x", x.len(), axis.len());
    check_len("out", out.len(), axis.len());
    let Axis { n, inner, .. } = axis;
    if x.is_empty() {
        return;
    }
    for (x, out) in x
        .chunks_exact(n * inner)
        .zip(out.chunks_exact_mut(n * inner))
    {
        for row in (0..n).step_by(TILE) {
            for column in (0..inner).step_by(TILE) {
                let height = TILE.min(n - row);
                let width = TILE.min(inner - column);
                let mut tile = [[T::zeroed(); TILE]; TILE];
                for (r, tile) in tile.iter_mut().enumerate().take(height) {
                    let from = (row + r) * inner + column;
                    tile[..width].copy_from_slice(&x[from..from + width]);
                }
                for c in 0..width {
                    let to = (column + c) * n + row;
                    for (out, tile) in out[to..to + height].iter_mut().zip(&tile) {
                        *out = tile[c];
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
