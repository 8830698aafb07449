//! Integration tests.

mod sweeps;
