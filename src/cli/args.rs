//! The command line: every command's arguments, read by clap.
//!
//! Conventions: STUDY is a study's name, TRIAL a number from `hyperopt trials`. Commands that
//! print a table take `--json`, those that destroy take `--yes`.

use super::exit;
use crate::spec;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

/// Hyperparameter optimization for trading models, many trials packed into one launch.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "hyperopt",
    version,
    arg_required_else_help = true,
    after_help = exit::HELP
)]
pub struct Cli {
    /// Options that every command takes.
    #[command(flatten)]
    pub global: GlobalArgs,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// Reads the command line, or prints help or what is wrong with it, and exits.
    pub fn from_command_line(args: impl Iterator<Item = OsString>) -> Self {
        Self::parse_from(leave_to_psql(args.collect()))
    }
}

/// Reads the name of a study to be run.
fn study_name(text: &str) -> Result<String, String> {
    spec::check_name(text).map(|()| text.to_owned())
}

/// Marks what follows `db psql` as psql's own, up to our options that psql does not know.
///
/// Without the mark `-q` and `-v` would be taken for ours, which are global.
fn leave_to_psql(mut args: Vec<OsString>) -> Vec<OsString> {
    let db = args.iter().position(|arg| arg == "db");
    let psql = db.and_then(|db| {
        let after = args[db..].iter().position(|arg| arg == "psql")?;
        Some(db + after)
    });
    if let Some(psql) = psql {
        let mut at = psql + 1;
        while let Some(arg) = args.get(at).and_then(|arg| arg.to_str()) {
            at += match arg {
                "--database-url" | "--log-level" => 2,
                "--log-json" | "--help" => 1,
                _ if arg.starts_with("--database-url=") || arg.starts_with("--log-level=") => 1,
                _ => break,
            };
        }
        if at < args.len() {
            args.insert(at, "--".into());
        }
    }
    args
}

/// Options that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Postgres to use instead of the private one, such as `postgres://USER@HOST/DATABASE`
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "DATABASE_URL",
        hide_env_values = true
    )]
    pub database_url: Option<String>,
    /// Log level (off, error, warn, info, debug, trace), or directives such as sqlx=debug
    #[arg(
        long,
        global = true,
        value_name = "FILTER",
        env = "HYPEROPT_LOG",
        hide_env_values = true
    )]
    pub log_level: Option<String>,
    /// Write logs as JSON, one object a line
    #[arg(long, global = true)]
    pub log_json: bool,
    /// Show errors only: no progress, no warnings
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Log more: -v what happens, -vv why, -vvv everything
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
}

impl GlobalArgs {
    /// Returns the log filter: the one given, else that of `-q` and `-v`.
    pub fn log_filter(&self) -> &str {
        match (&self.log_level, self.quiet, self.verbose) {
            (Some(filter), _, _) => filter,
            (None, true, _) => "error",
            (None, false, 0) => "warn",
            (None, false, 1) => "info",
            (None, false, 2) => "debug",
            (None, false, _) => "trace",
        }
    }
}

/// The commands.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Run a sweep, or go on with it
    Run(RunArgs),
    /// Validate a sweep and tell what it would cost; trains nothing
    Check(CheckArgs),
    /// List the studies, newest first
    List(ListArgs),
    /// Show one study: progress, outcomes, best configuration
    Show(ShowArgs),
    /// List the trials of a study
    Trials(TrialsArgs),
    /// Show the best configurations of a study
    Best(BestArgs),
    /// Compare the precision arms of a study with its reference
    Compare(CompareArgs),
    /// Work with the database: url, start, stop, migrate, psql
    #[command(subcommand)]
    Db(DbCommand),
    /// Delete a study with all its trials and results
    Delete(DeleteArgs),
    /// Look at devices and database: what works, and how to mend what does not
    Doctor(DoctorArgs),
    /// Measure training or the store
    Bench(BenchArgs),
}

