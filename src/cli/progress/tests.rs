//! What progress says.

use super::*;

#[test]
fn the_template_is_valid() {
    assert!(ProgressStyle::with_template(TEMPLATE).is_ok());
}

#[test]
fn a_line_has_its_message_only_where_there_is_one() {
    assert_eq!(plain(3, 24, ""), "3 of 24 trials");
    assert_eq!(plain(3, 24, "best 1.20"), "3 of 24 trials, best 1.20");
}

#[test]
fn lines_between_start_and_end_are_spaced() {
    let form = Form::Lines {
        last_at: Instant::now(),
    };
    let mut progress = Progress {
        form,
        n_done: 0,
        n_total: 9,
    };
    let last_at = |progress: &Progress| match progress.form {
        Form::Lines { last_at } => last_at,
        Form::Bar(_) | Form::Quiet => panic!("lines"),
    };
    let started_at = last_at(&progress);
    progress.update(1, "");
    assert_eq!(
        last_at(&progress),
        started_at,
        "the second line came at once"
    );
    assert_eq!(progress.n_done, 1, "the last line would tell an old count");
}
