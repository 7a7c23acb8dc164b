//! The log of slow calls.

use crate::world::{JSON, WITHIN, World, options, post, request, send};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tokio::time::timeout;
use treefold_gateway::{GatewayOptions, SlowCallOptions, StartError};

const SUM: &str = "/v1/call/sums/sum";
const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn logging(path: &Path, over: Duration) -> GatewayOptions {
    GatewayOptions { slow_calls: Some(SlowCallOptions { over, file: Some(path.to_owned()) }), ..options() }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn slow_calls_are_written_with_their_tree() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("slow.jsonl");
    let world = World::start(logging(&path, Duration::from_millis(400))).await;
    let call = async |query: &str, params: &str| {
        let headers = [JSON, ("traceparent", CALLER)];
        post(world.addr(), &format!("{SUM}{query}"), &headers, params.as_bytes()).await
    };
    let slow = call("?deadline=5s&min_coverage=0.5", r#"{"hold_ms": 450, "fail": [2]}"#).await;
    assert_eq!((slow.status, slow.json().get("tree")), (200, None), "the caller did not ask for the tree");
    let open =
        send(world.addr(), &request("POST", &format!("{SUM}?deadline=9s"), &[JSON], br#"{"hold_ms": 8000}"#))
            .await;
    world.until_open(1).await;
    tokio::time::sleep(Duration::from_millis(450)).await;
    drop(open);
    world.until_cancelled(1).await;
    let page = String::from_utf8(world.get("/metrics").await.body).unwrap();
    assert!(page.contains("\ntreefold_gateway_slow_calls_total 2\n"), "{page}");
    timeout(WITHIN, world.gateway.drain(WITHIN)).await.unwrap();
    let [first, second] = lines(&path).try_into().unwrap();
    assert_eq!(
        (&first["service"], &first["aggregation"], &first["status"]),
        (&"sums".into(), &"sum".into(), &"partial".into())
    );
    assert_eq!((&first["slow_call_us"], &first["deadline_us"]), (&400_000.into(), &5_000_000.into()));
    assert!(first["took_us"].as_u64() >= Some(400_000));
    assert_eq!(first["trace_id"], "0af7651916cd43dd8448eb211c80319c", "the caller's trace");
    assert_eq!(first.get("span_id"), None, "the call has no span, because there is no target");
    assert_eq!(first["tree"]["partitions"], serde_json::json!([0, 1, 2, 3]));
    assert!(first["tree"]["total_us"].as_u64() >= Some(400_000));
    assert_eq!(
        (&first["missing"][0]["reason"], first["missing"][0].get("detail")),
        (&"local_failed".into(), None)
    );
    assert_eq!((&second["status"], &second["reason"]), (&"failed".into(), &"cancelled".into()));
}

#[tokio::test]
async fn quick_calls_are_not_written_and_lines_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("slow.jsonl");
    let world = World::start(logging(&path, Duration::from_secs(60))).await;
    assert_eq!(world.sum("", "null").await.status, 200);
    timeout(WITHIN, world.gateway.drain(WITHIN)).await.unwrap();
    assert_eq!(lines(&path).len(), 0);
    let mut bounded = logging(&path, Duration::ZERO);
    bounded.limits.slow_calls_per_s = 1;
    let world = World::start(bounded).await;
    for _ in 0..20 {
        assert_eq!(world.sum("", "null").await.status, 200);
    }
    let page = String::from_utf8(world.get("/metrics").await.body).unwrap();
    assert!(page.contains("\ntreefold_gateway_slow_calls_total 20\n"), "{page}");
    timeout(WITHIN, world.gateway.drain(WITHIN)).await.unwrap();
    assert!((1..20).contains(&lines(&path).len()));
}

#[tokio::test]
async fn file_that_cannot_be_written_is_refused_at_the_start() {
    let node = treefold::Node::builder().start().await.unwrap();
    let unwritable = logging(Path::new("/no/such/folder/slow"), Duration::ZERO);
    let refused = treefold_gateway::Gateway::start(node.client(), unwritable).await.unwrap_err();
    assert!(matches!(refused, StartError::SlowCalls { .. }), "{refused}");
}
