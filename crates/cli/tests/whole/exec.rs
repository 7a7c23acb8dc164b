//! Command-line tools as services, over real nodes: answers, deadlines, cancellation, and the page's examples.

use crate::pseudo_terminal::OnTerminal;
use crate::real::{
    Ended, NodeProcess, blocks, paste, run_args, treefold, wait_for_folding, wait_for_members, wait_until,
};
use crate::relays;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Stdio};

const PAGE: &str = include_str!("../../../../docs/exec.md");

/// Partitions of every cluster here.
const TOTAL: u32 = 4;

/// Starts `nodes` nodes that serve the same tools, each with its part of the partitions.
fn cluster(nodes: u32, tools: &[String]) -> Vec<NodeProcess> {
    let mut all: Vec<NodeProcess> = Vec::new();
    for at in 0..nodes {
        let ids: Vec<String> = (at..TOTAL).step_by(nodes as usize).map(|id| id.to_string()).collect();
        let serve = |tool: &String| format!("exec={tool}:partitions={}/{TOTAL}", ids.join(","));
        let mut args: Vec<String> =
            tools.iter().flat_map(|tool| ["--serve".to_owned(), serve(tool)]).collect();
        args.extend(all.first().iter().flat_map(|first| ["--join".to_owned(), first.addr.clone()]));
        all.push(NodeProcess::start(&args.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    all.iter().for_each(|node| wait_for_members(&node.addr, nodes as usize));
    all
}

fn one(tool: &str) -> NodeProcess {
    cluster(1, &[tool.to_owned()]).remove(0)
}

fn call(at: &NodeProcess, tool: &str, params: &Value, deadline: &str) -> Ended {
    let (kind, params) = (format!("{tool}/run"), params.to_string());
    run_args(&["call", &kind, "--at", &at.addr, "--params", &params, "--deadline", deadline, "-o", "json"])
}

/// Calls a tool that must answer for all partitions.
fn value(at: &NodeProcess, tool: &str, params: &Value) -> Value {
    let ended = call(at, tool, params, "20s");
    assert_eq!(ended.code, 0, "{tool}: {}{}", ended.stdout, ended.stderr);
    ended.json()["value"].take()
}

/// Writes a folder of lines for each partition.
fn folders() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for partition in 0..TOTAL {
        let folder = directory.path().join(partition.to_string());
        std::fs::create_dir(&folder).unwrap();
        let line = |n: u32| {
            format!("{} host{} {}.{}\n", ["GET", "PUT"][n as usize % 2], n % 5 + partition, n, partition)
        };
        std::fs::write(folder.join("log"), (0..40).map(line).collect::<String>()).unwrap();
    }
    directory
}

/// Runs a shell script over the lines of all partitions.
fn shell(script: &str, directory: &Path) -> String {
    let output = Command::new("sh").args(["-c", script]).current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn one_node_and_four_give_what_the_tool_gives_over_all_data() {
    let folders = folders();
    let dir = format!("dir={}/{{partition}}", folders.path().display());
    let tools = [
        (
            "hits",
            "grep -c -- {query} log:reduce=sum-lines",
            "grep -hc -- GET */log | awk '{ s += $1 } END { print s }'",
        ),
        ("count", "grep -- {query} log:reduce=count", "cat */log | grep -c -- GET"),
        ("sorted", "grep -- {query} log:reduce=merge-sorted", "cat */log | grep GET | LC_ALL=C sort"),
        ("hosts", "cut -d ' ' -f 2 log:reduce=unique", "cut -d ' ' -f 2 */log | LC_ALL=C sort -u"),
        (
            "busy",
            "sh -c 'cut -d \" \" -f 2 log | sort | uniq -c':reduce=sum-counts",
            "cut -d ' ' -f 2 */log | LC_ALL=C sort | uniq -c",
        ),
        (
            "best",
            "awk '{ print $3, $2 }' log:reduce=top-k:k=5",
            "awk '{ print $3, $2 }' */log | LC_ALL=C sort -k1,1nr -k2 | head -n 5",
        ),
        (
            "sums",
            "awk '{ s[$2] += $3 } END { for (k in s) print k \"\\t\" s[k] }' log:reduce=sum-lines",
            "awk '{ s[$2] += $3 } END { for (k in s) print k \"\\t\" s[k] }' */log | LC_ALL=C sort",
        ),
        ("merged", "sort log:reduce-command=sort -m {a} {b}", "LC_ALL=C sort */log"),
    ];
    let serve: Vec<String> =
        tools.iter().map(|(name, rest, _)| format!("{name}:{dir}:command={rest}")).collect();
    let (small, large) = (cluster(1, &serve), cluster(4, &serve));
    for (name, _, script) in tools {
        let expected = json!(shell(script, folders.path()));
        assert_eq!(value(&small[0], name, &json!("GET")), expected, "{name} over one node");
        assert_eq!(value(&large[2], name, &json!({"query": "GET"})), expected, "{name} over four nodes");
    }
}

#[test]
fn relays_fold_for_tools_that_they_learn_of() {
    let folders = folders();
    let dir = format!("dir={}/{{partition}}", folders.path().display());
    let tools = [
        format!("best:{dir}:command=awk '{{ print $3, $2 }}' log:reduce=top-k:k=5"),
        format!("hosts:{dir}:command=cut -d ' ' -f 2 log:reduce=unique"),
        format!("apart:{dir}:command=head -n 1 log:reduce=concatenate"),
        format!("merged:{dir}:command=sort log:reduce-command=sort -m {{a}} {{b}}"),
    ];
    let nodes = cluster(4, &tools);
    let before: Vec<Value> =
        ["best", "hosts", "apart", "merged"].map(|tool| value(&nodes[0], tool, &json!(null))).to_vec();
    let relay = NodeProcess::start(&["--relay", "--join", &nodes[0].addr]);
    wait_for_folding(&nodes[1], &relay, "best");
    for (tool, expected) in ["best", "hosts", "apart", "merged"].iter().zip(before) {
        let kind = format!("{tool}/run");
        let answer = run_args(&["call", &kind, "--at", &nodes[1].addr, "--explain", "-o", "json"]).json();
        assert_eq!((&answer["status"], &answer["value"]), (&json!("full"), &expected), "{tool}");
        let expected = if *tool == "merged" { None } else { Some(&relay.addr) };
        let folds_in_relay = relays::inner(&answer).contains(&relay.addr).then_some(&relay.addr);
        assert_eq!(folds_in_relay, expected, "{tool}: a command folds where it is declared: {answer}");
    }
}

#[test]
fn command_as_reduce_gets_its_own_parameters() {
    let tool = "kept:command=printf '%s\\n' {query} x{partition}:reduce-command=sh -c 'sort | head -n \"$1\"' -- {query}";
    let nodes = cluster(2, &[tool.to_owned()]);
    let at = nodes[1].addr.as_str();
    for (more, value) in
        [(&["--reduce-params", "3"][..], "a\na\na\n"), (&["--reduce-params", "5"][..], "a\na\na\na\nx0\n")]
    {
        let args = ["call", "kept/run", "--at", at, "--params", "\"a\"", "--shape", "chain", "-o", "json"];
        let answer = run_args(&[&args[..], more].concat()).json();
        assert_eq!((&answer["status"], &answer["value"]), (&json!("full"), &json!(value)), "{answer}");
    }
    let refused = run_args(&["call", "kept/run", "--at", at, "--params", "\"a\"", "--min-coverage", "0.5"]);
    assert_eq!(refused.code, 4, "without them, head gets the locals': {}", refused.stdout);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("long.json");
    std::fs::write(&file, format!("\"{}\"", "x".repeat(1 << 20))).unwrap();
    let long = format!("@{}", file.display());
    let refused = run_args(&["call", "kept/run", "--at", at, "--params", "1", "--reduce-params", &long]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("reduce_params is 1048581 bytes; allowed: at most 1048576"),
        "{}",
        refused.stderr
    );
}

#[test]
fn outputs_are_kept_by_partition_and_shown_as_text() {
    let nodes =
        cluster(2, &["echo:command=printf '%s\\n' {partition} {query}:reduce=concatenate".to_owned()]);
    let kept = value(&nodes[1], "echo", &json!("$(id) ; \"x\""));
    assert_eq!(kept["2"], "2\n$(id) ; \"x\"\n");
    assert_eq!(kept.as_object().map(serde_json::Map::len), Some(TOTAL as usize));
    let shown = run_args(&["call", "echo/run", "--at", &nodes[0].addr, "--params", "\"a b\""]);
    assert!(shown.stdout.starts_with("==> 0 <==\n0\na b\n==> 1 <==\n1\na b\n"), "{}", shown.stdout);
    assert!(shown.stdout.contains("full: coverage 1.000 (4 of 4 partitions)"), "{}", shown.stdout);
}

#[test]
fn failures_name_the_exit_code_and_the_limit() {
    let tools = [
        "fails:command=sh -c 'echo no data >&2; exit 4':reduce=count",
        "endless:command=yes:output=64K:reduce=append",
        "greedy:command=awk 'BEGIN { s = \"x\"; while (1) s = s s }':memory=64M:reduce=append",
        "finds:command=grep -- {query} /dev/null:empty=1:reduce=count",
    ];
    let nodes = cluster(1, &tools.map(str::to_owned));
    for (tool, reason) in [
        ("fails", "sh exited with code 4: no data"),
        ("endless", "yes printed more than 65536 bytes (output) and was killed"),
        ("greedy", "awk "),
    ] {
        let answer = call(&nodes[0], tool, &json!(null), "20s");
        assert_eq!(answer.code, 4, "{tool}: {}", answer.stdout);
        // The first failure rules out full coverage, so the other partitions may be cancelled.
        let missing = answer.json()["missing"].as_array().cloned().unwrap_or_default();
        let failed = missing.iter().find(|missing| missing["reason"] == "local_failed");
        let detail = failed.and_then(|failed| failed["detail"].as_str());
        assert!(detail.is_some_and(|detail| detail.contains(reason)), "{tool}: {missing:?}");
    }
    let no_query = call(&nodes[0], "finds", &json!(null), "20s");
    assert_eq!(no_query.code, 2, "{}", no_query.stdout);
    assert!(no_query.stderr.contains("this service's command needs a query"), "{}", no_query.stderr);
    assert_eq!(value(&nodes[0], "finds", &json!("x")), json!("0\n"));
}

/// A tool whose command starts a child, writes both numbers to a file, and sleeps.
fn sleeper(file: &Path) -> String {
    let file = file.display();
    format!(
        "slow:command=sh -c 'sh -c \"echo \\$\\$ >> {file}; sleep 300; true\" & echo $$ >> {file}; wait':reduce=count"
    )
}

fn pids(file: &Path) -> Vec<u32> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// Waits until both processes of each of the node's partitions have started.
fn wait_for_starts(file: &Path, processes: usize) -> Vec<u32> {
    wait_until("the commands have started", || pids(file).len() == processes);
    pids(file)
}

/// True if a process runs. A zombie does not: it has ended, and waits for the process that reaps orphans.
fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn wait_for_ends(pids: &[u32]) {
    wait_until("no process of the command is left", || !pids.iter().any(|pid| lives(*pid)));
}

#[test]
fn deadline_kills_a_command_with_its_children() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let node = one(&sleeper(&file));
    let late = call(&node, "slow", &json!(null), "2s");
    assert_eq!(late.code, 4, "{}", late.stdout);
    assert_eq!(late.json()["missing"].as_array().map(Vec::len), Some(TOTAL as usize));
    let started = pids(&file);
    assert!(started.len() >= 2, "{started:?}");
    wait_for_ends(&started);
    // The node has its processors back.
    let status = run_args(&["status", "--at", &node.addr, "-o", "json"]);
    assert_eq!(status.code, 0, "{}", status.stderr);
}

/// Starts a node with a sleeping tool, and a call of it that has a long deadline.
fn sleeping_call(file: &Path) -> (NodeProcess, std::process::Child) {
    let serve = format!("exec={}:partitions=0/1", sleeper(file));
    let node = NodeProcess::start(&["--serve", &serve]);
    let mut command = treefold();
    command.args(["call", "slow/run", "--at", &node.addr, "--deadline", "300s"]);
    let caller = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    (node, caller)
}

#[test]
fn cancelled_call_kills_its_commands() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let (_node, mut caller) = sleeping_call(&file);
    let started = wait_for_starts(&file, 2);
    caller.kill().unwrap();
    caller.wait().unwrap();
    wait_for_ends(&started);
}

#[test]
fn stopped_node_leaves_no_process() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let (mut node, mut caller) = sleeping_call(&file);
    let started = wait_for_starts(&file, 2);
    node.signal(libc::SIGTERM);
    node.wait();
    caller.wait().unwrap();
    wait_for_ends(&started);
}

