//! The private Postgres cluster: found, created, started on demand, shared by later commands.
//!
//! Everything here blocks; callers inside an async runtime use `spawn_blocking`.
//!
//! # Invariants
//! - The folder of the data decides everything: two commands with the same one meet at the same
//!   server, whatever their other environment.
//! - Creating, starting and stopping happen under an exclusive lock on `DIR/lock`.
//! - `DIR/data` exists only once `initdb` has finished: it works in `DIR/data.tmp`.
//! - The server listens on a Unix socket in a folder that only its owner can enter.
//! - The server belongs to a session of its own: neither Ctrl-C nor a closed terminal ends it.
//! - Data are durable: the server runs with Postgres' own settings unless a test says otherwise.
#![expect(
    unsafe_code,
    reason = "the child enters its session and user namespace between fork and exec"
)]

mod error;
mod folder;
mod identity;
mod program;
#[cfg(test)]
mod tests;

pub use error::ClusterError;

use error::at;
use folder::PidFile;
use identity::Identity;
use nix::fcntl::OFlag;
use nix::sched::CloneFlags;
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::unistd::Pid;
use program::Programs;
use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Longest wait for a server to answer; crash recovery after a power cut takes its time.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Longest wait for a fast shutdown, and then for an immediate one.
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// Pause between two looks at a server.
const POLL: Duration = Duration::from_millis(10);
/// A log above this size is set aside at the next start.
const LOG_BYTES_MAX: u64 = 8 << 20;
/// Names the socket file; the server listens on no network.
const PORT: u16 = 5432;

/// A cluster under a folder; the server may or may not run.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Absolute; holds `data`, `lock` and `log`.
    dir: PathBuf,
    /// Short, because a socket's path may have 107 bytes.
    socket_dir: PathBuf,
    /// Server settings beyond the defaults, `name=value`.
    settings: Vec<String>,
}

/// What is known of a cluster without starting it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterStatus {
    /// Folder of the cluster.
    pub dir: PathBuf,
    /// Folder of the socket.
    pub socket_dir: PathBuf,
    /// The server's log.
    pub log: PathBuf,
    /// Major version of the data, once created.
    pub data_version: Option<u32>,
    /// Process of the server, while it accepts connections.
    pub process_id: Option<i32>,
}

impl Cluster {
    /// Finds where this user's cluster lives; creates and starts nothing.
    ///
    /// `$XDG_DATA_HOME/hyperopt/postgres`, else `$HOME/.local/share/hyperopt/postgres`, else the
    /// same under the home folder of the passwd entry.
    ///
    /// # Errors
    /// [`ClusterError::NoHome`] where none of them is known.
    pub fn locate() -> Result<Self, ClusterError> {
        Self::at(&folder::user_data()?.join("hyperopt").join("postgres"))
    }

    /// Names the cluster in a folder, which need not exist yet.
    ///
    /// # Errors
    /// [`ClusterError::Io`] where a relative path cannot be resolved.
    pub fn at(dir: &Path) -> Result<Self, ClusterError> {
        let dir = std::path::absolute(dir).map_err(at(dir, "resolve"))?;
        let socket_dir = folder::socket_dir(&dir);
        Ok(Self {
            dir,
            socket_dir,
            settings: Vec::new(),
        })
    }

    /// Adds server settings (`fsync=off`), for tests; a user's results are always durable.
    #[doc(hidden)]
    pub fn with_settings(mut self, settings: &[&str]) -> Self {
        self.settings.extend(settings.iter().map(|&s| s.to_owned()));
        self
    }

    /// Returns the folder of the cluster.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the URL of the server, with the search path that people expect.
    pub fn url(&self) -> String {
        let socket_dir = match self.pid_file() {
            Some(pid_file) if self.owns(&pid_file) => pid_file.socket_dir,
            Some(_) | None => self.socket_dir.clone(),
        };
        let host = folder::percent_encode(&socket_dir);
        format!(
            "postgres://hyperopt@{host}:{PORT}/postgres?options=-csearch_path%3Dhyperopt%2Cpublic"
        )
    }

    /// Starts the server unless it runs, creating the cluster first where there is none.
    ///
    /// Safe from several processes at once, and after any of them, or the server, was killed.
    /// Returns the URL.
    ///
    /// # Errors
    /// Any [`ClusterError`]; each names its remedy.
    pub fn ensure_started(&self) -> Result<String, ClusterError> {
        if self.running().is_some() {
            return Ok(self.url());
        }
        folder::create_private(&self.dir)?;
        let _lock = self.lock()?;
        if self.running().is_some() {
            return Ok(self.url());
        }
        let identity = Identity::choose(&self.dir)?;
        let programs = Programs::find(self.data_version()?)?;
        folder::create_socket_dir(&self.socket_dir, &identity)?;
        if self.data_version()?.is_none() {
            self.initialise(&programs, &identity)?;
        }
        self.start(&programs, &identity)?;
        Ok(self.url())
    }

