//! What the nodes said about a call, for whoever has to find out why it went wrong.

use crate::world::ink::Ink;
use crate::world::workers::worker_of;
use std::collections::{BTreeMap, VecDeque};
use treefold_core::effect::{Effect, Event, TracePoint, Work};
use treefold_core::id::{NodeId, WaveId};
use treefold_core::input::{Command, Input};
use treefold_core::message::Message;
use treefold_core::push::message::PushMessage;
use treefold_core::time::Instant;

/// No more lines are kept than this; the oldest go first.
const LINES_MAX: usize = 100_000;

/// The last of what was said, in order.
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
}

impl Timeline {
    /// Which waves are which calls.
    pub fn name_waves(&mut self, waves: &BTreeMap<u64, WaveId>) {
        self.calls = waves.iter().map(|(&call, &wave)| (wave, call)).collect();
    }

    /// The last `most` lines about `call`, and about what happened to nodes meanwhile; about all calls if `None`.
    pub fn about(&self, call: Option<u64>, most: usize) -> Vec<String> {
        let concerns = |line: &&Line| match (line.about, call) {
            (About::Everyone, _) | (_, None) => true,
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
                let text = format!("call {}: {options:?}", params.call);
                self.note(now, at, About::Call(params.call), text);
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
            Input::Command(_)
            | Input::Connected { .. }
            | Input::Datagram { .. }
            | Input::Refused { .. }
            | Input::FilterOpened { .. }
            | Input::Filtered { .. }
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
                    Work::Local { partition, params } => (params.call, format!("local of {partition}")),
                    Work::Slices { partition, of, params } => {
                        (params.call, format!("local of {partition}, in {of} slices"))
                    }
                    Work::Join { parts, params } => (params.call, format!("join {} slices", parts.len())),
                    Work::Reduce { a, b, params } => {
                        (params.call, format!("fold {} and {}", a.count, b.count))
                    }
                };
                let text = format!("  job {} {:?}: {text}", job.id.0, job.place);
                self.note(now, at, About::Call(call), text);
            }
            Effect::Deliver(Event::CallDone { outcome, .. }) => {
                let about = outcome.value.map_or(About::Everyone, |value| About::Call(value.call));
                let (status, missing) = (outcome.status.name(), &outcome.missing);
                self.note(
                    now,
                    at,
                    about,
                    format!("= {status}: {}, missing {missing:?}", outcome.contributed),
                );
            }
            Effect::Trace(TracePoint::Repaired { tag, child, reason }) => {
                let text = format!("! repairs {} in {}, {reason}", name(*child), tag.branch);
                self.note(now, at, About::Wave(tag.wave), text);
            }
            Effect::Trace(point) => self.note(now, at, About::Everyone, format!("! {point:?}")),
            Effect::Deliver(event @ (Event::Drained | Event::MemberDown(_))) => {
                self.note(now, at, About::Everyone, format!("! {event:?}"));
            }
            Effect::Abandon { job, .. } => {
                self.note(now, at, About::Everyone, format!("  job {} is given up", job.0));
            }
            Effect::Disconnect { peer } => {
                self.note(now, at, About::Everyone, format!("✗ {} is disconnected", name(*peer)));
            }
            _ => {}
        }
    }
}

/// A node as people count them.
fn name(node: NodeId) -> String {
    if let Some((worker, connection)) = worker_of(node) {
        return format!("w{worker}.{connection}");
    }
    let (place, life) = (node.generation & 0xffff_ffff, node.generation >> 32);
    if life == 1 { format!("{place}") } else { format!("{place}′{life}") }
}

/// What workers and nodes say to each other, without the payload.
fn said_of_pushes(word: &PushMessage<Ink>) -> String {
    match word {
        PushMessage::Push { request, sequence, last, .. } => {
            format!("push {request}: {sequence}{}", if *last { ", last" } else { "" })
        }
        word => format!("{word:?}"),
    }
}

/// What a message says, if it is about a call.
fn said(message: &Message<Ink>) -> Option<(About, String)> {
    let said = match message {
        Message::Call(call) => {
            let seats: Vec<String> = (call.tree.seats().iter())
                .map(|seat| format!("{}:{}/{}", name(seat.node), seat.partitions, seat.size))
                .collect();
            let (branch, left) = (call.tag.branch, call.answer_left);
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
        Message::Request(request) => (About::Call(request.params.call), format!("request {}", request.id)),
        Message::Reply { id, outcome } => {
            (About::Call(*id), format!("reply {id}: {} {}", outcome.status.name(), outcome.contributed))
        }
        Message::CancelRequest { id } => (About::Call(*id), format!("cancel request {id}")),
        Message::Push(word) => (About::Everyone, said_of_pushes(word)),
        _ => return None,
    };
    Some(said)
}
