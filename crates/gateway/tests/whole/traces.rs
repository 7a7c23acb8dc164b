//! Traces of calls: the caller's place in, the call's place out, and spans at a collector.

use crate::collector::{Collector, Manner, attribute};
use crate::rpc::pb;
use crate::world::{Answer, JSON, WITHIN, World, ask, options, post, request, send};
use opentelemetry_proto::tonic::trace::v1::Span;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;
use tonic::Request;
use treefold::{AsyncAggregation, Node, OperatorError, Partition, Service};
use treefold_gateway::{Gateway, GatewayOptions};
use treefold_traces::TraceSettings;
use treefold_traces::sampling::Sampling;
use treefold_traces::settings::Endpoint;

const SUM: &str = "/v1/call/sums/sum";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// A gateway whose traces go to a collector.
fn traced(collector: &Collector, ratio: f64, per_s: u32) -> GatewayOptions {
    let traces = TraceSettings {
        collector: Some(Endpoint::of_collector(&collector.url()).unwrap()),
        sampling: Sampling { ratio, per_s },
        ..TraceSettings::default()
    };
    GatewayOptions { traces, ..options() }
}

async fn sum(world: &World, headers: &[(&str, &str)], params: &str) -> Answer {
    post(world.addr(), SUM, &[&[JSON][..], headers].concat(), params.as_bytes()).await
}

