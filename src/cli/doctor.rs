//! `hyperopt doctor`.

use super::args::DoctorArgs;
use super::error::CliError;
use super::exit::Exit;
use super::output::Output;
use super::{devices, setup};
use crate::engine::backend::Backend;
use crate::engine::host;
use crate::store::Store;
use serde::Serialize;
use std::error::Error;

const SHOWN: &[&str] = &["what", "works", "finding", "remedy"];

/// One thing looked at.
#[derive(Debug, Serialize)]
struct Finding {
    what: String,
    works: bool,
    finding: String,
    remedy: String,
}

impl Finding {
    fn good(what: &str, finding: String) -> Self {
        Self {
            what: what.to_owned(),
            works: true,
            finding,
            remedy: String::new(),
        }
    }

    fn bad(what: &str, finding: String, remedy: &str) -> Self {
        Self {
            what: what.to_owned(),
            works: false,
            finding,
            remedy: remedy.to_owned(),
        }
    }
}

/// Looks at devices and database, and says what works.
pub(super) async fn run(args: &DoctorArgs, database_url: Option<&str>) -> Result<Exit, CliError> {
    let gib = host::memory_available_bytes() as f64 / f64::from(1 << 30);
    let mut findings = vec![Finding::good(
        "cpu",
        format!(
            "{} cores, {}, {gib:.1} GiB free; f32 at full speed, tf32 and bf16 emulated",
            setup::n_cores(),
            host::instruction_set()
        ),
    )];
    findings.extend(gpus());
    findings.extend(database(database_url).await);
    let works = findings.iter().all(|finding| finding.works);
    Output::stdout(args.format.json).table(&findings, SHOWN, "nothing")?;
    Ok(if works { Exit::Done } else { Exit::Failure })
}

fn gpus() -> Vec<Finding> {
    match setup::gpus() {
        Ok(gpus) => gpus
            .iter()
            .map(|gpu| Finding::good(&gpu.info().id, description(&**gpu)))
            .collect(),
        Err(cause) => vec![Finding::bad(
            "gpu",
            cause,
            "mend that, or write devices = \"cpu\" in the sweep's [executors]",
        )],
    }
}

/// A device in words.
fn description(device: &dyn Backend) -> String {
    let info = device.info();
    let mut parts = vec![device.device()];
    parts.extend(info.uuid);
    parts.push(format!("driver {}", device.driver()));
    parts.extend(device.memory().map(|memory| {
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        let (free, total) = (gib(memory.free_bytes), gib(memory.total_bytes));
        format!("{free:.1} of {total:.1} GiB free")
    }));
    let capability = info.compute_capability;
    parts.extend(capability.map(|(major, minor)| format!("compute capability {major}.{minor}")));
    let auto = devices::auto_precision(device).as_str();
    parts.push(format!("the arm auto is {auto}"));
    parts.join(", ")
}

async fn database(database_url: Option<&str>) -> Vec<Finding> {
    let (what, remedy) = match database_url {
        Some(_) => (
            "database",
            "check the URL, that the server runs and lets this user in, and that `hyperopt db \
             migrate` was run there",
        ),
        None => (
            "private postgres",
            "install Postgres (Debian, Ubuntu: apt-get install postgresql), or name its bin \
             folder in HYPEROPT_POSTGRES_BIN, or make the data folder writable, or pass \
             --database-url",
        ),
    };
    let opened = match Store::open(database_url).await {
        Ok(store) => store.database_info().await.map(|info| (store, info)),
        Err(error) => Err(error),
    };
    vec![match opened {
        Ok((store, info)) => {
            let place = store.cluster().map_or_else(String::new, |cluster| {
                format!(", data in {}", cluster.dir().display())
            });
            Finding::good(
                what,
                format!(
                    "Postgres {}, schema version {}{place}",
                    info.server_version, info.schema_version
                ),
            )
        }
        Err(error) => Finding::bad(what, chain(&error), remedy),
    }]
}

/// An error with its causes, on one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        // A server's log can be long; its first line says what is wrong.
        let cause_text = cause.to_string();
        text.push_str(cause_text.lines().next().unwrap_or_default());
        source = cause.source();
    }
    text
}
