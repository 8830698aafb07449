//! Cohorts, watermarks and what a suggestion sees.

use super::*;
use crate::study::Value;

/// Inserts configurations whose two trials have ended as given; `None` still runs.
fn configurations(ends: &[[Option<f64>; 2]]) -> Configurations {
    let mut all = Configurations::default();
    for (number, values) in (0..).zip(ends) {
        let trial = |arm: usize, precision| Trial {
            trial_id: TrialId(i64::from(2 * number) + arm as i64),
            precision,
            replicate: 0,
            state: if values[arm].is_some() {
                TrialState::Complete
            } else {
                TrialState::Running
            },
            value: values[arm],
        };
        let trials = vec![trial(0, Precision::F32), trial(1, Precision::Bf16)];
        let params = Params::from([("x".to_owned(), Value::Int(i64::from(number)))]);
        all.insert(number, Configuration { params, trials });
    }
    all
}

const DONE: [Option<f64>; 2] = [Some(1.0), Some(3.0)];
const RUNS: [Option<f64>; 2] = [Some(1.0), None];

#[test]
fn two_cohorts_come_at_once_and_the_third_waits_for_the_first() {
    assert_eq!(configurations(&[]).next_cohort(7, 2), Some(vec![0, 1]));
    assert_eq!(
        configurations(&[RUNS, RUNS]).next_cohort(7, 2),
        Some(vec![2, 3])
    );
    assert_eq!(
        configurations(&[RUNS, DONE, RUNS, RUNS]).next_cohort(7, 2),
        None
    );
    assert_eq!(
        configurations(&[DONE, RUNS, DONE, DONE]).next_cohort(7, 2),
        None
    );
    assert_eq!(
        configurations(&[DONE, DONE, RUNS, RUNS]).next_cohort(7, 2),
        Some(vec![4, 5])
    );
}

#[test]
fn the_budget_is_exact() {
    assert_eq!(configurations(&[DONE; 6]).next_cohort(7, 2), Some(vec![6]));
    assert_eq!(configurations(&[DONE; 7]).next_cohort(7, 2), None);
    assert_eq!(
        configurations(&[DONE; 7]).next_cohort(3, 2),
        None,
        "a smaller budget takes none"
    );
    assert_eq!(configurations(&[]).next_cohort(0, 2), None);
    // A grown budget fills up the cohort that the old one cut.
    assert_eq!(configurations(&[DONE; 7]).next_cohort(12, 4), Some(vec![7]));
    assert_eq!(
        configurations(&[DONE; 8]).next_cohort(u32::MAX, 4),
        Some(vec![8, 9, 10, 11])
    );
}

#[test]
fn a_study_has_ended_when_every_configuration_has() {
    assert!(configurations(&[DONE; 3]).have_ended_below(3));
    assert!(configurations(&[DONE, DONE, RUNS]).have_ended_below(2));
    assert!(!configurations(&[DONE, RUNS, DONE]).have_ended_below(3));
    assert!(
        !configurations(&[DONE; 3]).have_ended_below(4),
        "the fourth is not there yet"
    );
    assert!(configurations(&[]).have_ended_below(0));
}

#[test]
fn a_suggestion_sees_whole_cohorts_below_its_watermark() {
    let all = configurations(&[DONE; 6]);
    let seen = |number| {
        let history = all.history(number, 2);
        history
            .observations
            .iter()
            .map(|seen| seen.number.0)
            .collect::<Vec<_>>()
    };
    assert_eq!(seen(0), [0_u32; 0]);
    assert_eq!(seen(3), [0_u32; 0]);
    // Both members of a cohort see the same.
    assert_eq!(seen(4), [0, 1]);
    assert_eq!(seen(5), [0, 1]);
    assert_eq!(seen(6), [0, 1, 2, 3]);
    let first = &all.history(4, 2).observations[0];
    assert_eq!(
        (first.state, first.value),
        (TrialState::Complete, Some(2.0)),
        "mean over the arms"
    );
    assert_eq!(first.params["x"], Value::Int(0));
}

#[test]
fn a_configuration_with_a_lost_trial_has_no_value() {
    let mut all = configurations(&[DONE, DONE, DONE, DONE]);
    let lost = all.trial_mut(TrialId(1));
    (lost.state, lost.value) = (TrialState::Failed, None);
    // Degenerate: complete, no value.
    all.trial_mut(TrialId(2)).value = None;
    let [failed, degenerate] = &all.history(4, 2).observations[..] else {
        panic!("two are seen")
    };
    assert_eq!((failed.state, failed.value), (TrialState::Failed, None));
    assert_eq!(
        (degenerate.state, degenerate.value),
        (TrialState::Complete, None)
    );
    assert!(all.have_ended_below(4));
}

#[test]
fn trials_are_found_by_their_key_and_counted_by_number() {
    let all = configurations(&[DONE; 3]);
    assert_eq!(all.number_of(TrialId(5)), 2);
    assert_eq!(all.trial(TrialId(5)).precision, Precision::Bf16);
    let below: Vec<i64> = all.trials_below(2).map(|trial| trial.trial_id.0).collect();
    assert_eq!(below, [0, 1, 2, 3]);
}
