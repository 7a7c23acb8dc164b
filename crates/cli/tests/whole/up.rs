//! Networks of real processes: they start, carry streams, lose processes, and leave no process behind.
//!
//! Failures of a start are reported with their hosts.

use crate::real::{run_args, treefold, wait_until};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use treefold::operators::packet::{Packet, Row};
use treefold::{Stream, StreamEvent};
use treefold_network::launch::{Failed, Launcher, NetworkEvent, Token, UpError, UpOptions};
use treefold_network::topology::Topology;
use treefold_network::{Attachment, Network, attach};

const TOKEN: &str = "a secret of this test's";

/// Replaces HOST in a topology's text by names specific to this test, so that its processes can be
/// recognised.
pub(crate) fn hosts(test: &str, text: &str) -> String {
    text.replace("HOST", &mark(test))
}

pub(crate) fn mark(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

/// Returns the running node processes with this word in their command line.
pub(crate) fn processes_with(word: &str) -> Vec<i32> {
    let entries = std::fs::read_dir("/proc").expect("a list of processes").flatten();
    let pid = |entry: std::fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
    let says = |pid: &i32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_node = command.split(|&byte| byte == 0).nth(1) == Some(b"node");
        is_node && String::from_utf8_lossy(&command).contains(word)
    };
    entries.filter_map(pid).filter(says).collect()
}

fn kill(pid: i32) {
    signal(pid, libc::SIGKILL);
}

