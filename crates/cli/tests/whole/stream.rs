//! Streams over real processes: from the command line, and with nodes that are stopped, killed and restarted.

use crate::real::{NodeProcess, host, hosts_cluster, run, run_args, treefold, wait_until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

/// A stream that runs until it is stopped; its waves are read as they come.
struct Watched {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watched {
    fn start(at: &NodeProcess, args: &[&str]) -> Self {
        let mut command = treefold();
        command.args(["stream", "hosts", "--at", &at.addr, "-o", "json", "--filter", "count"]).args(args);
        command.args(["--params", r#"{"interval_ms":200}"#]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the program can be started");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, lines }
    }

    fn wave(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.lines.read_line(&mut line).expect("it prints a wave") > 0, "the stream continues");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error} in {line:?}"))
    }

    /// Reads waves until one satisfies `holds`; panics after a time limit.
    fn wave_where(&mut self, what: &str, mut holds: impl FnMut(&Value) -> bool) -> Value {
        let mut found = None;
        wait_until(what, || {
            let wave = self.wave();
            let is_it = holds(&wave);
            found = Some(wave);
            is_it
        });
        found.expect("it has just been found")
    }

    fn signal(&self, signal: i32) {
        let pid = libc::pid_t::try_from(self.child.id()).expect("a process id");
        // SAFETY: kill touches no memory; the process is a child that was not waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // An error means that the process is dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn contributed(wave: &Value) -> u64 {
    wave["coverage"]["contributed"].as_u64().expect("a count")
}

fn open_streams(node: &NodeProcess) -> u64 {
    let status = run_args(&["status", "--at", &node.addr, "-o", "json"]).json();
    status["open"]["streams"].as_u64().expect("a count")
}

#[test]
fn hosts_are_folded_wave_by_wave() {
    let nodes = hosts_cluster(3, 3);
    let params = r#"{"interval_ms":200}"#;
    let at = &nodes[1].addr;
    let told = run_args(&[
        "stream",
        "hosts",
        "--filter",
        "hosts/hosts",
        "--params",
        params,
        "--count",
        "3",
        "--at",
        at,
    ]);
    assert_eq!(told.code, 0, "{}", told.stderr);
    assert_eq!(told.stdout.matches("  3 of 3 endpoints").count(), 3, "{}", told.stdout);
    assert_eq!(told.stdout.matches("  3 hosts: cpu ").count(), 3, "{}", told.stdout);
    assert!(told.stderr.contains("3 endpoints on 3 nodes"), "{}", told.stderr);

    let scripted = run_args(&[
        "stream", "hosts", "--filter", "count", "--shape", "kary:1", "--params", params, "--count", "2",
        "--at", at, "-o", "json",
    ]);
    assert_eq!(scripted.code, 0, "{}", scripted.stderr);
    let waves: Vec<Value> =
        scripted.stdout.lines().map(|line| serde_json::from_str(line).expect("one value a line")).collect();
    assert_eq!(waves.len(), 2);
    assert_eq!((&waves[0]["tag"], &waves[0]["contributors"]), (&json!(1), &json!("0-2")));
    assert_eq!(waves[0]["packets"], json!([{"kind": "packet", "format": "u64", "values": [3]}]));
    assert!(scripted.stderr.contains("3 levels below here"), "a chain: {}", scripted.stderr);
}

#[test]
fn missing_endpoint_makes_a_wave_partial() {
    let nodes = hosts_cluster(2, 3);
    let args = ["stream", "hosts", "--filter", "count", "--count", "1", "--at", &nodes[0].addr, "-o", "json"];
    let ended = run_args(&args);
    assert_eq!(ended.code, 3, "{}", ended.stderr);
    let wave = ended.json();
    assert_eq!(wave["coverage"], json!({"asked": 3, "contributed": 2}));
    assert_eq!(wave["missing"], json!([{"partition": 2, "node": null, "reason": "no_replica"}]));
    let of_one = run_args(&[&args[..], &["--endpoints", "1"]].concat());
    assert_eq!((of_one.code, &of_one.json()["contributors"]), (0, &json!("1")), "{}", of_one.stderr);
}

#[test]
fn restarted_host_takes_part_again() {
    let mut nodes = hosts_cluster(3, 3);
    let mut stream = Watched::start(&nodes[0], &[]);
    stream.wave_where("all hosts are in a wave", |wave| contributed(wave) == 3);
    nodes[1].signal(libc::SIGKILL);
    nodes[1].wait();
    stream.wave_where("waves continue without it", |wave| contributed(wave) == 2);
    nodes[1] = host(1, 3, Some(&nodes[0]));
    stream.wave_where("it is back", |wave| contributed(wave) == 3);
}

#[test]
fn a_signal_ends_the_stream_at_all_nodes() {
    let nodes = hosts_cluster(3, 3);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let mut stream = Watched::start(&nodes[0], &[]);
        stream.wave();
        assert_eq!(nodes.iter().map(open_streams).collect::<Vec<_>>(), [1, 1, 1]);
        stream.signal(signal);
        let status = stream.child.wait().expect("it ends");
        assert_eq!(status.code(), Some(0), "every wave was full");
        wait_until("the stream is closed at all nodes", || nodes.iter().all(|node| open_streams(node) == 0));
    }
}

#[test]
fn filters_are_listed_with_their_parameters() {
    let listed = run("stream --list-filters");
    assert_eq!(listed.code, 0);
    assert!(listed.stdout.contains("top-k") && listed.stdout.contains("  k: "), "{}", listed.stdout);
    let all = run("stream --list-filters -o json").json();
    let named = |name: &str| {
        let all = all.as_array().expect("a list").iter();
        all.clone().find(|filter| filter["name"] == name).unwrap_or_else(|| panic!("{name} is there")).clone()
    };
    assert_eq!(named("top-k")["params"][0]["name"], "k");
    assert_eq!(named("identity")["params"], json!([]));
    assert_eq!(named("hosts/hosts")["params"][0]["name"], "top");
    assert_eq!(
        [named("group")["params"][0]["name"].clone(), named("concat-batches")["params"][0]["name"].clone()],
        ["keys", "rows_max"]
    );
}

#[test]
fn typed_packets_go_into_sketches() {
    let node = NodeProcess::start(&["--serve", "echo:partitions=0-1/2"]);
    let packet = r#"{"format":"f64s u64","values":[[1.0,2.0],3]}"#;
    let folded = |filter: &str| {
        let args = ["stream", "echo", "--at", &node.addr, "-o", "json", "--count", "1", "--send", packet];
        let ended = run_args(&[&args[..], &["--filter", filter]].concat());
        assert_eq!(ended.code, 0, "{filter}: {}{}", ended.stdout, ended.stderr);
        ended.json()["packets"][0]["value"].clone()
    };
    let quantiles = folded("quantiles");
    assert_eq!(
        (&quantiles["count"], &quantiles["min"], &quantiles["max"]),
        (&json!(6), &json!(1.0), &json!(3.0))
    );
    let distinct = folded("distinct")["estimate"].as_f64().expect("a number");
    assert!((distinct - 3.0).abs() < 0.01, "{distinct}");
}

#[test]
fn text_whose_first_byte_is_a_value_is_shown_as_a_text() {
    let directory = tempfile::tempdir().expect("a directory");
    let topology = directory.path().join("e.top");
    std::fs::write(&topology, "localhost:0 => localhost:1 ;\n").expect("a file");
    let (topology, program) = (topology.to_str().expect("a path"), env!("CARGO_BIN_EXE_treefold"));
    for text in ["übung macht den meister", "日本語"] {
        let stream = [program, "stream", "echo", "--count", "1", "--send", text, "-o", "json"];
        let shown = run_args(&[&["up", topology, "--local", "--"], &stream[..]].concat());
        let wave = shown.stdout.lines().find(|line| line.starts_with('{')).expect("a wave");
        let wave: Value = serde_json::from_str(wave).expect("JSON");
        assert_eq!(wave["packets"][0], json!({"kind": "text", "text": text}), "{}", shown.stderr);
    }
}

#[test]
fn invalid_arguments_are_refused_by_name_and_limit() {
    let node = &hosts_cluster(1, 1)[0];
    let refused = |args: &[&str]| {
        let ended = run_args(&[&["stream", "hosts", "--at", &node.addr, "--count", "1"], args].concat());
        assert_eq!(ended.code, 2, "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, "");
        ended.stderr
    };
    for (args, why) in [
        (&["--filter", "summ"][..], "no filter is called \"summ\"; `treefold stream --list-filters`"),
        (
            &["--filter", "top-k", "--filter-params", r#"{"k":0}"#],
            "parameter `k`: 0 is not within 1 to 65536",
        ),
        (&["--filter", "top-k", "--filter-params", r#"{"n":1}"#], "top-k: parameter"),
        (&["--filter-params", "{k:1}"], "--filter-params {k:1}: key must be a string"),
        (&["--params", r#"{"interval_ms":5}"#], "--params: interval_ms is 5; allowed: 200 to 60000"),
        (&["--params", r#"{"pace":5}"#], "--params: can't read"),
        (&["--sync", "time-out:0"], "sync is time-out:0; allowed: wait-for-all, time-out:MS"),
        (&["--sync", "never"], "sync is never; allowed: "),
        (&["--endpoints", "0-x"], "endpoints is 0-x; allowed: ids and ranges"),
        (&["--endpoints", "0-1"], "endpoints is 0-1; allowed: within 0"),
        (&["--window", "0"], "window is 0; allowed: 1 to 1048576 bytes (stream_window_bytes)"),
        (&["--every", "0s"], "every is 0s; allowed: 1ms or more"),
        (&["--shape", "star"], "shape is star; allowed: "),
        (&["--send", r#"{"format":"i64","values":["x"]}"#], "not of type i64"),
    ] {
        let said = refused(args);
        assert!(said.contains(why), "{args:?}: {said}");
    }
    let unknown = run_args(&["stream", "faces", "--at", &node.addr, "-o", "json"]);
    assert_eq!((unknown.code, &unknown.json()["error"]["kind"]), (5, &json!("unknown_service")));
    assert_eq!(run("stream hosts --at 127.0.0.1:1").code, 5);
    assert_eq!(run("stream hosts").code, 2, "no node to ask");
}

#[test]
fn examples_in_the_help_run() {
    let node = &hosts_cluster(1, 1)[0];
    let help = run("stream --help").stdout;
    let examples: Vec<&str> = help.lines().filter_map(|line| line.strip_prefix("  treefold ")).collect();
    assert!(examples.len() >= 4, "{help}");
    for example in examples {
        let alone =
            example.split(" | ").next().unwrap().replace("127.0.0.1:7700", &node.addr).replace('\'', "");
        let ended = run_args(&alone.split(' ').collect::<Vec<_>>());
        assert_eq!(ended.code, 0, "{example}: {}", ended.stderr);
    }
}
