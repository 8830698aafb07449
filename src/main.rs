//! The `hyperopt` command.

use hyperopt::cli::{self, Cli};
use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run(&Cli::from_command_line(std::env::args_os())).into()
}