pub(crate) fn signal(pid: i32, signal: i32) {
    // SAFETY: kill touches no memory; the process belongs to this test.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

pub(crate) fn options() -> UpOptions {
    let program = env!("CARGO_BIN_EXE_treefold");
    let inner = [program, "node", "--attach", "{attach}", "--as", "{place}", "--workers", "1"];
    let inner = inner.map(str::to_owned).to_vec();
    let mut back_end = inner.clone();
    back_end.extend(["--serve".to_owned(), "echo:partitions={number}/{total}".to_owned()]);
    let mut options = UpOptions::new(inner, back_end);
    options.launcher = Launcher::Local;
    options.token = Token::new(TOKEN);
    options
}

/// Options with which the back-end of this index on its host runs a script instead.
fn failing_at(index: u32, script: &str) -> UpOptions {
    let mut options = options();
    let script = format!("case {{place}} in *:{index}) {script};; *) exec \"$0\" \"$@\";; esac");
    options.back_end.splice(0..0, ["sh".to_owned(), "-c".to_owned(), script]);
    options
}

/// Sends one number to all endpoints.
///
/// Returns the sum of their answers, and the number of endpoints.
pub(crate) async fn sum_of_ones(stream: &mut Stream) -> (i64, usize) {
    let one = Row::new().i64(1).packet().into_bytes();
    let tag = stream.send(one).await.expect("the stream is open");
    loop {
        if let StreamEvent::Wave(wave) = stream.next().await.expect("the stream is open")
            && wave.tag == tag
        {
            let sum = |bytes| Packet::read(bytes).and_then(|packet| packet.i64(0)).expect("a sum is an i64");
            let sums = wave.packets.iter().map(sum).sum();
            return (sums, wave.contributors.len());
        }
    }
}

pub(crate) async fn open(network: &Network) -> Stream {
    let stream = network.client().stream("echo").up_filter("sum").open().await;
    stream.expect("every node knows echo and sum")
}

#[tokio::test]
async fn network_streams_and_survives_loss_of_an_inner_process() {
    let text = hosts("stands", "HOST:0 => HOST:1 HOST:2; HOST:1 => HOST:[3-4]; HOST:2 => HOST:[5-6];");
    let topology: Topology = text.parse().expect("a topology");
    let mut network = Network::up(topology, options()).await.expect("it comes up");
    let mut stream = open(&network).await;
    let trees = stream.trees();
    let shape: Vec<Vec<usize>> =
        trees.iter().map(|tree| tree.seats().iter().map(|seat| seat.partitions.len()).collect()).collect();
    assert_eq!(shape, [[0, 1, 1], [0, 1, 1]], "inner processes have no partitions");
    assert_eq!(trees[1].partitions().to_string(), "2-3", "numbered as in the file");
    assert_eq!(sum_of_ones(&mut stream).await, (4, 4));
    let inner = processes_with(&format!("{}:1\0", mark("stands")));
    assert_eq!(inner.len(), 1);
    kill(inner[0]);
    // Its children may attach again before its end is noticed.
    let (mut lost, mut came) = (Vec::<Failed>::new(), Vec::new());
    while lost.is_empty() || came.len() < 2 {
        match network.event().await {
            Some(NetworkEvent::Lost(failed)) => lost.push(failed),
            Some(NetworkEvent::Came { place }) => came.push(place),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(lost[0].place, format!("{}:1", mark("stands")));
    assert_eq!(lost[0].what, "was ended by signal 9");
    while sum_of_ones(&mut stream).await != (4, 4) {}
    let again = open(&network).await;
    assert_eq!(again.endpoints().len(), 4, "a new stream includes the orphans at their new parents");
    drop((stream, again));
    network.down(Duration::from_secs(10)).await;
    wait_until("all processes have ended", || processes_with(&mark("stands")).is_empty());
}

/// Runs the program beside a network that is started from a generated topology.
fn beside(test: &str, shape: &[&str], words: &[&str]) -> crate::real::Ended {
    let generated = run_args(&[&["topology"], shape].concat()).stdout;
    let directory = directory_with(&generated.replace("localhost", &mark(test)), SSH);
    let topology = directory.path().join("tree.top");
    let up = ["up", topology.to_str().expect("a path"), "--local", "--", env!("CARGO_BIN_EXE_treefold")];
    run_args(&[&up[..], words].concat())
}

#[test]
fn streams_of_a_client_follow_the_topology_and_lose_no_endpoint() {
    let send = ["--filter", "count", "--send", "x", "--every", "5ms", "--count", "700"];
    for (shape, shown) in [
        (&["kary", "8", "--back-ends", "64"][..], "64 endpoints on 72 nodes, 2 levels below here"),
        (&["kary", "2", "--back-ends", "8"][..], "8 endpoints on 14 nodes, 3 levels below here"),
        (&["flat", "--back-ends", "12"][..], "12 endpoints on 12 nodes, 1 level below here"),
    ] {
        let ended = beside("follows", shape, &[&["stream", "echo"], &send[..]].concat());
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        assert!(ended.stderr.contains(shown), "{}", ended.stderr);
        assert!(!ended.stdout.contains("away") && !ended.stderr.contains("away"), "{}", ended.stderr);
        let full = format!("{0} of {0} endpoints", shown.split(' ').next().expect("a number"));
        assert_eq!(ended.stdout.matches(&full).count(), 700, "{}", ended.stdout);
    }
    wait_until("all processes have ended", || processes_with(&mark("follows")).is_empty());
}

#[test]
fn another_shape_is_used_if_it_is_asked_for_and_a_cluster_has_no_topology() {
    let one =
        ["stream", "echo", "--filter", "count", "--send", "x", "--every", "5ms", "--count", "1", "--shape"];
    for (shape, shown) in
        [("flat", "6 endpoints on 6 nodes, 1 level"), ("topology", "6 endpoints on 8 nodes, 2 levels")]
    {
        let ended = beside("asked", &["kary", "3", "--back-ends", "6"], &[&one[..], &[shape]].concat());
        assert!(ended.code == 0 && ended.stderr.contains(shown), "{shape}: {}", ended.stderr);
    }
    let node = crate::real::NodeProcess::start(&["--serve", "echo:partitions=0-1/2"]);
    for words in [&["stream", "echo"][..], &["call", "echo/nodes"]] {
        let refused = run_args(&[words, &["--shape", "topology", "--at", &node.addr]].concat());
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains("shape is topology; allowed: any other shape"), "{}", refused.stderr);
    }
}

#[test]
fn operators_that_are_pushed_to_the_front_end_fold_in_inner_processes() {
    let generated = run_args(&["topology", "kary", "2", "--back-ends", "4"]).stdout;
    let directory = directory_with(&generated.replace("localhost", &mark("pushed")), SSH);
    let topology = directory.path().join("tree.top");
    let program = env!("CARGO_BIN_EXE_treefold");
    // It keeps the ten greatest rows of sixteen bytes.
    let guest = concat!(env!("CARGO_MANIFEST_DIR"), "/../wasm/fixtures/top_k.wasm");
    let script = format!(
        "name=$('{program}' operator push '{guest}' --at $TREEFOLD_AT) && '{program}' stream echo --filter $name \
         --filter-params hex:0a000000 --send a-row-of-16bytes --every 20ms --count 20 -o json"
    );
    let up = ["up", topology.to_str().expect("a path"), "--local", "--", "sh", "-c", &script];
    let ended = run_args(&up);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let waves: Vec<Value> = ended.stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert_eq!(waves.len(), 20, "{}", ended.stdout);
    for wave in waves {
        assert_eq!((&wave["contributors"], &wave["missing"]), (&"0-3".into(), &Value::Array(Vec::new())));
        assert_eq!(wave["packets"][0]["text"], "a-row-of-16bytes".repeat(4), "{wave}");
    }
}

/// Programs that attach, in C or Rust, have no WebAssembly. The processes above them fold what they send.
#[tokio::test]
async fn operators_fold_in_inner_processes_over_attached_programs() {
    let (ready, is_ready) = tokio::sync::oneshot::channel();
    let mut options = UpOptions { launcher: Launcher::Wait, ..options() };
    options.node = options.node.foreign(treefold_cli::foreign::guests());
    options.on_ready = Some(Box::new(|addr| ready.send(addr).expect("the test waits")));
    let topology = "a:0 => a:1 b:0; a:1 => a:2 a:3;".parse().expect("a topology");
    let network = tokio::spawn(async { Network::up(topology, options).await.expect("all come") });
    let front = is_ready.await.expect("it listens");
    let words = ["node", "--attach", &front.to_string(), "--as", "a:1"];
    let mut inner = treefold().args(words).env("TREEFOLD_TOKEN", TOKEN).spawn().expect("it can be started");
    let programs: Vec<_> =
        (0..3).map(|endpoint| std::thread::spawn(move || answer_rows(front, endpoint))).collect();
    let network = network.await.expect("no panic");

    let guest = concat!(env!("CARGO_MANIFEST_DIR"), "/../wasm/fixtures/top_k.wasm");
    let client = network.client();
    let pushed = client.operator_push(std::fs::read(guest).expect("a module")).await.expect("it is kept");
    let filter = treefold::foreign::filter_name(pushed.id);
    let opening = client
        .stream("tool")
        .up_filter(filter)
        .filter_params(&treefold::operators::Raw(2_u32.to_le_bytes().to_vec().into()));
    let mut stream = opening.open().await.expect("it opens");
    assert_eq!(stream.trees().iter().map(|tree| tree.seats().len()).collect::<Vec<_>>(), [3, 1]);
    for _ in 0..100 {
        stream.send("x".into()).await.expect("it is open");
        let wave = stream.wave().await.expect("it is open");
        assert_eq!((wave.contributors, wave.missing), (treefold::PartitionSet::first(3), Vec::new()));
        assert_eq!(wave.packets, ["row-2-16-bytes..row-1-16-bytes.."]);
    }
    network.down(Duration::from_secs(10)).await;
    assert!(inner.wait().expect("it was started").success());
    programs.into_iter().for_each(|program| program.join().expect("it has ended on its own"));
}

/// A back-end that answers each packet with a row of its own.
fn answer_rows(front: std::net::SocketAddr, endpoint: u32) {
    let cluster = treefold::ClusterOptions::default().token(Token::new(TOKEN));
    let attachment = Attachment::new("tool").at([front]).endpoint(endpoint).total(3).cluster(cluster);
    let attached = attach(attachment).expect("it attaches");
    let long = Duration::from_secs(60);
    let mut stream = attached.accept_timeout(long).expect("a stream is opened");
    while let Ok(packet) = stream.recv_timeout(long) {
        let row = format!("row-{endpoint}-16-bytes..");
        stream.send_timeout(Some(packet.tag), row.into(), long).expect("it is open");
    }
}

/// Inner processes have no tools. They learn how partials of the back-ends' tools are folded.
#[test]
fn inner_processes_fold_for_tools_of_back_ends() {
    let text = hosts(
        "tools",
        "HOST:0 => HOST:[1-2]; HOST:1 => HOST:[3-4]; HOST:3 => HOST:[5-6]; HOST:2 => HOST:[7-8];",
    );
    let directory = directory_with(&text, SSH);
    let (topology, module) = (directory.path().join("tree.top"), directory.path().join("longer.wasm"));
    std::fs::write(&module, wat::parse_str(LONGER).expect("a module")).expect("a file");
    let own = format!("exec=own:command=seq {{partition}} 9:reduce-module={}", module.display());
    let mut up = treefold();
    up.args(["up", topology.to_str().expect("a path"), "--local", "--token", TOKEN]);
    up.args(["--serve", "exec=lines:command=echo 1:reduce=sum-lines", "--serve", &own]);
    let mut up = up.stdout(Stdio::piped()).spawn().expect("it can be started");
    let mut lines = BufReader::new(up.stdout.take().expect("a pipe")).lines();
    let at =
        lines.find_map(|line| Some(line.ok()?.strip_prefix("TREEFOLD_AT=")?.to_owned())).expect("an address");

    let children = |node: &Value| node["children"].as_array().cloned().unwrap_or_default();
    let whole: String = (0..10).map(|line| format!("{line}\n")).collect();
    for (tool, value) in [("lines", "5\n"), ("own", &whole)] {
        let kind = format!("{tool}/run");
        wait_until("all inner processes fold", || {
            let words = [
                "call",
                &kind,
                "--params",
                "null",
                "--shape",
                "topology",
                "--explain",
                "-o",
                "json",
                "--at",
                &at,
            ];
            let called =
                treefold().args(words).env("TREEFOLD_TOKEN", TOKEN).output().expect("it can be started");
            let answer: Value = serde_json::from_slice(&called.stdout).expect("JSON");
            assert_eq!((&answer["value"], &answer["status"]), (&value.into(), &"full".into()), "{answer}");
            let below: Vec<Value> = children(&answer["tree"]);
            let below: Vec<Value> = below.iter().flat_map(children).collect();
            below.len() == 4 && below.iter().map(|child| children(child).len()).sum::<usize>() == 2
        });
    }
    // SAFETY: the process was started here, and was not waited for.
    unsafe { libc::kill(up.id() as i32, libc::SIGTERM) };
    assert!(up.wait().expect("it was started").success());
}

/// A reduce that keeps the longer of two partials.
pub(crate) const LONGER: &str = r#"(module
  (memory (export "memory") 2)
  (func (export "treefold_abi_v1"))
  (func (export "treefold_alloc") (param i32) (result i32) (i32.const 64))
  (func (export "treefold_reduce")
    (param $a i32) (param $a_bytes i32) (param $b i32) (param $b_bytes i32) (param i32 i32) (result i64)
    (if (i32.gt_u (local.get $b_bytes) (local.get $a_bytes))
      (then (local.set $a (local.get $b)) (local.set $a_bytes (local.get $b_bytes))))
    (i64.or (i64.shl (i64.extend_i32_u (local.get $a)) (i64.const 32)) (i64.extend_i32_u (local.get $a_bytes)))))"#;

#[test]
fn calls_follow_the_topology_and_inner_processes_fold_for_their_service() {
    let text = hosts("calls", "HOST:0 => HOST:[1-2]; HOST:1 => HOST:[3-5]; HOST:2 => HOST:[6-8];");
    let directory = directory_with(&text, SSH);
    let topology = directory.path().join("tree.top");
    let program = env!("CARGO_BIN_EXE_treefold");
    let script = format!("'{program}' call micro/sum --params null --shape topology --explain -o json");
    let up =
        ["up", topology.to_str().expect("a path"), "--local", "--serve", "micro", "--", "sh", "-c", &script];
    let ended = run_args(&up);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let answer =
        ended.stdout.lines().find_map(|line| serde_json::from_str::<Value>(line).ok()).expect("an answer");
    assert_eq!((&answer["value"], &answer["status"]), (&15.into(), &"full".into()));
    let of_tree = |node: &Value| node["children"].as_array().cloned().unwrap_or_default();
    let folding: Vec<usize> = of_tree(&answer["tree"]).iter().map(|child| of_tree(child).len()).collect();
    assert_eq!(folding, [3, 3], "the front-end folds what two inner processes give: {answer}");
}

#[tokio::test]
async fn inner_processes_fold_and_each_of_them_may_be_stopped_or_killed() {
    let text = hosts(
        "each",
        "HOST:0 => HOST:[1-3]; HOST:1 => HOST:[4-6]; HOST:2 => HOST:[7-9]; HOST:3 => HOST:[10-12];",
    );
    let network = Network::up(text.parse().expect("a topology"), options()).await.expect("it comes up");
    let token = options().token;
    let client = treefold::Client::builder()
        .at([network.node().addr()])
        .cluster(treefold::ClusterOptions::default().token(token))
        .direct(true)
        .connect();
    let client = client.await.expect("a program that is not the front-end");
    let mut stream = client.stream("echo").up_filter("sum").open().await.expect("it opens");
    assert_eq!((stream.trees().len(), sum_of_ones(&mut stream).await), (3, (9, 9)));
    let inner = network.addrs()[1].expect("it is there");
    let status = tokio::task::spawn_blocking(move || {
        let words = ["status", "-o", "json", "--at", &inner.to_string()];
        treefold().args(words).env("TREEFOLD_TOKEN", TOKEN).output()
    });
    let status = status.await.expect("no panic").expect("the program can be started").stdout;
    let status: Value = serde_json::from_slice(&status).expect("JSON");
    let stream_there = &status["streams"][0];
    assert_eq!((&stream_there["children"], &stream_there["endpoints"]), (&3.into(), &3.into()), "{status}");
    let mut stopped = None;
    for number in 1..=3 {
        let inner = processes_with(&format!("{}:{number}\0", mark("each")));
        assert_eq!(inner.len(), 1);
        match stopped {
            None => {
                signal(inner[0], libc::SIGSTOP);
                stopped = Some(inner[0]);
            }
            Some(_) => kill(inner[0]),
        }
        // Its children fold below the front-end from now on, and no packet of theirs is lost.
        for _ in 0..50 {
            assert_eq!(sum_of_ones(&mut stream).await, (9, 9));
        }
    }
    stopped.into_iter().for_each(|pid| signal(pid, libc::SIGCONT));
    for _ in 0..50 {
        assert_eq!(sum_of_ones(&mut stream).await, (9, 9));
    }
    drop(stream);
    let again = client.stream("echo").up_filter("sum").open().await.expect("it opens");
    assert_eq!(again.endpoints().len(), 9);
    network.down(Duration::from_secs(10)).await;
}

#[tokio::test]
async fn calls_reach_all_back_ends_and_name_the_one_that_was_killed() {
    let text = hosts("called", "HOST:0 => HOST:1 HOST:2; HOST:1 => HOST:[3-4]; HOST:2 => HOST:[5-6];");
    let mut options = options();
    options.back_end.pop();
    options.back_end.push("micro:partitions={number}/{total}".to_owned());
    let network = Network::up(text.parse().expect("a topology"), options).await.expect("it comes up");
    let at = network.node().addr().to_string();
    let call = |more: &'static [&str]| {
        let at = at.clone();
        tokio::task::spawn_blocking(move || {
            let words = ["call", "micro/sum", "-o", "json", "--at", &at];
            let called = treefold().args(words).args(more).env("TREEFOLD_TOKEN", TOKEN).output();
            let answer = called.expect("the program can be started").stdout;
            serde_json::from_slice::<Value>(&answer).expect("JSON")
        })
    };
    for shape in [&[][..], &["--shape", "topology"]] {
        let answer = call(shape).await.expect("no panic");
        assert_eq!(
            (&answer["value"], &answer["missing"]),
            (&6.into(), &Value::Array(Vec::new())),
            "{answer}"
        );
    }
    kill(processes_with(&format!("{}:4\0", mark("called")))[0]);
    let answer = call(&["--min-coverage", "0.5"]).await.expect("no panic");
    assert_eq!((&answer["value"], &answer["coverage"]["contributed"]), (&5.into(), &3.into()), "{answer}");
    network.down(Duration::from_secs(10)).await;
}

