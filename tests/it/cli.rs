//! The command as people and cron run it: a process with a bare environment and no terminal.
//!
//! One private cluster serves all tests of this file; the last one out stops it. The studies are
//! written by SQL, since what is tested here is how they are told.

use assert_cmd::Command;
use serde_json::Value;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tempfile::TempDir;

/// A user's data folder with a running private Postgres.
struct Home {
    folder: TempDir,
}

impl Home {
    /// Returns the folder that all tests share, with the study `demo` in it.
    fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<Home>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(home) = shared.upgrade() {
            return home;
        }
        let home = Arc::new(Self {
            folder: tempfile::tempdir().unwrap(),
        });
        home.hyperopt(&["list"]).assert().success();
        home.sql(include_str!("cli/demo.sql"));
        *shared = Arc::downgrade(&home);
        home
    }

    fn hyperopt(&self, args: &[&str]) -> Command {
        let mut command = bare(args);
        command.env("XDG_DATA_HOME", self.folder.path());
        command
    }

    /// Runs statements through the program's own psql and returns what it prints, unaligned.
    fn sql(&self, statements: &str) -> String {
        let args = [
            "db",
            "psql",
            "-X",
            "-q",
            "-t",
            "-A",
            "-v",
            "ON_ERROR_STOP=1",
        ];
        let mut command = self.hyperopt(&args);
        let output = command.write_stdin(statements).assert().success();
        text(&output.get_output().stdout)
    }

    fn json(&self, args: &[&str]) -> Vec<Value> {
        let output = self.hyperopt(args).arg("--json").assert().success();
        serde_json::from_slice(&output.get_output().stdout).unwrap()
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        self.hyperopt(&["db", "stop"]).assert().success();
    }
}

/// The program with nothing in its environment, as cron is at its worst.
fn bare(args: &[&str]) -> Command {
    let mut command = assert_cmd::cargo::cargo_bin_cmd!("hyperopt");
    command.env_clear().args(args);
    // Where the machine names Postgres explicitly, so do the tests.
    if let Some(bin) = std::env::var_os("HYPEROPT_POSTGRES_BIN") {
        command.env("HYPEROPT_POSTGRES_BIN", bin);
    }
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Asserts that a command ends with `code` and a complaint on stderr alone, and returns that.
fn complaint(mut command: Command, code: i32) -> String {
    let output = command.assert().code(code);
    assert_eq!(text(&output.get_output().stdout), "");
    text(&output.get_output().stderr)
}

#[test]
fn help_tells_the_commands_and_exit_codes() {
    let output = bare(&["--help"]).assert().success();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.bind(|| insta::assert_snapshot!("cli_help", text(&output.get_output().stdout)));
}

#[test]
fn wrong_usage_ends_with_2() {
    assert!(complaint(bare(&["lsit"]), 2).contains("similar subcommand exists: 'list'"));
    assert!(complaint(bare(&["show"]), 2).contains("<STUDY>"));
    let loud = complaint(bare(&["list", "--log-level", "loud"]), 2);
    assert!(
        loud.contains("error: ") && loud.contains("invalid log filter \"loud\""),
        "{loud}"
    );
    assert!(loud.contains("help: "), "{loud}");
}

#[test]
fn an_unreachable_server_is_told_with_its_cause() {
    let nowhere = "postgres://nobody@127.0.0.1:1/nowhere";
    let said = complaint(bare(&["list", "--database-url", nowhere]), 1);
    assert!(said.starts_with("error: "), "{said}");
    assert!(said.contains("because: "), "{said}");
    assert!(
        !said.contains("Error {") && !said.contains("Os {"),
        "no Debug output: {said}"
    );
}

#[test]
fn a_new_database_has_no_studies() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home { folder };
    let output = home.hyperopt(&["list"]).assert().success();
    assert!(text(&output.get_output().stdout).contains("no studies yet"));
    assert_eq!(home.json(&["list"]), Vec::<Value>::new());
    let said = complaint(home.hyperopt(&["best", "nothing"]), 1);
    assert!(said.contains("there is no study nothing"), "{said}");
}

#[test]
fn every_table_is_told_to_people_and_to_programs() {
    let home = Home::shared();
    for (args, heading) in [
        (vec!["list"], "study"),
        (vec!["show", "demo"], "study"),
        (vec!["trials", "demo"], "trial_id"),
        (vec!["best", "demo"], "rank"),
        (vec!["compare", "demo"], "study"),
    ] {
        let output = home.hyperopt(&args).assert().success();
        let told = text(&output.get_output().stdout);
        assert!(told.starts_with(heading), "{args:?}: {told}");
        assert_eq!(text(&output.get_output().stderr), "", "{args:?}");
        assert!(
            !told.contains('\u{1b}'),
            "{args:?}: no colour without a terminal"
        );
        assert!(!home.json(&args).is_empty(), "{args:?}");
    }
}

