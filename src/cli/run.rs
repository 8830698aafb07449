//! `hyperopt run`.

use super::args::RunArgs;
use super::error::CliError;
use super::exit::Exit;
use super::output::Output;
use super::progress::{self, Progress};
use super::{baseline, best, compare, setup};
use crate::scheduler::{self, Ended, Machine, Scheduler, Summary};
use crate::store::{Store, StoreError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Configurations of the leaderboard at the end.
const TOP: u32 = 10;
/// Ends the name of a smoke run's study.
const SMOKE_SUFFIX: &str = "-smoke";

/// Runs a sweep to its end and prints leaderboard and comparison.
pub(super) async fn run(
    args: &RunArgs,
    database_url: Option<&str>,
    is_quiet: bool,
) -> Result<Exit, CliError> {
    let mut spec = setup::read_sweep(&args.sweep, args.name.as_deref())?;
    if args.smoke {
        spec.name.push_str(SMOKE_SUFFIX);
        spec.budget.configurations = 1;
        spec.budget.epochs = 1;
        spec.enqueue.truncate(1);
    }
    let bars = setup::load_bars(&spec, &args.sweep)?;
    let market = Arc::new(setup::market(&spec, &bars)?);
    let setting = setup::setting(&spec, market.clone())?;
    let store = Store::open(database_url).await?;
    if args.smoke {
        forget(&store, &spec.name).await?;
    }
    let lock = store.lock_study(&spec.name).await?;
    let opened = scheduler::open(&store, &spec, &market.digest, setting.auto).await?;
    tell(&spec.name, &opened);
    for warning in setup::warnings(&spec, &setting) {
        progress::line(&format!("warning: {warning}"));
    }
    let scheduler = Scheduler::new(
        store.clone(),
        lock,
        opened,
        spec.clone(),
        setting.preparer,
        setting.options,
        Machine {
            host: setup::host_name(),
            devices: setting.devices,
        },
    )
    .await?;
    let (stop, signalled) = listen()?;
    let mut bar: Option<Progress> = None;
    let summary = scheduler
        .run(stop, |report| {
            let message = match report.best {
                Some(best) => format!("{} failed, best {best:.3}", report.n_failed),
                None => format!("{} failed", report.n_failed),
            };
            let start = || Progress::start(&spec.name, report.n_done, report.n_total, is_quiet);
            bar.get_or_insert_with(start)
                .update(report.n_done, &message);
        })
        .await?;
    if let Some(bar) = bar {
        bar.finish(&ending(&summary));
    }
    let mut output = Output::stdout(args.format.json);
    best::print(&store, &spec.name, TOP, &mut output).await?;
    if !args.format.json {
        output.line("")?;
        compare::print(&store, &spec.name, &mut output).await?;
        output.line("")?;
        for line in baseline::lines(&market, spec.seed) {
            output.line(&line)?;
        }
    }
    store.close().await;
    Ok(exit_of(&summary, signalled.load(Ordering::SeqCst)))
}

/// Removes what an earlier smoke run left.
async fn forget(store: &Store, name: &str) -> Result<(), CliError> {
    match store.delete_study(name).await {
        Ok(()) | Err(StoreError::StudyUnknown { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn tell(name: &str, opened: &scheduler::Opened) {
    if !opened.requeued.is_empty() {
        let n = opened.requeued.len();
        progress::line(&format!(
            "{name}: {n} trials that an earlier run left go back to waiting"
        ));
    }
    if !opened.reopened.is_empty() {
        let n = opened.reopened.len();
        progress::line(&format!("{name}: {n} trials run again, for more epochs"));
    }
}

fn ending(summary: &Summary) -> String {
    let what = match summary.ended {
        Ended::Complete => "complete",
        Ended::WallLimit => "stopped by the wall limit; the same command goes on",
        Ended::Stopped => "stopped; the same command goes on",
    };
    let Summary {
        n_valued,
        n_degenerate,
        n_failed,
        ..
    } = summary;
    format!("{what}: {n_valued} with a value, {n_degenerate} degenerate, {n_failed} failed")
}

fn exit_of(summary: &Summary, signal_number: u8) -> Exit {
    match (summary.ended, i32::from(signal_number)) {
        (Ended::Stopped, nix::libc::SIGTERM) => Exit::Terminated,
        (Ended::Stopped, _) => Exit::Interrupted,
        (Ended::Complete, _) if summary.n_valued == 0 => Exit::NothingScored,
        (Ended::Complete | Ended::WallLimit, _) => Exit::Done,
    }
}

/// Listens for Ctrl-C, SIGTERM and SIGHUP: the first one stops at the epoch's end, the second at once.
fn listen() -> Result<(watch::Receiver<bool>, Arc<AtomicU8>), CliError> {
    let runtime = |source| CliError::Runtime { source };
    let mut interrupt = signal(SignalKind::interrupt()).map_err(runtime)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(runtime)?;
    // A closed terminal or a dropped connection.
    let mut hangup = signal(SignalKind::hangup()).map_err(runtime)?;
    let (sender, receiver) = watch::channel(false);
    let signalled = Arc::new(AtomicU8::new(0));
    let first = signalled.clone();
    tokio::spawn(async move {
        loop {
            let (number, exit) = tokio::select! {
                _ = interrupt.recv() => (nix::libc::SIGINT, Exit::Interrupted),
                _ = terminate.recv() => (nix::libc::SIGTERM, Exit::Terminated),
                _ = hangup.recv() => (nix::libc::SIGTERM, Exit::Terminated),
            };
            if first.load(Ordering::SeqCst) != 0 {
                std::process::exit(exit as i32);
            }
            first.store(u8::try_from(number).unwrap_or(u8::MAX), Ordering::SeqCst);
            progress::line("stopping at the end of the epoch; once more stops at once");
            // The receiver lives as long as the run.
            let _ = sender.send(true);
        }
    });
    Ok((receiver, signalled))
}
