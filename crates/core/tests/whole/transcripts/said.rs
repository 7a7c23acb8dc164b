//! Texts for effects. Ids and counters that are equal in every message are left out, and payloads are given
//! by size.

use crate::transcripts::play::name;
use treefold_core::call::Outcome;
use treefold_core::effect::{FilterEffect, TracePoint, Work};
use treefold_core::error::Missing;
use treefold_core::message::Message;
use treefold_core::stream::StreamEvent;
use treefold_core::stream::message::{StreamMessage, StreamUp};
use treefold_core::stream::spec::{EndpointEvent, FilterWork};
use treefold_core::stream::tags::TagRuns;
use treefold_core::tree::Tree;
use treefold_sim::world::ink::Ink;

/// A tree as `n1{0}(n2{1} n3{2})`.
fn tree(tree: &Tree) -> String {
    let root = tree.root();
    let below: Vec<String> = tree.children().map(|child| self::tree(&child)).collect();
    let below = if below.is_empty() { String::new() } else { format!("({})", below.join(" ")) };
    format!("{}{{{}}}{below}", name(root.node), root.partitions)
}

fn losses(missing: &[Missing]) -> String {
    let each: Vec<String> =
        missing.iter().map(|loss| format!("{} {}", loss.partitions, loss.reason)).collect();
    if each.is_empty() { String::new() } else { format!(", missing {}", each.join("; ")) }
}

fn bytes(payload: Option<&Ink>) -> String {
    payload.map_or_else(|| "no payload".into(), |payload| format!("{} bytes", payload.bytes))
}

fn tags(runs: &TagRuns) -> String {
    let each: Vec<String> = runs
        .runs()
        .iter()
        .map(|&(first, last)| if first == last { format!("{first}") } else { format!("{first}-{last}") })
        .collect();
    each.join(",")
}

/// A message between nodes, if it is about a call or a stream and is not only a sign of life.
pub fn message(message: &Message<Ink>) -> Option<String> {
    let text = match message {
        Message::Call(call) => {
            let ms = call.times.answer_left.as_millis_f64();
            format!("call, answer within {ms:.1} ms: {}", tree(&call.tree))
        }
        Message::Partial(partial) => {
            let last = if partial.last { ", last" } else { "" };
            let missing = losses(&partial.missing);
            match &partial.payload {
                None if partial.contributors.is_empty() => format!("nothing yet{missing}{last}"),
                payload => format!(
                    "partial of {{{}}}, {}{missing}{last}",
                    partial.contributors,
                    bytes(payload.as_ref())
                ),
            }
        }
        Message::Offer { bytes, .. } => format!("offers a partial of {bytes} bytes"),
        Message::Grant { .. } => "grants the partial".into(),
        Message::Cancel { .. } => "cancels".into(),
        Message::Stream(message) => return stream_message(message),
        _ => return None,
    };
    Some(text)
}

fn stream_message(message: &StreamMessage<Ink>) -> Option<String> {
    let text = match message {
        StreamMessage::Open(open) => {
            let number = open.places.number();
            let again = if number.life == number.place && number.life > 1 { " and begin anew" } else { "" };
            format!(
                "take place {}{again}, epoch {}, from tag {}: {}",
                number.place,
                open.epoch,
                open.first_tag,
                tree(open.places.tree())
            )
        }
        StreamMessage::News(news) => {
            let joined: Vec<String> = news
                .joined
                .iter()
                .map(|(who, tag)| match tag {
                    0 => format!("{{{who}}} from the first"),
                    tag => format!("{{{who}}} from tag {tag}"),
                })
                .collect();
            let joined =
                if joined.is_empty() { String::new() } else { format!(", begin: {}", joined.join("; ")) };
            let away = if news.away.is_empty() {
                String::new()
            } else {
                format!(", away {}", losses(&news.away).trim_start_matches(", missing "))
            };
            format!("is there, in place {}{joined}{away}", news.place)
        }
        StreamMessage::Report(report) => {
            let at_once = if report.at_once { ", which may be called back at once" } else { "" };
            format!("reports the loss of {}{at_once}", name(report.node))
        }
        StreamMessage::Up(up) => wave_up(up),
        StreamMessage::Down(down) => format!("packet {} down, tag {}", down.sequence, down.tag),
        StreamMessage::Run(run) => format!("packets {} to {} down", run.first, run.last()),
        StreamMessage::Taken { upto: 0, .. } => return None,
        StreamMessage::Taken { upto, .. } => format!("took the packets down up to {upto}"),
        StreamMessage::Settled(settled) => {
            let lanes: Vec<String> = settled
                .lanes
                .iter()
                .map(|(lane, runs)| match lane.checked_sub(1) {
                    None => format!("waves {}", tags(runs)),
                    Some(endpoint) => format!("packets {} of endpoint {endpoint}", tags(runs)),
                })
                .collect();
            format!("settled: {}", lanes.join(", "))
        }
        StreamMessage::Missed { first, last, .. } => format!("packets {first} to {last} passed over you"),
        StreamMessage::Ahead { tag, .. } => format!("waves up to {tag} have gone"),
        StreamMessage::Close { reason, .. } => format!("close: {reason}"),
        StreamMessage::Beat { .. } | StreamMessage::WantOperator { .. } | StreamMessage::Operator { .. } => {
            return None;
        }
    };
    Some(text)
}

