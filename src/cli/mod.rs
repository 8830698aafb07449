//! The command line: one file a command, results on stdout, everything else on stderr.
//!
//! # Invariants
//! - Only this module prints. Results go through `output`, progress and errors to stderr.
//! - No command needs a terminal, `HOME` or `PATH`; only `delete` asks, and only on a terminal.
//! - A reader that leaves early (`| head`) ends the command quietly.
//! - An error is told once, with its whole chain of causes, and never in its Debug form.
//! - The keys of `--json` are the names of the table's columns, and those of the views in SQL.

mod args;
mod baseline;
mod bench;
mod best;
mod check;
mod compare;
mod db;
mod delete;
mod devices;
mod doctor;
mod error;
mod exit;
mod list;
mod output;
mod progress;
mod run;
mod setup;
mod show;
mod trials;

pub use args::{
    BenchArgs, BestArgs, CheckArgs, Cli, Command, CompareArgs, DbCommand, DeleteArgs, DoctorArgs,
    FormatArgs, GlobalArgs, ListArgs, PrecisionArg, PsqlArgs, RunArgs, ShowArgs, TrialStateArg,
    TrialsArgs,
};
pub use error::CliError;
pub use exit::Exit;
pub use progress::Progress;

use crate::store::Store;
use crate::telemetry::{self, Format};

/// Runs one command to its end, told errors included.
pub fn run(cli: &Cli) -> Exit {
    match try_run(cli) {
        Ok(exit) => exit,
        Err(error) => {
            if !error.is_silent() {
                progress::line(&error.render());
            }
            error.exit()
        }
    }
}

fn try_run(cli: &Cli) -> Result<Exit, CliError> {
    let format = if cli.global.log_json {
        Format::Json
    } else {
        Format::Text
    };
    telemetry::install(cli.global.log_filter(), format)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|source| CliError::Runtime { source })?;
    // As a task of one worker, so that the thread that waits for the socket is the one that goes
    // on: elsewhere each answer of the database would cost a wake-up of another thread.
    let cli = cli.clone();
    let command = runtime.spawn(async move { command(&cli).await });
    match runtime.block_on(command) {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    }
}

async fn command(cli: &Cli) -> Result<Exit, CliError> {
    let database_url = cli.global.database_url.as_deref();
    match &cli.command {
        Command::Run(args) => return run::run(args, database_url, cli.global.quiet).await,
        Command::Doctor(args) => return doctor::run(args, database_url).await,
        Command::Check(args) => check::run(args)?,
        Command::Bench(args) => bench::run(args, database_url).await?,
        Command::Db(command) => return db::run(command, database_url).await,
        Command::List(args) => list::run(args, &open(database_url).await?).await?,
        Command::Show(args) => show::run(args, &open(database_url).await?).await?,
        Command::Trials(args) => trials::run(args, &open(database_url).await?).await?,
        Command::Best(args) => best::run(args, &open(database_url).await?).await?,
        Command::Compare(args) => compare::run(args, &open(database_url).await?).await?,
        Command::Delete(args) => delete::run(args, &open(database_url).await?).await?,
    }
    Ok(Exit::Done)
}

async fn open(database_url: Option<&str>) -> Result<Store, CliError> {
    Ok(Store::open(database_url).await?)
}
