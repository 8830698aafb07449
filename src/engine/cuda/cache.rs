//! Compiled kernels on disk, by the digest of everything that made them.
//!
//! # Invariants
//! - A file is whole or absent: it is written beside its place and moved there.
//! - A cache that cannot be read or written costs time, never a run.

use std::path::PathBuf;
use tracing::debug;

/// The folder of compiled kernels.
#[derive(Debug, Clone)]
pub(super) struct Cache {
    folder: Option<PathBuf>,
}

impl Cache {
    /// The user's cache folder; none without `HOME` and `XDG_CACHE_HOME`.
    pub(super) fn of_user() -> Self {
        let absolute = |name: &str| {
            let path = std::env::var_os(name).map(PathBuf::from);
            path.filter(|path| path.is_absolute())
        };
        let base = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
        Self {
            folder: base.map(|base| base.join("hyperopt").join("kernels")),
        }
    }

    /// Reads what was stored under `digest`.
    pub(super) fn get(&self, digest: &str) -> Option<Vec<u8>> {
        std::fs::read(self.path(digest)?).ok()
    }

    /// Stores compiled code.
    pub(super) fn put(&self, digest: &str, cubin: &[u8]) {
        let Some(path) = self.path(digest) else {
            return;
        };
        let beside = path.with_extension(format!("{}.part", std::process::id()));
        let folder = path.parent().expect("joined to a folder");
        let stored = std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(&beside, cubin))
            .and_then(|()| std::fs::rename(&beside, &path));
        if let Err(error) = stored {
            debug!(%error, path = %path.display(), "compiled kernels were not cached");
        }
    }

    /// Forgets code that the driver refused.
    pub(super) fn remove(&self, digest: &str) {
        if let Some(path) = self.path(digest) {
            // Gone already is as good.
            let _ = std::fs::remove_file(path);
        }
    }

    fn path(&self, digest: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{digest}.cubin")))
    }
}
