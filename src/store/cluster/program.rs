//! Finds the Postgres programs, also with a bare PATH.

use super::error::ClusterError;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Oldest major version that works.
const VERSION_MIN: u32 = 13;
/// Names the folder to use instead of any other.
const NAMED: &str = "HYPEROPT_POSTGRES_BIN";

/// A folder with the server's programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Programs {
    bin_dir: PathBuf,
    version: u32,
}

impl Programs {
    /// Finds the programs, those of major version `wanted` where data exist already.
    pub(super) fn find(wanted: Option<u32>) -> Result<Self, ClusterError> {
        let found: Vec<Self> = match named() {
            Some(dir) => vec![Self::probe(&dir).ok_or(ClusterError::NamedProgramsMissing {
                dir,
                program: "postgres",
            })?],
            None => folders()
                .iter()
                .filter_map(|dir| Self::probe(dir))
                .collect(),
        };
        let versions: Vec<u32> = found.iter().map(|programs| programs.version).collect();
        let chosen = choose_version(&versions, wanted)?;
        Ok(found[chosen].clone())
    }

    /// Returns the path of one program.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.bin_dir.join(name)
    }

    fn probe(dir: &Path) -> Option<Self> {
        if !dir.join("initdb").is_file() {
            return None;
        }
        let output = Command::new(dir.join("postgres"))
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .ok()?;
        let version = major_version(&String::from_utf8_lossy(&output.stdout))?;
        Some(Self {
            bin_dir: dir.to_owned(),
            version,
        })
    }
}

/// Returns which of the versions found to use: the first wanted one, else the first new enough.
pub(super) fn choose_version(found: &[u32], wanted: Option<u32>) -> Result<usize, ClusterError> {
    let fits = |&version: &u32| match wanted {
        Some(wanted) => version == wanted,
        None => version >= VERSION_MIN,
    };
    if let Some(chosen) = found.iter().position(fits) {
        return Ok(chosen);
    }
    let mut found = found.to_vec();
    found.sort_unstable_by(|a, b| b.cmp(a));
    found.dedup();
    Err(match (found.first(), wanted) {
        (None, _) => ClusterError::ProgramsMissing {
            program: "postgres",
        },
        (Some(_), Some(data)) => ClusterError::VersionDiffers {
            data,
            found: found
                .iter()
                .map(u32::to_string)
                .collect::<Vec<_>>()
                .join(", "),
        },
        (Some(&newest), None) => ClusterError::ProgramsTooOld {
            found: newest,
            min: VERSION_MIN,
        },
    })
}

/// Reads the major version from `postgres (PostgreSQL) 15.6 (Debian …)`.
pub(super) fn major_version(text: &str) -> Option<u32> {
    let number = text.split(") ").nth(1)?;
    let digits = number.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Finds a client program.
pub(super) fn find_client(name: &'static str) -> Result<PathBuf, ClusterError> {
    if let Some(dir) = named() {
        let path = dir.join(name);
        return match path.is_file() {
            true => Ok(path),
            false => Err(ClusterError::NamedProgramsMissing { dir, program: name }),
        };
    }
    folders()
        .into_iter()
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
        .ok_or(ClusterError::ProgramsMissing { program: name })
}

fn named() -> Option<PathBuf> {
    let dir = PathBuf::from(env::var_os(NAMED).filter(|value| !value.is_empty())?);
    let below = dir.join("bin");
    Some(if below.join("postgres").is_file() {
        below
    } else {
        dir
    })
}

/// Lists the folders to look in, best first: PATH, `pg_config`, then where packages put them.
fn folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = env::var_os("PATH")
        .iter()
        .flat_map(|path| env::split_paths(path).collect::<Vec<_>>())
        .filter(|dir| dir.is_absolute())
        .collect();
    folders.extend(pg_config());
    for (parent, prefix, below) in [
        ("/usr/lib/postgresql", "", "bin"),
        ("/usr", "pgsql-", "bin"),
        ("/opt/homebrew/opt", "postgresql", "bin"),
        ("/usr/local/opt", "postgresql", "bin"),
        ("/usr/local", "pgsql", "bin"),
    ] {
        folders.extend(
            children(Path::new(parent), prefix)
                .iter()
                .map(|dir| dir.join(below)),
        );
    }
    folders
}

fn pg_config() -> Option<PathBuf> {
    let output = Command::new("pg_config")
        .arg("--bindir")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let dir = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim_end());
    dir.is_absolute().then_some(dir)
}

/// Lists the folders in `parent` whose names begin with `prefix`, the highest version first.
fn children(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let mut found: Vec<(f64, PathBuf)> = fs::read_dir(parent)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = path.file_name()?.to_str()?.to_owned();
            let version = name.strip_prefix(prefix)?;
            let version = version
                .trim_start_matches(['@', '-'])
                .parse()
                .unwrap_or(0.0);
            Some((version, path))
        })
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    found.into_iter().map(|(_, path)| path).collect()
}

/// Removes what would lead Postgres programs elsewhere, and fixes their language.
pub(super) fn clear_environment(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let is_postgres = name.to_str().is_some_and(|name| name.starts_with("PG"));
        if is_postgres || name == OsStr::new("LANGUAGE") {
            command.env_remove(&name);
        }
    }
    command.env("LC_ALL", "C");
}
