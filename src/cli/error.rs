//! What a command can fail with, and how that is told: the whole chain once, then a remedy.

use super::exit::Exit;
use crate::telemetry::TelemetryError;
use std::error::Error;
use std::fmt::Write;
use std::io;
use thiserror::Error;

/// Why a command failed.
#[derive(Debug, Error)]
pub enum CliError {
    /// Results could not be written.
    #[error("cannot write the results")]
    Output {
        /// Why.
        #[from]
        source: io::Error,
    },
    /// No log lines are possible.
    #[error("cannot set up the log")]
    Telemetry {
        /// Why.
        #[from]
        source: TelemetryError,
    },
}

impl CliError {
    /// Returns the exit code.
    pub fn exit(&self) -> Exit {
        match self {
            // Whoever read the results has enough of them: `hyperopt trials x | head`.
            Self::Output { source } if source.kind() == io::ErrorKind::BrokenPipe => Exit::Done,
            Self::Output { .. } => Exit::Failure,
            Self::Telemetry { .. } => Exit::Usage,
        }
    }
}

/// Renders an error with its chain of sources, and the remedy where there is one.
pub(crate) fn render(error: &dyn Error, help: Option<&str>) -> String {
    let mut text = format!("error: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        let _ = write!(text, "\n  because: {cause}");
        source = cause.source();
    }
    if let Some(help) = help {
        let _ = write!(text, "\nhelp: {help}");
    }
    text
}
