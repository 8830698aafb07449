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
fn psql_gets_its_own_flags() {
    let cli = Cli::try_parse_from(["hyperopt", "db", "psql", "-c", "SELECT 1", "-q"]).unwrap();
    let Command::Db(DbCommand::Psql(psql)) = cli.command else {
        panic!("not psql");
    };
    assert_eq!(psql.args, ["-c", "SELECT 1", "-q"]);
}
