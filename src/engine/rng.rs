//! Counter-based random numbers: a pure function of seed, step, stream and element.
//!
//! # Invariants
//! - No state: the same arguments give the same bits, in any order, on any thread or backend.
//! - Uniforms are exact multiples of 2⁻²⁴ in [0, 1).
//! - Streams are named, never numbered by position in a graph.

use pulp::{Simd, WithSimd};

use super::cpu::simd;

const MULTIPLIER_0: u32 = 0xD251_1F53;
const MULTIPLIER_1: u32 = 0xCD9E_8D57;
const WEYL_0: u32 = 0x9E37_79B9;
const WEYL_1: u32 = 0xBB67_AE85;
const N_ROUNDS: usize = 10;

/// Where a block of four words lies in the random sequence of a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Counter {
    /// Element block: elements `4 * block` to `4 * block + 3`.
    pub block: u32,
    /// Step local to the lane.
    pub step: u32,
    /// Identity of the drawing op, [`stream_id`] of its name.
    pub stream: u32,
    /// Number of the draw within the step, for ops that draw more than once.
    pub draw: u32,
}

/// Returns the four words at `counter`.
///
/// - `seed`: the run's seed; its low half is the first key word, its high half the second.
///
/// Source: Salmon et al. 2011 (Random123), Philox4x32-10.
#[inline(always)]
pub fn philox(counter: Counter, seed: u64) -> [u32; 4] {
    let mut c = [counter.block, counter.step, counter.stream, counter.draw];
    let mut key = [seed as u32, (seed >> 32) as u32];
    for _ in 0..N_ROUNDS {
        let product_0 = u64::from(MULTIPLIER_0) * u64::from(c[0]);
        let product_1 = u64::from(MULTIPLIER_1) * u64::from(c[2]);
        c = [
            (product_1 >> 32) as u32 ^ c[1] ^ key[0],
            product_1 as u32,
            (product_0 >> 32) as u32 ^ c[3] ^ key[1],
            product_0 as u32,
        ];
        key[0] = key[0].wrapping_add(WEYL_0);
        key[1] = key[1].wrapping_add(WEYL_1);
    }
    c
}

/// Maps a random word to [0, 1): its upper 24 bits times 2⁻²⁴, exact in `f32`.
#[inline(always)]
pub fn uniform_f32(word: u32) -> f32 {
    (word >> 8) as f32 * (1.0 / 16_777_216.0)
}

/// Returns the stream id of an op's stable name.
///
/// Source: FNV-1a, 32 bits (Fowler, Noll, Vo).
pub const fn stream_id(name: &str) -> u32 {
    let bytes = name.as_bytes();
    let mut hash = 0x811c_9dc5_u32;
    let mut i = 0;
    while i < bytes.len() {
        hash = (hash ^ bytes[i] as u32).wrapping_mul(0x0100_0193);
        i += 1;
    }
    hash
}

/// Fills `out` with uniforms from [0, 1): element `i` is word `i % 4` of block `i / 4`, draw 0.
///
/// - `out`: `[N]`, at most 2³⁴ elements.
pub fn fill_uniform(seed: u64, step: u32, stream: u32, out: &mut [f32]) {
    simd::run(FillUniform {
        seed,
        step,
        stream,
        out,
    });
}

struct FillUniform<'a> {
    seed: u64,
    step: u32,
    stream: u32,
    out: &'a mut [f32],
}

impl WithSimd for FillUniform<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let at = |block: usize| Counter {
            block: block as u32,
            step: self.step,
            stream: self.stream,
            draw: 0,
        };
        let (blocks, tail) = self.out.as_chunks_mut::<4>();
        let n_blocks = blocks.len();
        for (block, four) in blocks.iter_mut().enumerate() {
            *four = philox(at(block), self.seed).map(uniform_f32);
        }
        let last = philox(at(n_blocks), self.seed);
        for (value, word) in tail.iter_mut().zip(last) {
            *value = uniform_f32(word);
        }
    }
}

#[cfg(test)]
mod tests;
