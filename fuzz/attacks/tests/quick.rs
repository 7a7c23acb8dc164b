//! Plays the attacks that take few seconds and that nodes must refuse, as a user plays them.
#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::process::Command;

/// Plays an attack, and checks that it is refused and that the line of JSON says so.
#[track_caller]
fn refused(attack: &str) {
    let played =
        Command::new(env!("CARGO_BIN_EXE_treefold-attacks")).args([attack, "-o", "json"]).output().unwrap();
    let line = String::from_utf8(played.stdout).unwrap();
    let begins = format!("{{\"attack\":\"{attack}\",\"refused\":true,\"seen\":\"");
    assert!(line.starts_with(&begins) && line.lines().count() == 1, "{line}");
    assert_eq!(played.status.code(), Some(0));
}

macro_rules! refused {
    ($($name:ident = $attack:literal,)*) => {
        $(#[test]
        fn $name() {
            refused($attack);
        })*
    };
}

refused! {
    datagrams_do_not_expel_a_member = "expel-by-datagram",
    datagrams_do_not_invent_a_member = "invent-member",
    datagrams_do_not_rename_a_member = "rename-member",
    a_learnt_greeting_opens_nothing = "hello-replay",
    a_relay_of_sessions_gets_no_call = "man-in-the-middle",
    another_token_opens_nothing = "wrong-token",
    plain_and_encrypted_sides_refuse_each_other = "plain-client",
    nodes_without_a_token_do_not_listen_beyond_the_machine = "exposed-listener",
    useless_seeds_are_refused_or_named = "useless-seeds",
    secrets_are_in_no_file = "secrets",
    nobody_takes_the_name_of_a_member = "impersonate",
    a_client_invents_no_members = "client-cards",
    a_clients_certificate_does_not_join = "client-joins",
    certificates_of_another_authority_open_nothing = "wrong-authority",
    certificates_out_of_time_open_nothing = "certificate-out-of-time",
    processes_without_certificates_are_refused = "no-certificate",
    certificates_bound_what_a_client_does = "without-the-right",
    a_certificate_is_for_the_addresses_in_it = "name-of-another",
}

/// The exit code and standard output of a command line.
fn run(words: &[&str]) -> (Option<i32>, String) {
    let run = Command::new(env!("CARGO_BIN_EXE_treefold-attacks")).args(words).output().unwrap();
    (run.status.code(), String::from_utf8(run.stdout).unwrap())
}

#[test]
fn a_cluster_that_does_not_start_is_no_refusal() {
    let (code, line) = run(&["invent-member", "--treefold", "/bin/false", "-o", "json"]);
    assert_eq!(code, Some(2));
    assert!(line.starts_with(r#"{"attack":"invent-member","error":"#), "{line}");
}

#[test]
fn attacks_are_listed_with_a_line_each() {
    let (code, list) = run(&["--list"]);
    assert_eq!(code, Some(0));
    assert!(list.lines().count() > 20 && list.lines().all(|line| line.len() > 30), "{list}");
    assert_eq!(run(&["no-such-attack"]).0, Some(2));
}
