//! A scrambled Sobol sequence.

use super::place::place;
use super::random::{first_word, word};
use super::{Sampler, active};
use crate::spec::SpaceParam;
use crate::study::{History, Params};
use sha2::{Digest, Sha256};

/// Bits of the sequence that are used; the crate's floats have no more.
const SOBOL_BITS: u32 = 23;

/// Walks a Sobol sequence whose Owen scrambling is keyed by the study's seed.
///
/// The configuration's number is the index, a parameter's place in the space the dimension. A
/// conditional parameter has its own dimension and is dropped where its condition does not hold,
/// so the others stay as even as without it. Random bits below the sequence's make wide integer
/// ranges reachable throughout.
///
/// Source: Burley 2020, Practical Hash-based Owen Scrambling.
#[derive(Debug, Clone, Copy)]
pub struct Sobol;

impl Sampler for Sobol {
    /// The space has at most 256 parameters and `number` is below 2¹⁶: a valid study sees to it.
    fn suggest(&self, space: &[SpaceParam], seed: u64, number: u32, _: &History) -> Params {
        let mut key = Sha256::new();
        key.update(b"hyperopt sobol scramble\0");
        key.update(seed.to_le_bytes());
        // The crate takes 32 bits.
        let scramble = (first_word(&key.finalize()) >> 32) as u32;
        let values = (0..).zip(space).map(|(dimension, param)| {
            let point = sobol_burley::sample(number, dimension, scramble);
            let high = (f64::from(point) * f64::from(1_u32 << SOBOL_BITS)) as u64;
            let low = word(b"hyperopt sobol low bits\0", seed, number, &param.name);
            place(&param.domain, high << (64 - SOBOL_BITS) | low >> SOBOL_BITS)
        });
        active(space, values.collect())
    }
}
