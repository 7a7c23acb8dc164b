//! Spans of a call: one for the call, and one for each node of its tree, below that of its parent.
//!
//! Nodes report how long they took, and not when, because their clocks are not compared. So every span of a node begins with the
//! call, as the bars of the live page's waterfall do, and is as long as the node's time. The way of messages between nodes is a
//! part of the parent's waiting. docs/traces.md lists names and attributes.

use crate::call::{Answered, EndedCall, Ending, Side};
use crate::context::{Context, SpanId, random};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, SpanKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};
use treefold::{Missing, NodeId, PartitionSet, Report};

/// The name by which spans say where they come from, also the default of `service.name`.
const SCOPE: &str = "treefold";
/// Most events of a span.
const EVENTS_MAX: usize = 128;
/// Most bytes of a list of partitions.
const LIST_BYTES_MAX: usize = 1_024;
/// The end of a list that was cut.
const CUT: &str = ",...";
/// Bits of a span's flags: its trace is sampled, it is known whether its parent is another process's, and it is.
const FLAG_SAMPLED: u32 = 0x001;
const FLAG_REMOTE_KNOWN: u32 = 0x100;
const FLAG_REMOTE: u32 = 0x200;

/// A request without spans: the attributes of the sender.
pub(crate) fn frame(attributes: &[(String, String)]) -> ResourceSpans {
    let own = [("service.name", SCOPE), ("service.version", env!("CARGO_PKG_VERSION"))];
    let own = own.into_iter().filter(|(name, _)| !attributes.iter().any(|(given, _)| given == name));
    let given = attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let attributes = given.chain(own).map(|(name, value)| text(name, value)).collect();
    let scope = InstrumentationScope {
        name: SCOPE.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    ResourceSpans {
        resource: Some(Resource { attributes, ..Resource::default() }),
        scope_spans: vec![ScopeSpans { scope: Some(scope), ..ScopeSpans::default() }],
        schema_url: String::new(),
    }
}

/// A request with spans.
pub(crate) fn request(frame: &ResourceSpans, spans: Vec<Span>) -> ExportTraceServiceRequest {
    let mut resource_spans = frame.clone();
    resource_spans.scope_spans[0].spans = spans;
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }
}

/// The spans of a call. The first one is that of the call.
pub(crate) fn of(call: EndedCall, side: Side, zones: &BTreeMap<NodeId, String>) -> Vec<Span> {
    let start_ns = call.started.duration_since(UNIX_EPOCH).map_or(0, nanos);
    let end_ns = start_ns.saturating_add(nanos(call.took));
    let mut own = Span {
        name: format!("{}/{}", call.service, call.aggregation),
        kind: match side {
            Side::Server => SpanKind::Server,
            Side::Client => SpanKind::Client,
        } as i32,
        end_time_unix_nano: end_ns,
        ..bare(&call.context, call.context.span, call.context.parent, start_ns)
    };
    own.flags |= if call.context.parent.is_some() { FLAG_REMOTE } else { 0 };
    own.attributes = vec![
        text("treefold.service", &call.service),
        text("treefold.aggregation", &call.aggregation),
        millis("treefold.deadline_ms", call.deadline),
    ];
    let report = match call.ending {
        Ending::Failed(reason) => {
            own.attributes.extend([text("treefold.status", "failed"), text("error.type", reason)]);
            own.status = Some(error(reason));
            None
        }
        Ending::Answered(answered) => accounts(&mut own, *answered),
    };
    let mut spans = vec![own];
    let root = call.context.span;
    let mut open: Vec<(Report, SpanId)> = report.into_iter().map(|report| (report, root)).collect();
    // Without recursion, because a chain of nodes is as deep as it is long.
    while let Some((mut report, parent)) = open.pop() {
        // Without random bytes there is no id, and a trace without this node is better than none.
        let Some([id]) = random() else { break };
        let children = std::mem::take(&mut report.children);
        spans.push(of_node(&report, bare(&call.context, id, Some(parent), start_ns), zones));
        open.extend(children.into_iter().rev().map(|child| (child, id)));
    }
    let nodes = spans.len() - 1;
    spans[0].attributes.push(count("treefold.nodes", nodes));
    spans
}