/// The ids of trace and span, and the flags, of an answer.
fn place(answer: &Answer) -> (String, String, String) {
    let text = answer.header("traceparent").unwrap_or_else(|| panic!("{answer:?}"));
    let [_, trace, span, flags] = text.split('-').collect::<Vec<_>>().try_into().unwrap();
    (trace.to_owned(), span.to_owned(), flags.to_owned())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

async fn counter(world: &World, name: &str) -> u64 {
    let page = String::from_utf8(world.get("/metrics").await.body).unwrap();
    let line = page.lines().find_map(|line| line.strip_prefix(&format!("{name} ")).map(str::to_owned));
    line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

#[tokio::test]
async fn callers_that_trace_get_spans_below_theirs_and_others_get_none() {
    let collector = Collector::start(Manner::Takes).await;
    let world = World::start(traced(&collector, 0.0, 100)).await;
    let with_flags = |flags: &str| format!("00-{TRACE}-{CALLER}-{flags}");
    let sampled =
        sum(&world, &[("traceparent", with_flags("01").as_str()), ("tracestate", "a=1,b=2")], "null").await;
    let (trace, own, flags) = place(&sampled);
    assert_eq!(
        (trace.as_str(), flags.as_str(), sampled.header("tracestate")),
        (TRACE, "01", Some("a=1,b=2"))
    );
    assert_eq!(sampled.json().get("tree"), None, "the caller did not ask for the tree");
    let unsampled = sum(&world, &[("traceparent", with_flags("00").as_str())], "null").await;
    assert_eq!((place(&unsampled).0.as_str(), place(&unsampled).2.as_str()), (TRACE, "00"));
    for malformed in ["00-0-0-01", &with_flags("01").to_uppercase(), &format!("{}-x", with_flags("01"))] {
        let answer = sum(&world, &[("traceparent", malformed), ("tracestate", "a=1")], "null").await;
        let (trace, _, flags) = place(&answer);
        assert_ne!(trace, TRACE, "{malformed}");
        assert_eq!((flags.as_str(), answer.header("tracestate")), ("00", None), "{malformed}");
    }
    let spans = collector.until_spans(2).await;
    let [call, node] = spans.try_into().unwrap();
    assert_eq!(
        (hex(&call.trace_id), hex(&call.span_id), hex(&call.parent_span_id)),
        (TRACE.into(), own.clone(), CALLER.into())
    );
    assert_eq!((call.name.as_str(), call.trace_state.as_str()), ("sums/sum", "a=1,b=2"));
    assert_eq!(
        (hex(&node.parent_span_id), attribute(&node, "treefold.node.partitions")),
        (own, Some("4".into()))
    );
    let expected =
        [("treefold.status", "full"), ("treefold.coverage", "1"), ("treefold.deadline_ms", "2000")];
    expected.iter().for_each(|(name, value)| assert_eq!(attribute(&call, name).as_deref(), Some(*value)));
    let World { gateway, .. } = world;
    timeout(WITHIN, gateway.drain(WITHIN)).await.unwrap();
    assert_eq!(collector.requests().len(), 1, "no other call was traced");
}

#[tokio::test]
async fn rpcs_have_the_same_places() {
    let collector = Collector::start(Manner::Takes).await;
    let world = World::start(traced(&collector, 0.0, 100)).await;
    let mut channel = world.channel().await;
    let mut call = async |params: &str| {
        let mut request = Request::new(crate::rpc::sum(params, pb::CallOptions::default()));
        let metadata = request.metadata_mut();
        metadata.insert("traceparent", format!("00-{TRACE}-{CALLER}-01").parse().unwrap());
        metadata.insert("tracestate", "a=1".parse().unwrap());
        channel.ask::<_, pb::CallReply>("Call", request).await
    };
    let full = call("null").await.unwrap();
    let text = |name: &str| full.metadata().get(name).unwrap().to_str().unwrap().to_owned();
    assert!(text("traceparent").starts_with(&format!("00-{TRACE}-")) && text("traceparent").ends_with("-01"));
    assert_eq!(text("tracestate"), "a=1");
    let insufficient = call(r#"{"fail": [1]}"#).await.unwrap_err();
    let refused = insufficient.metadata().get("traceparent").unwrap().to_str().unwrap();
    assert!(refused.starts_with(&format!("00-{TRACE}-")), "{refused}");
    let spans = collector.until_spans(4).await;
    let statuses: Vec<Option<String>> = spans.iter().map(|span| attribute(span, "treefold.status")).collect();
    assert_eq!(statuses, [Some("full".into()), None, Some("insufficient".into()), None]);
    let lost = &spans[2].events;
    assert!(lost.iter().all(|event| event.name == "treefold.missing"), "{lost:?}");
    // The call ends when the first loss makes it insufficient; other partitions may be lost for that reason.
    assert!(format!("{lost:?}").contains("local_failed"), "{lost:?}");
}

#[tokio::test]
async fn failed_and_cancelled_calls_have_spans() {
    let collector = Collector::start(Manner::Takes).await;
    let world = World::start(traced(&collector, 1.0, 100)).await;
    let unknown = ask(world.addr(), "POST", "/v1/call/sums/none", &[], b"").await;
    assert_eq!((unknown.problem().as_str(), place(&unknown).2.as_str()), ("unknown_aggregation", "01"));
    let slow = request("POST", &format!("{SUM}?deadline=10s"), &[JSON], br#"{"hold_ms": 8000}"#);
    let open = send(world.addr(), &slow).await;
    world.until_open(1).await;
    drop(open);
    world.until_cancelled(1).await;
    let asked = post(world.addr(), &format!("{SUM}?explain"), &[JSON], b"null").await;
    assert!(asked.json()["tree"].is_object(), "a traced call keeps the tree that its caller asked for");
    let spans = collector.until_spans(4).await;
    let reasons: Vec<Option<String>> = spans.iter().map(|span| attribute(span, "error.type")).collect();
    assert_eq!(reasons[..2], [Some("unknown_aggregation".into()), Some("cancelled".into())]);
    assert_eq!(attribute(&spans[2], "treefold.status").as_deref(), Some("full"));
}

#[tokio::test]
async fn rate_bounds_the_traced_calls() {
    let collector = Collector::start(Manner::Takes).await;
    let world = World::start(traced(&collector, 1.0, 1)).await;
    let mut untraced = 0;
    for _ in 0..50 {
        untraced += u64::from(place(&sum(&world, &[], "null").await).2 == "00");
    }
    assert!(untraced > 0);
    assert_eq!(counter(&world, "treefold_traces_limited_total").await, untraced);
}

#[tokio::test]
async fn collectors_that_hang_or_refuse_harm_no_call_and_no_end() {
    for manner in [Manner::Hangs, Manner::Answers(500)] {
        let collector = Collector::start(manner).await;
        let world = World::start(traced(&collector, 1.0, u32::MAX)).await;
        for _ in 0..300 {
            assert_eq!(sum(&world, &[], "null").await.status, 200);
        }
        collector.until_requests(1).await;
        assert_eq!(sum(&world, &[], "null").await.status, 200);
        assert_eq!(counter(&world, "treefold_traces_exported_total").await, 0);
        timeout(WITHIN, world.gateway.drain(Duration::from_millis(300)))
            .await
            .expect("it ends within its grace");
    }
}

#[tokio::test]
async fn gateway_without_a_target_says_nothing_of_traces() {
    let world = World::usual().await;
    let answer = sum(&world, &[("traceparent", format!("00-{TRACE}-{CALLER}-01").as_str())], "null").await;
    assert_eq!((answer.status, answer.header("traceparent")), (200, None));
}

/// Returns the id of its partition.
struct Own;

impl AsyncAggregation for Own {
    type Params = Option<u64>;
    type Partial = u64;

    async fn local(&self, partition: Partition, _: Arc<Option<u64>>) -> Result<u64, OperatorError> {
        Ok(partition.id.into())
    }

    async fn reduce(&self, a: u64, b: u64, _: Arc<Option<u64>>) -> Result<u64, OperatorError> {
        Ok(a + b)
    }
}

#[tokio::test]
async fn call_over_sixteen_nodes_is_one_trace_with_the_tree() {
    const NODES: u32 = 16;
    let collector = Collector::start(Manner::Takes).await;
    let mut nodes: Vec<Node> = Vec::new();
    for id in 0..NODES {
        let service = Service::new("own").async_aggregation("sum", Own).total(NODES).partition(id, ());
        let seeds: Vec<String> = nodes.first().map(|node| node.addr().to_string()).into_iter().collect();
        let (rack, zone) = (format!("r{}", id % 4), format!("z{}", id % 2));
        let node = Node::builder().join(seeds).rack(rack).zone(zone).service(service);
        nodes.push(node.start().await.unwrap());
    }
    let front = &nodes[0];
    let all_in_sight = async {
        loop {
            let status = front.status().await.unwrap();
            let serving = |service: &str| {
                status.members.iter().filter(|m| m.card.services.contains_key(service)).count()
            };
            if serving("own") as u32 == NODES - 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(WITHIN, all_in_sight).await.expect("all nodes are in sight");
    let gateway = Gateway::start(front.client(), traced(&collector, 1.0, 100)).await.unwrap();
    let answer = post(gateway.addr(), "/v1/call/own/sum?shape=kary:4", &[JSON], b"null").await;
    assert_eq!((answer.status, answer.json()["value"].as_u64()), (200, Some(120)), "{answer:?}");
    let spans = collector.until_spans(1 + NODES as usize).await;
    let (call, below) = spans.split_first().unwrap();
    let by_id: BTreeMap<&[u8], &Span> = spans.iter().map(|span| (span.span_id.as_slice(), span)).collect();
    assert_eq!((by_id.len(), attribute(call, "treefold.nodes")), (17, Some("16".into())));
    let depth = |span: &Span| {
        let (mut at, mut depth) = (span, 0);
        while let Some(parent) = by_id.get(at.parent_span_id.as_slice()) {
            (at, depth) = (parent, depth + 1);
        }
        assert_eq!(at.span_id, call.span_id, "each node is below the call");
        depth
    };
    assert!(below.iter().map(depth).max() >= Some(3), "a tree with four children each has a third level");
    assert!(spans.iter().all(|span| span.trace_id == call.trace_id));
    let mut addresses: Vec<String> =
        below.iter().filter_map(|span| attribute(span, "treefold.node.address")).collect();
    addresses.sort_unstable();
    let mut expected: Vec<String> = nodes.iter().map(|node| node.addr().to_string()).collect();
    expected.sort_unstable();
    assert_eq!(addresses, expected);
    for span in below {
        let of_node = |name: &str| attribute(span, &format!("treefold.node.{name}"));
        assert!(of_node("rack").is_some() && of_node("zone").is_some() && of_node("local_ms").is_some());
        assert_eq!(of_node("partitions").as_deref(), Some("1"));
    }
}
