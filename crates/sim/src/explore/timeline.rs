//! Records the messages and events of nodes, so that a developer can find the cause of a failed call.

use crate::world::ink::Ink;
use crate::world::workers::worker_of;
use std::collections::{BTreeMap, VecDeque};
use treefold_core::effect::{Effect, Event, TracePoint, Work};
use treefold_core::error::Missing;
use treefold_core::id::{NodeId, WaveId};
use treefold_core::input::{Command, Input};
use treefold_core::message::Message;
use treefold_core::push::message::PushMessage;
use treefold_core::stream::message::StreamMessage;
use treefold_core::stream::places::Places;
use treefold_core::stream::spec::EndpointEvent;
use treefold_core::stream::{StreamEvent, StreamId};
use treefold_core::time::Instant;

/// Most lines that are kept. The oldest are dropped first.
const LINES_MAX: usize = 100_000;

/// The latest messages and events, in order.
#[derive(Debug, Default)]
pub struct Timeline {
    lines: VecDeque<Line>,
    calls: BTreeMap<WaveId, u64>,
}

#[derive(Debug)]
struct Line {
    at_us: u64,
    place: usize,
    about: About,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    Everyone,
    Call(u64),
    Wave(WaveId),
    Stream(StreamId),
}

impl Timeline {
    /// Sets the waves of the calls.
    pub fn name_waves(&mut self, waves: &BTreeMap<u64, WaveId>) {
        self.calls = waves.iter().map(|(&call, &wave)| (wave, call)).collect();
    }

    /// Returns the last `most` lines about `call` or `stream`, with the events of nodes between them. Returns
    /// lines about all calls and streams if both are `None`.
    pub fn about(&self, call: Option<u64>, stream: Option<StreamId>, most: usize) -> Vec<String> {
        let concerns = |line: &&Line| match (line.about, call) {
            (About::Everyone, _) => true,
            (About::Stream(id), None) => stream.is_none_or(|stream| stream == id),
            (About::Stream(_), Some(_)) => false,
            (_, None) => stream.is_none(),
            (About::Call(number), Some(call)) => number == call,
            (About::Wave(wave), Some(call)) => self.calls.get(&wave) == Some(&call),
        };
        let chosen: Vec<&Line> = self.lines.iter().filter(concerns).collect();
        let from = chosen.len().saturating_sub(most);
        let show = |line: &&Line| format!("{:>10} µs  {:>3}  {}", line.at_us, line.place, line.text);
        chosen[from..].iter().map(show).collect()
    }

    fn note(&mut self, now: Instant, place: usize, about: About, text: String) {
        if self.lines.len() == LINES_MAX {
            self.lines.pop_front();
        }
        self.lines.push_back(Line { at_us: now.as_nanos() / 1_000, place, about, text });
    }

    pub(super) fn input(&mut self, now: Instant, at: usize, input: &Input<Ink>) {
        match input {
            Input::Message { from, message } => {
                if let Some((about, text)) = said(message) {
                    self.note(now, at, about, format!("◀ {} {text}", name(*from)));
                }
            }
            Input::JobDone { job, result, .. } => {
                let about = result.as_ref().map_or(About::Everyone, |ink| About::Call(ink.call));
                let how = if result.is_ok() { "done" } else { "failed" };
                self.note(now, at, about, format!("  job {} {how}", job.0));
            }
            Input::Lost { peer } => self.note(now, at, About::Everyone, format!("✗ {} is lost", name(*peer))),
            Input::Command(Command::Call { params, options, .. }) => {
                let text = format!("call {}: {options:?}", params.common.call);
                self.note(now, at, About::Call(params.common.call), text);
            }
            Input::Command(command @ (Command::Cancel { .. } | Command::Leave)) => {
                self.note(now, at, About::Everyone, format!("{command:?}"));
            }
            Input::SlicesDone { job, result, .. } => {
                let ink = result.as_ref().ok().and_then(|slices| slices.first());
                let how = if result.is_ok() { "done" } else { "failed" };
                let about = ink.map_or(About::Everyone, |ink| About::Call(ink.call));
                self.note(now, at, about, format!("  job {} {how}", job.0));
            }
            Input::Filtered { stream, run, result, .. } => {
                let text = match result {
                    Ok(filtered) => format!("  run {run} done: {} packets", filtered.packets.len()),
                    Err(error) => format!("  run {run}: {error:?}"),
                };
                self.note(now, at, About::Stream(*stream), text);
            }
            Input::Command(Command::StreamOpen { request, spec, options }) => {
                let (mode, filter) = (spec.synchronisation, &spec.up_filter);
                let text = format!("opens stream {}: {mode:?}, filter {filter:?}, {options:?}", request.0);
                self.note(now, at, About::Everyone, text);
            }
            Input::Command(Command::EndpointSend { stream, endpoint, tag, payload }) => {
                let tag = tag.map_or_else(String::new, |tag| format!(" for wave {tag}"));
                let text = format!("  endpoint {endpoint} sends packet {}{tag}", payload.call);
                self.note(now, at, About::Stream(*stream), text);
            }
            Input::Loaded { partition, result, .. } => {
                let how = if result.is_ok() { "is loaded" } else { "can't be loaded" };
                self.note(now, at, About::Everyone, format!("  partition {partition} {how}"));
            }
            Input::Command(_)
            | Input::Connected { .. }
            | Input::Datagram { .. }
            | Input::Refused { .. }
            | Input::FilterOpened { .. }
            | Input::Operator(_) => {}
        }
    }

