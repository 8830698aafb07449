use super::*;
use crate::store::testing::{FAST, Watcher, execute, watch};
use nix::unistd::Uid;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::process::Child;

/// A cluster in a temporary folder, stopped and removed even if the test is killed.
struct Scratch {
    cluster: Cluster,
    _watcher: Watcher,
    dir: tempfile::TempDir,
}

impl Scratch {
    fn new() -> Self {
        Self::in_dir(tempfile::tempdir().unwrap(), &FAST)
    }

    /// What was acknowledged survives a crash, as for a user.
    fn durable() -> Self {
        Self::in_dir(tempfile::tempdir().unwrap(), &[])
    }

    fn in_dir(dir: tempfile::TempDir, settings: &[&str]) -> Self {
        let cluster = Cluster::at(&dir.path().join("postgres")).unwrap();
        let cluster = cluster.with_settings(settings);
        let watcher = watch(&cluster);
        Self {
            cluster,
            _watcher: watcher,
            dir,
        }
    }

    fn process_id(&self) -> i32 {
        self.cluster
            .status()
            .unwrap()
            .process_id
            .expect("the server runs")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = self.cluster.stop();
        let _ = fs::remove_dir_all(&self.cluster.socket_dir);
    }
}

fn query(url: &str, sql: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(execute(url, sql));
}

#[test]
fn socket_path_fits_whatever_the_folder() {
    let deep = PathBuf::from("/")
        .join("d".repeat(300))
        .join("e".repeat(300));
    let cluster = Cluster::at(&deep).unwrap();
    let socket = cluster.socket_dir.join(folder::socket_name(PORT));
    // The kernel's limit is 108 bytes with the closing zero.
    assert!(socket.as_os_str().len() <= 107, "{}", socket.display());
    assert_ne!(
        cluster.socket_dir,
        Cluster::at(Path::new("/other")).unwrap().socket_dir
    );
}

#[test]
fn pid_file_is_read_only_when_whole() {
    let whole = "4711\n/data\n1700000000\n5432\n/tmp/socket\n\n  5 6\nready   \n";
    let pid_file = PidFile::parse(whole).unwrap();
    assert_eq!(pid_file.process_id, 4711);
    assert_eq!(pid_file.port, 5432);
    assert_eq!(pid_file.socket_dir, Path::new("/tmp/socket"));
    assert!(pid_file.is_ready);
    assert!(!PidFile::parse("4711\n/data\n").unwrap().is_ready);
    assert_eq!(PidFile::parse(""), None);
    // kill(0) and kill(-1) would hit everybody.
    assert_eq!(PidFile::parse("-1\n/data\n"), None);
    assert_eq!(PidFile::parse("0\n"), None);
}

#[test]
fn versions_are_read_from_what_postgres_says() {
    let of = program::major_version;
    assert_eq!(
        of("postgres (PostgreSQL) 15.16 (Debian 15.16-0+deb12u1)"),
        Some(15)
    );
    assert_eq!(of("postgres (PostgreSQL) 18beta1"), Some(18));
    assert_eq!(of("postgres (PostgreSQL) 9.6.24"), Some(9));
    assert_eq!(of("command not found"), None);
}

#[test]
fn programs_of_the_version_of_the_data_are_chosen() {
    let choose = |wanted| program::choose_version(&[17, 15, 12], wanted);
    assert_eq!(choose(None).unwrap(), 0);
    assert_eq!(choose(Some(15)).unwrap(), 1);
    // Data that exist are served by their own version, however old.
    assert_eq!(choose(Some(12)).unwrap(), 2);
    let error = choose(Some(16)).unwrap_err().to_string();
    assert!(error.contains("Postgres 16"), "{error}");
    assert!(error.contains("17, 15, 12"), "{error}");
    assert!(error.contains("postgresql-16"), "{error}");
    let error = program::choose_version(&[12, 11], None).unwrap_err();
    assert!(matches!(
        error,
        ClusterError::ProgramsTooOld { found: 12, min: 13 }
    ));
    let error = program::choose_version(&[], None).unwrap_err().to_string();
    assert!(error.contains("`postgresql`"), "{error}");
}