#[test]
fn killed_node_takes_its_commands_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("pids");
    let serve = format!(
        "exec=slow:command=sh -c 'echo $$ > {}; exec sleep 300':reduce=count:partitions=0/1",
        file.display()
    );
    let node = NodeProcess::start(&["--serve", &serve]);
    let mut command = treefold();
    command.args(["call", "slow/run", "--at", &node.addr, "--deadline", "300s"]);
    let mut caller = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let started = wait_for_starts(&file, 1);
    node.signal(libc::SIGKILL);
    wait_for_ends(&started);
    caller.kill().unwrap();
    caller.wait().unwrap();
}

#[test]
fn processors_of_the_node_bound_the_processes() {
    let directory = tempfile::tempdir().unwrap();
    let script =
        "touch D/$$; ls D | wc -l; sleep 0.05; rm D/$$".replace('D', &directory.path().display().to_string());
    let serve = format!("exec=crowd:command=sh -c '{script}':reduce=top-k:k=1:partitions=0-7/8");
    let node = NodeProcess::start(&["--processors", "1", "--serve", &serve]);
    assert_eq!(value(&node, "crowd", &json!(null)), json!("1\n"));
}

#[test]
fn invalid_tools_are_refused_before_the_node_starts() {
    let refused = |serve: &str| {
        let ended = run_args(&["node", "--listen", "127.0.0.1:0", "--serve", serve]);
        assert_ne!(ended.code, 0, "{serve}");
        ended.stderr
    };
    let script = refused("exec=a:command=sh -c 'grep {query} f':reduce=count:partitions=0/1");
    assert!(script.contains("stands inside other text"), "{script}");
    let missing = refused("exec=a:command=no-such-tool:reduce=count:partitions=0/1");
    assert!(missing.contains("no program \"no-such-tool\" was found in PATH"), "{missing}");
}

