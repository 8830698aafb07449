//! As whom the server runs: Postgres refuses uid 0.
//!
//! # Invariants
//! - An ordinary user's server is that user's.
//! - Root's server runs in a user namespace with one entry, so its files stay root's, in any
//!   folder; where namespaces are forbidden it runs as an account and the folder becomes the
//!   account's.
//! - The owner of existing data decides: what once ran as an account goes on so.

use super::error::{ClusterError, at};
use nix::unistd::{Gid, Uid, User};
use std::ffi::CStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Accounts that may stand in for root, best first.
const ACCOUNTS: [&str; 2] = ["postgres", "nobody"];

/// As whom the server runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Identity {
    /// As the caller.
    Own,
    /// As the caller, who has another number inside a user namespace.
    Namespace(Maps),
    /// As another account; the caller is root.
    Account(Account),
}

/// The numbers of a user namespace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Maps {
    /// User inside: one with a passwd entry, which initdb looks up.
    uid_inside: u32,
    uid: u32,
    gid: u32,
}

/// An account from passwd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Account {
    pub(super) name: String,
    pub(super) uid: u32,
    pub(super) gid: u32,
}

impl Maps {
    fn new() -> Self {
        let stand_in = accounts().next().map_or(1000, |account| account.uid);
        Self {
            uid_inside: stand_in,
            uid: Uid::effective().as_raw(),
            gid: Gid::effective().as_raw(),
        }
    }

    /// Returns what to write into which file, in this order.
    pub(super) fn lines(&self) -> [(&'static CStr, String); 3] {
        [
            (c"/proc/self/setgroups", "deny".to_owned()),
            (
                c"/proc/self/uid_map",
                format!("{} {} 1", self.uid_inside, self.uid),
            ),
            (c"/proc/self/gid_map", format!("1000 {} 1", self.gid)),
        ]
    }
}

impl Identity {
    /// Chooses as whom to run a server whose files are in `dir`, which exists.
    pub(super) fn choose(dir: &Path) -> Result<Self, ClusterError> {
        let uid = Uid::effective();
        let owner = fs::metadata(dir).map_err(at(dir, "look at"))?.uid();
        if owner != uid.as_raw() {
            let account = accounts().find(|account| account.uid == owner);
            return match account {
                Some(account) if uid.is_root() => Self::account(account, dir),
                Some(_) | None => Err(ClusterError::WrongOwner {
                    path: dir.to_owned(),
                    owner,
                    uid: uid.as_raw(),
                }),
            };
        }
        let is_known = User::from_uid(uid).is_ok_and(|user| user.is_some());
        if !uid.is_root() && is_known {
            return Ok(Self::Own);
        }
        // Root, or a user without passwd entry, which initdb refuses as well.
        let namespace = Self::Namespace(Maps::new());
        if super::namespace_works(&namespace) {
            return Ok(namespace);
        }
        if !uid.is_root() {
            return Ok(Self::Own);
        }
        Self::account(accounts().next().ok_or(ClusterError::NoAccount)?, dir)
    }

    /// Steps down to an account: makes it the owner of `dir` and everything in it.
    pub(super) fn account(account: Account, dir: &Path) -> Result<Self, ClusterError> {
        give(dir, &account)?;
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "cd \"$1\"", "sh"]).arg(dir);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command.uid(account.uid).gid(account.gid).current_dir("/");
        if command.status().is_ok_and(|status| status.success()) {
            return Ok(Self::Account(account));
        }
        Err(ClusterError::CannotReach {
            account: account.name,
            path: dir.to_owned(),
        })
    }

    /// Returns who owns the server's files.
    pub(super) fn owner(&self) -> u32 {
        match self {
            Self::Own | Self::Namespace(_) => Uid::effective().as_raw(),
            Self::Account(account) => account.uid,
        }
    }
}

/// Lists the accounts that this machine has.
pub(super) fn accounts() -> impl Iterator<Item = Account> {
    ACCOUNTS.iter().filter_map(|name| {
        let user = User::from_name(name).ok().flatten()?;
        Some(Account {
            name: (*name).to_owned(),
            uid: user.uid.as_raw(),
            gid: user.gid.as_raw(),
        })
    })
}

fn give(path: &Path, account: &Account) -> Result<(), ClusterError> {
    let metadata = fs::symlink_metadata(path).map_err(at(path, "look at"))?;
    if metadata.is_symlink() {
        return Ok(());
    }
    if metadata.uid() != account.uid {
        chown(path, Some(account.uid), Some(account.gid)).map_err(at(path, "chown"))?;
    }
    if metadata.is_dir() {
        for entry in fs::read_dir(path).map_err(at(path, "list"))? {
            give(&entry.map_err(at(path, "list"))?.path(), account)?;
        }
    }
    Ok(())
}