#[test]
fn server_starts_once_stops_and_keeps_its_data() {
    let scratch = Scratch::new();
    let cluster = &scratch.cluster;
    assert!(!cluster.stop().unwrap());
    assert_eq!(cluster.status().unwrap().data_version, None);
    // What an interrupted initdb left is no obstacle.
    folder::create_private(&cluster.dir.join("data.tmp/base")).unwrap();

    let url = cluster.ensure_started().unwrap();
    let process_id = scratch.process_id();
    query(&url, "CREATE TABLE kept (x int)");
    assert_eq!(cluster.ensure_started().unwrap(), url);
    assert_eq!(scratch.process_id(), process_id);
    assert!(!cluster.dir.join("data.tmp").exists());

    for path in [&cluster.dir, &cluster.socket_dir, &cluster.data_dir()] {
        let metadata = fs::metadata(path).unwrap();
        assert_eq!(metadata.mode() & 0o077, 0, "{} is private", path.display());
        assert_eq!(
            metadata.uid(),
            Uid::effective().as_raw(),
            "{} is ours",
            path.display()
        );
    }
    // A session of its own: no terminal's Ctrl-C reaches it.
    let session = nix::unistd::getsid(Some(Pid::from_raw(process_id))).unwrap();
    assert_eq!(session.as_raw(), process_id);

    assert!(cluster.stop().unwrap());
    assert!(!cluster.stop().unwrap());
    assert_eq!(cluster.status().unwrap().process_id, None);
    query(
        &cluster.ensure_started().unwrap(),
        "INSERT INTO kept VALUES (1)",
    );
}

#[test]
fn killed_server_starts_again() {
    let scratch = Scratch::durable();
    let url = scratch.cluster.ensure_started().unwrap();
    query(&url, "CREATE TABLE kept (x int)");
    for _ in 0..3 {
        let killed = scratch.process_id();
        kill(Pid::from_raw(killed), Signal::SIGKILL).unwrap();
        while folder::serves(killed, &scratch.cluster.data_dir()) {
            thread::sleep(POLL);
        }
        query(
            &scratch.cluster.ensure_started().unwrap(),
            "INSERT INTO kept VALUES (1)",
        );
        assert_ne!(scratch.process_id(), killed);
    }
}

#[test]
fn stale_pid_file_with_a_living_number_is_no_obstacle() {
    let scratch = Scratch::new();
    scratch.cluster.ensure_started().unwrap();
    let pid_path = PidFile::path(&scratch.cluster.data_dir());
    let text = fs::read_to_string(&pid_path).unwrap();
    let server = scratch.process_id().to_string();
    scratch.cluster.stop().unwrap();
    // After a restart of the machine the number belongs to somebody else: to this test.
    fs::write(
        &pid_path,
        text.replacen(&server, &std::process::id().to_string(), 1),
    )
    .unwrap();
    query(&scratch.cluster.ensure_started().unwrap(), "SELECT 1");
}

#[test]
fn data_of_another_version_are_explained() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.cluster.data_dir()).unwrap();
    let error = scratch.cluster.ensure_started().unwrap_err();
    assert!(matches!(error, ClusterError::NotACluster { .. }), "{error}");
    fs::write(scratch.cluster.data_dir().join("PG_VERSION"), "9\n").unwrap();
    let error = scratch.cluster.ensure_started().unwrap_err();
    assert!(
        matches!(error, ClusterError::VersionDiffers { data: 9, .. }),
        "{error}"
    );
    // Nothing of theirs was touched.
    assert_eq!(fs::read_dir(scratch.cluster.data_dir()).unwrap().count(), 1);
}

#[test]
fn broken_server_shows_the_end_of_its_log() {
    let scratch = Scratch::new();
    let broken = scratch
        .cluster
        .clone()
        .with_settings(&["no_such_setting=1"]);
    let error = broken.ensure_started().unwrap_err();
    assert!(matches!(&error, ClusterError::Start { tail, .. } if tail.contains("no_such_setting")));
    query(&scratch.cluster.ensure_started().unwrap(), "SELECT 1");
}

#[test]
fn open_socket_folder_is_refused() {
    let scratch = Scratch::new();
    let socket_dir = &scratch.cluster.socket_dir;
    fs::create_dir(socket_dir).unwrap();
    fs::set_permissions(socket_dir, fs::Permissions::from_mode(0o777)).unwrap();
    let error = scratch.cluster.ensure_started().unwrap_err();
    assert!(
        matches!(error, ClusterError::SocketFolderNotPrivate { .. }),
        "{error}"
    );
}

#[test]
fn url_survives_the_way_to_libpq_and_back() {
    let cluster = Cluster::at(Path::new("/somewhere")).unwrap();
    let url = cluster.url();
    assert!(
        url.starts_with("postgres://hyperopt@%2Ftmp%2Fhyperopt-"),
        "{url}"
    );
    assert!(
        url.ends_with("/postgres?options=-csearch_path%3Dhyperopt%2Cpublic"),
        "{url}"
    );
    let options: sqlx::postgres::PgConnectOptions = url.parse().unwrap();
    assert_eq!(options.get_socket(), Some(&cluster.socket_dir));
    assert_eq!(options.get_port(), PORT);
}