/// Adds the accounts of an answer to the call's span. Returns the report.
fn accounts(own: &mut Span, answered: Answered) -> Option<Report> {
    let Answered { status, asked, contributed, missing, total_is_guess, report } = answered;
    let coverage = if asked.is_empty() { 1.0 } else { contributed.len() as f64 / asked.len() as f64 };
    own.attributes.extend([
        text("treefold.status", status.name()),
        number("treefold.coverage", coverage),
        count("treefold.partitions.asked", asked.len()),
        count("treefold.partitions.contributed", contributed.len()),
    ]);
    let absent = asked.difference(&contributed);
    if !absent.is_empty() {
        own.attributes.push(text("treefold.partitions.missing", &listed(&absent)));
    }
    if total_is_guess {
        own.attributes.push(attribute("treefold.total_is_guess", Value::BoolValue(true)));
    }
    if !matches!(status, treefold::Status::Full | treefold::Status::Partial) {
        own.attributes.push(text("error.type", status.name()));
        own.status = Some(error(status.name()));
    }
    let at_ns = own.end_time_unix_nano;
    own.events = missing.iter().take(EVENTS_MAX).map(|missing| event(missing, at_ns)).collect();
    own.dropped_events_count = u32::try_from(missing.len() - own.events.len()).unwrap_or(u32::MAX);
    report
}

fn bare(context: &Context, id: SpanId, parent: Option<SpanId>, start_ns: u64) -> Span {
    Span {
        trace_id: context.trace.0.to_vec(),
        span_id: id.0.to_vec(),
        trace_state: context.state.clone(),
        parent_span_id: parent.map_or_else(Vec::new, |parent| parent.0.to_vec()),
        flags: FLAG_SAMPLED | FLAG_REMOTE_KNOWN,
        start_time_unix_nano: start_ns,
        ..Span::default()
    }
}

fn of_node(report: &Report, span: Span, zones: &BTreeMap<NodeId, String>) -> Span {
    let mut attributes = vec![text("treefold.node.address", &report.node.to_string())];
    let places =
        [("treefold.node.rack", Some(&report.rack)), ("treefold.node.zone", zones.get(&report.node))];
    let known = places.into_iter().filter_map(|(name, place)| Some((name, place?)));
    attributes.extend(known.filter(|(_, place)| !place.is_empty()).map(|(name, place)| text(name, place)));
    attributes.push(count("treefold.node.partitions", report.partitions.len()));
    let times = [
        ("treefold.node.queue_ms", report.queue),
        ("treefold.node.local_ms", report.local),
        ("treefold.node.reduce_ms", report.reduce),
        ("treefold.node.wait_ms", report.wait),
        ("treefold.node.total_ms", report.total),
    ];
    attributes.extend(times.map(|(name, time)| millis(name, time)));
    if !report.replaced.is_empty() {
        let replaced: Vec<String> = report.replaced.iter().map(ToString::to_string).collect();
        attributes.push(text("treefold.node.replaced", &replaced.join(" ")));
    }
    Span {
        name: if report.partitions.is_empty() { "relay" } else { "node" }.to_owned(),
        kind: SpanKind::Internal as i32,
        end_time_unix_nano: span.start_time_unix_nano.saturating_add(nanos(report.total)),
        attributes,
        ..span
    }
}

/// Partitions that are missing. The text of an operator is left out, because it may quote the parameters of its caller.
fn event(missing: &Missing, at_ns: u64) -> Event {
    let mut attributes = vec![
        text("treefold.missing.partitions", &listed(&missing.partitions)),
        text("treefold.missing.reason", missing.reason.name()),
    ];
    attributes.extend(missing.node.map(|node| text("treefold.missing.node", &node.to_string())));
    Event {
        time_unix_nano: at_ns,
        name: "treefold.missing".to_owned(),
        attributes,
        dropped_attributes_count: 0,
    }
}

/// Partitions as a list, cut at a comma if it is long.
fn listed(partitions: &PartitionSet) -> String {
    let mut text = partitions.to_string();
    if text.len() > LIST_BYTES_MAX {
        let end = text[..LIST_BYTES_MAX - CUT.len()].rfind(',').unwrap_or(0);
        text.truncate(end);
        text.push_str(CUT);
    }
    text
}

fn error(reason: &str) -> Status {
    Status { message: reason.to_owned(), code: StatusCode::Error as i32 }
}

fn text(name: &str, value: &str) -> KeyValue {
    attribute(name, Value::StringValue(value.to_owned()))
}

fn number(name: &str, value: f64) -> KeyValue {
    attribute(name, Value::DoubleValue(value))
}

fn count(name: &str, value: usize) -> KeyValue {
    attribute(name, Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)))
}

/// Milliseconds, to the microsecond.
fn millis(name: &str, time: Duration) -> KeyValue {
    number(name, time.as_micros() as f64 / 1e3)
}

fn attribute(name: &str, value: Value) -> KeyValue {
    KeyValue { key: name.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