/// Form of a command's table.
#[derive(Debug, Clone, Copy, Args)]
pub struct FormatArgs {
    /// Print a JSON array of objects, one a row
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `run`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
The same file again resumes an unfinished study, and runs nothing once it is finished. The first
Ctrl-C finishes the epoch and leaves a study that resumes, the second stops at once.

Examples:
  hyperopt run sweeps/quickstart.toml
  hyperopt run sweeps/quickstart.toml --smoke
  hyperopt run sweeps/quickstart.toml --name second_look")]
pub struct RunArgs {
    /// Sweep file
    #[arg(value_name = "SWEEP.toml")]
    pub sweep: PathBuf,
    /// Run as a study of this name, instead of the file's; {date} at its end is the day
    #[arg(long, value_name = "NAME", value_parser = study_name)]
    pub name: Option<String>,
    /// One configuration, one epoch, every arm: does it all work?
    #[arg(long)]
    pub smoke: bool,
    /// Form of the tables at the end.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Arguments of `check`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  hyperopt check sweeps/quickstart.toml
  hyperopt check sweeps/quickstart.toml --json | jq '.[0]'")]
pub struct CheckArgs {
    /// Sweep file
    #[arg(value_name = "SWEEP.toml")]
    pub sweep: PathBuf,
    /// Form of the table of plan keys.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Arguments of `doctor`.
#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// Form of the table of findings.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Arguments of `bench`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  hyperopt bench --model ref-dqn --device cpu
  hyperopt bench --store --json")]
pub struct BenchArgs {
    /// Measure training of this model or preset
    #[arg(long, value_name = "KIND", required_unless_present = "store")]
    pub model: Option<String>,
    /// Measure the store instead, in a scratch study of 100,000 trials that it deletes
    #[arg(long, conflicts_with_all = ["model", "device", "lanes", "precision"])]
    pub store: bool,
    /// Device: cpu, auto, cuda:0 or a UUID
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    pub device: String,
    /// Lanes of the pack [default: one a core, 64 on a GPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub lanes: Option<u32>,
    /// Precision
    #[arg(long, value_enum, default_value = "f32")]
    pub precision: PrecisionArg,
    /// Form of the table of figures.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Arguments of `list`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  hyperopt list
  hyperopt list --json | jq -r '.[] | select(.state == \"running\") | .study'")]
pub struct ListArgs {
    /// Form of the table.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Arguments of `show`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  hyperopt show quickstart
  hyperopt show quickstart --follow")]
pub struct ShowArgs {
    /// Name of the study
    pub study: String,
    /// Print again whenever it has moved on, until it ends
    #[arg(short, long, conflicts_with = "json")]
    pub follow: bool,
    /// Form of the table.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Arguments of `trials`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  hyperopt trials quickstart
  hyperopt trials quickstart --state failed
  hyperopt trials quickstart --precision bf16 --json | jq '.[].value'")]
pub struct TrialsArgs {
    /// Name of the study
    pub study: String,
    /// Only trials in this state
    #[arg(long, value_enum)]
    pub state: Option<TrialStateArg>,
    /// Only trials of this arm
    #[arg(long, value_enum)]
    pub precision: Option<PrecisionArg>,
    /// Form of the table.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Arguments of `best`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  hyperopt best quickstart
  hyperopt best quickstart --top 1 --json | jq '.[0].params'")]
pub struct BestArgs {
    /// Name of the study
    pub study: String,
    /// How many
    #[arg(long, value_name = "N", default_value_t = 10,
        value_parser = clap::value_parser!(u32).range(1..))]
    pub top: u32,
    /// Form of the table.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Arguments of `compare`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
A pair is one configuration and replicate in both arms: same seed, data order and initial weights.
They are listed by: hyperopt db psql -c \"SELECT * FROM precision_pair\"

Examples:
  hyperopt compare quickstart
  hyperopt compare quickstart --json | jq '.[0].sharpe_delta_mean'")]
pub struct CompareArgs {
    /// Name of the study
    pub study: String,
    /// Form of the tables.
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Arguments of `delete`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Examples:
  hyperopt delete quickstart
  hyperopt delete quickstart --yes")]
pub struct DeleteArgs {
    /// Name of the study
    pub study: String,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}

/// The commands of `db`.
#[derive(Debug, Clone, Subcommand)]
#[command(after_help = "\
Without --database-url and DATABASE_URL all of these speak of the private Postgres, which lies in
the user's data directory, listens on a Unix socket only, and starts when it is needed.

Examples:
  hyperopt db url
  hyperopt db psql -c \"SELECT * FROM leaderboard\"
  hyperopt db stop")]
pub enum DbCommand {
    /// Print the URL for other tools; its search path is hyperopt, public
    Url,
    /// Start the private Postgres
    Start,
    /// Stop the private Postgres
    Stop,
    /// Bring the schema up to this program's version
    Migrate,
    /// Open psql, or pass it arguments: hyperopt db psql -c "SELECT ..."
    Psql(PsqlArgs),
}

/// Arguments of `db psql`.
#[derive(Debug, Clone, Args)]
#[command(after_help = "\
Everything after psql is psql's own, -q, -v and -h included.

Examples:
  hyperopt db psql
  hyperopt db psql -c \"SELECT * FROM precision_comparison\"
  hyperopt db psql --csv -c \"SELECT * FROM trial_overview\" > trials.csv")]
pub struct PsqlArgs {
    /// Arguments for psql
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARG"
    )]
    pub args: Vec<OsString>,
}

/// A precision arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PrecisionArg {
    /// IEEE single precision
    F32,
    /// Products of 10-bit mantissas
    Tf32,
    /// Products of bfloat16
    Bf16,
}

/// State of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TrialStateArg {
    /// Sampled, not started
    Waiting,
    /// Held by an attempt
    Running,
    /// Ended with a value or a degenerate reason
    Complete,
    /// Ended by the pruner
    Pruned,
    /// Ended with a failure
    Failed,
}

#[cfg(test)]
mod tests;
