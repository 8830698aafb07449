//! The catalogue as text, so that a review shows the whole change of the schema.

use super::*;
use crate::store::kind::Kind;
use crate::study::{DegenerateReason, StudyState, TrialState};
use std::fmt::Write;

/// Rewrites the golden file where set.
const BLESS: &str = "HYPEROPT_BLESS";

async fn lines(fixture: &Fixture, sql: &'static str) -> Vec<String> {
    sqlx::query_scalar(sql)
        .fetch_all(fixture.store().pool())
        .await
        .unwrap()
}

async fn render(fixture: &Fixture) -> String {
    let mut text = String::new();
    let enums = lines(
        fixture,
        "SELECT 'enum ' || typname || ': ' || string_agg(enumlabel, ', ' ORDER BY enumsortorder)
        FROM pg_enum JOIN pg_type ON pg_type.oid = enumtypid
        WHERE typnamespace = 'hyperopt'::regnamespace GROUP BY typname ORDER BY typname",
    )
    .await;
    text.push_str(&enums.join("\n"));
    let relations = lines(
        fixture,
        "SELECT relname::text FROM pg_class
        WHERE relnamespace = 'hyperopt'::regnamespace AND relkind IN ('r', 'v')
        AND relname <> '_sqlx_migrations' ORDER BY relkind, relname",
    )
    .await;
    for name in relations {
        let head: String = sqlx::query_scalar("SELECT format('%s %s: %s',
            CASE relkind WHEN 'r' THEN 'table' ELSE 'view' END, relname, obj_description(oid, 'pg_class'))
            FROM pg_class WHERE oid = $1::regclass")
            .bind(&name).fetch_one(fixture.store().pool()).await.unwrap();
        let _ = write!(text, "\n\n{head}\n");
        for sql in [
            "SELECT format('    %s %s%s%s', attname, format_type(atttypid, atttypmod),
                CASE WHEN attnotnull THEN ' not null' END,
                ' -- ' || col_description(attrelid, attnum))
            FROM pg_attribute WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped
            ORDER BY attnum",
            "SELECT format('    constraint %s %s', conname, pg_get_constraintdef(oid))
            FROM pg_constraint WHERE conrelid = $1::regclass AND contype <> 'n' ORDER BY conname",
            "SELECT format('    %s', pg_get_indexdef(indexrelid)) FROM pg_index
            WHERE indrelid = $1::regclass
            AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid)
            ORDER BY indexrelid::regclass::text",
        ] {
            let rows: Vec<String> = sqlx::query_scalar(sql)
                .bind(&name)
                .fetch_all(fixture.store().pool())
                .await
                .unwrap();
            for row in rows {
                let _ = writeln!(text, "{row}");
            }
        }
        text.truncate(text.trim_end().len());
    }
    text.push('\n');
    text
}

#[tokio::test]
async fn catalogue_matches_the_golden_file() {
    let fixture = Fixture::new().await;
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/schema.txt");
    let got = render(&fixture).await;
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(&path, &got).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    for (at, (got, golden)) in got.lines().zip(golden.lines()).enumerate() {
        assert_eq!(
            got,
            golden,
            "line {} of {}; {BLESS}=1 rewrites it",
            at + 1,
            path.display()
        );
    }
    assert_eq!(
        got.lines().count(),
        golden.lines().count(),
        "{BLESS}=1 rewrites {}",
        path.display()
    );
}

#[tokio::test]
async fn every_foreign_key_and_relation_keeps_the_rules() {
    let fixture = Fixture::new().await;
    // Deletes follow foreign keys: each is the beginning of an index.
    let bare = lines(
        &fixture,
        "SELECT conname::text FROM pg_constraint
        WHERE contype = 'f' AND connamespace = 'hyperopt'::regnamespace AND NOT EXISTS (
            SELECT FROM pg_index WHERE indrelid = conrelid AND indpred IS NULL
            AND (indkey::int2[])[0:cardinality(conkey) - 1] @> conkey
        )",
    )
    .await;
    assert_eq!(bare, Vec::<String>::new(), "foreign keys without an index");
    let undescribed = lines(
        &fixture,
        "SELECT relname::text FROM pg_class
        WHERE relnamespace = 'hyperopt'::regnamespace AND relkind IN ('r', 'v')
        AND relname <> '_sqlx_migrations' AND obj_description(oid, 'pg_class') IS NULL",
    )
    .await;
    assert_eq!(
        undescribed,
        Vec::<String>::new(),
        "relations without a comment"
    );
    let zoneless = lines(
        &fixture,
        "SELECT attname::text FROM pg_attribute JOIN pg_class ON attrelid = pg_class.oid
        WHERE relnamespace = 'hyperopt'::regnamespace AND atttypid = 'timestamp'::regtype",
    )
    .await;
    assert_eq!(
        zoneless,
        Vec::<String>::new(),
        "columns without a time zone"
    );
    let outside = fixture
        .count("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace")
        .await;
    assert_eq!(outside, 0, "everything lives in the schema hyperopt");
}