    pub(super) fn effect(&mut self, now: Instant, at: usize, effect: &Effect<Ink>) {
        match effect {
            Effect::Send { to, message } => {
                if let Some((about, text)) = said(message) {
                    self.note(now, at, about, format!("▶ {} {text}", name(*to)));
                }
            }
            Effect::Run(job) => {
                let (call, text) = match &job.work {
                    Work::Local { partition, params, .. } => (params.call, format!("local of {partition}")),
                    Work::Slices { partition, of, params } => {
                        (params.call, format!("local of {partition}, in {of} slices"))
                    }
                    Work::Slice { partition, slice, params, .. } => (
                        params.call,
                        format!("local of {partition}, slice {} of {}", slice.index(), slice.of()),
                    ),
                    Work::Join { parts, params } => (params.call, format!("join {} slices", parts.len())),
                    Work::Reduce { parts, params } => {
                        let counts: Vec<_> = parts.iter().map(|part| part.count.to_string()).collect();
                        (params.call, format!("fold {}", counts.join(" and ")))
                    }
                };
                let text = format!("  job {} {:?}: {text}", job.id.0, job.place);
                self.note(now, at, About::Call(call), text);
            }
            Effect::Deliver(Event::CallDone { outcome, .. }) => {
                let about = outcome.value.as_ref().map_or(About::Everyone, |value| About::Call(value.call));
                let (status, missing) = (outcome.status.name(), &outcome.missing);
                self.note(
                    now,
                    at,
                    about,
                    format!("= {status}: {}, missing {missing:?}", outcome.contributed),
                );
            }
            Effect::Deliver(Event::Stream { request, event }) => {
                if let Some(text) = heard(event) {
                    self.note(now, at, About::Everyone, format!("= stream {}: {text}", request.0));
                }
            }
            Effect::Deliver(Event::Endpoint { stream, endpoint, event }) => {
                let text = match event {
                    EndpointEvent::Opened { .. } => "is opened".into(),
                    EndpointEvent::Closed(reason) => format!("is closed: {reason}"),
                    EndpointEvent::Packet { tag, .. } => format!("is given a packet of tag {tag}"),
                    EndpointEvent::Packets(run) => {
                        format!("is given packets {} to {}", run.first, run.last())
                    }
                    EndpointEvent::Missed { first, last } => format!("missed packets {first} to {last}"),
                    EndpointEvent::Settled { .. } => return,
                };
                self.note(now, at, About::Stream(*stream), format!("= endpoint {endpoint} {text}"));
            }
            Effect::Trace(TracePoint::Repaired { tag, child, reason }) => {
                let text = format!("! repairs {} in {}, {reason}", name(*child), tag.branch);
                self.note(now, at, About::Wave(tag.wave), text);
            }
            Effect::Trace(TracePoint::Hedged { tag, node, partitions }) => {
                let text =
                    format!("! asks replicas for {partitions} of {} too, in {}", name(*node), tag.branch);
                self.note(now, at, About::Wave(tag.wave), text);
            }
            Effect::Trace(point) => self.note(now, at, About::Everyone, format!("! {point:?}")),
            Effect::Deliver(event @ (Event::Drained | Event::MemberDown(_))) => {
                self.note(now, at, About::Everyone, format!("! {event:?}"));
            }
            Effect::Abandon { job, .. } => {
                self.note(now, at, About::Everyone, format!("  job {} is abandoned", job.0));
            }
            Effect::Load { partition, .. } => {
                self.note(now, at, About::Everyone, format!("  loads partition {partition}"));
            }
            Effect::Unload { partition, .. } => {
                self.note(now, at, About::Everyone, format!("  drops partition {partition}"));
            }
            Effect::Disconnect { peer } => {
                self.note(now, at, About::Everyone, format!("✗ {} is disconnected", name(*peer)));
            }
            _ => {}
        }
    }
}

/// Formats a node as its place, with a mark if it has been restarted.
fn name(node: NodeId) -> String {
    if let Some((worker, connection)) = worker_of(node) {
        return format!("w{worker}.{connection}");
    }
    let (place, life) = (node.generation & 0xffff_ffff, node.generation >> 32);
    if life == 1 { format!("{place}") } else { format!("{place}′{life}") }
}

/// Formats a message between workers and nodes, without the payload.
fn said_of_pushes(word: &PushMessage<Ink>) -> String {
    match word {
        PushMessage::Push { request, sequence, last, .. } => {
            format!("push {request}: {sequence}{}", if *last { ", last" } else { "" })
        }
        word => format!("{word:?}"),
    }
}