#[tokio::test]
async fn failed_back_end_is_reported_with_its_last_output() {
    let text = hosts("dies", "HOST:0 => HOST:1; HOST:1 => HOST:[2-4];");
    let dying = failing_at(3, "echo 'no disk left' >&2; exit 7");
    let error = Network::up(text.parse().expect("a topology"), dying).await.expect_err("one is dead");
    let UpError::Failed { failed, total: 4, .. } = error else { panic!("{error:?}") };
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(failed[0].place, format!("{}:3", mark("dies")));
    assert_eq!(failed[0].what, "ended with exit status 7 before it had attached");
    assert_eq!(failed[0].last_words, ["no disk left"]);
    wait_until("the other processes have ended", || processes_with(&mark("dies")).is_empty());
}

#[tokio::test]
async fn network_can_run_without_failed_processes() {
    let text = hosts("without", "HOST:0 => HOST:1 HOST:2 HOST:3;");
    let mut lacking = failing_at(2, "exit 1");
    lacking.allow_failures = true;
    let network =
        Network::up(text.parse().expect("a topology"), lacking).await.expect("two processes have attached");
    assert_eq!(network.failures().len(), 1);
    assert_eq!(network.back_ends().to_string(), "0,2");
    let mut stream = open(&network).await;
    assert_eq!(stream.missing()[0].partitions.to_string(), "1");
    assert_eq!(sum_of_ones(&mut stream).await, (2, 2));
    network.down(Duration::from_secs(10)).await;
}

