//! The seed of a run.

use super::ConfigurationNumber;
use sha2::{Digest, Sha256};

/// Derives the 64-bit seed of a run.
///
/// The precision arm is left out on purpose: the arms of a configuration share initial weights,
/// data order and exploration, so that they can be compared in pairs.
///
/// - `fold`, `replicate`: 0-based.
pub fn run_seed(
    study_seed: u64,
    configuration: ConfigurationNumber,
    fold: u32,
    replicate: u32,
) -> u64 {
    let mut hasher = Sha256::new();
    hasher.update(b"hyperopt run seed\0");
    hasher.update(study_seed.to_le_bytes());
    hasher.update(configuration.0.to_le_bytes());
    hasher.update(fold.to_le_bytes());
    hasher.update(replicate.to_le_bytes());
    let digest = hasher.finalize();
    let mut word = [0; 8];
    word.copy_from_slice(&digest[..8]);
    u64::from_le_bytes(word)
}