fn wave_up(up: &StreamUp<Ink>) -> String {
    let missing = losses(&up.missing);
    format!("wave {} of {{{}}}, {}{missing}", up.tag, up.contributors, bytes(up.payload.as_ref()))
}

/// The work of an operator.
pub fn work(work: &Work<Ink>) -> String {
    match work {
        Work::Local { partition, .. } => format!("runs the local of {partition}"),
        Work::Slices { partition, of, .. } => format!("runs the local of {partition}, in {of} slices"),
        Work::Slice { partition, slice, .. } => {
            format!("runs the local of {partition}, for slice {} of {}", slice.index(), slice.of())
        }
        Work::Join { parts, .. } => format!("joins {} slices", parts.len()),
        Work::Reduce { parts, .. } => {
            format!(
                "folds {}",
                parts.iter().map(|part| part.count.to_string()).collect::<Vec<_>>().join(" and ")
            )
        }
    }
}

/// The work of a stream's filter, if it runs on the way up.
pub fn filter(effect: &FilterEffect<Ink>) -> Option<String> {
    match effect {
        FilterEffect::Run(run) => match &run.work {
            FilterWork::Up(pieces) => {
                let sources: Vec<String> = pieces.iter().map(|(source, _)| source.to_string()).collect();
                Some(format!("filters wave {}: {}", run.tag, sources.join(", ")))
            }
            FilterWork::Down(_) => None,
        },
        _ => None,
    }
}

/// The result of a call.
pub fn outcome(outcome: &Outcome<Ink>) -> String {
    format!("the call is {}: {{{}}}{}", outcome.status.name(), outcome.contributed, losses(&outcome.missing))
}

/// An event for a front-end's user.
pub fn stream_event(event: &StreamEvent<Ink>) -> String {
    match event {
        StreamEvent::Opened { endpoints, missing, .. } => {
            format!("the stream is open to {{{endpoints}}}{}", losses(missing))
        }
        StreamEvent::Wave(wave) => {
            format!("delivers wave {} of {{{}}}{}", wave.tag, wave.contributors, losses(&wave.missing))
        }
        StreamEvent::Changed { endpoints, away, trees } => {
            let trees: Vec<String> = trees.iter().map(tree).collect();
            let away = losses(away);
            format!("the tree is {}; {{{endpoints}}} take part{away}", trees.join(" "))
        }
        StreamEvent::Taken { bytes } => format!("{bytes} bytes sent down have been taken"),
        StreamEvent::Closed(reason) => format!("the stream is over: {reason}"),
    }
}

/// An event for an endpoint.
pub fn endpoint_event(endpoint: u32, event: &EndpointEvent<Ink>) -> String {
    match event {
        EndpointEvent::Opened { .. } => format!("endpoint {endpoint} is opened"),
        EndpointEvent::Packet { tag, .. } => format!("endpoint {endpoint} is given a packet of tag {tag}"),
        EndpointEvent::Packets(run) => {
            format!("endpoint {endpoint} is given packets {} to {}", run.first, run.last())
        }
        EndpointEvent::Missed { first, last } => {
            format!("endpoint {endpoint} missed packets {first} to {last}")
        }
        EndpointEvent::Settled { bytes } => format!("endpoint {endpoint} has {bytes} bytes settled"),
        EndpointEvent::Closed(reason) => format!("endpoint {endpoint} is closed: {reason}"),
    }
}

/// A trace point that is worth a line in a node's log.
pub fn trace(point: &TracePoint) -> Option<String> {
    match point {
        TracePoint::Repaired { child, reason, .. } => {
            Some(format!("takes over for {}, {reason}", name(*child)))
        }
        TracePoint::Hedged { node, partitions, .. } => {
            Some(format!("asks replicas for {partitions} of {} too", name(*node)))
        }
        TracePoint::Orphans { child, orphans, reason, .. } => {
            let leaves = match orphans {
                0 => String::new(),
                1 => ", which leaves a child".into(),
                _ => format!(", which leaves {orphans} children"),
            };
            Some(format!("gives up {}, {reason}{leaves}", name(*child)))
        }
        TracePoint::BadMessage { from, problem } => {
            Some(format!("drops a message of {}: {problem}", name(*from)))
        }
        _ => None,
    }
}
