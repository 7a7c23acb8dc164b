//! Calls: their answers in three forms, partial answers, and clients that go away.

use crate::world::{Answer, BYTES, JSON, MESSAGE_PACK, World, options, post, request, rest, send};
use serde::Deserialize;
use serde_json::json;
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use treefold::{Node, Service};

#[tokio::test]
async fn full_answer_is_that_of_the_command_line() {
    let world = World::usual().await;
    let answer = world.sum("", "null").await;
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")), "{answer:?}");
    assert_eq!(answer.header("treefold-status"), Some("full"));
    assert_eq!(answer.header("treefold-coverage"), Some("4/4"));
    assert_eq!(answer.header("treefold-missing"), None);
    let mut body = answer.json();
    assert!(body.as_object_mut().unwrap().remove("elapsed_us").unwrap().is_u64());
    let expected = json!({
        "status": "full", "value": 6, "coverage": {"asked": 4, "contributed": 4}, "total_is_guess": false, "missing": [],
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn call_without_a_body_has_no_parameters() {
    let world = World::usual().await;
    let answer = post(world.addr(), "/v1/call/sums/sum", &[], b"").await;
    assert_eq!((answer.status, answer.json()["value"].as_u64()), (200, Some(6)));
}

#[tokio::test]
async fn partial_answer_names_missing_partitions_in_body_and_headers() {
    let world = World::usual().await;
    let answer = world.sum("?min_coverage=0.5", r#"{"fail": [1, 2]}"#).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(answer.header("treefold-status"), Some("partial"));
    assert_eq!(answer.header("treefold-coverage"), Some("2/4"));
    assert_eq!(answer.header("treefold-missing"), Some("1-2"));
    let body = answer.json();
    assert_eq!((&body["status"], &body["value"]), (&json!("partial"), &json!(3)));
    assert_eq!(body["coverage"], json!({"asked": 4, "contributed": 2}));
    assert_eq!(body["missing"][0]["reason"], "local_failed");
    assert_eq!(body["missing"][0]["detail"], "asked to fail");
}

#[tokio::test]
async fn too_little_coverage_is_503_with_the_same_accounts() {
    let world = World::usual().await;
    let answer = world.sum("?min_coverage=0.75", r#"{"fail": [1, 2]}"#).await;
    assert_eq!((answer.status, answer.problem().as_str()), (503, "coverage"), "{answer:?}");
    assert_eq!(answer.header("treefold-status"), Some("insufficient"));
    assert!(
        answer.header("treefold-coverage").unwrap().ends_with("/4")
            && answer.header("treefold-missing").is_some()
    );
    let body = answer.json();
    assert_eq!((&body["field"], &body["coverage"]["asked"]), (&json!("min_coverage"), &json!(4)));
    assert!(!body["missing"].as_array().unwrap().is_empty() && body["elapsed_us"].is_u64(), "{body}");
}

#[tokio::test]
async fn options_come_by_header_and_by_query() {
    let world = World::usual().await;
    let headers = [JSON, ("Treefold-Min-Coverage", "0.5"), ("Treefold-Partitions", "0-2")];
    let path =
        "/v1/call/sums/sum?explain&shape=flat&waiting=slope&hedge=true&slices=1&policy=random&deadline=3s";
    let answer = post(world.addr(), path, &headers, br#"{"fail": [1]}"#).await;
    let body = answer.json();
    assert_eq!(
        (answer.status, &body["coverage"]["asked"], &body["value"]),
        (200, &json!(3), &json!(2)),
        "{body}"
    );
    assert!(body["tree"]["total_us"].is_u64(), "{body}");
}

/// An answer as MessagePack.
#[derive(Deserialize)]
struct Packed {
    status: String,
    value: u64,
    coverage: Counts,
}

#[derive(Deserialize)]
struct Counts {
    asked: u32,
    contributed: u32,
}

#[tokio::test]
async fn message_pack_goes_in_and_comes_out() {
    let world = World::usual().await;
    let params = rmp_serde::to_vec_named(&json!({"fail": [3]})).unwrap();
    let headers = [MESSAGE_PACK, ("accept", "application/msgpack"), ("treefold-min-coverage", "0")];
    let answer = post(world.addr(), "/v1/call/sums/sum", &headers, &params).await;
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some("application/msgpack")),
        "{answer:?}"
    );
    let packed: Packed = rmp_serde::from_slice(&answer.body).unwrap();
    assert_eq!(
        (packed.status.as_str(), packed.coverage.asked, packed.coverage.contributed),
        ("partial", 4, 3)
    );
    assert_eq!(packed.value, 3);
}

#[tokio::test]
async fn bytes_travel_raw_both_ways() {
    let world = World::usual().await;
    let headers = [BYTES, ("accept", "application/octet-stream")];
    let answer = post(world.addr(), "/v1/call/sums/echo?partitions=0,2", &headers, b"\xc1\0hi").await;
    assert_eq!((answer.status, &answer.body[..]), (200, &b"\xc1\0hi\xc1\0hi"[..]));
    assert_eq!(answer.header("treefold-coverage"), Some("2/2"));
}

#[tokio::test]
async fn vanished_client_cancels_its_call() {
    let world = World::usual().await;
    let slow = request("POST", "/v1/call/sums/sum?deadline=50s", &[JSON], br#"{"hold_ms": 40000}"#);
    let stream = send(world.addr(), &slow).await;
    world.until_open(1).await;
    drop(stream);
    world.until_cancelled(1).await;
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let world = World::usual().await;
    let mut stream = send(world.addr(), b"").await;
    for _ in 0..3 {
        stream.write_all(&request("POST", "/v1/call/sums/sum", &[], b"")).await.unwrap();
        assert_eq!(Answer::read(&mut stream).await.status, 200);
    }
}

#[tokio::test]
async fn state_of_the_node_and_its_cluster_is_shown() {
    let world = World::usual().await;
    world.sum("", "null").await;
    let status = world.get("/v1/status").await.json();
    assert_eq!(status["counters"]["calls_full"], 1);
    assert_eq!(status["node"]["addr"], world.node.addr().to_string());
    let services = world.get("/v1/services").await.json();
    assert_eq!(services["services"]["sums"], json!({"total": 4, "declared": true, "refused": []}));
    let nodes = world.get("/v1/nodes").await.json();
    assert_eq!(nodes["nodes"][0], status["node"]);
    assert_eq!(world.get("/healthz").await.json(), json!({"status": "ok"}));
    assert_eq!(world.get("/readyz").await.json(), json!({"status": "ready"}));
    let mut stream = send(world.addr(), &request("HEAD", "/healthz", &[("connection", "close")], b"")).await;
    assert!(rest(&mut stream).await.starts_with(b"HTTP/1.1 200"));
}

/// A node whose partitions are placed automatically is ready once it has loaded them.
#[tokio::test]
async fn a_node_is_ready_when_it_has_loaded_its_partitions() {
    let may_load = Arc::new(std::sync::Barrier::new(2));
    let gate = Arc::clone(&may_load);
    let service = Service::new("placed").total(2).placed(1, move |partition| {
        if partition == 1 {
            gate.wait();
        }
        Ok::<u32, String>(partition)
    });
    let node = Node::builder().service(service).start().await.unwrap();
    let gateway = treefold_gateway::Gateway::start(node.client(), options()).await.unwrap();
    let ready = || crate::world::ask(gateway.addr(), "GET", "/readyz", &[], b"");
    let answer = ready().await;
    assert_eq!((answer.status, answer.problem().as_str()), (503, "loading"));
    may_load.wait();
    let until = async {
        while ready().await.status != 200 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(crate::world::WITHIN, until).await.unwrap();
}
