//! `hyperopt db`: the database itself, private or named by URL.

use super::{
    args::{DbCommand, PsqlArgs},
    error::CliError,
    exit::Exit,
    output::Output,
};
use crate::store::{Cluster, Store};
use std::os::unix::process::CommandExt;

pub(super) async fn run(command: &DbCommand, database_url: Option<&str>) -> Result<Exit, CliError> {
    let mut output = Output::stdout(false);
    match command {
        DbCommand::Url => output.line(&url(database_url).await?)?,
        DbCommand::Start => {
            refuse_server("start", database_url)?;
            let store = Store::open(None).await?;
            let info = store.database_info().await?;
            output.line(&format!(
                "running: Postgres {} at {}",
                info.server_version, info.place
            ))?;
        }
        DbCommand::Stop => {
            refuse_server("stop", database_url)?;
            let was_running = blocking(|| Ok(Cluster::locate()?.stop()?)).await?;
            output.line(if was_running {
                "stopped"
            } else {
                "not running"
            })?;
        }
        DbCommand::Migrate => {
            let version = Store::migrate(database_url).await?;
            output.line(&format!("the schema has version {version}"))?;
        }
        DbCommand::Psql(args) => return psql(args, database_url).await,
    }
    Ok(Exit::Done)
}

/// Returns the URL for other tools, with the search path in it.
async fn url(database_url: Option<&str>) -> Result<String, CliError> {
    match server(database_url) {
        Some(url) => Ok(with_search_path(url)),
        None => {
            Store::open(None).await?.close().await;
            blocking(|| Ok(Cluster::locate()?.url())).await
        }
    }
}

/// Becomes psql.
async fn psql(args: &PsqlArgs, database_url: Option<&str>) -> Result<Exit, CliError> {
    let url = match server(database_url) {
        Some(url) => Some(with_search_path(url)),
        None => {
            // Brings the private schema up to date, so that its views are there.
            Store::open(None).await?.close().await;
            None
        }
    };
    let mut command = blocking(move || Ok(Cluster::psql(url.as_deref())?)).await?;
    // Returns only if it fails; psql's exit code is then ours.
    let source = command.args(&args.args).exec();
    Err(CliError::Psql { source })
}

/// The server named, if one is; an empty variable names none.
fn server(database_url: Option<&str>) -> Option<&str> {
    database_url.filter(|url| !url.is_empty())
}

fn refuse_server(command: &'static str, database_url: Option<&str>) -> Result<(), CliError> {
    match server(database_url) {
        Some(_) => Err(CliError::NotPrivate { command }),
        None => Ok(()),
    }
}

/// Adds the search path to a URL, unless it sets options of its own.
fn with_search_path(url: &str) -> String {
    let has_options = url
        .split_once('?')
        .is_some_and(|(_, query)| query.split('&').any(|pair| pair.starts_with("options=")));
    if has_options {
        return url.to_owned();
    }
    let separator = if url.contains('?') { '&' } else { '?' };
    format!("{url}{separator}options=-csearch_path%3Dhyperopt%2Cpublic")
}

/// Runs what blocks beside the runtime.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, CliError> + Send + 'static,
) -> Result<T, CliError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.expect("the work does not panic and is never aborted")
}

#[cfg(test)]
mod tests;
