//! The `hyperopt` command.

use clap::Parser;
use hyperopt::cli::{self, Cli};
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(&Cli::parse()).into()
}
