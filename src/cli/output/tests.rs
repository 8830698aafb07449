//! Both forms of a table.

use super::*;

fn sample() -> Table {
    let mut table = Table::new(&["study", "value", "n_trials", "is_best"]);
    table.push(vec![
        "a".into(),
        Cell::Float(1.23456, 3),
        12.into(),
        true.into(),
    ]);
    table.push(vec![
        "longer".into(),
        Cell::float(None, 3),
        3_i64.into(),
        false.into(),
    ]);
    table
}

#[test]
fn json_has_every_digit_and_the_columns_in_order() {
    let mut table = sample();
    table.push(vec![
        "c".into(),
        Cell::Float(f64::NAN, 3),
        0.into(),
        Cell::Null,
    ]);
    let json = serde_json::to_string(&table).unwrap();
    let expected = concat!(
        r#"[{"study":"a","value":1.23456,"n_trials":12,"is_best":true},"#,
        r#"{"study":"longer","value":null,"n_trials":3,"is_best":false},"#,
        r#"{"study":"c","value":null,"n_trials":0,"is_best":null}]"#
    );
    assert_eq!(json, expected);
}

#[test]
fn plain_tables_are_aligned_and_have_no_rules() {
    insta::assert_snapshot!(sample().render(false), @r"
    study   value  n_trials  is_best
    a       1.235        12  yes
    longer      -         3  no
    ");
}

#[test]
fn terminal_tables_have_rules() {
    insta::assert_snapshot!(sample().render(true), @r"
    study   value  n_trials  is_best
    ──────────────────────────────────
    a       1.235        12  yes
    longer      -         3  no
    ");
}
