//! Independent draws.

use super::place::place;
use super::{Sampler, active};
use crate::spec::SpaceParam;
use crate::study::{History, Params};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use sha2::{Digest, Sha256};

/// Draws every parameter independently of all others.
///
/// Each parameter has its own random stream, named by the parameter, so that adding one to the
/// space leaves the values of the others as they were.
#[derive(Debug, Clone, Copy)]
pub struct Random;

impl Sampler for Random {
    fn suggest(&self, space: &[SpaceParam], seed: u64, number: u32, _: &History) -> Params {
        let values = space.iter().map(|param| {
            let word = word(b"hyperopt random\0", seed, number, &param.name);
            place(&param.domain, word)
        });
        active(space, values.collect())
    }
}

/// Draws the 64-bit word of one parameter of one configuration.
pub(super) fn word(purpose: &[u8], seed: u64, number: u32, name: &str) -> u64 {
    let mut key = Sha256::new();
    key.update(purpose);
    key.update(seed.to_le_bytes());
    key.update(number.to_le_bytes());
    let mut rng = ChaCha20Rng::from_seed(key.finalize().into());
    rng.set_stream(first_word(Sha256::digest(name.as_bytes()).as_slice()));
    rng.next_u64()
}

/// Reads the first eight bytes of a digest.
pub(super) fn first_word(digest: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&digest[..8]);
    u64::from_le_bytes(word)
}
