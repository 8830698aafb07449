//! The `hyperopt` command.
fn main() {}
