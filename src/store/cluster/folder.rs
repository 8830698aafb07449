//! The folders and files of a cluster.
//!
//! # Invariants
//! - Only the owner can enter the cluster's folder and the socket's.
//! - The socket's folder depends on the user and the cluster's folder alone.

use super::error::{ClusterError, at};
use super::identity::Identity;
use nix::unistd::{Uid, User};
use sha2::{Digest, Sha256};
use std::env;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, chown};
use std::path::{Path, PathBuf};

/// What a server writes about itself into `postmaster.pid`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PidFile {
    pub(super) process_id: i32,
    pub(super) port: u16,
    pub(super) socket_dir: PathBuf,
    pub(super) is_ready: bool,
}

impl PidFile {
    pub(super) fn path(data_dir: &Path) -> PathBuf {
        data_dir.join("postmaster.pid")
    }

    /// Reads the file; `None` while it is missing or half written.
    pub(super) fn read(data_dir: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(Self::path(data_dir)).ok()?)
    }

    /// Lines: process, data folder, start, port, socket folder, address, memory key, status.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        Some(Self {
            process_id: lines.first()?.parse().ok().filter(|&pid| pid > 0)?,
            port: lines.get(3).and_then(|line| line.parse().ok()).unwrap_or(0),
            socket_dir: lines.get(4).map(PathBuf::from).unwrap_or_default(),
            is_ready: lines.get(7) == Some(&"ready"),
        })
    }
}

/// Returns the user's data folder.
pub(super) fn user_data() -> Result<PathBuf, ClusterError> {
    let absolute = |name| {
        let path = env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    if let Some(dir) = absolute("XDG_DATA_HOME") {
        return Ok(dir);
    }
    let uid = Uid::effective();
    let home = absolute("HOME").or_else(|| {
        let user = User::from_uid(uid).ok().flatten()?;
        Some(user.dir).filter(|dir| dir.is_absolute())
    });
    match home {
        Some(home) => Ok(home.join(".local").join("share")),
        None => Err(ClusterError::NoHome { uid: uid.as_raw() }),
    }
}

/// Returns the folder of the socket for a cluster in `dir`.
///
/// In `/tmp`, which is short, the same for cron and for a terminal, and on a file system that
/// knows sockets; a run-time folder vanishes when its session ends.
pub(super) fn socket_dir(dir: &Path) -> PathBuf {
    let digest = Sha256::digest(dir.as_os_str().as_bytes());
    let tag: String = digest[..6].iter().map(|b| format!("{b:02x}")).collect();
    PathBuf::from(format!("/tmp/hyperopt-{}-{tag}", Uid::effective()))
}

/// Returns the file name of the socket.
pub(super) fn socket_name(port: u16) -> String {
    format!(".s.PGSQL.{port}")
}

/// Creates a folder, and its parents, that only its owner can enter.
pub(super) fn create_private(dir: &Path) -> Result<(), ClusterError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(at(dir, "create"))
}

/// Creates the folder of the socket, or checks that the one there is private.
pub(super) fn create_socket_dir(dir: &Path, identity: &Identity) -> Result<(), ClusterError> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Ok(()) => {
            if let Identity::Account(account) = identity {
                chown(dir, Some(account.uid), Some(account.gid)).map_err(at(dir, "chown"))?;
            }
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(at(dir, "create")(error)),
    }
    let metadata = fs::symlink_metadata(dir).map_err(at(dir, "look at"))?;
    let is_private =
        metadata.is_dir() && metadata.uid() == identity.owner() && metadata.mode() & 0o077 == 0;
    match is_private {
        true => Ok(()),
        false => Err(ClusterError::SocketFolderNotPrivate {
            path: dir.to_owned(),
            uid: identity.owner(),
        }),
    }
}

/// Opens the log for appending; only the owner can read it.
pub(super) fn open_log(path: &Path) -> Result<File, ClusterError> {
    File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map_err(at(path, "open"))
}

/// Returns the last lines of a log from a position on.
pub(super) fn tail(path: &Path, from_bytes: u64) -> String {
    let mut text = Vec::new();
    // A log that cannot be read has no last lines; the error that asks for them says the rest.
    let _ = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(from_bytes))?;
        file.read_to_end(&mut text)
    });
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(8)..].join("\n")
}

/// Reads the major version of a data folder; `None` where there is no folder.
pub(super) fn data_version(data_dir: &Path) -> Result<Option<u32>, ClusterError> {
    let path = data_dir.join("PG_VERSION");
    match fs::read_to_string(&path) {
        Ok(text) => match text.trim().parse() {
            Ok(version) => Ok(Some(version)),
            Err(_) => Err(ClusterError::NotACluster {
                path: data_dir.to_owned(),
            }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => match data_dir.exists() {
            true => Err(ClusterError::NotACluster {
                path: data_dir.to_owned(),
            }),
            false => Ok(None),
        },
        Err(error) => Err(at(&path, "read")(error)),
    }
}

/// Decides whether a process is alive and is a server of `data_dir`.
///
/// A postmaster works in its data folder. After a restart of the machine or a container its
/// number may belong to any other process; a zombie has no folder.
#[cfg(target_os = "linux")]
pub(super) fn serves(process_id: i32, data_dir: &Path) -> bool {
    let cwd = fs::read_link(format!("/proc/{process_id}/cwd"));
    match (cwd, data_dir.canonicalize()) {
        (Ok(cwd), Ok(data_dir)) => cwd == data_dir,
        (Err(_), _) | (_, Err(_)) => false,
    }
}

/// Decides whether a process is alive; this system does not tell what it serves.
#[cfg(not(target_os = "linux"))]
pub(super) fn serves(process_id: i32, _data_dir: &Path) -> bool {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(process_id), None).is_ok()
}

/// Encodes a path as the host of a URL.
pub(super) fn percent_encode(path: &Path) -> String {
    let mut text = String::new();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => {
                text.push(char::from(byte))
            }
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}
