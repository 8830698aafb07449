//! Log lines: where they go, which ones, and in which form.
//!
//! # Invariants
//! - Logs go to stderr; results go to stdout and observations to the store, never through here.
//! - Installed once, by the binary. The library and its tests run without.
//! - A line is never torn by a progress bar: both go through [`bars`].

use indicatif::MultiProgress;
use std::io::{self, IsTerminal, Write};
use std::sync::LazyLock;
use thiserror::Error;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Why no subscriber could be installed.
#[derive(Debug, Error)]
pub enum TelemetryError {
    /// The filter is neither a level nor a list of `target=level`.
    #[error("invalid log filter \"{filter}\"")]
    Filter {
        /// The filter as given.
        filter: String,
        /// What is wrong with it, where the parser says so.
        source: Option<tracing_subscriber::filter::ParseError>,
    },
    /// This process has a subscriber already.
    #[error("a log subscriber is already installed")]
    AlreadyInstalled {
        /// The refusal.
        source: tracing::subscriber::SetGlobalDefaultError,
    },
}

/// Form of the log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One line of text an event; coloured on a terminal, unless `NO_COLOR` is set.
    Text,
    /// One JSON object an event.
    Json,
}

/// Installs the subscriber of this process.
///
/// - `filter`: a level (`debug`), which then holds for this program alone while libraries stay
///   at `warn`, or directives as of `tracing_subscriber` (`hyperopt::store=trace,sqlx=info`).
///
/// # Errors
/// [`TelemetryError::Filter`] on an unknown word, [`TelemetryError::AlreadyInstalled`] on the
/// second call.
pub fn install(filter: &str, format: Format) -> Result<(), TelemetryError> {
    let filter = parse_filter(filter)?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(BesideBars);
    let installed = match format {
        Format::Text => {
            let is_colored = io::stderr().is_terminal()
                && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
            tracing::subscriber::set_global_default(builder.with_ansi(is_colored).finish())
        }
        Format::Json => tracing::subscriber::set_global_default(builder.json().finish()),
    };
    installed.map_err(|source| TelemetryError::AlreadyInstalled { source })
}

/// Returns the process's one set of progress bars, drawn on stderr.
///
/// Add bars here and nowhere else, so that log lines can step aside.
pub fn bars() -> &'static MultiProgress {
    static BARS: LazyLock<MultiProgress> = LazyLock::new(MultiProgress::new);
    &BARS
}

fn parse_filter(filter: &str) -> Result<EnvFilter, TelemetryError> {
    let refuse = |source| TelemetryError::Filter {
        filter: filter.to_owned(),
        source,
    };
    let is_level = filter.parse::<LevelFilter>().is_ok();
    if !is_level && !filter.contains('=') {
        return Err(refuse(None)); // a mistyped level, which `EnvFilter` would take for a target
    }
    let directives = if is_level {
        format!("warn,hyperopt={filter}")
    } else {
        filter.to_owned()
    };
    let parsed = EnvFilter::builder().parse(&directives);
    parsed.map_err(|source| refuse(Some(source)))
}

/// Writes to stderr with the bars cleared for the moment.
struct BesideBars;

impl<'a> MakeWriter<'a> for BesideBars {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        Self
    }
}

impl Write for BesideBars {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // The formatter hands over whole events, so one write is one line.
        bars().suspend(|| io::stderr().lock().write_all(line))?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}

#[cfg(test)]
mod tests;
