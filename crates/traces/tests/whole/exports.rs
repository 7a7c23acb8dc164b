//! Calls that are handed over, and where they end.

use crate::collector::{Collector, Manner, WITHIN, attribute, spans_of};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use std::net::TcpListener;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use tokio::time::timeout;
use treefold::{Node, NodeId, PartitionSet, Report, Status};
use treefold_traces::sampling::Sampling;
use treefold_traces::settings::Endpoint;
use treefold_traces::{Answered, EndedCall, Ending, Figures, Side, StartError, TraceSettings, Traces};

/// Most calls that wait, as `exporter.rs` says.
const QUEUE_CALLS_MAX: usize = 2_048;

fn settings(url: Option<&str>, file: Option<PathBuf>) -> TraceSettings {
    TraceSettings {
        collector: url.map(|url| Endpoint::of_collector(url).unwrap()),
        file,
        sampling: Sampling { ratio: 1.0, per_s: u32::MAX },
        ..TraceSettings::default()
    }
}

async fn node() -> Node {
    Node::builder().zone("z1").start().await.unwrap()
}

fn start(node: &Node, settings: &TraceSettings) -> Traces {
    Traces::start(settings, Side::Server, &node.client()).unwrap()
}

/// Hands over a call that was answered by `nodes` nodes below a root.
fn end(traces: &Traces, root: NodeId, nodes: u32) {
    let report = |node: NodeId, children: Vec<Report>| Report {
        node,
        rack: String::new(),
        partitions: PartitionSet::first(1),
        queue: Duration::ZERO,
        local: Duration::from_millis(1),
        reduce: Duration::ZERO,
        wait: Duration::ZERO,
        total: Duration::from_millis(2),
        replaced: Vec::new(),
        children,
    };
    let others = (0..nodes).map(|at| report(NodeId::new(([127, 0, 0, 1], 9).into(), at.into()), vec![]));
    let answered = Answered {
        status: Status::Full,
        asked: PartitionSet::first(1),
        contributed: PartitionSet::first(1),
        missing: vec![],
        total_is_guess: false,
        report: Some(report(root, others.collect())),
    };
    traces.end(EndedCall {
        context: traces.begin(None).unwrap(),
        service: "sums".to_owned(),
        aggregation: "sum".to_owned(),
        started: SystemTime::now(),
        took: Duration::from_millis(3),
        deadline: Duration::from_secs(2),
        ending: Ending::Answered(Box::new(answered)),
    });
}

#[tokio::test]
async fn spans_arrive_with_resource_and_zone() {
    let (node, collector) = (node().await, Collector::start(Manner::Takes).await);
    let traces = start(&node, &settings(Some(&collector.url()), None));
    let root = node.status().await.unwrap().card.node;
    end(&traces, root, 2);
    let spans = collector.until_spans(4).await;
    assert_eq!(spans.len(), 4);
    assert_eq!(attribute(&spans[1], "treefold.node.zone").as_deref(), Some("z1"));
    assert_eq!(attribute(&spans[2], "treefold.node.zone"), None, "only members in sight have known zones");
    let resource = collector.requests().remove(0).resource_spans.remove(0).resource.unwrap();
    let names: Vec<String> = resource.attributes.into_iter().map(|attribute| attribute.key).collect();
    assert_eq!(names, ["service.name", "service.version"]);
    timeout(WITHIN, traces.finish(WITHIN)).await.unwrap();
    assert_eq!(traces.figures(), Figures { exported: 1, ..Figures::default() });
}

#[tokio::test]
async fn busy_collector_is_asked_again() {
    let (node, collector) = (node().await, Collector::start(Manner::IsBusyOnce).await);
    let traces = start(&node, &settings(Some(&collector.url()), None));
    end(&traces, node.status().await.unwrap().card.node, 0);
    collector.until_requests(2).await;
    timeout(WITHIN, traces.finish(WITHIN)).await.unwrap();
    assert_eq!(traces.figures(), Figures { exported: 1, ..Figures::default() });
    let [first, second] = collector.requests().try_into().unwrap();
    assert_eq!(first, second);
}