/// Names the folder for the processes below.
const CHILD_DIR: &str = "HYPEROPT_TEST_CLUSTER_DIR";

/// Starts `n` processes at once that each start the cluster in `dir`; returns the servers seen.
fn starters(n: usize, program: &Path, dir: &Path, uid: Option<u32>) -> Vec<String> {
    let children: Vec<Child> = (0..n)
        .map(|_| {
            let mut command = Command::new(program);
            command.args([
                "--exact",
                "store::cluster::tests::processes_meet_at_one_server",
            ]);
            // As cron does it, and worse: no HOME, a PATH without Postgres, a misleading port.
            command.args(["--nocapture"]).env_clear().current_dir("/");
            command
                .env("PATH", "/usr/bin:/bin")
                .env("PGPORT", "1")
                .env(CHILD_DIR, dir);
            command.stdout(Stdio::piped());
            if let Some(uid) = uid {
                command.uid(uid).gid(uid);
            }
            command.spawn().unwrap()
        })
        .collect();
    let servers = children.into_iter().map(|mut child| {
        let mut output = String::new();
        child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut output)
            .unwrap();
        assert!(child.wait().unwrap().success(), "{output}");
        let server = output.split("server=").nth(1).unwrap();
        server.split_whitespace().next().unwrap().to_owned()
    });
    servers.collect()
}

#[test]
fn processes_meet_at_one_server() {
    if let Some(dir) = std::env::var_os(CHILD_DIR) {
        let cluster = Cluster::at(Path::new(&dir)).unwrap().with_settings(&FAST);
        query(&cluster.ensure_started().unwrap(), "SELECT 1");
        println!("server={}", cluster.status().unwrap().process_id.unwrap());
        return;
    }
    let scratch = Scratch::new();
    let program = std::env::current_exe().unwrap();
    let servers = starters(4, &program, &scratch.cluster.dir, None);
    assert!(
        servers
            .iter()
            .all(|server| *server == scratch.process_id().to_string())
    );
    // It outlives the process that started it.
    query(&scratch.cluster.url(), "SELECT 1");
}

#[test]
fn ordinary_user_needs_nothing_of_root() {
    if !Uid::effective().is_root() {
        // Every other test here shows it already.
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let account = identity::accounts().last().unwrap();
    chown(dir.path(), Some(account.uid), Some(account.gid)).unwrap();
    let program = dir.path().join("program");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let data = dir.path().join("postgres");
    let servers = starters(2, &program, &data, Some(account.uid));
    assert_eq!(servers[0], servers[1]);
    assert_eq!(fs::metadata(data.join("data")).unwrap().uid(), account.uid);
    let server = Pid::from_raw(servers[0].parse().unwrap());
    kill(server, Signal::SIGQUIT).unwrap();
    while folder::serves(server.as_raw(), &data.join("data")) {
        thread::sleep(POLL);
    }
    let digest_dir = format!("/tmp/hyperopt-{}-", account.uid);
    let socket_dir = folder::socket_dir(&data);
    let tag = socket_dir
        .to_str()
        .unwrap()
        .rsplit('-')
        .next()
        .unwrap()
        .to_owned();
    fs::remove_dir_all(format!("{digest_dir}{tag}")).unwrap();
}

#[test]
fn root_without_namespaces_steps_down_to_an_account() {
    if !Uid::effective().is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let scratch = Scratch::in_dir(dir, &FAST);
    folder::create_private(&scratch.cluster.dir).unwrap();
    let account = identity::accounts().next().unwrap();
    let uid = account.uid;
    Identity::account(account, &scratch.cluster.dir).unwrap();
    // The owner of the folder decides from now on.
    query(&scratch.cluster.ensure_started().unwrap(), "SELECT 1");
    assert_eq!(fs::metadata(scratch.cluster.data_dir()).unwrap().uid(), uid);

    // Where the account cannot pass, the folder is named.
    scratch.cluster.stop().unwrap();
    fs::set_permissions(scratch.dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let error = scratch.cluster.ensure_started().unwrap_err();
    assert!(matches!(error, ClusterError::CannotReach { .. }), "{error}");
    // A folder of anybody else is not ours to take.
    chown(&scratch.cluster.dir, Some(54_321), None).unwrap();
    let error = scratch.cluster.ensure_started().unwrap_err();
    assert!(
        matches!(error, ClusterError::WrongOwner { owner: 54_321, .. }),
        "{error}"
    );
}