    /// Stops the server; running commands lose their connections. Says whether one ran.
    ///
    /// # Errors
    /// [`ClusterError::StopTimedOut`] if the process outlives even an immediate shutdown.
    pub fn stop(&self) -> Result<bool, ClusterError> {
        if !self.dir.exists() {
            return Ok(false);
        }
        let _lock = self.lock()?;
        let Some(pid_file) = self.pid_file().filter(|pid_file| self.owns(pid_file)) else {
            return Ok(false);
        };
        for signal in [Signal::SIGINT, Signal::SIGQUIT] {
            // An error means that the process is gone, which the loop finds out.
            let _ = kill(Pid::from_raw(pid_file.process_id), signal);
            let deadline = Instant::now() + STOP_LIMIT;
            while Instant::now() < deadline {
                if !self.owns(&pid_file) {
                    return Ok(true);
                }
                thread::sleep(POLL);
            }
        }
        Err(ClusterError::StopTimedOut {
            process_id: pid_file.process_id,
        })
    }

    /// Looks at the cluster; starts nothing.
    ///
    /// # Errors
    /// [`ClusterError::Io`] or [`ClusterError::NotACluster`] where the data cannot be read.
    pub fn status(&self) -> Result<ClusterStatus, ClusterError> {
        Ok(ClusterStatus {
            dir: self.dir.clone(),
            socket_dir: self.socket_dir.clone(),
            log: self.log_path(),
            data_version: self.data_version()?,
            process_id: self.running().map(|pid_file| pid_file.process_id),
        })
    }

    /// Prepares `psql` at this cluster, or at `url` where one is given.
    ///
    /// The caller adds arguments and runs it. Variables such as PGHOST are cleared for the
    /// private cluster, since they would lead elsewhere.
    ///
    /// # Errors
    /// [`ClusterError::ProgramsMissing`] where there is no `psql`.
    pub fn psql(url: Option<&str>) -> Result<Command, ClusterError> {
        let program = program::find_client("psql")?;
        let mut command = Command::new(program);
        match url {
            Some(url) => {
                command.arg(url);
            }
            None => {
                program::clear_environment(&mut command);
                command.arg(Self::locate()?.ensure_started()?);
            }
        }
        Ok(command)
    }

    fn data_dir(&self) -> PathBuf {
        self.dir.join("data")
    }

    fn log_path(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// Takes the lock; it falls with the file, and so with the process.
    fn lock(&self) -> Result<File, ClusterError> {
        let path = self.dir.join("lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(at(&path, "open"))?;
        file.lock().map_err(at(&path, "lock"))?;
        Ok(file)
    }

    fn data_version(&self) -> Result<Option<u32>, ClusterError> {
        folder::data_version(&self.data_dir())
    }

    fn pid_file(&self) -> Option<PidFile> {
        PidFile::read(&self.data_dir())
    }

    /// Decides whether the process of a pid file is alive and serves this very data folder.
    fn owns(&self, pid_file: &PidFile) -> bool {
        folder::serves(pid_file.process_id, &self.data_dir())
    }

    /// Returns the pid file of a server that accepts connections.
    fn running(&self) -> Option<PidFile> {
        let pid_file = self.pid_file().filter(|pid_file| pid_file.is_ready)?;
        let socket = pid_file.socket_dir.join(folder::socket_name(pid_file.port));
        UnixStream::connect(socket).is_ok().then_some(pid_file)
    }

    fn initialise(&self, programs: &Programs, identity: &Identity) -> Result<(), ClusterError> {
        let unfinished = self.dir.join("data.tmp");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).map_err(at(&unfinished, "remove"))?;
        }
        let mut output = initdb(programs, identity, &unfinished, "C.UTF-8")?;
        if !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("locale") {
            // Systems without C.UTF-8 have C, which sorts the same.
            output = initdb(programs, identity, &unfinished, "C")?;
        }
        if !output.status.success() {
            return Err(ClusterError::Initdb {
                output: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            });
        }
        fs::rename(&unfinished, self.data_dir()).map_err(at(&unfinished, "rename"))?;
        let dir = File::open(&self.dir).map_err(at(&self.dir, "open"))?;
        dir.sync_all().map_err(at(&self.dir, "sync"))
    }