#[tokio::test]
async fn unwilling_collectors_cost_traces_and_nothing_else() {
    let node = node().await;
    let root = node.status().await.unwrap().card.node;
    for manner in
        [Manner::Answers(500), Manner::Answers(404), Manner::Leaves(1), Manner::Breaks, Manner::Hangs]
    {
        let collector = Collector::start(manner).await;
        let traces = start(&node, &settings(Some(&collector.url()), None));
        end(&traces, root, 1);
        collector.until_requests(1).await;
        timeout(WITHIN, traces.finish(Duration::from_millis(200))).await.unwrap();
        assert_eq!(traces.figures(), Figures { failed: 1, ..Figures::default() }, "{manner:?}");
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let traces = start(&node, &settings(Some(&format!("http://{port}")), None));
    end(&traces, root, 1);
    timeout(WITHIN, traces.finish(Duration::from_millis(200))).await.unwrap();
    assert_eq!(traces.figures(), Figures { failed: 1, ..Figures::default() }, "nobody listens");
}

#[tokio::test]
async fn full_queue_drops_calls_and_counts_them() {
    let (node, collector) = (node().await, Collector::start(Manner::Hangs).await);
    let root = node.status().await.unwrap().card.node;
    let traces = start(&node, &settings(Some(&collector.url()), None));
    let calls = 2 * QUEUE_CALLS_MAX;
    (0..calls).for_each(|_| end(&traces, root, 0));
    let early = traces.figures().dropped as usize;
    assert!((1..=calls - QUEUE_CALLS_MAX).contains(&early), "{early} dropped");
    timeout(WITHIN, traces.finish(Duration::from_millis(200))).await.unwrap();
    let Figures { exported, failed, dropped, limited } = traces.figures();
    assert_eq!((exported, failed + dropped, limited), (0, calls as u64, 0));
}

#[tokio::test]
async fn large_trees_fill_the_queue_sooner_and_travel_in_several_requests() {
    let (node, collector) = (node().await, Collector::start(Manner::Takes).await);
    let root = node.status().await.unwrap().card.node;
    let traces = start(&node, &settings(Some(&collector.url()), None));
    let nodes = 20_000;
    (0..10).for_each(|_| end(&traces, root, nodes));
    assert!(traces.figures().dropped >= 1);
    timeout(WITHIN, traces.finish(WITHIN)).await.unwrap();
    let Figures { exported, failed, dropped, .. } = traces.figures();
    assert_eq!((exported + dropped, failed), (10, 0));
    let sizes: Vec<usize> = collector.requests().into_iter().map(|request| spans_of(request).len()).collect();
    assert_eq!(sizes.iter().sum::<usize>() as u64, exported * (u64::from(nodes) + 2));
    assert!(sizes.iter().all(|&spans| spans <= 4_096), "{sizes:?}");
}

#[tokio::test]
async fn spans_arrive_also_if_the_front_is_dropped() {
    let (node, collector) = (node().await, Collector::start(Manner::Takes).await);
    let traces = start(&node, &settings(Some(&collector.url()), None));
    end(&traces, node.status().await.unwrap().card.node, 0);
    drop(traces);
    assert_eq!(collector.until_spans(2).await.len(), 2);
}

#[tokio::test]
async fn file_and_collector_get_the_same() {
    let (node, collector) = (node().await, Collector::start(Manner::Takes).await);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("traces");
    let traces = start(&node, &settings(Some(&collector.url()), Some(path.clone())));
    end(&traces, node.status().await.unwrap().card.node, 3);
    timeout(WITHIN, traces.finish(WITHIN)).await.unwrap();
    let line = std::fs::read_to_string(&path).unwrap();
    let written: ExportTraceServiceRequest = serde_json::from_str(&line).unwrap();
    assert_eq!(vec![written], collector.requests());
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused_at_the_start() {
    let node = node().await;
    let refused =
        Traces::start(&settings(None, Some("/no/such/folder/x".into())), Side::Client, &node.client());
    assert!(matches!(refused, Err(StartError::File { .. })), "{refused:?}");
    let off = start(&node, &settings(None, None));
    assert_eq!(off.begin(None), None, "without a target no call has a place");
}
