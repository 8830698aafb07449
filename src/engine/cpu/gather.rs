//! Copies chosen by index.
//!
//! # Invariants
//! - Indices are ours: one out of range is a bug and panics with its value.
//! - Copies keep every bit, NaN payloads included.

use super::{Axis, check_len};
use bytemuck::Pod;

/// Copies rows of a table: `out[b] = table[index[b]]`.
///
/// - `table`: `[N, W]`; `index`: `[B]`, each below N; `out`: `[B, W]`.
pub(crate) fn rows<T: Pod>(table: &[T], index: &[i32], out: &mut [T], width: usize) {
    assert!(
        width > 0 && table.len().is_multiple_of(width),
        "a table of {} elements has no rows of width {width}",
        table.len()
    );
    check_len("out", out.len(), index.len() * width);
    let n = table.len() / width;
    for (out, &i) in out.chunks_exact_mut(width).zip(index) {
        let i = checked(i, n);
        out.copy_from_slice(&table[i * width..(i + 1) * width]);
    }
}

/// Takes one entry along the axis per outer position: `out[o] = x[o, index[o]]`.
///
/// - `x`: `[outer, n, inner]`; `index`: `[outer]`, each below n; `out`: `[outer, inner]`.
pub(crate) fn pick<T: Pod>(x: &[T], index: &[i32], out: &mut [T], axis: Axis) {
    check_len("x", x.len(), axis.len());
    check_len("index", index.len(), axis.outer);
    check_len("out", out.len(), axis.reduced());
    let Axis { n, inner, .. } = axis;
    for (o, &i) in index.iter().enumerate() {
        let from = (o * n + checked(i, n)) * inner;
        out[o * inner..(o + 1) * inner].copy_from_slice(&x[from..from + inner]);
    }
}

/// The transpose of [`pick`]: `out[o, index[o]] = g[o]`, +0 elsewhere.
///
/// - `g`: `[outer, inner]`; `index`: `[outer]`, each below n; `out`: `[outer, n, inner]`.
pub(crate) fn spread<T: Pod>(g: &[T], index: &[i32], out: &mut [T], axis: Axis) {
    check_len("g", g.len(), axis.reduced());
    check_len("index", index.len(), axis.outer);
    check_len("out", out.len(), axis.len());
    let Axis { n, inner, .. } = axis;
    out.fill(T::zeroed());
    for (o, &i) in index.iter().enumerate() {
        let to = (o * n + checked(i, n)) * inner;
        out[to..to + inner].copy_from_slice(&g[o * inner..(o + 1) * inner]);
    }
}

/// Panics unless 0 <= `index` < `n`.
#[track_caller]
fn checked(index: i32, n: usize) -> usize {
    match usize::try_from(index) {
        Ok(i) if i < n => i,
        _ => panic!("index {index} is outside 0..{n}"),
    }
}

#[cfg(test)]
mod tests;