/// Makes a directory with a topology file and a program that replaces ssh.
fn directory_with(topology: &str, ssh: &str) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    std::fs::write(directory.path().join("tree.top"), topology).expect("a file");
    let program = directory.path().join("ssh");
    let mut file = std::fs::File::create(&program).expect("a file");
    file.write_all(format!("#!/bin/sh\n{ssh}\n").as_bytes()).expect("written");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("executable");
    directory
}

/// Runs its arguments after the host in a shell, as ssh would on the other host.
///
/// Hosts named `nowhere…` don't exist.
const SSH: &str = r#"
while [ "$1" != -- ]; do shift; done
case "$2" in nowhere*) echo "ssh: Could not resolve hostname $2: Name or service not known" >&2; exit 255;; esac
exec sh -c "$3""#;

fn up_by_ssh(directory: &tempfile::TempDir, more: &[&str]) -> crate::real::Ended {
    let at = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let (topology, ssh) = (at("tree.top"), at("ssh"));
    let mut args = vec!["up", &topology, "--ssh", &ssh, "--listen", "127.0.0.1:0"];
    args.extend(more);
    run_args(&args)
}

#[test]
fn hosts_are_reached_by_ssh_and_a_command_runs_beside() {
    let text = hosts("byssh", "localhost:0 => HOST-a:0 HOST-b:0; HOST-a:0 => HOST-c:[0-1];");
    let directory = directory_with(&text, SSH);
    let shown = "echo \"$TREEFOLD_AT $TREEFOLD_TOKEN\"";
    let ended = up_by_ssh(&directory, &["--token", "it's $HOME", "--", "sh", "-c", shown]);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert!(lines[0].starts_with("5 processes up in ") && lines[0].ends_with("3 back-ends, 1 inner"));
    let at = lines[1].strip_prefix("TREEFOLD_AT=").expect("the front-end's address");
    assert_eq!(lines.last(), Some(&format!("{at} it's $HOME").as_str()));
    wait_until("all processes have ended", || processes_with(&mark("byssh")).is_empty());
}