    /// Starts the server and waits until it accepts connections. The caller holds the lock.
    fn start(&self, programs: &Programs, identity: &Identity) -> Result<(), ClusterError> {
        let log = self.log_path();
        let deadline = Instant::now() + START_LIMIT;
        let mut child: Option<(Child, u64)> = None;
        while Instant::now() < deadline {
            if self.running().is_some() {
                if let Some((mut process, _)) = child {
                    // Reaped when it ends: a zombie would look like a living postmaster.
                    thread::spawn(move || process.wait());
                }
                return Ok(());
            }
            match &mut child {
                None => {
                    if let Some(pid_file) = self.pid_file() {
                        if self.owns(&pid_file) {
                            // Somebody's server is starting or stopping: see what becomes of it.
                            thread::sleep(POLL);
                            continue;
                        }
                        // Postgres would take any living process with that number for its own.
                        let path = PidFile::path(&self.data_dir());
                        fs::remove_file(&path).map_err(at(&path, "remove"))?;
                    }
                    child = Some(self.spawn(programs, identity)?);
                }
                Some((process, log_bytes)) => {
                    if process.try_wait().map_err(at(&log, "wait"))?.is_some() {
                        let tail = folder::tail(&log, *log_bytes);
                        // Backends of a killed server take a moment to notice that it is gone.
                        if !tail.contains("shared memory block") {
                            return Err(ClusterError::Start { log, tail });
                        }
                        child = None;
                        thread::sleep(10 * POLL);
                    }
                }
            }
            thread::sleep(POLL);
        }
        Err(ClusterError::StartTimedOut { log })
    }

    /// Launches the server; returns it with the size of its log before.
    fn spawn(
        &self,
        programs: &Programs,
        identity: &Identity,
    ) -> Result<(Child, u64), ClusterError> {
        let log_path = self.log_path();
        let log_bytes = fs::metadata(&log_path).map_or(0, |metadata| metadata.len());
        let log_bytes = if log_bytes > LOG_BYTES_MAX {
            fs::rename(&log_path, self.dir.join("log.old")).map_err(at(&log_path, "rename"))?;
            0
        } else {
            log_bytes
        };
        let log = folder::open_log(&log_path)?;
        let errors = log.try_clone().map_err(at(&log_path, "share"))?;
        let mut command = Command::new(programs.path("postgres"));
        command.arg("-D").arg(self.data_dir());
        command.arg("-k").arg(&self.socket_dir);
        command.args(["-c", "listen_addresses="]);
        command.args(["-c", "unix_socket_permissions=0700"]);
        command.arg("-c").arg(format!("port={PORT}"));
        for setting in &self.settings {
            command.arg("-c").arg(setting);
        }
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        enter(&mut command, identity, Session::Own);
        let child = command
            .spawn()
            .map_err(at(&programs.path("postgres"), "run"))?;
        Ok((child, log_bytes))
    }
}

fn initdb(
    programs: &Programs,
    identity: &Identity,
    data_dir: &Path,
    locale: &str,
) -> Result<Output, ClusterError> {
    let path = programs.path("initdb");
    let mut command = Command::new(&path);
    command.arg("-D").arg(data_dir);
    command.args(["-U", "hyperopt", "-A", "trust", "-E", "UTF8"]);
    command.arg(format!("--locale={locale}"));
    command.stdin(Stdio::null());
    enter(&mut command, identity, Session::Shared);
    command.output().map_err(at(&path, "run"))
}

/// Decides whether this machine lets us enter a user namespace.
fn namespace_works(identity: &Identity) -> bool {
    let mut command = Command::new("/bin/true");
    command.stdin(Stdio::null());
    enter(&mut command, identity, Session::Shared);
    command.status().is_ok_and(|status| status.success())
}

/// Whether a child shares the session of its parent, and so its Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Session {
    Shared,
    Own,
}

/// Makes a command run under `identity`, with a clean environment, in `/`.
fn enter(command: &mut Command, identity: &Identity, session: Session) {
    program::clear_environment(command);
    command.current_dir("/");
    let maps = match identity {
        Identity::Own => None,
        Identity::Namespace(maps) => Some(maps.lines()),
        Identity::Account(account) => {
            command.uid(account.uid).gid(account.gid);
            None
        }
    };
    // SAFETY: the closure runs in the child between fork and exec, where only async-signal-safe
    // calls are allowed: it makes the system calls setsid, unshare, open, write and close, on
    // strings built before the fork, and allocates nothing.
    unsafe {
        command.pre_exec(move || {
            if session == Session::Own {
                nix::unistd::setsid()?;
            }
            if let Some(lines) = &maps {
                nix::sched::unshare(CloneFlags::CLONE_NEWUSER)?;
                for (path, line) in lines {
                    let file = nix::fcntl::open(*path, OFlag::O_WRONLY, Mode::empty())?;
                    nix::unistd::write(&file, line.as_bytes())?;
                }
            }
            Ok(())
        });
    }
}
