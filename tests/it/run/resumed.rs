//! The same file again: finished, grown, cut by the wall limit.

use super::home::ended_of;
use super::{Home, Sweep, code, stderr, stdout};

#[test]
fn a_finished_study_trains_nothing_and_a_grown_one_goes_on() {
    let home = Home::shared();
    let small = Sweep {
        configurations: 3,
        ..Sweep::new("grown")
    };
    let first = home.complete(&small);
    let attempts = "SELECT count(*) FROM attempt";
    let of_study = format!(
        "{attempts} JOIN trial USING (trial_id) JOIN study USING (study_id) WHERE name = 'grown'"
    );
    assert_eq!(home.count(&of_study), 6);
    let ended_at = home.sql("SELECT ended_at FROM study WHERE name = 'grown'");

    let again = home.run(&small, &[]);
    assert_eq!(code(&again), 0, "{}", stderr(&again));
    assert_eq!(home.count(&of_study), 6, "nothing was trained");
    assert!(home.results("grown") == first);
    assert_eq!(
        home.sql("SELECT ended_at FROM study WHERE name = 'grown'"),
        ended_at
    );
    // It ends as the first time did, with both tables.
    assert!(stdout(&again).contains("rank") && stdout(&again).contains("n_pairs"));

    // A budget of 7 cuts the last cohort; what was there stays as it is.
    let large = Sweep {
        configurations: 7,
        ..small
    };
    let grown = home.complete(&large);
    home.assert_exact(&large);
    assert_eq!(home.count(&of_study), 14, "only the new ones were trained");
    let expected = home.complete(&Sweep {
        name: "grown-at-once".to_owned(),
        ..large.clone()
    });
    assert!(
        grown == expected,
        "the same as with this budget from the start"
    );
    assert_eq!(home.json(&["show", "grown"])[0]["state"], "complete");
    let watermarks = home.sql(
        "SELECT DISTINCT cohort, watermark FROM configuration JOIN study USING (study_id) \
        WHERE name = 'grown' ORDER BY cohort",
    );
    assert_eq!(
        watermarks, "0|0\n1|0\n2|2\n3|4",
        "cohort c learns from those up to c - 2"
    );

    // A smaller budget takes nothing away.
    let output = home.run(
        &Sweep {
            configurations: 2,
            ..large
        },
        &[],
    );
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert_eq!(home.count(&ended_of("grown")), 14);
}

#[test]
fn more_epochs_train_again_where_no_schedule_spans_the_run() {
    let home = Home::shared();
    let model = "epsilon_fraction = 0.0".to_owned();
    let short = Sweep {
        configurations: 2,
        model,
        ..Sweep::new("longer")
    };
    home.complete(&short);
    let long = Sweep { epochs: 3, ..short };
    let output = home.run(&long, &[]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("4 trials run again, for more epochs"),
        "{}",
        stderr(&output)
    );
    let expected = home.complete(&Sweep {
        name: "longer-at-once".to_owned(),
        ..long.clone()
    });
    assert!(home.results("longer") == expected);
    home.assert_exact(&long);
}

#[cfg(feature = "slow")]
#[test]
fn the_wall_limit_cuts_by_number_and_the_study_goes_on() {
    let home = Home::shared();
    // Some ten seconds of training; the limit comes after one.
    let sweep = Sweep {
        wall: Some("1s"),
        configurations: 40,
        cohort: 8,
        steps: 320,
        executors: 2,
        lanes: 2,
        ..Sweep::new("wall")
    };
    let output = home.run(&sweep, &[]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(
        stderr(&output).contains("stopped by the wall limit"),
        "{}",
        stderr(&output)
    );
    let [study] = &home.json(&["show", "wall"])[..] else {
        panic!("one study")
    };
    assert_eq!(
        (&study["state"], &study["n_running"]),
        (&"stopped".into(), &0.into())
    );
    let n_complete = study["n_complete"].as_u64().unwrap();
    assert!(
        0 < n_complete && n_complete < 80,
        "{n_complete} trials ended"
    );
    // What is complete is a prefix, in both arms.
    let complete = home.sql(
        "SELECT number FROM configuration AS c JOIN study AS s USING (study_id) \
        WHERE s.name = 'wall' AND NOT EXISTS (SELECT FROM trial AS t \
            WHERE t.configuration_id = c.configuration_id AND t.state <> 'complete') \
        ORDER BY number",
    );
    let prefix: Vec<String> = (0..n_complete / 2)
        .map(|number| number.to_string())
        .collect();
    assert_eq!(complete.lines().collect::<Vec<_>>(), prefix);
    // No attempt was wasted on what lies beyond.
    let attempts = "SELECT count(*) FROM attempt JOIN trial USING (trial_id) \
        JOIN study USING (study_id) WHERE name = 'wall'";
    assert_eq!(home.count(attempts), n_complete);

    let rest = Sweep {
        wall: None,
        configurations: 12,
        ..sweep
    };
    let resumed = home.complete(&rest);
    let expected = home.complete(&Sweep {
        name: "wall-never".to_owned(),
        ..rest
    });
    let trials = |results: &str| {
        results
            .lines()
            .take(24)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(trials(&resumed), trials(&expected));
}

#[test]
fn a_dated_name_is_a_study_a_day() {
    let home = Home::shared();
    let sweep = Sweep {
        configurations: 1,
        ..Sweep::new("nightly-{date}")
    };
    let before = chrono::Local::now().format("%Y-%m-%d").to_string();
    let output = home.run(&sweep, &[]);
    let after = chrono::Local::now().format("%Y-%m-%d").to_string();
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let name = home.sql("SELECT name FROM study WHERE name LIKE 'nightly%'");
    assert!(
        [before, after]
            .map(|day| format!("nightly-{day}"))
            .contains(&name),
        "{name}"
    );
}

#[test]
fn home_alone_is_enough_to_find_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::apart();
    let with_home = |args: &[&str]| {
        let mut command = home.hyperopt(args);
        command
            .env_remove("XDG_DATA_HOME")
            .env("HOME", folder.path());
        command.output().unwrap()
    };
    let output = with_home(&["doctor"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let told = stdout(&output);
    let stopped = with_home(&["db", "stop"]);
    assert_eq!((code(&stopped), stdout(&stopped).trim()), (0, "stopped"));
    assert!(told.contains(folder.path().to_str().unwrap()), "{told}");
}