#[test]
fn unknown_host_is_reported_with_ssh_output() {
    let text = hosts("nohost", "localhost:0 => HOST-a:0; HOST-a:0 => HOST-b:0 nowhere7:0;");
    let directory = directory_with(&text, SSH);
    let ended = up_by_ssh(&directory, &["-o", "json"]);
    assert_eq!(ended.code, 1);
    let told = ended.json();
    let failed = told["failed"].as_array().expect("failures");
    assert_eq!(failed.len(), 1, "{told}");
    assert_eq!(failed[0]["host"], "nowhere7");
    assert_eq!(failed[0]["what"], "ended with exit status 255 before it had attached");
    assert_eq!(
        failed[0]["last_words"][0],
        "ssh: Could not resolve hostname nowhere7: Name or service not known"
    );
    assert!(ended.stderr.contains("nowhere7:0: ended with exit status 255"), "{}", ended.stderr);
    wait_until("the other processes have ended", || processes_with(&mark("nohost")).is_empty());
}

/// A running `treefold up`, whose standard output is read line by line.
struct Up {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    _directory: tempfile::TempDir,
}

impl Up {
    fn start(topology: &str, args: &[&str]) -> Self {
        let directory = directory_with(topology, SSH);
        let mut command = treefold();
        command.arg("up").arg(directory.path().join("tree.top")).args(args);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program can be started");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, lines, _directory: directory }
    }

