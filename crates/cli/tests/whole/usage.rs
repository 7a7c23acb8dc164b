//! Invalid arguments are refused before any node is asked: exit code 2, with field and limit, in text and in
//! JSON.

use crate::real::{run, run_args};
use serde_json::json;

/// A call with valid arguments, which would need a node.
const CALL: &str = "call micro/sum --at 127.0.0.1:1";

#[test]
fn invalid_coverage_names_field_and_limit() {
    for outside in ["NaN", "1.1", "-1"] {
        let refused = run(&format!("{CALL} --min-coverage {outside}"));
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert_eq!(refused.stderr, format!("treefold: min_coverage is {outside}; allowed: from 0 to 1\n"));
    }
}

#[test]
fn scripts_find_field_and_limit_in_json() {
    let refused = run(&format!("{CALL} --min-coverage 1.1 -o json"));
    assert_eq!(refused.code, 2);
    let error = &refused.json()["error"];
    assert_eq!(error["kind"], "bad_field");
    assert_eq!(error["field"], "min_coverage");
    assert_eq!(error["given"], "1.1");
    assert_eq!(error["limit"], "from 0 to 1");
    assert_eq!(error["message"], "min_coverage is 1.1; allowed: from 0 to 1");
}

#[test]
fn zero_deadline_and_missing_unit_are_refused() {
    for senseless in ["0ms", "0s", "200", "-1s", "soon"] {
        let refused = run(&format!("{CALL} --deadline {senseless} -o json"));
        assert_eq!(refused.code, 2, "{senseless}");
        assert_eq!(refused.json()["error"]["field"], "deadline", "{senseless}");
    }
}

#[test]
fn shapes_policies_and_partitions_are_checked() {
    for (flag, value, field) in [
        ("--shape", "round", "shape"),
        ("--shape", "kary:0", "shape"),
        ("--policy", "nearest", "policy"),
        ("--waiting", "forever", "waiting"),
        ("--waiting", "slope:0.5,0.1", "waiting"),
        ("--partitions", "3-1", "partitions"),
        ("--slices", "0", "slices"),
    ] {
        let refused = run(&format!("{CALL} {flag} {value} -o json"));
        assert_eq!(refused.code, 2, "{flag} {value}");
        assert_eq!(refused.json()["error"]["field"], field, "{flag} {value}");
    }
}

#[test]
fn every_shape_is_listed_to_a_wrong_one() {
    let refused = run(&format!("{CALL} --shape round"));
    for shape in
        ["auto", "adaptive", "on-path:T", "earliest-ready", "binomial", "kary:K", "chain", "flat", "base"]
    {
        assert!(refused.stderr.contains(shape), "{shape} is not in {}", refused.stderr);
    }
}

#[test]
fn missing_arguments_are_named_in_json() {
    let refused = run("call -o json");
    assert_eq!(refused.code, 2);
    let message = refused.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.contains("--at <ADDR>") && message.contains("<SERVICE/AGGREGATION>"), "{message}");
}

#[test]
fn addresses_need_a_port() {
    for address in
        ["localhost", "127.0.0.1", "::1", "[::1]", ":7700", "localhost:port", "http://localhost:7700"]
    {
        let refused = run(&format!("status --at {address} -o json"));
        assert_eq!(refused.code, 2, "{address}");
        assert_eq!(refused.json()["error"]["field"], "at", "{address}");
        assert!(refused.stderr.contains("HOST:PORT"), "{}", refused.stderr);
    }
    assert_eq!(run("status --at [::1]:1").code, 5, "an address of IPv6 is taken");
}

#[test]
fn files_that_cannot_be_read_give_the_same_code_everywhere() {
    for line in [
        "call micro/sum --at 127.0.0.1:1 --params @/nowhere",
        "demo --path /nowhere",
        "node --config /nowhere",
        "node --keys /nowhere",
        "node --listen 127.0.0.1:0 --gateway 127.0.0.1:0 --gateway-tokens /nowhere",
        "gateway token a --services micro --file /nowhere/tokens.toml",
        "replay /nowhere",
        "stream micro --at 127.0.0.1:1 --send @/nowhere",
        "mirror check /nowhere",
        "topology check /nowhere",
    ] {
        let failed = run(line);
        assert_eq!(failed.code, 1, "{line}: {}", failed.stderr);
        assert!(failed.stderr.contains("/nowhere"), "{line}: {}", failed.stderr);
    }
}

#[test]
fn shared_parsers_report_the_flags_own_name() {
    for (line, field, given) in [
        ("bench stream --seconds=-1", "seconds", "-1"),
        ("bench call --seconds 0", "seconds", "0"),
        ("tree --load 1,x", "load", "1,x"),
        ("up - --timeout 30", "timeout", "30"),
        ("node --grace soon", "grace", "soon"),
    ] {
        let refused = run(&format!("{line} -o json"));
        assert_eq!(refused.code, 2, "{line}: {}", refused.stderr);
        let error = &refused.json()["error"];
        assert_eq!((error["field"].as_str(), error["given"].as_str()), (Some(field), Some(given)), "{line}");
    }
}

