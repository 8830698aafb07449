//! How runs end and what the other commands tell of them.

use super::{Home, Sweep, code, stderr, stdout};

#[test]
fn sql_tells_the_numbers_that_compare_tells() {
    let home = Home::shared();
    let sweep = Sweep {
        configurations: 3,
        ..Sweep::new("compared")
    };
    let output = home.run(&sweep, &["--json"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    let board: Vec<serde_json::Value> = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(board, home.json(&["best", "compared"]));
    assert_eq!(board.len(), 3);

    let query = "SELECT * FROM precision_comparison WHERE study = 'compared'";
    let output = home.call(&["db", "psql", "-X", "--csv", "-c", query]);
    let csv = stdout(&output);
    let mut rows = csv::Reader::from_reader(csv.as_bytes());
    let names = rows.headers().unwrap().clone();
    let values = rows.records().next().unwrap().unwrap();
    let told = &home.json(&["compare", "compared"])[0];
    assert_eq!(names.len(), told.as_object().unwrap().len());
    for (name, value) in names.iter().zip(&values) {
        match &told[name] {
            serde_json::Value::Null => assert_eq!(value, "", "{name}"),
            serde_json::Value::String(text) => assert_eq!(value, text, "{name}"),
            serde_json::Value::Bool(flag) => assert_eq!(value, if *flag { "t" } else { "f" }),
            number => {
                let number = number.as_f64().unwrap();
                assert_eq!(
                    value.parse::<f64>().unwrap().to_bits(),
                    number.to_bits(),
                    "{name}"
                );
            }
        }
    }
    assert_eq!(
        (&told["n_pairs"], &told["arm"]),
        (&3.into(), &"bf16".into())
    );
    assert!(told["sharpe_delta_mean"].is_number() && told["bytes_ratio"].is_number());
    // The plain table has the same figures, to its four digits.
    let plain = stdout(&home.call(&["compare", "compared"]));
    let mean = told["sharpe_delta_mean"].as_f64().unwrap();
    assert!(plain.contains(&format!("{mean:.4}")), "{plain}");
}

#[test]
fn a_study_without_a_single_value_ends_with_4() {
    let home = Home::shared();
    let sweep = Sweep {
        configurations: 2,
        min_trades: 1_000_000,
        ..Sweep::new("timid")
    };
    let output = home.run(&sweep, &[]);
    assert_eq!(code(&output), 4, "{}", stderr(&output));
    assert!(stderr(&output).contains("0 with a value, 4 degenerate, 0 failed"));
    assert!(
        stdout(&output).contains("no configuration has a value"),
        "{}",
        stdout(&output)
    );
    let reasons = home.json(&["trials", "timid"]);
    assert_eq!(reasons.len(), 4);
    assert!(
        reasons
            .iter()
            .all(|trial| trial["degenerate_reason"] == "too_few_trades"
                && trial["value"].is_null()
                && trial["state"] == "complete")
    );
}

#[test]
fn check_doctor_and_smoke_answer() {
    let home = Home::shared();
    let quickstart = concat!(env!("CARGO_MANIFEST_DIR"), "/sweeps/quickstart.toml");
    let plans = home.json(&["check", quickstart]);
    assert_eq!(plans.len(), 2, "one plan an arm");
    assert_eq!(plans[0]["configurations"], 12);
    assert_eq!(plans[0]["runs"], 24);
    assert_ne!(plans[0]["plan_key"], plans[1]["plan_key"]);
    let told = stdout(&home.call(&["check", quickstart]));
    assert!(told.contains("24 trials, 48 runs"), "{told}");
    assert_eq!(
        home.count("SELECT count(*) FROM study WHERE name LIKE 'quickstart%'"),
        0
    );

    let findings = home.json(&["doctor"]);
    assert!(
        findings.iter().all(|finding| finding["works"] == true),
        "{findings:?}"
    );
    assert!(
        findings
            .iter()
            .any(|finding| finding["what"] == "private postgres")
    );

    let sweep = Sweep::new("smoked");
    for _ in 0..2 {
        let output = home.run(&sweep, &["--smoke"]);
        assert_eq!(code(&output), 0, "{}", stderr(&output));
        let trials = home.json(&["trials", "smoked-smoke"]);
        assert_eq!(
            trials.len(),
            2,
            "one configuration in every arm, each time anew"
        );
    }
    assert_eq!(
        home.count("SELECT count(*) FROM study WHERE name = 'smoked'"),
        0
    );
}

#[test]
fn the_holdout_moves_no_number() {
    let home = Home::shared();
    let text = std::fs::read_to_string(Sweep::new("x").data).unwrap();
    let mut lines: Vec<String> = text.trim_end().lines().map(str::to_owned).collect();
    let sweep = |name: &str, lines: &[String]| {
        let data = home.write("bars.csv", (lines.join("\n") + "\n").as_bytes());
        Sweep {
            data,
            configurations: 2,
            ..Sweep::new(name)
        }
    };
    let before = home.complete(&sweep("holdout", &lines));
    // Every bar of the holdout doubles. The two bars before it are purged: the last decision of
    // the validation is filled at the opens of both.
    let n = lines.len();
    for line in &mut lines[n - 250..] {
        let mut columns: Vec<String> = line.split(',').map(str::to_owned).collect();
        for price in &mut columns[1..5] {
            *price = (2.0 * price.parse::<f64>().unwrap()).to_string();
        }
        *line = columns.join(",");
    }
    let after = home.complete(&sweep("holdout-doubled", &lines));
    let without_weights = |results: &str| {
        // The metadata of the weights names the data.
        results
            .split("\n\n")
            .take(3)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(without_weights(&before), without_weights(&after));
    // The bar before those is the first that a number rests on.
    let at = n - 251;
    let mut columns: Vec<String> = lines[at].split(',').map(str::to_owned).collect();
    for price in &mut columns[1..5] {
        *price = (1.5 * price.parse::<f64>().unwrap()).to_string();
    }
    lines[at] = columns.join(",");
    let moved = home.complete(&sweep("holdout-not", &lines));
    assert_ne!(without_weights(&before), without_weights(&moved));
}
