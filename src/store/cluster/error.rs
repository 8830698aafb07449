//! What can go wrong with a private cluster, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why the private cluster cannot be used.
#[derive(Debug, Error)]
pub enum ClusterError {
    /// Neither variables nor the passwd entry name a home folder.
    #[error(
        "no folder for the private database: HOME and XDG_DATA_HOME are not set and user {uid} has \
         no home; set XDG_DATA_HOME, or name a server with --database-url"
    )]
    NoHome {
        /// Effective user.
        uid: u32,
    },
    /// No folder holds the programs.
    #[error(
        "no Postgres programs found ({program} and its companions); install the package \
         `postgresql` (Debian, Ubuntu: apt-get install postgresql), name their folder in \
         HYPEROPT_POSTGRES_BIN, or name a server with --database-url"
    )]
    ProgramsMissing {
        /// The one looked for.
        program: &'static str,
    },
    /// `HYPEROPT_POSTGRES_BIN` names a folder without the programs.
    #[error("HYPEROPT_POSTGRES_BIN names {dir}, which holds no `{program}` that runs", dir = dir.display())]
    NamedProgramsMissing {
        /// The folder named.
        dir: PathBuf,
        /// The one missing.
        program: &'static str,
    },
    /// Every Postgres found is too old.
    #[error("the newest Postgres found has version {found}; version {min} or later is needed")]
    ProgramsTooOld {
        /// Newest major version found.
        found: u32,
        /// Oldest that works.
        min: u32,
    },
    /// The data belong to another major version than every program found.
    #[error(
        "the private database was created by Postgres {data}, but the programs found are of \
         version {found}; install the package `postgresql-{data}`, or name the folder of its \
         programs in HYPEROPT_POSTGRES_BIN"
    )]
    VersionDiffers {
        /// Major version of the data.
        data: u32,
        /// Major versions found, newest first.
        found: String,
    },
    /// The folder holds something else.
    #[error("{path} is not a Postgres data folder; move it away", path = path.display())]
    NotACluster {
        /// The folder.
        path: PathBuf,
    },
    /// Another user owns the folder.
    #[error(
        "{path} belongs to user {owner}, not to user {uid}; run as that user, or set XDG_DATA_HOME",
        path = path.display()
    )]
    WrongOwner {
        /// The folder.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// Effective user.
        uid: u32,
    },
    /// The folder of the socket is not private.
    #[error("{path} must be a folder that only user {uid} can enter; remove it", path = path.display())]
    SocketFolderNotPrivate {
        /// The folder.
        path: PathBuf,
        /// Who must own it.
        uid: u32,
    },
    /// Root, without user namespaces and without an account to step down to.
    #[error(
        "Postgres refuses to run as root, user namespaces are forbidden here, and there is no \
         account `postgres` or `nobody` to run it as; run as an ordinary user"
    )]
    NoAccount,
    /// The account cannot reach the folder.
    #[error(
        "Postgres refuses to run as root, user namespaces are forbidden here, and the account \
         `{account}` cannot reach {path}; set XDG_DATA_HOME to a folder that it can enter",
        path = path.display()
    )]
    CannotReach {
        /// The account to step down to.
        account: String,
        /// The folder.
        path: PathBuf,
    },
    /// `initdb` failed.
    #[error("initdb failed: {output}")]
    Initdb {
        /// What it said.
        output: String,
    },
    /// The server ended instead of starting.
    #[error("the private Postgres did not start; {log} ends with: {tail}", log = log.display())]
    Start {
        /// Its log.
        log: PathBuf,
        /// Last lines of this start.
        tail: String,
    },
    /// The server does not answer.
    #[error("the private Postgres does not answer yet; see {log} and try again", log = log.display())]
    StartTimedOut {
        /// Its log.
        log: PathBuf,
    },
    /// The server does not end.
    #[error("the private Postgres (process {process_id}) does not stop")]
    StopTimedOut {
        /// Its process.
        process_id: i32,
    },
    /// The operating system refused.
    #[error("cannot {action} {path}", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Gives an I/O error its place.
pub(super) fn at(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> ClusterError {
    let path = path.to_owned();
    move |source| ClusterError::Io {
        action,
        path,
        source,
    }
}
