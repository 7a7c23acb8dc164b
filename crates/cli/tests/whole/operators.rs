//! Operators in WebAssembly over streams: pushed to running clusters, in this process and in others, and
//! misbehaving.

use crate::nodes::{K, StreamNode, figures, rows_of, scores, serve_until_stdin_ends};
use crate::real::{relays, run_args, run_with_input, wait_until};
use bytes::Bytes;
use std::time::Duration;
use treefold::foreign::filter_name;
use treefold::operators::Raw;
use treefold::{Client, Cluster, PartitionSet, Reason, Shape, Stream, StreamWave};
use treefold_cli::foreign;

const TOP_K: &[u8] = include_bytes!("../../../wasm/fixtures/top_k.wasm");
const TOP_K_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../wasm/fixtures/top_k.wasm");
const FAULTY: &[u8] = include_bytes!("../../../wasm/fixtures/faulty.wasm");

/// A guest with all ready reduces. Its parameters are the name of one, and a line feed.
const OPERATORS_PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../wasm/fixtures/operators.wasm");
/// `sum-lines` and a line feed.
const SUM_LINES: &str = "hex:73756d2d6c696e65730a";

/// A filter that returns each wave's tag, but misbehaves for some tags.
const CAPRICIOUS: &str = r#"(module (memory (export "memory") 1)
    (func (export "treefold_abi_v1"))
    (func (export "treefold_alloc") (param i32) (result i32) (i32.const 4096))
    (func (export "treefold_filter_open") (param i32 i32) (result i64) (i64.const 0))
    (func (export "treefold_filter_up") (param i32 i32) (param $tag i64) (param i64) (result i64)
        (if (i64.eq (local.get $tag) (i64.const 2)) (then (unreachable)))
        (if (i64.eq (local.get $tag) (i64.const 3)) (then (loop (br 0))))
        (if (i64.eq (local.get $tag) (i64.const 4)) (then (return (i64.const 0x7fffff00_00000001))))
        (if (i64.eq (local.get $tag) (i64.const 5)) (then (loop (drop (memory.grow (i32.const 64))) (br 0))))
        (i64.store (i32.const 64) (local.get $tag))
        (i32.store (i32.const 32) (i32.const 64))
        (i32.store (i32.const 36) (i32.const 8))
        (i64.const 0x20_0000_0001)))"#;

async fn cluster(nodes: u32) -> Cluster {
    let cluster = Cluster::embedded(nodes as usize)
        .service(move |at| vec![figures(at as u32, nodes)])
        .configure(|_, node| node.foreign(foreign::guests()));
    cluster.start().await.expect("the nodes find each other")
}

async fn open(client: &Client, filter: &str, params: &'static [u8]) -> Stream {
    let builder = client.stream("figures").up_filter(filter).filter_params(&Raw(Bytes::from_static(params)));
    builder.shape(Shape::KAry(4)).open().await.expect("it opens")
}

async fn next(stream: &mut Stream) -> StreamWave<Bytes> {
    stream.send(Bytes::new()).await.expect("it is open");
    tokio::time::timeout(Duration::from_secs(30), stream.wave()).await.expect("it comes").expect("it is open")
}

/// Returns the best of all rows of `endpoints` endpoints.
fn best(endpoints: u32) -> Vec<f64> {
    let mut all: Vec<f64> = (0..endpoints).flat_map(scores).collect();
    all.sort_by(|a, b| b.total_cmp(a));
    all.truncate(K as usize);
    all
}

