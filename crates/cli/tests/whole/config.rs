//! Configuration files of real nodes: checked, shown, and read again on a signal.

use crate::real::{NodeProcess, run_args, wait_until};
use serde_json::Value;
use std::fs;
use std::path::Path;

fn write(path: &Path, text: &str) {
    // As editors and Kubernetes do: a reader sees the old file or the new one.
    let fresh = path.with_extension("new");
    fs::write(&fresh, text).unwrap();
    fs::rename(fresh, path).unwrap();
}

fn share_of(node: &NodeProcess, name: &str) -> Value {
    let shown = run_args(&["shares", "show", "--at", &node.addr, "-o", "json"]).json();
    let services = shown["nodes"][0]["services"].as_array().expect("services").clone();
    let service = services.into_iter().find(|service| service["service"] == name).expect("the node has it");
    service["share"].clone()
}

#[test]
fn check_lists_every_problem_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("node.toml");
    let file = path.to_str().unwrap();
    write(&path, "listen = '127.0.0.1:0'\n[limits]\npayload_bytes_max = '64MiB'\n");
    let fine = run_args(&["config", "check", file]);
    assert_eq!((fine.code, &*fine.stdout), (0, "ok\n"), "{}", fine.stderr);

    write(&path, "lisen = '127.0.0.1:0'\n[limits]\npayload_bytes_max = 0\n");
    let wrong = run_args(&["config", "check", file]);
    assert_eq!(wrong.code, 2);
    let expected = format!(
        "{file}: line 1: unknown key `lisen`; `treefold config schema` lists the keys\n\
         {file}: line 3: limits.payload_bytes_max is 0B; allowed: 1KiB to 4GiB\n"
    );
    assert_eq!(wrong.stdout, expected);
    assert_eq!(wrong.stderr, "treefold: the file has 2 problems\n");
    let json = run_args(&["config", "check", file, "-o", "json"]).json();
    assert_eq!((&json["ok"], &json["problems"][1]["line"]), (&false.into(), &3.into()));
    let node = run_args(&["node", "--config", file]);
    assert_eq!(node.code, 2);
    assert!(node.stderr.contains("line 1: unknown key `lisen`"), "{}", node.stderr);
    assert!(node.stderr.contains("1 further problems"), "{}", node.stderr);

    let absent = run_args(&["config", "check", "/no/such/file"]);
    assert_eq!(absent.code, 1, "{}", absent.stderr);
}

/// Files that a node refuses for one value, or for values that depend on each other, each with words of its problem.
const REFUSED: [(&str, &str); 16] = [
    ("token = ''\n", "line 1: token is an invalid text"),
    ("token = \"two\\nlines\"\n", "line 1: token is an invalid text"),
    ("cluster = 'LONG'\n", "line 1: the cluster's name has 300 bytes"),
    ("rack = 'LONG'\n", "line 1: rack has 300 bytes; allowed: at most 128"),
    ("accept = ['a/b']\n", "line 1: accept: "),
    (
        "serve = ['micro:partitions=0/2', 'micro:partitions=1/2']\n",
        "line 1: serve: the service \"micro\" is declared twice",
    ),
    ("processors = 2\nserve = ['search=.:partitions=0/1:emulate=4']\n", "emulate=4"),
    ("listen = '0.0.0.0:0'\n", "reached from other machines"),
    ("[gateway]\ncors = ['https://example.org']\n", "the gateway has settings, but no address"),
    ("[gateway]\nlisten = '127.0.0.1:0'\ncors = ['*']\n", "line 3: cors is *; allowed: an origin"),
    ("[gateway]\nlisten = '127.0.0.1:0'\ntls_cert = 'a.pem'\n", "together"),
    ("[gateway]\nlisten = '127.0.0.1:0'\nslow_call_log = 'a'\n", "--slow-call"),
    ("[gateway]\nlisten = '0.0.0.0:0'\n", "a gateway at 0.0.0.0:0 can be reached"),
    ("relay = true\nserve = ['micro:partitions=0/1']\n", "line 2: a relay holds no partitions"),
    ("attach = '127.0.0.1:1'\n", "give attach and as"),
    ("[limits]\npayload_bytes_max = 0\n", "line 2: limits.payload_bytes_max"),
];

#[test]
fn check_refuses_what_a_node_refuses() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("node.toml");
    let file = path.to_str().unwrap();
    for (text, words) in REFUSED {
        write(&path, &text.replace("LONG", &"x".repeat(300)));
        // A flag goes before the file's address.
        let free: &[&str] = if text.starts_with("listen") { &[] } else { &["--listen", "127.0.0.1:0"] };
        let node = run_args(&[&["node", "--config", file], free].concat());
        assert_eq!(node.code, 2, "{text}: {}", node.stderr);
        // The node says so too, but problems of values together without a line.
        let problem = words
            .split_once(": ")
            .filter(|(line, _)| line.starts_with("line"))
            .map_or(words, |(_, rest)| rest);
        assert!(node.stderr.contains(problem), "{text}: {}", node.stderr);
        let checked = run_args(&["config", "check", file]);
        assert_eq!(checked.code, 2, "{text}: {}", checked.stdout);
        assert!(checked.stdout.contains(words), "{text}: {}", checked.stdout);
        assert!(checked.stdout.starts_with(&format!("{file}: line ")), "{text}: {}", checked.stdout);
    }
    // The environment's token counts, as for a node.
    write(&path, "listen = '0.0.0.0:0'\n");
    let with_token = crate::real::ended(
        crate::real::treefold().env("TREEFOLD_TOKEN", "secret").args(["config", "check", file]),
    );
    assert_eq!((with_token.code, &*with_token.stdout), (0, "ok\n"));
    // Files elsewhere are not opened.
    write(&path, "listen = '0.0.0.0:0'\ntoken_file = '/no/such/file'\n");
    assert_eq!(run_args(&["config", "check", file]).code, 0);
}

