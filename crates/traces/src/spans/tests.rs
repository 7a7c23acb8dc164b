//! Spans of made calls, and their lines of JSON.

use super::*;
use crate::context::Parent;
use crate::file::TraceFile;
use serde_json::Value as Json;
use treefold::{Reason, Status as Verdict};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn node(port: u16) -> NodeId {
    NodeId::new(([127, 0, 0, 1], port).into(), 1)
}

fn report(port: u16, partitions: u32, total_ms: u64, children: Vec<Report>) -> Report {
    let ms = Duration::from_millis;
    Report {
        node: node(port),
        rack: if port == 1 { "r1".to_owned() } else { String::new() },
        partitions: PartitionSet::first(partitions),
        queue: ms(1),
        local: ms(2),
        reduce: Duration::from_micros(1_500),
        wait: ms(3),
        total: ms(total_ms),
        replaced: Vec::new(),
        children,
    }
}

fn call(status: Verdict, missing: Vec<Missing>, report: Option<Report>) -> EndedCall {
    let parent = Parent::of([PARENT.as_bytes()], [b"vendor=1".as_slice()]).unwrap();
    let lost = PartitionSet::union_of(missing.iter().map(|missing| &missing.partitions));
    let asked = PartitionSet::first(8);
    let contributed = asked.difference(&lost);
    let answered = Answered { status, asked, contributed, missing, total_is_guess: false, report };
    EndedCall {
        context: Context { is_sampled: true, ..Context::below(Some(&parent)).unwrap() },
        service: "search".to_owned(),
        aggregation: "topk".to_owned(),
        started: UNIX_EPOCH + Duration::from_secs(1_000),
        took: Duration::from_millis(20),
        deadline: Duration::from_secs(2),
        ending: Ending::Answered(Box::new(answered)),
    }
}

fn value(span: &Span, name: &str) -> Option<Value> {
    span.attributes.iter().find(|attribute| attribute.key == name)?.value.clone()?.value
}

fn string(span: &Span, name: &str) -> Option<String> {
    value(span, name).map(|value| match value {
        Value::StringValue(text) => text,
        other => panic!("{name} is {other:?}"),
    })
}

#[test]
fn each_node_has_a_span_below_its_parent_that_begins_with_the_call() {
    let tree =
        report(1, 2, 16, vec![report(2, 0, 9, vec![report(3, 3, 4, vec![])]), report(4, 3, 5, vec![])]);
    let zones = BTreeMap::from([(node(3), "z1".to_owned())]);
    let made = call(Verdict::Full, vec![], Some(tree));
    assert_eq!(made.spans(), 5);
    let (own, spans) = (made.context.span, of(made, Side::Server, &zones));
    let names: Vec<&str> = spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(names, ["search/topk", "node", "relay", "node", "node"]);
    let address = |at: usize| string(&spans[at], "treefold.node.address");
    assert_eq!([1, 2, 3, 4].map(|at| address(at).unwrap()[10..].to_owned()), ["1", "2", "3", "4"]);
    let parents: Vec<&[u8]> = spans.iter().map(|span| span.parent_span_id.as_slice()).collect();
    let id = |at: usize| spans[at].span_id.as_slice();
    assert_eq!(
        parents,
        [[0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31].as_slice(), id(0), id(1), id(2), id(1)]
    );
    assert_eq!(id(0), own.0);
    let start_ns = 1_000_000_000_000;
    let ends: Vec<u64> = spans.iter().map(|span| (span.end_time_unix_nano - start_ns) / 1_000_000).collect();
    assert!(spans.iter().all(|span| span.start_time_unix_nano == start_ns));
    assert_eq!(ends, [20, 16, 9, 4, 5]);
    assert!(
        spans
            .iter()
            .all(|span| span.trace_id[..4] == [0x0a, 0xf7, 0x65, 0x19] && span.trace_state == "vendor=1")
    );
    let flags: Vec<u32> = spans.iter().map(|span| span.flags).collect();
    assert_eq!(flags, [0x301, 0x101, 0x101, 0x101, 0x101]);
    assert_eq!(value(&spans[1], "treefold.node.reduce_ms"), Some(Value::DoubleValue(1.5)));
    assert_eq!(value(&spans[1], "treefold.node.partitions"), Some(Value::IntValue(2)));
    assert_eq!(string(&spans[1], "treefold.node.rack").as_deref(), Some("r1"));
    let zone = |at: usize| string(&spans[at], "treefold.node.zone");
    assert_eq!([zone(1), zone(3)], [None, Some("z1".to_owned())]);
    assert_eq!(value(&spans[0], "treefold.nodes"), Some(Value::IntValue(4)));
    assert_eq!((spans[0].kind, spans[1].kind), (SpanKind::Server as i32, SpanKind::Internal as i32));
    assert_eq!(spans[0].status, None);
}