#[test]
fn invalid_endpoint_params_are_refused_before_connecting() {
    for (service, params) in [("micro", r#""tock""#), ("daemon", r#"{"seed":1}"#), ("hosts", "3")] {
        let refused = run_args(&["stream", service, "--at", "127.0.0.1:1", "--params", params]);
        assert_eq!(refused.code, 2, "{service}: {}", refused.stderr);
        assert!(refused.stderr.starts_with("treefold: --params: "), "{service}: {}", refused.stderr);
    }
    let silent = run("stream daemon --at 127.0.0.1:1 -o json");
    assert_eq!((silent.code, silent.json()["error"]["kind"].as_str()), (2, Some("usage")));
}

#[test]
fn invalid_token_is_refused_by_clients() {
    for line in ["status --at 127.0.0.1:1", "stream echo --at 127.0.0.1:1"] {
        let mut command = crate::real::treefold();
        command.args(line.split(' ')).env("TREEFOLD_TOKEN", "two\nlines");
        let refused = command.output().expect("the program can be started");
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{line}: {said}");
        assert!(said.contains("token is") && said.contains("1 to 1024 bytes"), "{line}: {said}");
    }
}

#[test]
fn parameters_must_be_json() {
    let refused = run_args(&["call", "micro/sum", "--at", "127.0.0.1:1", "--params", "{k: 3}"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("--params") && refused.stderr.lines().count() == 1, "{}", refused.stderr);
}

#[test]
fn an_unknown_flag_is_a_usage_error_in_json_too() {
    let refused = run("call micro/sum --at 127.0.0.1:1 --frobnicate -o json");
    assert_eq!(refused.code, 2);
    assert_eq!(refused.json()["error"]["kind"], "usage");
}

#[test]
fn a_configuration_with_an_unknown_key_is_refused_by_name() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "rack = 'r1'\nlisten_at = 'x'\n").unwrap();
    let refused = run(&format!("node --config {}", file.path().display()));
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("line 2: unknown key `listen_at`"), "{}", refused.stderr);
}

#[test]
fn invalid_services_are_refused() {
    for senseless in ["faces:partitions=0/1", "micro", "micro:partitions=4/4", "search:partitions=0/1"] {
        let refused = run(&format!("node --listen 127.0.0.1:0 --serve {senseless}"));
        assert_eq!(refused.code, 2, "{senseless}: {}", refused.stderr);
        assert!(refused.stderr.contains("allowed: "), "{}", refused.stderr);
    }
}

#[test]
fn unreachable_node_exits_with_code_5() {
    let lost = run(&format!("{CALL} -o json"));
    assert_eq!(lost.code, 5);
    assert_eq!(lost.json()["error"]["kind"], "unreachable");
    assert!(lost.stderr.contains("treefold node"), "{}", lost.stderr);
    assert_eq!(run("status --at 127.0.0.1:1").code, 5);
    assert_eq!(run(&format!("{CALL} --direct")).code, 5);
}

#[test]
fn used_port_is_reported() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = run(&format!("node --listen {}", taken.local_addr().unwrap()));
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("can't listen"), "{}", refused.stderr);
}

#[test]
fn node_that_other_machines_reach_needs_a_token() {
    let refused = run("node --listen 0.0.0.0:0");
    assert_eq!(refused.code, 2);
    for way_out in ["TREEFOLD_TOKEN", "127.0.0.1", "--insecure"] {
        assert!(refused.stderr.contains(way_out), "{}", refused.stderr);
    }
}

#[test]
fn token_comes_from_a_file() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let ended = |text: &str| {
        std::fs::write(file.path(), text).unwrap();
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_treefold"));
        command.args(["status", "--at", "127.0.0.1:1"]).env_remove("TREEFOLD_TOKEN");
        command.env("TREEFOLD_TOKEN_FILE", file.path()).output().unwrap().status.code()
    };
    assert_eq!(ended("secret\n"), Some(5), "it is a token, and nobody answers");
    assert_eq!(ended("two\nlines"), Some(2));
    assert_eq!(ended(&"x".repeat(2_000)), Some(2));
}

#[test]
fn seed_that_can_never_be_reached_is_refused() {
    for (seed, problem) in
        [("127.0.0.1", "HOST:PORT"), ("127.0.0.1:99999", "HOST:PORT"), ("127.0.0.1:0", "1 to 65535")]
    {
        let refused = run(&format!("node --listen 127.0.0.1:0 --join {seed}"));
        assert_eq!(refused.code, 2);
        assert!(refused.stderr.contains(problem), "{}", refused.stderr);
    }
}

#[test]
fn invalid_recording_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "nothing of the kind").unwrap();
    let refused = run(&format!("replay {} -o json", file.path().display()));
    assert_eq!(refused.code, 1);
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains("not a recording"));
    assert_eq!(run("replay /nowhere/at/all").code, 1);
}

#[test]
fn trees_are_printed_for_given_loads() {
    let tree = run("tree --load 0,0,900,0 --shape kary:3 -o json").json();
    assert_eq!(tree["shape"], "kary:3");
    assert_eq!(tree["nodes"], json!(4));
    assert_eq!(tree["trees"][0]["children"].as_array().unwrap().len(), 3);
    let drawn = run("tree --nodes 4 --shape chain");
    assert_eq!((drawn.code, drawn.stdout.lines().count()), (0, 5), "{}", drawn.stdout);
    assert_eq!(run("tree").code, 2, "neither --nodes nor --load");
}

#[test]
fn completions_exist_for_common_shells() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&format!("completions {shell}"));
        assert!(script.code == 0 && script.stdout.contains("min-coverage"), "{shell}");
    }
}