#[test]
fn a_node_takes_the_file_that_show_prints() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("node.toml");
    let default = run_args(&["config", "show", "--default"]);
    assert_eq!(default.code, 0, "{}", default.stderr);
    let shown = default.stdout.replace("127.0.0.1:7700", "127.0.0.1:0");
    write(&path, &shown);
    let node = NodeProcess::start(&["--config", path.to_str().unwrap()]);
    assert_eq!(run_args(&["status", "--at", &node.addr]).code, 0);
}

#[test]
fn a_token_in_a_file_counts_and_is_not_shown() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("node.toml");
    fs::write(directory.path().join("token"), "secret\n").unwrap();
    let token_file = directory.path().join("token");
    write(&path, &format!("token_file = '{}'\n", token_file.display()));
    let file = path.to_str().unwrap();
    let node = NodeProcess::start(&["--config", file]);
    let refused = run_args(&["status", "--at", &node.addr]);
    assert_eq!(refused.code, 5, "a client without the token is refused: {}", refused.stderr);
    let mut command = crate::real::treefold();
    let status = command.env("TREEFOLD_TOKEN", "secret").args(["status", "--at", &node.addr]);
    assert_eq!(crate::real::ended(status).code, 0);

    write(&path, "token = 'secret'\n");
    let shown = run_args(&["config", "show", file]);
    assert!(!shown.stdout.contains("secret") && shown.stdout.contains("# token is set"), "{}", shown.stdout);
}

#[test]
fn a_running_node_takes_new_shares_and_a_new_log_filter_on_a_signal() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("node.toml");
    let log = directory.path().join("log");
    let common = "serve = ['micro:partitions=0/1', 'echo:partitions=0/1']\n";
    write(&path, &format!("{common}[shares]\nmicro = 2\n"));
    let args = ["--config", path.to_str().unwrap(), "--share", "echo=7"];
    let node = NodeProcess::start_logging(&args, &log);
    let logged = |text: &str| fs::read_to_string(&log).unwrap().contains(text);
    assert_eq!(share_of(&node, "micro"), 2.0);

    write(&path, &format!("{common}log = 'info'\n[shares]\nmicro = 5\necho = 1\n"));
    node.signal(libc::SIGHUP);
    wait_until("the share has changed", || share_of(&node, "micro") == 5.0);
    assert_eq!(share_of(&node, "echo"), 7.0, "the flag overrides the file");
    wait_until("the new filter lets news through", || logged("the shares of these services have changed"));

    // A share that the file no longer has is the default again.
    write(&path, &format!("{common}log = 'info'\n"));
    node.signal(libc::SIGHUP);
    wait_until("the share is the default again", || share_of(&node, "micro") == 1.0);

    write(
        &path,
        &format!("{common}log = 'info'\nrack = 'r1'\n[limits]\npeers_max = 100\n[shares]\nmicro = 3\n"),
    );
    node.signal(libc::SIGHUP);
    wait_until("the rest is taken", || share_of(&node, "micro") == 3.0);
    wait_until("keys that need a restart are named", || {
        logged("changed, needs a restart") && logged("limits.peers_max, rack")
    });

    write(&path, &format!("{common}log = 'info'\n[shares]\nmicro = 0\n"));
    node.signal(libc::SIGHUP);
    wait_until("the problem is logged", || logged("nothing has changed") && logged("line 4: shares.micro"));
    assert_eq!(share_of(&node, "micro"), 3.0);
    assert_eq!(run_args(&["status", "--at", &node.addr]).code, 0, "the node runs on");
}

#[test]
fn a_share_of_an_absent_service_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("node.toml");
    let log = directory.path().join("log");
    write(&path, "serve = ['micro:partitions=0/1']\n");
    let node = NodeProcess::start_logging(&["--config", path.to_str().unwrap()], &log);
    write(&path, "serve = ['micro:partitions=0/1']\n[shares]\nmicro = 4\nnothing = 2\n");
    node.signal(libc::SIGHUP);
    let logged = |text: &str| fs::read_to_string(&log).unwrap().contains(text);
    wait_until("the refusal is logged", || logged("the shares were not taken"));
    assert_eq!(share_of(&node, "micro"), 1.0);
}

#[test]
fn a_node_without_a_file_ends_on_a_hangup() {
    // A program that nohup started ignores hangups, and so would the node.
    // SAFETY: the default action is a valid handler of the signal.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
    let mut node = NodeProcess::start(&[]);
    node.signal(libc::SIGHUP);
    assert_eq!(node.wait(), None, "the signal has ended it");
}
