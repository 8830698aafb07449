//! The forms of a row.

use super::*;
use crate::study::{Params, Value as ParamValue};
use chrono::{DateTime, Utc};

#[derive(Serialize)]
struct Row {
    study: &'static str,
    value: Option<f64>,
    n_trials: i64,
    is_best: bool,
    params: Params,
    created_at: DateTime<Utc>,
}

fn sample() -> [Row; 2] {
    let created_at = DateTime::from_timestamp_micros(1_000_000_000_123_456).unwrap();
    let params = [
        ("model.double".to_owned(), ParamValue::Bool(true)),
        ("train.lr".to_owned(), ParamValue::Float(1.25e-4)),
    ];
    let best = Row {
        study: "a",
        value: Some(1.234567),
        n_trials: 12,
        is_best: true,
        params: params.into(),
        created_at,
    };
    let other = Row {
        study: "longer",
        value: Some(f64::NAN),
        n_trials: 3,
        is_best: false,
        params: Params::new(),
        created_at,
    };
    [best, other]
}

const SHOWN: &[&str] = &["study", "value", "n_trials", "is_best"];

#[test]
fn json_has_every_digit_and_every_field_in_order() {
    let json = serde_json::to_string(&sample()).unwrap();
    let expected = concat!(
        r#"[{"study":"a","value":1.234567,"n_trials":12,"is_best":true,"#,
        r#""params":{"model.double":true,"train.lr":0.000125},"#,
        r#""created_at":"2001-09-09T01:46:40.123456Z"},"#,
        r#"{"study":"longer","value":null,"n_trials":3,"is_best":false,"params":{},"#,
        r#""created_at":"2001-09-09T01:46:40.123456Z"}]"#
    );
    assert_eq!(json, expected);
}

#[test]
fn plain_tables_are_aligned_and_have_no_rules() {
    insta::assert_snapshot!(render_table(&sample(), SHOWN, false), @r"
    study    value  n_trials  is_best
    a       1.2346        12  yes
    longer       -         3  no
    ");
}

#[test]
fn terminal_tables_have_a_rule() {
    insta::assert_snapshot!(render_table(&sample(), SHOWN, true), @r"
    study    value  n_trials  is_best
    ───────────────────────────────────
    a       1.2346        12  yes
    longer       -         3  no
    ");
}

#[test]
fn records_show_times_to_the_second_and_parameters_in_full() {
    let [best, _] = sample();
    insta::assert_snapshot!(render_records(&[best], &["study", "created_at", "params"]), @r"
    study       a
    created_at  2001-09-09T01:46:40Z
    params      model.double=true train.lr=0.000125
    ");
}
