//! How many lanes a pack has.
//!
//! # Invariants
//! - The choice never changes a result, only how fast it comes and how much memory it takes.

use std::num::NonZeroUsize;

/// What the lanes of a pack go by, memory aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lanes {
    /// What the sweep says.
    Fixed(NonZeroUsize),
    /// What fills the device.
    Auto {
        /// Lanes from which on more of them gain little on the device.
        n_full: NonZeroUsize,
        /// Runs that one executor can have at once.
        n_runs: NonZeroUsize,
        /// Folds of a trial.
        n_folds: NonZeroUsize,
    },
}

impl Lanes {
    /// Chooses the lanes of a pack.
    ///
    /// What the sweep says; or else what fills the device, but no more than there are runs for,
    /// in whole trials, whose folds then run side by side. Then halved until it fits; 1 at the
    /// least, and that one may not fit.
    ///
    /// - `memory_bytes`: what the pack may take.
    /// - `bytes`: what so many lanes take.
    pub fn choose(self, memory_bytes: u64, bytes: impl Fn(usize) -> u64) -> usize {
        let mut n_lanes = match self {
            Self::Fixed(n) => n.get(),
            Self::Auto {
                n_full,
                n_runs,
                n_folds,
            } => n_full.min(n_runs).get().next_multiple_of(n_folds.get()),
        };
        while n_lanes > 1 && bytes(n_lanes) > memory_bytes {
            n_lanes /= 2;
        }
        n_lanes
    }
}

#[cfg(test)]
mod tests;