#[test]
fn missing_partitions_are_events_without_the_operators_text() {
    let lost = |partition: u32, reason| Missing {
        partitions: [partition].into_iter().collect(),
        node: (partition > 0).then(|| node(9)),
        reason,
    };
    let missing = vec![lost(0, Reason::NoReplica), lost(3, Reason::LocalFailed("secret".into()))];
    let spans = of(call(Verdict::Insufficient, missing, None), Side::Client, &BTreeMap::new());
    let own = &spans[0];
    assert_eq!((spans.len(), own.kind), (1, SpanKind::Client as i32));
    assert_eq!(value(own, "treefold.coverage"), Some(Value::DoubleValue(0.75)));
    assert_eq!(string(own, "treefold.partitions.missing").as_deref(), Some("0,3"));
    assert_eq!(string(own, "error.type").as_deref(), Some("insufficient"));
    assert_eq!(own.status.as_ref().map(|status| status.code), Some(StatusCode::Error as i32));
    let reasons: Vec<String> = own.events.iter().map(|event| format!("{:?}", event.attributes)).collect();
    assert!(reasons[0].contains("no_replica") && reasons[1].contains("local_failed"), "{reasons:?}");
    assert!(!reasons[0].contains("missing.node") && reasons[1].contains("127.0.0.1:9"), "{reasons:?}");
    assert!(!reasons.concat().contains("secret"));
    let many = (0..200).map(|_| lost(1, Reason::Late)).collect();
    let own = &of(call(Verdict::Partial, many, None), Side::Server, &BTreeMap::new())[0];
    assert_eq!((own.events.len(), own.dropped_events_count), (EVENTS_MAX, 72));
    assert_eq!(own.status, None, "a partial answer is an answer");
}

#[test]
fn failed_call_has_one_span_with_the_reason() {
    let made = EndedCall { ending: Ending::Failed("cancelled"), ..call(Verdict::Full, vec![], None) };
    let spans = of(made, Side::Server, &BTreeMap::new());
    assert_eq!(spans.len(), 1);
    assert_eq!(string(&spans[0], "treefold.status").as_deref(), Some("failed"));
    assert_eq!(string(&spans[0], "error.type").as_deref(), Some("cancelled"));
}

#[test]
fn long_lists_of_partitions_are_cut_at_a_comma() {
    let scattered: PartitionSet = (0..1_000).map(|id| 2 * id).collect();
    let text = listed(&scattered);
    assert!(text.len() <= LIST_BYTES_MAX && text.ends_with(CUT), "{text}");
    assert!(scattered.to_string().starts_with(text.trim_end_matches(CUT)));
}

#[test]
fn deep_trees_are_walked_without_recursion() {
    let mut tree = report(1, 1, 1, vec![]);
    for _ in 0..16_000 {
        tree = report(1, 1, 1, vec![tree]);
    }
    assert_eq!(of(call(Verdict::Full, vec![], Some(tree)), Side::Server, &BTreeMap::new()).len(), 16_002);
}

#[test]
fn file_has_lines_of_otlp_json() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("traces.jsonl");
    let mut file = TraceFile::open(&path).unwrap();
    let given = [("service.name".to_owned(), "search".to_owned())];
    let spans =
        of(call(Verdict::Full, vec![], Some(report(1, 8, 9, vec![]))), Side::Server, &BTreeMap::new());
    let made = request(&frame(&given), spans);
    file.append(&made).unwrap();
    file.append(&made).unwrap();
    let content = std::fs::read_to_string(file.path()).unwrap();
    assert_eq!(content.lines().count(), 2);
    let line: Json = serde_json::from_str(content.lines().next().unwrap()).unwrap();
    let of_resource = &line["resourceSpans"][0];
    let attribute = &of_resource["resource"]["attributes"][0];
    assert_eq!(
        (&attribute["key"], &attribute["value"]["stringValue"]),
        (&"service.name".into(), &"search".into())
    );
    let [own, node] = [0_usize, 1].map(|at| of_resource["scopeSpans"][0]["spans"][at].clone());
    assert_eq!(own["traceId"], "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(
        (&own["parentSpanId"], &own["startTimeUnixNano"]),
        (&"b7ad6b7169203331".into(), &"1000000000000".into())
    );
    assert_eq!(node["parentSpanId"], own["spanId"]);
    let again: ExportTraceServiceRequest = serde_json::from_value(line).unwrap();
    assert_eq!(again, made);
}
