//! Log lines: where they go, which ones, and in which form.
//!
//! # Invariants
//! - Logs go to stderr; results and observations never pass through here.
//! - Installed once, by the binary. The library and its tests run without.
