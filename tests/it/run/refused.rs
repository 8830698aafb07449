//! What the program refuses, with what to do about it.

use super::{Home, Sweep, code, stderr, stdout};
use std::path::Path;

#[test]
fn a_changed_file_is_refused_with_what_changed() {
    let home = Home::shared();
    let sweep = Sweep {
        configurations: 1,
        ..Sweep::new("changed")
    };
    let before = home.complete(&sweep);
    let wider = sweep.space.replace("1e-2", "2e-2");
    let changed = Sweep {
        space: wider,
        min_trades: 3,
        ..sweep.clone()
    };
    let output = home.run(&changed, &[]);
    assert_eq!((code(&output), stdout(&output).as_str()), (2, ""));
    for part in [
        "changed",
        "train.lr",
        "0.02",
        "objective.min_trades",
        "from 1 to 3",
        "--name NEW",
    ] {
        assert!(
            stderr(&output).contains(part),
            "{part}: {}",
            stderr(&output)
        );
    }
    assert!(
        !stderr(&output).contains("model.n_step"),
        "what is as it was is not named"
    );
    assert!(home.results("changed") == before);
    // The remedy works, and the old file still does.
    let output = home.run(&changed, &["--name", "changed-anew"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(home.json(&["show", "changed-anew"])[0]["n_complete"], 2);
    assert_eq!(code(&home.run(&sweep, &[])), 0);
    let output = home.run(&sweep, &["--name", "no such name"]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("' ' is not allowed"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn changed_data_are_refused() {
    let home = Home::shared();
    let text = std::fs::read_to_string(Sweep::new("data").data).unwrap();
    let data = home.write("bars.csv", text.as_bytes());
    let sweep = Sweep {
        configurations: 1,
        data: data.clone(),
        ..Sweep::new("data")
    };
    home.complete(&sweep);
    // A bar more, as a data vendor would send it.
    let line = "\n2025-01-02,6000,6010,5990,6005,4000000000\n";
    std::fs::write(&data, text.trim_end().to_owned() + line).unwrap();
    let output = home.run(&sweep, &[]);
    assert_eq!(code(&output), 2, "{}", stderr(&output));
    for part in ["the bytes of the data", "--name NEW"] {
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
    assert_eq!(code(&home.run(&sweep, &["--name", "data-anew"])), 0);
}

#[test]
fn a_study_that_runs_is_not_run_twice() {
    let home = Home::shared();
    let sweep = Sweep {
        steps: 1_000_000,
        ..Sweep::long("twice")
    };
    let mut child = home.spawn(&sweep);
    home.wait_for(
        "SELECT count(*) FROM trial JOIN study USING (study_id) \
        WHERE name = 'twice' AND trial.state = 'running'",
        1,
    );
    let output = home.run(&sweep, &[]);
    assert_eq!((code(&output), stdout(&output).as_str()), (5, ""));
    assert!(stderr(&output).contains("twice"), "{}", stderr(&output));
    let deleted = home.call(&["delete", "twice", "--yes"]);
    assert_eq!(code(&deleted), 5, "nor is it deleted");
    // Another study runs beside it.
    home.complete(&Sweep {
        configurations: 1,
        ..Sweep::new("beside")
    });
    child.kill().unwrap();
    child.wait().unwrap();
    // The lock falls with its process.
    home.call(&["delete", "twice", "--yes"]);
    assert_eq!(
        home.count("SELECT count(*) FROM study WHERE name = 'twice'"),
        0
    );
}

#[test]
fn malformed_files_are_told_on_stderr() {
    let home = Home::shared();
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let bad = manifest.join("tests/data/sweep_bad/types.toml");
    for command in ["run", "check"] {
        let output = home.call(&[command, bad.to_str().unwrap()]);
        assert_eq!((code(&output), stdout(&output).as_str()), (2, ""));
        assert!(stderr(&output).contains("error") && stderr(&output).contains("help"));
        assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));

        let data = manifest.join("tests/data/csv_bad/many_faults.csv");
        let sweep = Sweep {
            data,
            ..Sweep::new("bad-bars")
        };
        let mut command = home.command(&sweep, &[]);
        let output = command.output().unwrap();
        assert_eq!((code(&output), stdout(&output).as_str()), (2, ""));
        assert!(
            stderr(&output).contains("many_faults.csv"),
            "{}",
            stderr(&output)
        );
        assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
    }
    let output = home.call(&["run", "no/such/file.toml"]);
    assert_eq!(code(&output), 2);
    assert!(
        stderr(&output).contains("no/such/file.toml"),
        "{}",
        stderr(&output)
    );
    assert_eq!(
        home.sql("SELECT count(*) FROM study WHERE name = 'bad-bars'"),
        "0"
    );
}