#[tokio::test]
async fn enums_have_the_labels_of_their_types() {
    async fn check<K: Kind>(fixture: &Fixture) {
        let labels: Vec<String> = sqlx::query_scalar(
            "SELECT enumlabel::text FROM pg_enum
            WHERE enumtypid = $1::regtype ORDER BY enumsortorder",
        )
        .bind(K::TYPE)
        .fetch_all(fixture.store().pool())
        .await
        .unwrap();
        let ours: Vec<_> = K::EVERY.iter().map(|kind| kind.label()).collect();
        assert_eq!(labels, ours, "{}", K::TYPE);
        assert!(K::parse("no such label").is_err());
    }
    let fixture = Fixture::new().await;
    check::<Precision>(&fixture).await;
    check::<Direction>(&fixture).await;
    check::<StudyState>(&fixture).await;
    check::<TrialState>(&fixture).await;
    check::<FailureKind>(&fixture).await;
    check::<DegenerateReason>(&fixture).await;
    check::<Split>(&fixture).await;
}

/// Explains a statement with sequential scans made expensive, as they are in a large study.
async fn plan(fixture: &Fixture, sql: &str) -> String {
    let mut transaction = fixture.store().pool().begin().await.unwrap();
    for setting in [
        "SET LOCAL enable_seqscan = off",
        "SET LOCAL plan_cache_mode = force_generic_plan",
    ] {
        sqlx::query(setting)
            .execute(&mut *transaction)
            .await
            .unwrap();
    }
    let explain = sqlx::AssertSqlSafe(format!("EXPLAIN {sql}"));
    let lines: Vec<String> = sqlx::query_scalar(explain)
        .fetch_all(&mut *transaction)
        .await
        .unwrap();
    lines.join("\n")
}

#[tokio::test]
async fn hot_queries_use_indexes() {
    let fixture = Fixture::new().await;
    fixture.insert(0..2_000).await;
    fixture.execute("UPDATE trial SET state = 'complete', value = trial_id, best_epoch = 0, ended_at = now()").await.unwrap();
    fixture.execute("ANALYZE").await.unwrap();
    for (sql, index) in [
        ("SELECT trial_id FROM trial WHERE study_id = 1 AND state = 'complete' AND value IS NOT NULL
            ORDER BY value DESC, trial_id LIMIT 1", "trial_value_idx"),
        ("SELECT trial_id FROM trial WHERE study_id = 1 AND state = 'complete' AND value IS NOT NULL
            ORDER BY value, trial_id LIMIT 1", "trial_value_idx"),
        ("UPDATE trial SET state = 'waiting' WHERE study_id = 1 AND state = 'running'", "trial_state_idx"),
        ("SELECT * FROM configuration WHERE study_id = 1 ORDER BY number", "configuration_number_is_unique_in_its_study"),
        ("SELECT attempt_id FROM attempt WHERE trial_id = 1 AND state = 'running'", "attempt_one_counts_per_trial_idx"),
        ("SELECT attempt_id FROM attempt WHERE trial_id = 1 ORDER BY number DESC LIMIT 1", "attempt_number_is_unique_in_its_trial"),
        ("SELECT * FROM epoch WHERE attempt_id = 1 ORDER BY fold, epoch", "epoch_is_unique_in_its_run"),
        ("SELECT * FROM result WHERE trial_id = 1", "result_is_unique_in_its_trial"),
        ("SELECT * FROM study WHERE name = 's'", "study_name_is_unique"),
    ] {
        let plan = plan(&fixture, sql).await;
        assert!(plan.contains(index) && !plan.contains("Seq Scan"), "{sql}\n{plan}");
    }
}
