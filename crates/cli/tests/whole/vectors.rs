//! Vectors and faces over real nodes: partitions against the whole, stopped and killed nodes, refused calls,
//! and the page's examples.

use crate::real::{Ended, NodeProcess, blocks, paste, run_args, wait_for_members};
use serde_json::{Value, json};
use std::path::Path;
use tempfile::TempDir;

const PAGE: &str = include_str!("../../../../docs/vectors.md");

/// Partitions of every larger cluster here.
const TOTAL: u32 = 16;
const NODES: u32 = 4;

fn ok(args: &[&str]) -> Ended {
    let ended = run_args(args);
    assert_eq!(ended.code, 0, "{args:?}: {}{}", ended.stdout, ended.stderr);
    ended
}

fn text(path: &Path) -> String {
    path.to_str().expect("a temporary path is UTF-8").to_owned()
}

/// Stored vectors and queries.
fn files() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| text(&directory.path().join(name));
    let shape = ["--dimensions", "20", "--groups", "10"];
    ok(&[&["vectors", "generate", &file("v.npy"), "--rows", "2000"], &shape[..]].concat());
    ok(&[&["vectors", "generate", &file("q.npy"), "--rows", "20", "--skip", "2000"], &shape[..]].concat());
    directory
}

/// Starts nodes that serve these services, each with every `nodes`th partition.
fn cluster(nodes: u32, total: u32, services: &[String]) -> Vec<NodeProcess> {
    let mut all: Vec<NodeProcess> = Vec::new();
    for at in 0..nodes {
        let ids: Vec<String> = (at..total).step_by(nodes as usize).map(|id| id.to_string()).collect();
        let serve = |service: &String| format!("{service}:partitions={}/{total}", ids.join(","));
        let mut args: Vec<String> =
            services.iter().flat_map(|service| ["--serve".to_owned(), serve(service)]).collect();
        args.extend(all.first().iter().flat_map(|first| ["--join".to_owned(), first.addr.clone()]));
        all.push(NodeProcess::start(&args.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    all.iter().for_each(|node| wait_for_members(&node.addr, nodes as usize));
    all
}

fn vectors(directory: &Path, metric: &str, more: &str) -> String {
    let file = |name: &str| text(&directory.join(name));
    format!("vectors={}:attributes={}:metric={metric}{more}", file("v.npy"), file("v.jsonl"))
}

/// The neighbours of an answer without their partitions.
fn neighbours(answer: &Value) -> Vec<(Value, Value)> {
    let of = |near: &Value| (near["id"].clone(), near["distance"].clone());
    answer["value"]["neighbours"].as_array().expect("a list").iter().map(of).collect()
}

#[test]
fn partitions_over_nodes_give_the_answer_of_one_whole_with_every_metric() {
    let directory = files();
    let services: Vec<String> = ["cosine", "ip", "l2"]
        .iter()
        .map(|metric| vectors(directory.path(), metric, &format!(":name=v-{metric}")))
        .collect();
    let whole = cluster(1, 1, &services);
    let clusters = [cluster(NODES, 4, &services), cluster(NODES, TOTAL, &services)];
    let queries = text(&directory.path().join("q.npy"));
    for metric in ["cosine", "ip", "l2"] {
        let service = format!("v-{metric}");
        for (row, filter) in
            [("0", "{}"), ("1", r#"{"group": ["g1", "g2"]}"#), ("2", r#"{"year": {"max": 2003}}"#)]
        {
            let ask = |at: &str| {
                let query = [
                    "vectors",
                    "nearest",
                    "--at",
                    at,
                    "--service",
                    &service,
                    "--file",
                    &queries,
                    "--row",
                    row,
                ];
                ok(&[&query[..], &["--filter", filter, "-k", "20", "--deadline", "20s", "-o", "json"]]
                    .concat())
                .json()
            };
            let expected = ask(&whole[0].addr);
            assert_eq!(neighbours(&expected).len(), 20);
            for nodes in &clusters {
                let answer = ask(&nodes[1].addr);
                assert_eq!(neighbours(&answer), neighbours(&expected), "{metric} {filter}");
                assert_eq!(answer["status"], "full");
            }
        }
    }
}

#[test]
fn a_stopped_node_costs_its_partitions_and_the_answer_says_so() {
    let directory = files();
    let nodes = cluster(NODES, TOTAL, &[vectors(directory.path(), "l2", "")]);
    let queries = text(&directory.path().join("q.npy"));
    let ask = |more: &[&str]| {
        let query =
            ["vectors", "nearest", "--at", &nodes[0].addr, "--file", &queries, "-k", "50", "-o", "json"];
        run_args(&[&query[..], more].concat())
    };
    let whole = ask(&["--deadline", "20s"]);
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    nodes[3].signal(libc::SIGSTOP);
    let partial = ask(&["--deadline", "5s", "--min-coverage", "0.5"]);
    assert_eq!(partial.code, 3, "{}{}", partial.stdout, partial.stderr);
    let answer = partial.json();
    assert_eq!(answer["coverage"], json!({"asked": 16, "contributed": 12}));
    let missing: Vec<u64> = answer["missing"]
        .as_array()
        .unwrap()
        .iter()
        .map(|lost| lost["partition"].as_u64().unwrap())
        .collect();
    assert_eq!(missing, [3, 7, 11, 15]);
    assert!(
        answer["missing"].as_array().unwrap().iter().all(|lost| lost["node"] == json!(nodes[3].addr)),
        "{answer}"
    );
    // The other partitions' neighbours are those of the whole.
    let left = |answer: &Value| -> Vec<Value> {
        let all = answer["value"]["neighbours"].as_array().unwrap().clone();
        all.into_iter().filter(|near| near["partition"].as_u64().unwrap() % 4 != 3).collect()
    };
    let (found, expected) = (left(&answer), left(&whole.json()));
    assert_eq!(found[..expected.len()], expected[..]);
    let below = ask(&["--deadline", "5s", "--min-coverage", "0.9"]);
    assert_eq!(below.code, 4, "{}", below.stdout);
    nodes[3].signal(libc::SIGKILL);
    let partial = ask(&["--deadline", "20s", "--min-coverage", "0.5"]);
    assert_eq!(partial.code, 3, "{}", partial.stderr);
    assert_eq!(partial.json()["coverage"], json!({"asked": 16, "contributed": 12}));
}

#[test]
fn an_index_reports_its_recall_and_is_read_again_at_the_next_start() {
    let directory = files();
    let graphs = text(&directory.path().join("graphs"));
    let service = vectors(directory.path(), "cosine", &format!(":index=hnsw:data={graphs}"));
    let nodes = cluster(2, 4, std::slice::from_ref(&service));
    let queries = text(&directory.path().join("q.npy"));
    let recall = |at: &str| {
        let args =
            ["vectors", "recall", "--at", at, "--queries", &queries, "--deadline", "20s", "-o", "json"];
        ok(&args).json()
    };
    let first = recall(&nodes[0].addr);
    assert!(first["recall"].as_f64().unwrap() > 0.95, "{first}");
    assert_eq!((&first["queries"], &first["exact_compared"]), (&json!(20), &json!(2_000)));
    assert_eq!(std::fs::read_dir(&graphs).unwrap().count(), 4);
    drop(nodes);
    let again = recall(&cluster(2, 4, &[service])[1].addr);
    for field in ["recall", "index_compared"] {
        assert_eq!(again[field], first[field], "the same graphs");
    }
    assert_eq!(std::fs::read_dir(&graphs).unwrap().count(), 4);
}

#[test]
fn stored_vectors_are_queries_and_checks_tell_the_recall() {
    let directory = files();
    let nodes = cluster(1, 2, &[vectors(directory.path(), "l2", "")]);
    let at = &nodes[0].addr;
    let like = ok(&[
        "vectors",
        "nearest",
        "--at",
        at,
        "--like",
        "v17",
        "-k",
        "3",
        "--attributes",
        "group,year",
        "--check",
    ]);
    let lines: Vec<&str> = like.stdout.lines().collect();
    assert!(lines[0].contains("distance") && lines[0].contains("year"), "{}", like.stdout);
    assert!(
        lines[1].trim_start().starts_with("0.000000")
            && lines[1].contains("v17")
            && lines[1].contains("2017"),
        "{}",
        like.stdout
    );
    assert!(like.stdout.contains("recall: 3 of the 3 exact neighbours"), "{}", like.stdout);
    let unknown = run_args(&["vectors", "nearest", "--at", at, "--like", "v2000"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("no stored vector has the id \"v2000\""), "{}", unknown.stderr);
    let count =
        ok(&["call", "vectors/count", "--at", at, "--params", r#"{"filter": {"year": 2003}}"#, "-o", "json"]);
    assert_eq!(count.json()["value"], json!({"vectors": 2000, "matched": 80, "dimensions": 20}));
    assert_eq!(
        ok(&["call", "vectors/count", "--at", at, "-o", "json"]).json()["value"]["matched"],
        json!(2000)
    );
}

#[test]
fn hostile_calls_are_refused_with_field_and_limit() {
    let directory = files();
    let nodes = cluster(2, 4, &[vectors(directory.path(), "cosine", "")]);
    let vector = |first: &str| format!("[{first}{}]", ", 1".repeat(19));
    for (params, problem) in [
        (json!({"vector": [1, 2]}).to_string(), "vector has 2 numbers; the vectors of this service have 20"),
        (format!("{{\"vector\": {}}}", vector("1e300")), "vector has inf at position 0"),
        (format!("{{\"vector\": {}, \"k\": 100000}}", vector("1")), "k is 100000; it must be 1 to 1000"),
        (
            format!("{{\"vector\": {}, \"filter\": {{\"colour\": 1}}}}", vector("1")),
            "filter names the attribute \"colour\"; allowed: group, year",
        ),
        (format!("{{\"vector\": {}, \"kk\": 1}}", vector("1")), "unknown field `kk`"),
        (format!("{{\"vector\": [{}]}}", vec!["0"; 20].join(",")), "vector is all zeros"),
        ("{}".to_owned(), "missing field `vector`"),
    ] {
        let refused =
            run_args(&["call", "vectors/nearest", "--at", &nodes[1].addr, "--params", &params, "-o", "json"]);
        assert_eq!(refused.code, 2, "{params}: {}", refused.stdout);
        assert!(refused.stderr.contains(problem), "expected {problem:?}: {}", refused.stderr);
    }
}

#[test]
fn invalid_files_end_the_node_with_their_problem() {
    let directory = tempfile::tempdir().unwrap();
    let file = text(&directory.path().join("v.npy"));
    let start = |serve: &str| {
        let ended = run_args(&["node", "--listen", "127.0.0.1:0", "--serve", serve]);
        assert_eq!(ended.code, 1, "{}{}", ended.stdout, ended.stderr);
        ended.stderr
    };
    let serve = format!("vectors={file}:metric=l2:partitions=0/1");
    assert!(start(&serve).contains("v.npy: No such file"), "{}", start(&serve));
    std::fs::write(&file, b"\x93NUMPY\x01\x00\xff\xff{'descr'").unwrap();
    assert!(start(&serve).contains("the file ends inside its header"), "{}", start(&serve));
    let faces = format!("faces={}:model={file}:partitions=0/1", directory.path().display());
    assert!(start(&faces).contains("not a model of faces"), "{}", start(&faces));
}

#[test]
fn people_are_recognised_over_partitions_as_in_one_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| text(&directory.path().join(name));
    let (people, probes, model) = (path("people"), path("probes"), path("people.model"));
    ok(&["faces", "generate", &people, "--people", "12", "--pictures", "3"]);
    ok(&["faces", "generate", &probes, "--people", "12", "--pictures", "1", "--first", "3"]);
    let trained = ok(&["faces", "train", &people, "--out", &model, "--components", "24", "--size", "32x32"]);
    assert!(trained.stdout.contains("24 eigenfaces of 36 of 36 pictures, 32x32"), "{}", trained.stdout);
    let service = format!("faces={people}:model={model}");
    let whole = cluster(1, 1, std::slice::from_ref(&service));
    let nodes = cluster(NODES, TOTAL, &[service]);
    for person in ["p000", "p007"] {
        let probe = format!("{probes}/{person}/03.pgm");
        let ask = |at: &str| {
            ok(&["faces", "recognise", &probe, "--at", at, "--deadline", "20s", "-o", "json"]).json()
        };
        let (expected, answer) = (ask(&whole[0].addr), ask(&nodes[2].addr));
        assert_eq!(answer["value"], expected["value"]);
        assert_eq!((&answer["value"]["person"], &answer["value"]["compared"]), (&json!(person), &json!(36)));
    }
    let check =
        ok(&["faces", "check", &probes, "--at", &nodes[0].addr, "--deadline", "20s", "-o", "json"]).json();
    assert!(check["right"].as_u64().unwrap() >= 11 && check["pictures"] == json!(12), "{check}");
    let refused = run_args(&["faces", "recognise", &model, "--at", &nodes[0].addr]);
    assert_eq!(refused.code, 2, "{}", refused.stdout);
    assert!(refused.stderr.contains("image: neither PGM (P2, P5) nor PNG"), "{}", refused.stderr);
    nodes[1].signal(libc::SIGSTOP);
    let probe = format!("{probes}/p000/03.pgm");
    let partial = run_args(&[
        "faces",
        "recognise",
        &probe,
        "--at",
        &nodes[0].addr,
        "--deadline",
        "1s",
        "--min-coverage",
        "0.5",
    ]);
    assert_eq!(partial.code, 3, "{}{}", partial.stdout, partial.stderr);
    assert!(partial.stdout.contains("partial: coverage 0.750 (12 of 16 partitions)"), "{}", partial.stdout);
    assert!(partial.stdout.contains("missing partitions 1,5,9,13"), "{}", partial.stdout);
}

#[test]
fn examples_of_the_page_run_when_pasted() {
    let pasted = paste(&blocks(PAGE, "sh").concat());
    let all = format!("{}{}", pasted.stdout, pasted.stderr);
    assert_eq!(pasted.code, 0, "{all}");
    for expected in [
        "full: coverage 1.000 (8 of 8 partitions)",
        "recall: ",
        "partial: coverage 0.500 (4 of 8 partitions)",
        "exit code 3",
        "40 pictures are named rightly",
    ] {
        assert!(pasted.stdout.contains(expected), "{expected:?} is missing in {all}");
    }
}
