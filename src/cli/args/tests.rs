//! Conventions that hold for every command.

use super::*;
use clap::CommandFactory;

#[test]
fn the_command_line_is_well_formed() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_says_what_it_does() {
    let cli = Cli::command();
    for command in cli.get_subcommands() {
        assert!(command.get_about().is_some(), "{}", command.get_name());
        for arg in command.get_arguments() {
            let says = arg.get_help().is_some();
            assert!(says, "{} {}", command.get_name(), arg.get_id());
        }
    }
}

#[test]
fn verbosity_gives_a_filter_and_the_option_wins() {
    let filter = |args: &[&str]| {
        let args = ["hyperopt", "list"].iter().chain(args);
        Cli::try_parse_from(args)
            .unwrap()
            .global
            .log_filter()
            .to_owned()
    };
    // HYPEROPT_LOG, where set, would stand for the option.
    if std::env::var_os("HYPEROPT_LOG").is_none() {
        assert_eq!(filter(&[]), "warn");
        assert_eq!(filter(&["-q"]), "error");
        assert_eq!(filter(&["-vv"]), "debug");
    }
    assert_eq!(filter(&["-v", "--log-level", "off"]), "off");
}

#[test]
fn psql_gets_its_own_flags_and_ours_stay_ours() {
    let parse = |line: &str| {
        let args = line.split(' ').map(OsString::from).collect();
        let cli = Cli::try_parse_from(leave_to_psql(args)).unwrap();
        let Command::Db(DbCommand::Psql(psql)) = cli.command else {
            panic!("not psql");
        };
        (psql.args.join(" ".as_ref()), cli.global)
    };
    let (args, global) = parse("hyperopt -v db psql -q -v A=1 -h host -c SELECT");
    assert_eq!(args, "-q -v A=1 -h host -c SELECT");
    assert_eq!((global.quiet, global.verbose), (false, 1));
    let (args, global) = parse("hyperopt db psql --database-url postgres://h --log-json -X -q");
    assert_eq!(args, "-X -q");
    assert_eq!(global.database_url.as_deref(), Some("postgres://h"));
    assert!(global.log_json);
    let (args, _) = parse("hyperopt db psql");
    assert_eq!(args, "");
}