    fn json(&mut self) -> Value {
        let mut text = String::new();
        loop {
            text.push_str(&self.lines.next().expect("it prints more").expect("text"));
            if let Ok(value) = serde_json::from_str(&text) {
                return value;
            }
        }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // An error means that the process is dead already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn awaited_processes_attach_in_any_order_but_not_strangers() {
    let text = hosts("waited", "HOST:0 => HOST:1 HOST:2; HOST:1 => HOST:[3-4]; HOST:2 => HOST:5;");
    let mut up = Up::start(&text, &["--wait", "-o", "json"]);
    let awaited = up.json();
    let commands: Vec<String> = awaited["awaited"]
        .as_array()
        .expect("the awaited processes")
        .iter()
        .map(|one| one["command"].as_str().expect("a command").to_owned())
        .collect();
    assert_eq!(commands.len(), 5);
    let words: Vec<&str> = commands[0].split(' ').collect();
    let attach = words[words.iter().position(|&word| word == "--attach").expect("where to") + 1];
    let place = format!("{}:1", mark("waited"));
    let stranger = run_args(&["node", "--attach", attach, "--as", &place, "--token", "another"]);
    assert_eq!(stranger.code, 2, "{}", stranger.stderr);
    assert!(stranger.stderr.contains("has another token than this process"), "{}", stranger.stderr);
    // Children start first; the front-end sends them to their parents when those have attached.
    let start = |command: &String| {
        Command::new("sh").args(["-c", &format!("exec env {command}")]).stdout(Stdio::null()).spawn()
    };
    let mut processes: Vec<Child> =
        commands.iter().rev().map(start).collect::<Result<_, _>>().expect("they can be started");
    let summary = up.json();
    assert_eq!(summary["back_ends"], 3);
    assert!(summary["places"].as_array().expect("places").iter().all(|place| place["addr"].is_string()));
    // A process can't take the place of a running process.
    let token = summary["token"].as_str().expect("a token");
    let double = run_args(&["node", "--attach", attach, "--as", &place, "--token", token]);
    assert_eq!(double.code, 1);
    assert!(double.stderr.contains("is already attached"), "{}", double.stderr);
    up.child.kill().expect("it runs");
    for process in &mut processes {
        let code = process.wait().expect("it ends").code();
        assert!(
            matches!(code, Some(5 | 0)),
            "the front-end can't be reached any more, or a parent said so: {code:?}"
        );
    }
}

#[test]
fn back_ends_can_run_another_program() {
    let text = hosts("own", "HOST:0 => HOST:1 HOST:2; HOST:1 => HOST:[3-4];");
    let program = env!("CARGO_BIN_EXE_treefold");
    let zone = mark("zone");
    let serve = format!("--zone {zone} --serve echo:partitions={{number}}/{{total}}");
    let command = format!("'{program}' node --attach {{attach}} --as {{place}} {serve}");
    let mut up = Up::start(&text, &["--local", "--back-end", &command, "-o", "json"]);
    let summary = up.json();
    assert_eq!(summary["back_ends"], 3);
    assert_eq!(processes_with(&zone).len(), 3, "the inner process is unchanged");
    up.child.kill().expect("it runs");
    let refused = run_args(&["up", "-", "--back-end", "'unclosed"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("quotes that are closed"), "{}", refused.stderr);
}

#[test]
fn killed_front_end_leaves_no_process() {
    let text = hosts("killed", "HOST:0 => HOST:1 HOST:2 HOST:7; HOST:1 => HOST:[3-4]; HOST:2 => HOST:[5-6];");
    let mut up = Up::start(&text, &["--local", "-o", "json"]);
    let summary = up.json();
    assert_eq!(summary["processes"], 8);
    assert_eq!(processes_with(&mark("killed")).len(), 7);
    up.child.kill().expect("it runs");
    wait_until("all processes have ended", || processes_with(&mark("killed")).is_empty());
}

#[test]
fn network_ends_cleanly_on_a_signal() {
    let text = hosts("ended", "HOST:0 => HOST:1 HOST:2; HOST:1 => HOST:[3-4];");
    let mut up = Up::start(&text, &["--local", "-o", "json"]);
    up.json();
    let pid = libc::pid_t::try_from(up.child.id()).expect("a process id");
    // SAFETY: kill touches no memory; the process is a child that was not waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
    assert_eq!(up.child.wait().expect("it ends").code(), Some(0));
    assert!(processes_with(&mark("ended")).is_empty(), "it waits for the other processes");
}

#[test]
fn process_that_times_out_is_named() {
    let text = hosts("late", "HOST:0 => HOST:1; HOST:1 => HOST:2;");
    let mut up = Up::start(&text, &["--wait", "--timeout", "300ms", "-o", "json"]);
    up.json();
    let refusal = up.json();
    assert_eq!(refusal["started"], 0);
    assert_eq!(refusal["failed"][0]["process"], format!("{}:1", mark("late")));
    assert_eq!(refusal["failed"][0]["what"], "has not attached within 300.0ms");
    assert_eq!(up.child.wait().expect("it ends").code(), Some(1));
}

#[tokio::test]
async fn orphaned_process_logs_why_it_ended() {
    let (ready, is_ready) = tokio::sync::oneshot::channel();
    let mut options = options();
    options.launcher = Launcher::Wait;
    options.on_ready = Some(Box::new(|addr| ready.send(addr).expect("the test waits for it")));
    let text = hosts("logged", "HOST:0 => HOST:1;");
    let network = tokio::spawn(Network::up(text.parse().expect("a topology"), options));
    let front = is_ready.await.expect("it listens").to_string();
    let place = format!("{}:1", mark("logged"));
    let log = tempfile::NamedTempFile::new().expect("a file");
    let mut process = treefold()
        .args(["node", "--attach", &front, "--as", &place, "--patience", "10ms"])
        .args(["--token", "a secret of this test's"])
        .stdout(Stdio::null())
        .stderr(log.reopen().expect("a file"))
        .spawn()
        .expect("the program can be started");
    // The front-end ends without a message.
    drop(network.await.expect("no panic").expect("it comes up"));
    let status = tokio::task::spawn_blocking(move || process.wait()).await.expect("no panic");
    assert_eq!(status.expect("it ends").code(), Some(5));
    let said = std::fs::read_to_string(log.path()).expect("a log");
    assert!(said.contains("the network's front-end can't be reached any more"), "{said:?}");
}