#[test]
fn json_tells_the_same_as_the_views() {
    let home = Home::shared();
    let [studies, best, trials, compared] = [
        vec!["list"],
        vec!["best", "demo"],
        vec!["trials", "demo"],
        vec!["compare", "demo"],
    ]
    .map(|args| home.json(&args));

    let study = studies
        .iter()
        .find(|study| study["study"] == "demo")
        .unwrap();
    assert_eq!(study["state"], "complete");
    assert_eq!(
        (&study["n_trials"], &study["n_failed"]),
        (&6.into(), &1.into())
    );

    // Configuration 2 is not ranked: its bf16 trial failed.
    assert_eq!(best.len(), 2);
    assert_eq!(
        (&best[0]["number"], &best[0]["value"]),
        (&1.into(), &1.5.into())
    );
    assert_eq!(best[0]["params"]["train.lr"], 0.0002);
    assert_eq!(best[0]["params"]["model.double"], true);

    assert_eq!(trials.len(), 6);
    let failed: Vec<&Value> = trials
        .iter()
        .filter(|trial| trial["state"] == "failed")
        .collect();
    assert_eq!(failed[0]["failure_kind"], "diverged");
    assert_eq!(failed[0]["value"], Value::Null);

    let [row] = compared.as_slice() else {
        panic!("one arm beside the reference");
    };
    assert_eq!(
        (&row["n_pairs"], &row["n_lost_arm"]),
        (&2.into(), &1.into())
    );
    // Emulated precision has no speed; everything else stands beside it.
    assert_eq!(row["epoch_time_ratio"], Value::Null);
    assert!(row["timing_note"].as_str().unwrap().contains("emulated"));
    let sql = home.sql("SELECT row_to_json(c) FROM precision_comparison AS c WHERE study = 'demo'");
    assert_eq!(
        *row,
        serde_json::from_str::<Value>(&sql).unwrap(),
        "program and SQL agree"
    );
}

#[test]
fn trials_are_filtered() {
    let home = Home::shared();
    let failed = home.json(&["trials", "demo", "--state", "failed"]);
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["precision"], "bf16");
    let reference = home.json(&["trials", "demo", "--precision", "f32"]);
    assert_eq!(reference.len(), 3);
    let output = home
        .hyperopt(&["trials", "demo", "--state", "waiting"])
        .assert()
        .success();
    assert_eq!(text(&output.get_output().stdout), "no such trials\n");
    assert_eq!(home.json(&["best", "demo", "--top", "1"]).len(), 1);
}

#[test]
fn deleting_needs_a_yes_and_leaves_nothing() {
    let home = Home::shared();
    let copy = include_str!("cli/demo.sql").replace("'demo'", "'doomed'");
    home.sql(&copy);
    let said = complaint(home.hyperopt(&["delete", "doomed"]), 2);
    assert!(said.contains("--yes"), "{said}");
    home.hyperopt(&["delete", "doomed", "--yes"])
        .assert()
        .success();
    let said = complaint(home.hyperopt(&["delete", "doomed", "--yes"]), 1);
    assert!(said.contains("doomed"), "{said}");
    let orphans = home.sql("SELECT count(*) FROM trial_overview WHERE study = 'doomed'");
    assert_eq!(orphans.trim(), "0");
    assert_eq!(
        home.json(&["trials", "demo"]).len(),
        6,
        "the other study stays"
    );
}

#[test]
fn a_reader_that_leaves_is_no_failure() {
    let home = Home::shared();
    let program = assert_cmd::cargo::cargo_bin!("hyperopt");
    let mut child = std::process::Command::new(program)
        .args(["trials", "demo", "--json"])
        .env_clear()
        .env("XDG_DATA_HOME", home.folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn the_private_database_is_for_other_tools_too() {
    let home = Home::shared();
    let output = home.hyperopt(&["db", "url"]).assert().success();
    let url = text(&output.get_output().stdout);
    assert!(url.starts_with("postgres://"), "{url}");
    assert_eq!(home.sql("SHOW search_path").trim(), "hyperopt,public");
    // The URL alone leads to the same place: the program takes it like any server's.
    let url = url.trim();
    let output = bare(&["list", "--json", "--database-url", url])
        .assert()
        .success();
    let studies: Vec<Value> = serde_json::from_slice(&output.get_output().stdout).unwrap();
    assert!(studies.iter().any(|study| study["study"] == "demo"));
    let said = complaint(bare(&["db", "stop", "--database-url", url]), 2);
    assert!(said.contains("private database"), "{said}");
}

#[test]
fn psql_keeps_its_own_exit_code() {
    let home = Home::shared();
    let args = [
        "db",
        "psql",
        "-X",
        "-v",
        "ON_ERROR_STOP=1",
        "-c",
        "SELECT nonsense",
    ];
    // 1 is what psql gives for a failed -c.
    home.hyperopt(&args).assert().code(1);
}
