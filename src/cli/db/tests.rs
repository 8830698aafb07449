//! URLs of servers.

use super::*;

#[test]
fn a_servers_url_gets_the_search_path_once() {
    let options = "options=-csearch_path%3Dhyperopt%2Cpublic";
    let plain = with_search_path("postgres://u@h/d");
    assert_eq!(plain, format!("postgres://u@h/d?{options}"));
    let with_tls = with_search_path("postgres://u@h/d?sslmode=require");
    assert_eq!(
        with_tls,
        format!("postgres://u@h/d?sslmode=require&{options}")
    );
    assert_eq!(with_search_path(&with_tls), with_tls);
}

#[test]
fn the_private_server_is_started_and_stopped_only_where_none_is_named() {
    assert!(refuse_server("stop", Some("postgres://u@h/d")).is_err());
    assert!(refuse_server("stop", Some("")).is_ok());
    assert!(refuse_server("stop", None).is_ok());
}
