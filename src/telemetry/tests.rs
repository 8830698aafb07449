//! Filters and the single installation.

use super::*;

#[test]
fn a_level_holds_for_this_program_and_libraries_stay_quiet() {
    let filter = parse_filter("debug").unwrap().to_string();
    assert!(filter.contains("hyperopt=debug"), "{filter}");
    assert!(filter.contains("warn"), "{filter}");
    let directives = parse_filter("hyperopt::store=trace,sqlx=info")
        .unwrap()
        .to_string();
    assert!(directives.contains("hyperopt::store=trace"), "{directives}");
    assert!(parse_filter("off").is_ok());
}

#[test]
fn a_wrong_filter_is_an_error_that_names_it() {
    for filter in ["hyperopt=loud", "a=b=c", "verbose"] {
        let error = parse_filter(filter).expect_err(filter);
        assert!(error.to_string().contains(filter));
    }
}

#[test]
fn the_second_installation_is_refused() {
    install("off", Format::Json).unwrap();
    let again = install("off", Format::Text);
    assert!(matches!(
        again,
        Err(TelemetryError::AlreadyInstalled { .. })
    ));
}