/// Writes what a terminal would obey: a cleared screen, a title, a colour, a line written over, U+009B.
const HOSTILE: &str = r"\033[2Jone\033]0;two\007\033[31mthree\rfour\302\2332Jfive";

fn controls(text: &str) -> String {
    text.chars().filter(|c| c.is_control() && *c != '\n').collect()
}

#[test]
fn escape_sequences_of_a_command_are_shown_and_not_obeyed() {
    let tools = [
        format!("fails:command=sh -c \"printf '{HOSTILE}' >&2; exit 3\":reduce=count"),
        format!("prints:command=sh -c \"printf '{HOSTILE}\\nsix\\n'\":reduce=concatenate"),
    ];
    let node = cluster(1, &tools).remove(0);
    let text = |tool: &str| {
        run_args(&[
            "call",
            &format!("{tool}/run"),
            "--at",
            &node.addr,
            "--deadline",
            "20s",
            "--params",
            "null",
        ])
    };
    let failed = text("fails");
    assert_eq!(controls(&failed.stdout), "", "{:?}", failed.stdout);
    assert!(failed.stdout.contains(r"\u{1b}[2Jone\u{1b}]0;two\u{7}"), "{}", failed.stdout);
    let printed = text("prints");
    assert_eq!(controls(&printed.stdout), "", "{:?}", printed.stdout);
    assert!(printed.stdout.contains("\\u{9b}2Jfive\nsix\n"), "{}", printed.stdout);
    // A script gets the value, and its text is safe too.
    let json = call(&node, "prints", &Value::Null, "20s");
    assert_eq!(controls(&json.stdout), "", "{:?}", json.stdout);
    let value = json.json()["value"].to_string();
    assert!(value.contains(r"\u001b[2Jone") && value.contains("\u{9b}2Jfive"), "{value}");

    // On a terminal, the colours are the command's own.
    let mut coloured = treefold();
    coloured.env_remove("NO_COLOR").args(["call", "fails/run", "--at", &node.addr, "--deadline", "20s"]);
    let mut terminal = OnTerminal::start(coloured, 200, 50);
    terminal.child.wait().unwrap();
    wait_until("the loss is shown", || terminal.shown().contains("five"));
    let shown = terminal.shown();
    assert!(shown.contains("\u{1b}[33mmissing") && shown.contains(r"\u{1b}[31mthree"), "{shown:?}");
    assert!(
        !shown.contains("\u{1b}[2J") && !shown.contains("\u{1b}]0") && !shown.contains("\u{1b}[31mthree")
    );
}