/// Formats an event of a front-end's user.
fn heard(event: &StreamEvent<Ink>) -> Option<String> {
    let losses = |missing: &[Missing]| {
        missing.iter().map(|loss| format!("{} {}", loss.partitions, loss.reason)).collect::<Vec<_>>()
    };
    let text = match event {
        StreamEvent::Opened { stream, endpoints, missing, .. } => {
            format!("{stream} is open to {endpoints}, missing {:?}", losses(missing))
        }
        StreamEvent::Wave(wave) => {
            format!("wave {} of {}, missing {:?}", wave.tag, wave.contributors, losses(&wave.missing))
        }
        StreamEvent::Changed { endpoints, away, .. } => format!("now {endpoints}, away {:?}", losses(away)),
        StreamEvent::Taken { .. } => return None,
        StreamEvent::Closed(reason) => format!("closed: {reason}"),
    };
    Some(text)
}

/// Formats a message between nodes about a stream. Signs of life and settlements are left out.
fn said_of_streams(message: &StreamMessage<Ink>) -> Option<String> {
    let seats = |places: &Places| {
        let seats = places.tree().seats().iter().zip(places.numbers());
        let shown = seats.map(|(seat, number)| {
            let (place, life) = (number.place, number.life);
            format!("{}:{}/{} at {place}.{life}", name(seat.node), seat.partitions, seat.size)
        });
        shown.collect::<Vec<_>>().join(" ")
    };
    let text = match message {
        StreamMessage::Open(open) => {
            format!("open, epoch {}, from tag {}: {}", open.epoch, open.first_tag, seats(&open.places))
        }
        StreamMessage::Up(up) => {
            let missing: Vec<_> =
                up.missing.iter().map(|loss| format!("{} {}", loss.partitions, loss.reason)).collect();
            let more = if up.more { ", more" } else { "" };
            format!(
                "up {} lane {} serial {}: {} missing {missing:?}{more}",
                up.tag, up.lane, up.serial, up.contributors
            )
        }
        StreamMessage::Down(down) => format!("down {} of tag {}", down.sequence, down.tag),
        StreamMessage::Run(run) => format!("down {} to {}", run.first, run.last()),
        StreamMessage::News(news) => {
            let away: Vec<_> = news.away.iter().map(|loss| loss.partitions.to_string()).collect();
            format!(
                "news, place {} epoch {}, joined {:?}, away {away:?}",
                news.place, news.epoch, news.joined
            )
        }
        StreamMessage::Report(report) => {
            let at_once = if report.at_once { ", at once" } else { "" };
            format!("report of {}, place {}{at_once}", name(report.node), report.place)
        }
        StreamMessage::Missed { first, last, .. } => format!("missed {first} to {last}"),
        StreamMessage::Ahead { tag, .. } => format!("ahead, to {tag}"),
        StreamMessage::Close { reason, .. } => format!("close: {reason}"),
        StreamMessage::Settled(_)
        | StreamMessage::Taken { .. }
        | StreamMessage::Beat { .. }
        | StreamMessage::WantOperator { .. }
        | StreamMessage::Operator { .. } => return None,
    };
    Some(text)
}

/// Formats a message, if it is about a call or a stream.
fn said(message: &Message<Ink>) -> Option<(About, String)> {
    let said = match message {
        Message::Call(call) => {
            let seats: Vec<String> = (call.tree.seats().iter())
                .map(|seat| format!("{}:{}/{}", name(seat.node), seat.partitions, seat.size))
                .collect();
            let (branch, left) = (call.tag.branch, call.times.answer_left);
            let known = if call.params.is_some() { "" } else { " again" };
            (About::Wave(call.tag.wave), format!("call{known} .{branch}, {left} left: {}", seats.join(" ")))
        }
        Message::Partial(partial) => {
            let last = if partial.last { ", last" } else { "" };
            let lost: Vec<String> =
                partial.missing.iter().map(|loss| format!("{} {}", loss.partitions, loss.reason)).collect();
            let (tag, with) = (partial.tag, &partial.contributors);
            (About::Wave(tag.wave), format!("partial .{} {with} missing {lost:?}{last}", tag.branch))
        }
        Message::Offer { tag, bytes } => {
            (About::Wave(tag.wave), format!("offer .{} of {bytes} bytes", tag.branch))
        }
        Message::Grant { tag } => (About::Wave(tag.wave), format!("grant .{}", tag.branch)),
        Message::Cancel { tag } => (About::Wave(tag.wave), format!("cancel .{}", tag.branch)),
        Message::Request(request) => {
            (About::Call(request.params.common.call), format!("request {}", request.id))
        }
        Message::Reply { id, outcome } => {
            (About::Call(*id), format!("reply {id}: {} {}", outcome.status.name(), outcome.contributed))
        }
        Message::CancelRequest { id } => (About::Call(*id), format!("cancel request {id}")),
        Message::Push(word) => (About::Everyone, said_of_pushes(word)),
        Message::Stream(message) => (About::Stream(message.stream()), said_of_streams(message)?),
        _ => return None,
    };
    Some(said)
}
