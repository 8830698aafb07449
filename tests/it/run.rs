//! Sweeps run by the program itself, as people and cron run them: bits, interruptions, refusals.
//!
//! One private cluster serves all tests; each has studies of its own names.

mod home;
mod interrupted;
mod outcomes;
mod packing;
mod refused;
mod resumed;

use home::{Home, Sweep, code, stderr, stdout};
