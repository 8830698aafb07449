//! Kernels of the CPU backend: pure functions over slices, serial, without allocation.
//!
//! Generic over [`Real`](super::real::Real): `f32` computes, `f64` is the oracle under the same
//! contract. The backend runs one lane per thread, so nothing here starts threads.
//!
//! # Invariants
//! - A result depends on the values passed in alone: not on address, alignment, old contents of
//!   an output, thread, or vector width. `gemm` in `f32` alone depends on the machine, through
//!   the block sizes and instructions it chooses.
//! - Sums have one written order, that of `sum`.
//! - A row (or output element) reads only its own inputs: NaN in one row stays there.
//! - Slices whose length contradicts the shape are our own bug and panic.
mod commit;
mod convert;
mod gather;
mod gemm;
mod layout;
mod loops;
mod memory;
mod project;
mod reduce;
mod region;
mod replay;
mod session;
pub(crate) mod simd;
mod softmax;
mod spectral;
mod step;
mod sum;
mod update;

pub use gemm::gemm_gflop_per_s;
pub use session::Cpu;

/// A view of a row-major tensor as `[outer, n, inner]` around its axis of length `n`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Product of the axes before.
    pub outer: usize,
    /// Length of the axis.
    pub n: usize,
    /// Product of the axes after.
    pub inner: usize,
}

impl Axis {
    /// Number of elements in the view.
    pub const fn len(self) -> usize {
        self.outer * self.n * self.inner
    }

    /// Whether the view holds no element.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Number of elements once the axis is reduced away: `outer * inner`.
    pub const fn reduced(self) -> usize {
        self.outer * self.inner
    }
}

/// A matrix `[n, width]` whose rows hold `n_valid` values and then padding.
///
/// Padding is never read, may hold anything in an input, and is exactly 0 in an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Number of rows.
    pub n: usize,
    /// Stored width of a row.
    pub width: usize,
    /// Values in a row, from 1 to `width`.
    pub n_valid: usize,
}

impl Rows {
    /// Number of elements stored, padding included.
    pub const fn len(self) -> usize {
        self.n * self.width
    }

    /// Whether the matrix holds no element.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Panics unless a row holds at least one value and no more than its width.
    #[track_caller]
    fn check(self) {
        assert!(
            1 <= self.n_valid && self.n_valid <= self.width,
            "rows need 1 <= n_valid <= width, got {self:?}"
        );
    }
}

/// Panics unless the slice `name` has the length that its shape asks for.
#[track_caller]
fn check_len(name: &str, got: usize, expected: usize) {
    assert!(
        got == expected,
        "`{name}` has {got} elements, its shape has {expected}"
    );
}

#[cfg(test)]
mod testing;
