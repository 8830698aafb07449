//! Progress of a run: a bar on a terminal, plain lines without one.

use crate::telemetry;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shortest time between two plain lines.
const LINE_EVERY: Duration = Duration::from_secs(15);

/// What the bar shows.
const TEMPLATE: &str = "{prefix} {bar:30} {pos}/{len} trials  {elapsed} (left {eta})  {msg}";

/// How far a run is, on stderr.
///
/// Plain lines come at the start, at the end, and in between no more often than every 15 seconds:
/// what cron mails stays short.
#[derive(Debug)]
pub struct Progress {
    form: Form,
    n_done: u64,
    n_total: u64,
}

#[derive(Debug)]
enum Form {
    Bar(ProgressBar),
    Lines { last_at: Instant },
    Quiet,
}

impl Progress {
    /// Starts at `n_done` of `n_total` trials.
    pub fn start(what: &str, n_done: u64, n_total: u64, is_quiet: bool) -> Self {
        let form = if is_quiet {
            Form::Quiet
        } else if io::stderr().is_terminal() {
            let bar = ProgressBar::new(n_total).with_position(n_done);
            bar.set_style(ProgressStyle::with_template(TEMPLATE).expect("a test parses it"));
            bar.set_prefix(what.to_owned());
            bar.enable_steady_tick(Duration::from_millis(250));
            Form::Bar(telemetry::bars().add(bar))
        } else {
            line(&format!("{what}: {n_done} of {n_total} trials"));
            Form::Lines {
                last_at: Instant::now(),
            }
        };
        Self {
            form,
            n_done,
            n_total,
        }
    }

    /// Reports `n_done` trials; `message` is what is worth saying now, such as the best value.
    pub fn update(&mut self, n_done: u64, message: &str) {
        self.n_done = n_done;
        match &mut self.form {
            Form::Bar(bar) => {
                bar.set_position(n_done);
                bar.set_message(message.to_owned());
            }
            Form::Lines { last_at } => {
                if last_at.elapsed() >= LINE_EVERY {
                    *last_at = Instant::now();
                    line(&plain(n_done, self.n_total, message));
                }
            }
            Form::Quiet => {}
        }
    }

    /// Ends the report with a last line.
    pub fn finish(self, message: &str) {
        match self.form {
            Form::Bar(bar) => {
                bar.finish_and_clear();
                line(&plain(self.n_done, self.n_total, message));
            }
            Form::Lines { .. } => line(&plain(self.n_done, self.n_total, message)),
            Form::Quiet => {}
        }
    }
}

fn plain(n_done: u64, n_total: u64, message: &str) -> String {
    let separator = if message.is_empty() { "" } else { ", " };
    format!("{n_done} of {n_total} trials{separator}{message}")
}

/// Writes a line to stderr. Progress is a courtesy: if nobody can read it, the run goes on.
pub(crate) fn line(text: &str) {
    let _ = telemetry::bars().suspend(|| writeln!(io::stderr().lock(), "{text}"));
}

#[cfg(test)]
mod tests;