#[test]
fn examples_of_the_page_print_what_it_shows_when_pasted() {
    let pasted = paste(&blocks(PAGE, "sh").concat());
    let all = format!("{}{}", pasted.stdout, pasted.stderr);
    let mut left = pasted.stdout.lines().filter(|line| !line.starts_with("listening on"));
    // The first block of text is a drawing. "…" stands for text that differs, and ports differ too.
    for expected in blocks(PAGE, "text").into_iter().skip(1).flat_map(str::lines) {
        let line = left.next().unwrap_or_else(|| panic!("{expected} is missing in {all}"));
        let same = match expected.split_once("127.0.0.1:") {
            Some((begin, rest)) => line.starts_with(begin) && line.ends_with(&rest[4..]),
            None => line.starts_with(expected.split('…').next().unwrap_or_default()),
        };
        assert!(same, "expected {expected:?}, found {line:?} in {all}");
    }
    assert_eq!(left.next(), None, "{all}");
    assert_eq!(pasted.code, 0, "{all}");
}

#[test]
fn module_folds_at_relays_that_fetch_it_and_calls_pass_by_those_that_cannot_run_it() {
    let directory = tempfile::tempdir().unwrap();
    let module = directory.path().join("longer.wasm");
    std::fs::write(&module, wat::parse_str(crate::up::LONGER).unwrap()).unwrap();
    let nodes =
        cluster(TOTAL, &[format!("own:command=seq {{partition}} 9:reduce-module={}", module.display())]);
    let relay = NodeProcess::start(&["--relay", "--join", &nodes[0].addr]);
    nodes.iter().for_each(|node| wait_for_folding(node, &relay, "own"));
    let args = ["call", "own/run", "--at", &nodes[1].addr, "--params", "null", "--explain", "-o", "json"];
    let whole: String = (0..10).map(|line| format!("{line}\n")).collect();
    let ended = run_args(&args);
    let answer = ended.json();
    assert_eq!((&answer["value"], ended.code), (&json!(whole), 0), "{answer} {}", ended.stderr);
    assert_eq!(relays::inner(&answer), std::slice::from_ref(&relay.addr), "{answer}");
    let kept = run_args(&["operator", "list", "--at", &relay.addr]).stdout;
    assert!(kept.contains("reduce"), "{kept}");
    // The nodes themselves fold by it, too.
    let answer = run_args(&[&args[..], &["--shape", "chain"]].concat()).json();
    assert_eq!(answer["value"], json!(whole), "{answer}");

    for (file, bytes, says) in [
        ("no.wasm", None, "no.wasm: No such file"),
        ("text.wasm", Some("text".as_bytes().to_vec()), "the module of \"run\""),
    ] {
        let path = directory.path().join(file);
        bytes.iter().for_each(|bytes| std::fs::write(&path, bytes).unwrap());
        let serve = format!("exec=own:command=cat:reduce-module={}:partitions=0/1", path.display());
        let refused = run_args(&["node", "--listen", "127.0.0.1:0", "--serve", &serve]);
        assert!(refused.code != 0 && refused.stderr.contains(says), "{}", refused.stderr);
    }
}
