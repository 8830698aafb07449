//! Exit codes.

use std::process::ExitCode;

/// What a command reports to the shell. The numbers are part of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done; also where a wall limit ended the study early.
    Done = 0,
    /// Something failed.
    Failure = 1,
    /// Wrong usage, or an invalid sweep file.
    Usage = 2,
    /// A gate was not met.
    GateFailed = 3,
    /// Every trial failed or is degenerate.
    NothingScored = 4,
    /// This study is already running elsewhere.
    AlreadyRunning = 5,
    /// Interrupted by Ctrl-C (128 + SIGINT).
    Interrupted = 130,
    /// Terminated (128 + SIGTERM).
    Terminated = 143,
}

/// The table of the help text.
pub(super) const HELP: &str = "\
Exit codes:
  0    done; also where a wall limit ended the study early
  1    failure
  2    wrong usage, or an invalid sweep file
  3    a gate was not met
  4    every trial failed or is degenerate
  5    this study is already running elsewhere
  130  interrupted (Ctrl-C)
  143  terminated (SIGTERM)";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
