//! Messages and exit codes.

use super::*;

#[test]
fn the_whole_chain_is_told_once_and_then_the_remedy() {
    let source = io::Error::other("no route");
    let error = CliError::Psql { source };
    assert_eq!(
        error.render(),
        "error: cannot start psql\n  because: no route"
    );
    let not_private = CliError::NotPrivate { command: "stop" };
    let told = not_private.render();
    assert!(
        told.starts_with("error: `db stop` is for the private"),
        "{told}"
    );
    assert!(told.contains("\nhelp: leave out --database-url"), "{told}");
}

#[test]
fn the_stores_errors_stand_for_themselves() {
    let name = "x".to_owned();
    let locked = StoreError::StudyLocked { name };
    let message = locked.to_string();
    let error = CliError::from(locked);
    assert_eq!(error.render(), format!("error: {message}"));
    assert_eq!(error.exit(), Exit::AlreadyRunning);
}

#[test]
fn only_a_reader_that_left_is_a_normal_end() {
    let left = CliError::from(io::Error::from(io::ErrorKind::BrokenPipe));
    assert!(left.is_silent());
    assert_eq!(left.exit(), Exit::Done);
    let full = CliError::from(io::Error::from(io::ErrorKind::StorageFull));
    assert!(!full.is_silent());
    assert_eq!(full.exit(), Exit::Failure);
}
