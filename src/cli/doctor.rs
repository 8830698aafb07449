//! `hyperopt doctor`.

use super::args::DoctorArgs;
use super::error::CliError;
use super::exit::Exit;
use super::output::Output;
use super::setup;
use crate::store::{Cluster, Store};
use serde::Serialize;
use std::error::Error;

const SHOWN: &[&str] = &["what", "works", "finding", "remedy"];

/// One thing looked at.
#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    works: bool,
    finding: String,
    remedy: String,
}

impl Finding {
    fn good(what: &'static str, finding: String) -> Self {
        Self {
            what,
            works: true,
            finding,
            remedy: String::new(),
        }
    }

    fn bad(what: &'static str, finding: String, remedy: &str) -> Self {
        Self {
            what,
            works: false,
            finding,
            remedy: remedy.to_owned(),
        }
    }
}

/// Looks at device and database, and says what works.
pub(super) async fn run(args: &DoctorArgs, database_url: Option<&str>) -> Result<Exit, CliError> {
    let gib = setup::memory_available_bytes() as f64 / f64::from(1 << 30);
    let mut findings = vec![Finding::good(
        "cpu",
        format!(
            "{} cores, {}, {gib:.1} GiB free; f32 at full speed, tf32 and bf16 emulated",
            setup::n_cores(),
            setup::instruction_set()
        ),
    )];
    findings.extend(database(database_url).await);
    let works = findings.iter().all(|finding| finding.works);
    Output::stdout(args.format.json).table(&findings, SHOWN, "nothing")?;
    Ok(if works { Exit::Done } else { Exit::Failure })
}

async fn database(database_url: Option<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if database_url.is_none() {
        match Cluster::locate() {
            Ok(cluster) => findings.push(Finding::good(
                "private postgres",
                format!("data in {}", cluster.dir().display()),
            )),
            Err(error) => findings.push(Finding::bad(
                "private postgres",
                chain(&error),
                "install Postgres (Debian, Ubuntu: apt-get install postgresql), or name its bin \
                 folder in HYPEROPT_POSTGRES_BIN, or pass --database-url",
            )),
        }
    }
    let finding = match Store::open(database_url).await {
        Ok(store) => match store.database_info().await {
            Ok(info) => Finding::good(
                "database",
                format!(
                    "Postgres {}, schema version {}",
                    info.server_version, info.schema_version
                ),
            ),
            Err(error) => Finding::bad("database", chain(&error), "look at its log"),
        },
        Err(error) => Finding::bad(
            "database",
            chain(&error),
            "mend the private Postgres above, or pass a --database-url that answers",
        ),
    };
    findings.push(finding);
    findings
}

/// An error with its causes, on one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
