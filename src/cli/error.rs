//! What a command can fail with, and how that is told: the whole chain once, then a remedy.

use super::exit::Exit;
use crate::engine::backend::EngineError;
use crate::market::MarketError;
use crate::scheduler::SchedulerError;
use crate::store::{ClusterError, StoreError};
use crate::telemetry::TelemetryError;
use std::error::Error;
use std::fmt::Write;
use std::io;
use std::path::PathBuf;
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
    /// The operating system gives no threads.
    #[error("cannot start the runtime")]
    Runtime {
        /// Why.
        source: io::Error,
    },
    /// The store says no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The private Postgres does not work.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A command for the private Postgres was given a server.
    #[error("`db {command}` is for the private database, and a server is named")]
    NotPrivate {
        /// The command of `db`.
        command: &'static str,
    },
    /// psql is there but does not start.
    #[error("cannot start psql")]
    Psql {
        /// Why.
        source: io::Error,
    },
    /// The sweep file cannot be read.
    #[error("cannot read the sweep file {}", .path.display())]
    Sweep {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The sweep file is invalid.
    #[error("{text}")]
    Diagnostics {
        /// Every fault, rendered.
        text: String,
    },
    /// The bars do not do.
    #[error(transparent)]
    Market(#[from] MarketError),
    /// The study did not run.
    #[error(transparent)]
    Scheduler(#[from] SchedulerError),
    /// The device failed.
    #[error("the device failed")]
    Engine {
        /// Why.
        source: EngineError,
    },
    /// There is no such device.
    #[error("there is no device {device}; those there are: {known}")]
    Device {
        /// What was asked for.
        device: String,
        /// Those there are.
        known: String,
    },
    /// Devices that do not give equal results.
    #[error("the devices of `executors.devices` are of several classes: {classes}")]
    DeviceClasses {
        /// Their classes.
        classes: String,
    },
    /// GPUs are asked for, and they cannot be used.
    #[error("no GPU can be used: {cause}")]
    Gpus {
        /// Why.
        cause: String,
    },
    /// There is no such preset.
    #[error("there is no preset {name}; those there are: {known}")]
    Preset {
        /// What was asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// Nobody said yes.
    #[error("study {study} was not deleted")]
    NotConfirmed {
        /// The study.
        study: String,
    },
}

impl CliError {
    /// Returns the exit code.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Output { .. } if self.is_silent() => Exit::Done,
            Self::Store(StoreError::StudyLocked { .. })
            | Self::Scheduler(SchedulerError::Store(StoreError::StudyLocked { .. })) => {
                Exit::AlreadyRunning
            }
            Self::Telemetry { .. }
            | Self::NotPrivate { .. }
            | Self::NotConfirmed { .. }
            | Self::Sweep { .. }
            | Self::Diagnostics { .. }
            | Self::Market(_)
            | Self::Scheduler(SchedulerError::Changed { .. })
            | Self::Device { .. }
            | Self::DeviceClasses { .. }
            | Self::Preset { .. } => Exit::Usage,
            Self::Output { .. }
            | Self::Runtime { .. }
            | Self::Store(_)
            | Self::Cluster(_)
            | Self::Scheduler(_)
            | Self::Engine { .. }
            | Self::Gpus { .. }
            | Self::Psql { .. } => Exit::Failure,
        }
    }

    /// Whether there is nothing to tell: whoever read the results has enough of them (`| head`).
    pub fn is_silent(&self) -> bool {
        matches!(self, Self::Output { source } if source.kind() == io::ErrorKind::BrokenPipe)
    }

    /// Returns what to do about it, where the message itself does not say.
    fn help(&self) -> Option<&'static str> {
        match self {
            Self::Telemetry { .. } => Some(
                "--log-level and HYPEROPT_LOG take off, error, warn, info, debug, trace, or \
                 directives such as hyperopt::store=debug",
            ),
            Self::NotPrivate { .. } => Some(
                "leave out --database-url and unset DATABASE_URL; or use the server's own tools",
            ),
            Self::NotConfirmed { .. } => Some("answer yes, or pass --yes"),
            Self::Store(StoreError::Connect { .. }) => {
                Some("check the URL, that the server runs, and that it accepts this user from here")
            }
            Self::Sweep { .. } => Some("name a sweep file, such as sweeps/quickstart.toml"),
            Self::Scheduler(SchedulerError::Changed { .. }) => Some(
                "put the file back, or run it as another study: hyperopt run SWEEP.toml --name NEW",
            ),
            Self::Scheduler(SchedulerError::Unreadable { .. }) => {
                Some("run the file as another study with --name NEW, or delete the old one")
            }
            Self::Scheduler(SchedulerError::DevicesLost { .. }) => Some(
                "the same command goes on where the study is; `hyperopt doctor` tells which \
                 devices work",
            ),
            Self::Device { .. } => Some("`hyperopt doctor` tells which devices work"),
            Self::DeviceClasses { .. } => {
                Some("name devices of one class: a result must not depend on where a trial ran")
            }
            Self::Gpus { .. } => Some(
                "mend that (`hyperopt doctor` tells more), or write devices = \"cpu\" in [executors]",
            ),
            Self::Output { .. }
            | Self::Runtime { .. }
            | Self::Store(_)
            | Self::Cluster(_)
            | Self::Diagnostics { .. }
            | Self::Market(_)
            | Self::Scheduler(_)
            | Self::Engine { .. }
            | Self::Preset { .. }
            | Self::Psql { .. } => None,
        }
    }

    /// Renders the message, its causes in order, and the remedy.
    pub fn render(&self) -> String {
        if let Self::Diagnostics { text } = self {
            // Rendered with a heading and a remedy of its own for every fault.
            return text.clone();
        }
        let mut text = format!("error: {self}");
        let mut source = self.source();
        while let Some(cause) = source {
            write!(text, "\n  because: {cause}").expect("a String takes any text");
            source = cause.source();
        }
        if let Some(help) = self.help() {
            write!(text, "\nhelp: {help}").expect("a String takes any text");
        }
        text
    }
}

#[cfg(test)]
mod tests;
