//! Matrix products.
//!
//! # Invariants
//! - The output is overwritten, never read: NaN in its old memory does not leak.
//! - `f32` bits depend on shapes and values, not on addresses or neighbours. They may differ
//!   between machines, since the `gemm` crate chooses instructions and blocks of k from the
//!   processor; a result is reproducible on one machine.
//! - `f64` is the plain triple loop, k ascending: the oracle.
#![expect(
    unsafe_code,
    reason = "the `gemm` crate takes raw pointers; this file checks the lengths"
)]

use std::any::TypeId;

use gemm::Parallelism;

use super::check_len;
use super::simd::{self, kernel};
use crate::engine::real::Real;

/// Shape of a product `c = op(a) · op(b)`, everything row-major.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Gemm {
    /// Rows of `c`.
    pub m: usize,
    /// Columns of `c`.
    pub n: usize,
    /// Length of the sums.
    pub k: usize,
    /// Whether `a` is stored `[k, m]` instead of `[m, k]`.
    pub trans_a: bool,
    /// Whether `b` is stored `[n, k]` instead of `[k, n]`.
    pub trans_b: bool,
}

/// Multiplies `op(a)` `[m, k]` by `op(b)` `[k, n]` into `c` `[m, n]`.
///
/// `k = 0` gives zeros. Single-threaded. The `gemm` crate allocates its own packing buffers.
pub(crate) fn gemm<R: Real>(a: &[R], b: &[R], c: &mut [R], shape: Gemm) {
    check_len("a", a.len(), shape.m * shape.k);
    check_len("b", b.len(), shape.k * shape.n);
    check_len("c", c.len(), shape.m * shape.n);
    if shape.k == 0 {
        c.fill(R::ZERO);
    } else if TypeId::of::<R>() == TypeId::of::<f32>() {
        gemm_f32(
            bytemuck::cast_slice(a),
            bytemuck::cast_slice(b),
            bytemuck::cast_slice_mut(c),
            shape,
        );
    } else {
        simd::run(GemmLoop { a, b, c, shape });
    }
}

/// Measures this core's rate of square F32 products: what a training step is held against.
///
/// - `side`: rows, columns and summed extent.
///
/// Returns GFLOP/s, the median of nine batches.
pub fn gemm_gflop_per_s(side: usize) -> f64 {
    const N_BATCHES: usize = 9;
    const N_PRODUCTS: usize = 100;
    let a = vec![0.5_f32; side * side];
    let b = vec![0.25_f32; side * side];
    let mut c = vec![0.0_f32; side * side];
    let shape = Gemm {
        m: side,
        n: side,
        k: side,
        trans_a: false,
        trans_b: false,
    };
    let mut times_s = [0.0; N_BATCHES];
    for time_s in &mut times_s {
        let started = std::time::Instant::now();
        for _ in 0..N_PRODUCTS {
            gemm(&a, &b, &mut c, shape);
        }
        *time_s = started.elapsed().as_secs_f64();
    }
    times_s.sort_by(f64::total_cmp);
    let gflop = 2.0 * (side as f64).powi(3) * N_PRODUCTS as f64 / 1e9;
    gflop / times_s[N_BATCHES / 2]
}

fn gemm_f32(a: &[f32], b: &[f32], c: &mut [f32], shape: Gemm) {
    let Gemm { m, n, k, .. } = shape;
    assert!(a.len() == m * k && b.len() == k * n && c.len() == m * n);
    let (a_rs, a_cs) = if shape.trans_a { (1, m) } else { (k, 1) };
    let (b_rs, b_cs) = if shape.trans_b { (1, k) } else { (n, 1) };
    // SAFETY: the strides address exactly the elements (i, p) of a, i < m, p < k; (p, j) of b,
    // j < n; (i, j) of c. The lengths asserted above cover them, slices keep their products
    // below isize::MAX, and c is borrowed exclusively, so it overlaps neither a nor b. With
    // read_dst = false the old contents of c are not used.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            c.as_mut_ptr(),
            1,
            n as isize,
            false,
            a.as_ptr(),
            a_cs as isize,
            a_rs as isize,
            b.as_ptr(),
            b_cs as isize,
            b_rs as isize,
            0.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

kernel!(GemmLoop<'a, R> { a: &'a [R], b: &'a [R], c: &'a mut [R], shape: Gemm } -> () = gemm_loop);

/// The definition: `c_ij = Σ_p a_ip · b_pj`, p ascending from +0.
#[inline(always)]
fn gemm_loop<R: Real>(a: &[R], b: &[R], c: &mut [R], shape: Gemm) {
    let Gemm {
        m,
        n,
        k,
        trans_a,
        trans_b,
    } = shape;
    c.fill(R::ZERO);
    for i in 0..m {
        let c = &mut c[i * n..(i + 1) * n];
        for p in 0..k {
            let a = if trans_a { a[p * m + i] } else { a[i * k + p] };
            if trans_b {
                for (j, c) in c.iter_mut().enumerate() {
                    *c += a * b[j * k + p];
                }
            } else {
                for (c, &b) in c.iter_mut().zip(&b[p * n..(p + 1) * n]) {
                    *c += a * b;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