#[tokio::test]
async fn misbehaving_guest_loses_only_its_own_waves() {
    let cluster = cluster(5).await;
    let client = cluster.client(0);
    let pushed = client.operator_push(wat::parse_str(CAPRICIOUS).expect("it is a module")).await;
    let capricious = filter_name(pushed.expect("the node accepts it").id);
    let mut stream = open(&client, &capricious, b"").await;
    let mut other = open(&client, "count", b"").await;
    for (tag, told) in [
        (1, &[][..]),
        (2, &["unreachable"]),
        // On a busy machine the filter's time limit may end before the guest has used up its fuel.
        (3, &["fuel", "longer than"]),
        (4, &["beyond its memory"]),
        (5, &["memory"]),
        (6, &[]),
    ] {
        let wave = next(&mut stream).await;
        assert_eq!(wave.tag, tag);
        if told.is_empty() {
            assert_eq!((wave.contributors, wave.packets), (PartitionSet::first(5), vec![tag_packet(tag)]));
            continue;
        }
        assert_eq!(wave.packets.len(), 0, "a failed filter gives no packets");
        let mut missing = PartitionSet::new();
        for loss in &wave.missing {
            let Reason::FilterFailed(text) = &loss.reason else { panic!("{tag}: {:?}", wave.missing) };
            assert!(told.iter().any(|told| text.contains(told)), "{tag}: {text}");
            missing.union_with(&loss.partitions);
        }
        assert_eq!(missing, PartitionSet::first(5));
        assert_eq!(next(&mut other).await.contributors.len(), 5, "the other stream continues");
    }
    assert!(cluster.nodes().iter().all(treefold::Node::is_running));
}

fn tag_packet(tag: u64) -> Bytes {
    Bytes::copy_from_slice(&tag.to_le_bytes())
}

#[tokio::test]
async fn guest_panic_and_refusal_are_reported_as_text() {
    let cluster = cluster(3).await;
    let client = cluster.client(0);
    for (guest, params, told) in
        [(FAULTY, &b""[..], "faulty.rs"), (TOP_K, b"ten", "the parameter is k, a u32")]
    {
        let pushed = client.operator_push(guest).await.expect("the node accepts it");
        let mut stream = open(&client, &filter_name(pushed.id), params).await;
        let wave = next(&mut stream).await;
        let reasons: Vec<String> = wave.missing.iter().map(|loss| loss.reason.to_string()).collect();
        assert!(reasons.iter().any(|reason| reason.contains(told)), "{reasons:?}");
    }
}

#[tokio::test]
async fn invalid_module_is_refused_with_the_reason() {
    let cluster = cluster(1).await;
    let client = cluster.client(0);
    for (text, why) in [
        ("(module)", "treefold_abi_v1"),
        (r#"(module (import "env" "clock" (func)) (func (export "treefold_abi_v1")))"#, "imports env.clock"),
        (
            r#"(module (memory (export "memory") 1) (func (export "treefold_abi_v1"))
                (func (export "treefold_alloc") (param i32) (result i32) (i32.const 8))
                (func (export "treefold_reduce") (param i32) (result i64) (i64.const 0)))"#,
            "treefold_reduce is",
        ),
    ] {
        let refused = client.operator_push(wat::parse_str(text).expect("it is a module")).await;
        let refused = refused.expect_err("it is not a guest").to_string();
        assert!(refused.contains(why), "{refused}");
    }
}

/// Run by the tests below as a separate process.
#[tokio::test]
#[ignore = "a node for other tests"]
async fn a_node() {
    serve_until_stdin_ends(foreign::guests()).await;
}

#[tokio::test]
async fn pushed_guest_folds_rows_of_sixteen_processes() {
    const NODES: u32 = 16;
    let mut nodes: Vec<StreamNode> = Vec::new();
    for at in 0..NODES {
        let first = nodes.first().map(|first| first.addr.clone());
        nodes.push(StreamNode::start(
            &["operators::a_node", "--exact", "--ignored", "--nocapture"],
            at,
            NODES,
            first,
        ));
    }
    let builder = || Client::builder().at([&nodes[0].addr]).direct(true).foreign(foreign::guests());
    let client = builder().connect().await.expect("it connects");
    let mut plain = all_of(&client, NODES, "").await;
    assert_eq!(next(&mut plain).await.packets.len(), NODES as usize, "all endpoints answer");

    let pushed = client.operator_push(TOP_K).await.expect("the node accepts it");
    let mut stream = open(&client, &filter_name(pushed.id), &[K as u8, 0, 0, 0]).await;
    let wave = next(&mut stream).await;
    assert_eq!(wave.contributors, PartitionSet::first(NODES), "{:?}", wave.missing);
    assert_eq!(rows_of(&wave.packets[0]), best(NODES));

    let listed = run_args(&["operator", "list", "--at", &nodes[9].addr, "-o", "json"]).json();
    assert_eq!(listed["operators"][0]["filter"], filter_name(pushed.id), "{listed}");
    assert_eq!(
        (listed["operators"][0]["kind"].as_str(), &listed["operators"][0]["uses"]),
        (Some("reduce"), &1.into())
    );
}

