//! Hosts over real processes: asked by a call, shown once, and watched on a terminal.

use crate::pseudo_terminal::OnTerminal;
use crate::real::{NodeProcess, hosts_cluster, run, run_args, treefold, wait_until};
use serde_json::{Value, json};

fn names(list: &Value) -> Vec<String> {
    let items = list["items"].as_array().expect("a list");
    let mut names: Vec<String> =
        items.iter().map(|item| item["host"]["name"].as_str().expect("a name").to_owned()).collect();
    names.sort_unstable();
    names
}

#[test]
fn call_returns_samples_of_all_hosts() {
    let nodes = hosts_cluster(3, 3);
    let answer = run_args(&["call", "hosts/now", "--at", &nodes[1].addr, "-o", "json"]);
    assert_eq!(answer.code, 0, "{}", answer.stderr);
    let hosts = &answer.json()["value"];
    assert_eq!(hosts["hosts"], 3);
    assert_eq!(names(&hosts["hosts_by_cpu"]), ["web-0", "web-1", "web-2"]);
    assert!(hosts["figures"]["memory_bytes"].as_u64() > Some(0), "{hosts}");
    let processes = hosts["processes_by_memory"]["items"].as_array().unwrap();
    assert!(!processes.is_empty() && processes.len() <= 10, "{processes:?}");
    let params = [r#"{"top": 2}"#, r#"{"top": 65}"#];
    let [two, refused] = params.map(|params| {
        run_args(&[
            "call",
            "hosts/now",
            "--at",
            &nodes[0].addr,
            "--params",
            params,
            "--min-coverage",
            "0",
            "-o",
            "json",
        ])
        .json()
    });
    assert_eq!(two["value"]["hosts_by_cpu"]["items"].as_array().unwrap().len(), 2);
    assert_eq!(refused["missing"][0]["detail"], "hosts/now: top is 65; allowed: 1 to 64");
}

#[test]
fn frame_and_record_name_missing_hosts() {
    let nodes = hosts_cluster(3, 4);
    let frame = run(&format!("top --at {} --once", nodes[0].addr));
    assert_eq!(frame.code, 3, "the fourth host does not exist: {}{}", frame.stdout, frame.stderr);
    assert!(frame.stdout.contains("3 of 4 hosts"), "{}", frame.stdout);
    assert!(frame.stdout.contains("missing 1 of 4") && frame.stdout.contains("host 3: "), "{}", frame.stdout);
    assert!(["web-0", "web-1", "web-2"].iter().all(|name| frame.stdout.contains(name)), "{}", frame.stdout);
    assert!(frame.stdout.lines().all(|line| line.chars().count() <= 80), "{}", frame.stdout);
    assert!(!frame.stdout.contains('\u{1b}'), "no control sequences");

    let record = run(&format!("top --at {} -o json --sort memory", nodes[0].addr));
    assert_eq!(record.code, 3, "{}", record.stderr);
    let record = record.json();
    assert_eq!(record["coverage"], json!({"asked": 4, "contributed": 3}));
    assert_eq!(
        (&record["missing"][0]["partition"], &record["missing"][0]["reason"]),
        (&json!(3), &json!("no_replica"))
    );
    assert_eq!(record["nodes"]["in_sight"], 3);
    assert_eq!(record["slowest"].as_array().unwrap().len(), 3);
    assert!(record["spread"]["memory_permille"]["p50"].is_u64());
    assert_eq!(names(&record["value"]["hosts_by_memory"]), ["web-0", "web-1", "web-2"]);
}

#[test]
fn silent_host_is_missing_and_calls_can_be_selected() {
    let nodes = hosts_cluster(3, 3);
    let by_stream = run(&format!("top --at {} -o json", nodes[0].addr)).json();
    assert_eq!(by_stream["stream"]["endpoints"], 3);
    assert_eq!(by_stream["stream"]["nodes"], 3);
    assert_eq!(by_stream["stream"]["away"], json!([]));
    nodes[2].signal(libc::SIGSTOP);
    let record = run(&format!("top --at {} -o json --deadline 300ms", nodes[0].addr));
    nodes[2].signal(libc::SIGCONT);
    assert_eq!(record.code, 3, "{}", record.stderr);
    let record = record.json();
    assert_eq!(names(&record["value"]["hosts_by_cpu"]), ["web-0", "web-1"]);
    assert_eq!(record["missing"][0]["partition"], 2);

    let by_call = run(&format!("top --at {} --by call --once", nodes[0].addr));
    assert_eq!(by_call.code, 0, "{}", by_call.stderr);
    assert!(!by_call.stdout.contains("by stream") && by_call.stdout.contains("  in "), "{}", by_call.stdout);
}

#[test]
fn frame_size_follows_columns_and_lines() {
    let node = &hosts_cluster(1, 1)[0];
    let mut command = treefold();
    command.args(["top", "--at", &node.addr, "--once"]).env("COLUMNS", "200").env("LINES", "50");
    let frame = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!((40..=50).contains(&frame.lines().count()), "empty lines at its end are cut: {frame}");
    assert!(frame.contains("stall") && frame.contains("iowait"), "{frame}");
}

#[test]
fn examples_in_the_help_run() {
    let node = &hosts_cluster(1, 1)[0];
    let help = run("top --help").stdout;
    let examples: Vec<&str> = help.lines().filter_map(|line| line.strip_prefix("  treefold ")).collect();
    assert!(examples.len() >= 4, "{help}");
    for example in examples {
        let alone = example.split(" | ").next().unwrap().replace("127.0.0.1:7700", &node.addr);
        let mut args: Vec<&str> = alone.split(' ').collect();
        if !args.contains(&"json") && !args.contains(&"--once") {
            args.push("--once"); // a test has no terminal
        }
        let ended = run_args(&args);
        assert_eq!(ended.code, 0, "{example}: {}", ended.stderr);
    }
}

#[test]
fn unwatchable_targets_are_refused() {
    let node = NodeProcess::start(&["--serve", "micro:partitions=0/1"]);
    let nobody = run(&format!("top --at {} --once", node.addr));
    assert_eq!(nobody.code, 2, "{}", nobody.stderr);
    assert!(nobody.stderr.contains("treefold node --serve hosts:"), "{}", nobody.stderr);
    let blind = run(&format!("top --at {}", node.addr));
    assert_eq!(blind.code, 2);
    assert!(blind.stderr.contains("--once"), "{}", blind.stderr);
    for senseless in ["--interval 10ms", "--interval 5", "--top 65", "--sort pid"] {
        assert_eq!(run(&format!("top --at {} {senseless} --once", node.addr)).code, 2, "{senseless}");
    }
    assert_eq!(run("top --at 127.0.0.1:1 --once").code, 5);
}

fn watched(node: &NodeProcess) -> OnTerminal {
    let mut command = treefold();
    command.args(["top", "--at", &node.addr, "--interval", "200ms"]);
    let top = OnTerminal::start(command, 80, 24);
    wait_until("the hosts are shown", || top.shown().contains("web-0"));
    top
}

/// Asserts that the terminal was taken over and is restored.
fn ended_well(top: &mut OnTerminal) {
    let status = top.child.wait().expect("it ends");
    assert_eq!(status.code(), Some(0));
    wait_until("the screen is restored", || top.shown().contains("\u{1b}[?1049l"));
    assert!(top.shown().contains("\u{1b}[?1049h") && top.shown().contains("\u{1b}[?25h"));
    assert!(top.is_as_a_shell_wants_it());
}

#[test]
fn terminal_is_restored_after_keys_and_signals() {
    let node = &hosts_cluster(1, 1)[0];
    for keys in ["q", "\u{3}"] {
        let mut top = watched(node);
        assert!(!top.is_as_a_shell_wants_it(), "keys come one by one");
        top.press(keys);
        ended_well(&mut top);
    }
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut top = watched(node);
        let pid = libc::pid_t::try_from(top.child.id()).expect("a process id");
        // SAFETY: kill touches no memory; the process is a child that was not waited for.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
        ended_well(&mut top);
    }
}

#[test]
fn a_paused_top_has_no_stream() {
    let node = &hosts_cluster(1, 1)[0];
    let streams = || {
        let status = run_args(&["status", "--at", &node.addr, "-o", "json"]).json();
        status["open"]["streams"].as_u64().expect("a count")
    };
    let mut top = watched(node);
    assert_eq!(streams(), 1);
    top.press("p");
    wait_until("its stream is closed", || streams() == 0);
    top.press("p");
    wait_until("a new stream is open", || streams() == 1);
    top.press("q");
    ended_well(&mut top);
}

#[test]
fn top_follows_keys_resizes_and_node_loss() {
    let mut node = hosts_cluster(1, 1).remove(0);
    let mut top = watched(&node);
    assert!(!top.shown().contains("\u{1b}[38;5;"), "NO_COLOR is set");
    top.press("h");
    wait_until("help is shown", || top.shown().contains("┌"));
    top.press("h");
    assert!(!top.shown().contains("iowait"));
    top.resize(200, 50);
    wait_until("there is more to see", || top.shown().contains("iowait"));
    node.signal(libc::SIGKILL);
    node.wait();
    wait_until("the node's end is noticed", || top.shown().contains("ago"));
    top.press("q");
    ended_well(&mut top);
}