/// Opens a stream until it includes all endpoints, because a direct client learns of the members one by one.
async fn all_of(client: &Client, nodes: u32, filter: &str) -> Stream {
    loop {
        let stream = open(client, filter, b"").await;
        if stream.endpoints().len() == nodes as usize {
            return stream;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn pushed_operator_is_found_by_streams_of_other_nodes() {
    const NODES: u32 = 4;
    let mut nodes: Vec<StreamNode> = Vec::new();
    for at in 0..NODES {
        let first = nodes.first().map(|first| first.addr.clone());
        nodes.push(StreamNode::start(
            &["operators::a_node", "--exact", "--ignored", "--nocapture"],
            at,
            NODES,
            first,
        ));
    }
    let pushed = run_args(&["operator", "push", TOP_K_PATH, "--at", &nodes[2].addr, "-o", "json"]);
    assert_eq!(pushed.code, 0, "{}", pushed.stderr);
    let filter = pushed.json()["filter"].as_str().expect("a name").to_owned();
    let builder = Client::builder().at([&nodes[0].addr]).direct(true).foreign(foreign::guests());
    let client = builder.connect().await.expect("it connects");
    drop(all_of(&client, NODES, "").await);
    let mut stream = open(&client, &filter, &[K as u8, 0, 0, 0]).await;
    assert_eq!(rows_of(&next(&mut stream).await.packets[0]), best(NODES));
}

#[test]
fn inspect_describes_modules_and_refusals() {
    let good = run_args(&["operator", "inspect", TOP_K_PATH, "-o", "json"]);
    assert_eq!((good.code, good.json()["kind"].as_str()), (0, Some("reduce")));
    let text = run_args(&["operator", "inspect", TOP_K_PATH]).stdout;
    assert!(text.starts_with("reduce wasm:") && text.contains("treefold_reduce"), "{text}");
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    std::io::Write::write_all(&mut file, &wat::parse_str("(module)").expect("a module"))
        .expect("it is written");
    let path = file.path().to_str().expect("UTF-8");
    let bad = run_args(&["operator", "inspect", path, "-o", "json"]);
    assert_eq!(bad.code, 1);
    assert!(
        bad.json()["refused"].as_str().is_some_and(|why| why.contains("treefold_abi_v1")),
        "{}",
        bad.stdout
    );
    assert_eq!(run_args(&["operator", "inspect", "/nowhere.wasm"]).code, 1);
}

#[test]
fn node_accepts_lists_and_refuses_operators() {
    let node = crate::real::NodeProcess::start(&[]);
    let none = run_args(&["operator", "list", "--at", &node.addr]);
    assert_eq!((none.code, none.stdout.trim()), (0, "none"));
    let pushed = run_args(&["operator", "push", TOP_K_PATH, "--at", &node.addr]);
    assert!(pushed.stdout.starts_with("wasm:"), "{} {}", pushed.stdout, pushed.stderr);
    let listed = run_args(&["operator", "list", "--at", &node.addr]);
    assert!(
        listed.stdout.contains(pushed.stdout.trim()) && listed.stdout.contains("reduce"),
        "{}",
        listed.stdout
    );
    let refused =
        run_args(&["operator", "push", env!("CARGO_MANIFEST_DIR").trim_end_matches('/'), "--at", &node.addr]);
    assert_eq!(refused.code, 1, "a folder is not a module");
}

#[test]
fn filter_params_in_hex_reach_the_guest_unchanged() {
    let node = crate::real::NodeProcess::start(&["--serve", "echo:partitions=0-1/2"]);
    let pushed = run_args(&["operator", "push", TOP_K_PATH, "--at", &node.addr, "-o", "json"]);
    let filter = pushed.json()["filter"].as_str().expect("a name").to_owned();
    // Each endpoint returns one row, a score and a document; the fold keeps the better one.
    let row = [0.5_f64.to_le_bytes(), 7_u64.to_le_bytes()].concat();
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    std::io::Write::write_all(&mut file, &row).expect("it is written");
    let send = format!("@{}", file.path().display());
    let params = ["--filter-params", "hex:01000000", "--send", &send, "-o", "json"];
    let folded =
        run_args(&[&["stream", "echo", "--at", &node.addr, "--filter", &filter], &params[..]].concat());
    assert_eq!(folded.code, 0, "{} {}", folded.stdout, folded.stderr);
    let wave = folded.json();
    assert_eq!(
        (wave["contributors"].as_str(), wave["packets"].as_array().map(Vec::len)),
        (Some("0-1"), Some(1))
    );
    assert_eq!(wave["packets"][0]["bytes"], row.len(), "{wave}");
}

#[test]
fn push_wave_is_folded_by_a_guest_that_relays_fetch() {
    let relays = relays(3, 3);
    let pushed = run_args(&["operator", "push", OPERATORS_PATH, "--at", &relays[0].addr]);
    assert_eq!(pushed.code, 0, "{}", pushed.stderr);
    let kind = format!("words/{}", pushed.stdout.trim());
    std::thread::scope(|scope| {
        for worker in 0..6 {
            let at = &relays[worker / 2].addr;
            scope.spawn(move || {
                let number = worker.to_string();
                let args = ["push", "worker", "words", "--at", at, "--worker", &number, "--request", "7"];
                let ended = run_with_input(&args, &format!("all\t1\nworker {worker}\t1\n"));
                assert_eq!(ended.code, 0, "{}", ended.stderr);
            });
        }
        let master = run_args(&[
            "push",
            "master",
            &kind,
            "--at",
            &relays[0].addr,
            "--request",
            "7",
            "--expect",
            "0-5",
            "--params",
            SUM_LINES,
            "--deadline",
            "30s",
            "--patience",
            "20s",
        ]);
        assert_eq!(master.code, 0, "{} {}", master.stdout, master.stderr);
        let own: String = (0..6).map(|worker| format!("worker {worker}\t1\n")).collect();
        assert_eq!(master.stdout, format!("all\t6\n{own}"));
    });
    // A relay that had nothing to fold may still be making the operator.
    for relay in &relays {
        wait_until("the relay has the operator", || {
            run_args(&["operator", "list", "--at", &relay.addr]).stdout.contains(pushed.stdout.trim())
        });
    }
}

#[test]
fn guest_that_misbehaves_in_a_push_wave_costs_its_results_and_no_other_request() {
    let relays = relays(1, 1);
    let at = &relays[0].addr;
    let pushed = run_args(&["operator", "push", OPERATORS_PATH, "--at", at]);
    let guest = format!("words/{}", pushed.stdout.trim());
    let master = |kind: &str, request: &str, params: &str| {
        let args =
            ["push", "master", kind, "--at", at, "--request", request, "--expect", "0-1", "--params", params];
        run_args(&args)
    };
    std::thread::scope(|scope| {
        for worker in ["0", "1"] {
            scope.spawn(move || {
                let args = ["push", "worker", "words", "--at", at, "--worker", worker, "--request", "7"];
                run_with_input(&args, "a\t1\n")
            });
        }
        // `no` and a line feed.
        let failed = master(&guest, "7", "hex:6e6f0a");
        assert_eq!(failed.code, 4, "{} {}", failed.stdout, failed.stderr);
        assert!(failed.stderr.contains("no operator `no`"), "{}", failed.stderr);
    });
    let nobody = format!("words/wasm:{}", "0".repeat(64));
    for (kind, params, told) in
        [(&guest, "hex:6", "pairs of hexadecimal digits"), (&nobody, "hex:", "a reduce that was sent to it")]
    {
        let refused = master(kind, "8", params);
        assert_eq!(refused.code, 2, "{} {}", refused.stdout, refused.stderr);
        assert!(refused.stderr.contains(told), "{}", refused.stderr);
    }
}
