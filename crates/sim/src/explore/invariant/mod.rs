//! The invariants, one file each, and the inspection that checks a world against them.
//!
//! An [`Inspection`] watches a world. It records the open calls and passes events to the invariants. The
//! first broken invariant is the finding. Each invariant looks at one effect, one outcome or one node at a
//! time, so that all can be checked after every step.

pub mod asks_bounded;
pub mod blame_lands;
pub mod bounded;
pub mod converges;
pub mod counted_once;
pub mod coverage;
pub mod ends_once;
pub mod leaves_nothing;
pub mod mirror_acknowledged;
pub mod mirror_checkpoints;
pub mod mirror_current;
pub mod mirror_last_values;
pub mod mirror_one_origin;
pub mod mirror_order;
pub mod mirror_positions;
pub mod mirror_readers;
pub mod mirror_state;
pub mod mirrors;
pub mod own_params;
pub mod partitioned;
mod placement_covers;
pub mod placement_settles;
pub mod silent;
pub mod stream_answered_once;
pub mod stream_back;
pub mod stream_counted_once;
pub mod stream_down;
pub mod stream_leaves_nothing;
pub mod stream_nothing_lost;
pub mod stream_partitioned;
pub mod stream_tags;
pub mod stream_unheld;
pub mod stream_windows;
pub mod streams;
pub mod workers_heard;

use super::scenario::Scenario;
use super::streaming::PlannedStream;
use crate::world::feeds::FEED_PACKET_BYTES;
use crate::world::ink::Ink;
use crate::world::{Watch, World};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use treefold_core::call::{CallOptions, Outcome};
use treefold_core::effect::{Effect, Event, TracePoint};
use treefold_core::id::{NodeId, RequestId, WaveId};
use treefold_core::input::{Command, Input};
use treefold_core::message::Message;
use treefold_core::params::Params;
use treefold_core::partitions::PartitionSet;
use treefold_core::push::message::PushMessage;
use treefold_core::stream::message::StreamMessage;
use treefold_core::stream::{PACKET_BYTES, StreamId};
use treefold_core::time::{Duration, Instant};

/// A broken invariant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// The name of the invariant, which is the name of its file.
    pub invariant: String,
    /// Time of the violation, in µs since the scenario's start.
    pub at_us: u64,
    /// Number of the place.
    pub place: Option<usize>,
    /// The call's number in the scenario, if the violation is about a call.
    pub call: Option<u64>,
    /// The stream, if the violation is about a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<StreamId>,
    /// The observed violation.
    pub what: String,
}

/// The result of an invariant: an error describes the violation.
pub type Finding = Result<(), String>;

/// The caller at a front.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asker {
    /// The front's user.
    Own(RequestId),
    /// A client, with the client's number of the call.
    Client(NodeId, u64),
}

/// A call that is open at a front.
#[derive(Clone, Debug)]
pub struct OpenCall {
    /// The call's number in the scenario.
    pub call: u64,
    /// Time by which it must have ended, in the world's time, corrected for jumps of the front's clock.
    pub due: Instant,
    /// The options of the call.
    pub options: CallOptions,
}

/// Checks a world against all invariants.
#[derive(Debug)]
pub struct Inspection {
    /// The open calls, by place.
    open: BTreeMap<(usize, Asker), OpenCall>,
    ends_once: ends_once::EndsOnce,
    silent: silent::Silent,
    leaves_nothing: leaves_nothing::LeavesNothing,
    bounded: bounded::Bounded,
    asks_bounded: asks_bounded::AsksBounded,
    blame_lands: blame_lands::BlameLands,
    streams: streams::Streams,
    mirrors: mirrors::Mirrors,
    /// The largest packet that a node may send up a stream, including its overhead.
    stream_packet_bytes: usize,
    /// The wave of each call.
    waves: BTreeMap<u64, WaveId>,
    own_params: own_params::OwnParams,
    placement_covers: placement_covers::PlacementCovers,
    drained: Vec<usize>,
    calls: u64,
    pushes: u64,
    found: Option<Violation>,
}

impl Inspection {
    /// Creates an inspection of a scenario's world, in which messages take at most `hop`.
    pub fn new(scenario: &Scenario, hop: Duration) -> Self {
        Self {
            open: BTreeMap::new(),
            ends_once: ends_once::EndsOnce::default(),
            silent: silent::Silent::default(),
            leaves_nothing: leaves_nothing::LeavesNothing::new(hop),
            bounded: bounded::Bounded {
                partial_bytes: scenario.partial_bytes as usize,
                partitions: scenario.partitions as usize,
                workers: scenario.pushing.as_ref().map_or(0, |pushing| pushing.workers as usize),
                piece_bytes: scenario.pushing.as_ref().map_or(0, |pushing| pushing.piece_max() as usize),
                window_bytes: scenario.habits().1.push_window_bytes,
                missing_max: scenario.habits().1.missing_max,
            },
            asks_bounded: asks_bounded::AsksBounded::new(scenario),
            blame_lands: blame_lands::BlameLands::new(scenario),
            streams: streams::Streams::default(),
            mirrors: mirrors::Mirrors::default(),
            stream_packet_bytes: stream_packet_bytes(scenario),
            waves: BTreeMap::new(),
            own_params: own_params::OwnParams::default(),
            placement_covers: placement_covers::PlacementCovers::default(),
            drained: Vec::new(),
            calls: 0,
            pushes: 0,
            found: None,
        }
    }

    /// Returns the first violation.
    pub fn found(&self) -> Option<&Violation> {
        self.found.as_ref()
    }

    /// Returns the waves of the scenario's calls.
    pub fn waves(&self) -> &BTreeMap<u64, WaveId> {
        &self.waves
    }

    /// Returns the number of calls.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Returns the number of pushes that have reached a node.
    pub fn pushes(&self) -> u64 {
        self.pushes
    }

    /// Returns the streams of the scenario.
    pub fn streams(&self) -> &streams::Streams {
        &self.streams
    }

    /// Returns the feed of the scenario.
    pub fn mirrors(&self) -> &mirrors::Mirrors {
        &self.mirrors
    }

    /// Forgets the recent waves of streams, so that only later waves show which of the endpoints `living` are back.
    pub fn forget_recent_waves(&mut self, living: &PartitionSet) {
        self.streams.forget_recent(living);
    }

    /// Takes the places whose nodes have drained since the last call of this function.
    pub fn take_drained(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.drained)
    }

    /// Records that the process at `at` is gone, and with it the calls of its front.
    pub fn killed(&mut self, at: usize) {
        self.open.retain(|(front, _), _| *front != at);
        self.ends_once.forget(at);
        self.silent.forget(at);
        self.asks_bounded.forget(at);
        self.streams.killed(at);
    }

    /// Records that the process at `at` goes on after a stall.
    pub fn resumed(&mut self, now: Instant, at: usize) {
        self.ends_once.resumed(now, at);
    }

    /// Records that the clock of `at` has jumped ahead.
    pub fn jumped(&mut self, now: Instant, at: usize, by: Duration) {
        for ((front, _), call) in &mut self.open {
            if *front == at {
                call.due = call.due - by;
            }
        }
        self.ends_once.jumped(now, at, by);
    }

    /// Records that from now on messages may be lost and nodes may work in vain.
    pub fn troubled(&mut self) {
        self.leaves_nothing.troubled();
        self.placement_covers.troubled();
    }

    /// Tells whether no call is open at any front.
    pub fn has_none_open(&self) -> bool {
        self.open.is_empty()
    }

    /// Tells whether a call is open at `front`.
    pub fn has_open(&self, front: usize) -> bool {
        self.open.range((front, Asker::Own(RequestId(0)))..).next().is_some_and(|((at, _), _)| *at == front)
    }

    /// Records the result of an invariant at `at`. Only the first violation is kept.
    pub fn hold(
        &mut self,
        invariant: &str,
        now: Instant,
        at: Option<usize>,
        call: Option<u64>,
        says: Finding,
    ) {
        if let (Err(what), None) = (says, &self.found) {
            let (invariant, at_us) = (invariant.into(), now.as_nanos() / 1_000);
            self.found = Some(Violation { invariant, at_us, place: at, call, stream: None, what });
        }
    }

    /// Like [`Self::hold`], for a stream.
    pub fn hold_stream(
        &mut self,
        invariant: &str,
        now: Instant,
        at: usize,
        stream: Option<StreamId>,
        says: Finding,
    ) {
        let is_first = self.found.is_none();
        self.hold(invariant, now, Some(at), None, says);
        if let Some(found) = self.found.as_mut().filter(|_| is_first) {
            found.stream = stream;
        }
    }

    /// Checks that nothing is left. The places in `idle` must be like new.
    pub fn hold_at_rest(&mut self, world: &World, idle: &BTreeSet<usize>, is_over: bool) {
        self.hold("leaves_nothing", world.now(), None, None, leaves_nothing::at_rest(world, idle, is_over));
        if is_over {
            self.hold("workers_heard", world.now(), None, None, workers_heard::at_rest(world));
        }
    }

    /// Checks that no call at a running place is past its deadline.
    pub fn hold_all_ended(&mut self, world: &World) {
        for at in 0..world.places() {
            let says = self.ends_once.touched(world, at);
            self.hold_late(world.now(), at, says);
        }
    }

    fn hold_late(&mut self, now: Instant, at: usize, says: Result<(), (Asker, String)>) {
        if let Err((asker, what)) = says {
            let call = self.open.get(&(at, asker)).map(|open| open.call);
            self.hold("ends_once", now, Some(at), call, Err(what));
        }
    }

    fn began(&mut self, now: Instant, at: usize, asker: Asker, params: &Params<Ink>, options: &CallOptions) {
        self.calls += 1;
        self.own_params.began(params);
        let due = now + options.deadline;
        let open = OpenCall { call: params.common.call, due, options: options.clone() };
        let is_new = self.open.insert((at, asker), open).is_none();
        assert!(is_new, "two calls of the scenario have the same number");
        self.ends_once.began(at, asker, due);
    }

    /// Records that the caller no longer waits for the call.
    fn dropped(&mut self, now: Instant, at: usize, asker: Asker) {
        let Some(open) = self.open.remove(&(at, asker)) else { return };
        self.ends_once.ended(at, asker, open.due);
        if let Some(&wave) = self.waves.get(&open.call) {
            self.leaves_nothing.cancelled(now, open.call, wave);
        }
    }

    fn ended(&mut self, now: Instant, at: usize, asker: Asker, outcome: &Outcome<Ink>) {
        let Some(open) = self.open.remove(&(at, asker)) else {
            let what = format!("{asker:?} ended though it was not open: {outcome:?}");
            return self.hold("ends_once", now, Some(at), None, Err(what));
        };
        self.ends_once.ended(at, asker, open.due);
        let call = Some(open.call);
        self.hold("ends_once", now, Some(at), call, self.ends_once.in_time(now, at, open.due));
        self.hold("counted_once", now, Some(at), call, counted_once::of_outcome(outcome));
        self.hold("coverage", now, Some(at), call, coverage::of_outcome(&open.options, outcome));
        self.hold("partitioned", now, Some(at), call, partitioned::of_outcome(&open.options, outcome));
        self.hold("bounded", now, Some(at), call, self.bounded.of_answer(&outcome.missing));
    }
}

/// Returns the size of the largest packet. If no filter folds a wave, all its packets are sent together.
fn stream_packet_bytes(scenario: &Scenario) -> usize {
    let of = |stream: &PlannedStream| {
        let packets = if stream.folds { 1 } else { scenario.partitions as usize };
        packets * (stream.packet_bytes as usize + PACKET_BYTES)
    };
    let of_feed = scenario.feed.as_ref().map_or(0, |_| FEED_PACKET_BYTES as usize);
    scenario.streams.iter().map(of).max().unwrap_or(0).max(of_feed)
}

impl Watch for Inspection {
    fn input(&mut self, now: Instant, at: usize, input: &Input<Ink>) {
        match input {
            Input::Command(Command::Call { request, params, options, .. }) => {
                self.began(now, at, Asker::Own(*request), params, options);
            }
            Input::Command(Command::StreamOpen { request, spec, .. }) => {
                self.streams.opens((at, *request), spec);
            }
            Input::Command(Command::Cancel { request }) => self.dropped(now, at, Asker::Own(*request)),
            Input::Message { from, message: Message::Request(request) } => {
                self.began(now, at, Asker::Client(*from, request.id), &request.params, &request.options);
            }
            Input::Message { from, message: Message::CancelRequest { id } } => {
                self.dropped(now, at, Asker::Client(*from, *id));
            }
            Input::Message { message: Message::Call(call), .. } => self.asks_bounded.called(at, call),
            Input::Message { message: Message::Stream(message), .. } => {
                if let StreamMessage::Open(open) = &**message {
                    self.streams.has_life(now, at, open.stream, open.places.number().life);
                }
            }
            Input::Message { message: Message::Push(word), .. } => {
                self.pushes += u64::from(matches!(**word, PushMessage::Push { .. }));
            }
            Input::Lost { peer } if peer.is_client() => {
                let of_peer = (at, Asker::Client(*peer, 0))..=(at, Asker::Client(*peer, u64::MAX));
                let gone: Vec<Asker> = self.open.range(of_peer).map(|(&(_, asker), _)| asker).collect();
                gone.into_iter().for_each(|asker| self.dropped(now, at, asker));
            }
            _ => {}
        }
    }

    fn effect(&mut self, now: Instant, at: usize, effect: &Effect<Ink>) {
        self.hold("silent", now, Some(at), None, self.silent.effect(at, effect));
        self.hold("workers_heard", now, Some(at), None, workers_heard::of_effect(effect));
        self.placement_covers.effect(effect);
        let says = self.asks_bounded.effect(at, effect);
        self.hold("asks_bounded", now, Some(at), None, says);
        match effect {
            Effect::Deliver(Event::Stream { request, event }) => {
                let key = (at, *request);
                let says = self.streams.hears(key, event);
                let stream = self.streams.heard(&key).and_then(|heard| heard.stream);
                if let Err((invariant, what)) = says {
                    self.hold_stream(invariant, now, at, stream, Err(what));
                }
            }
            Effect::Deliver(Event::Drained) => {
                self.drained.push(at);
                let says = self.silent.drained(at);
                self.hold("silent", now, Some(at), None, says);
            }
            Effect::Send { to, message: Message::Reply { id, outcome } } => {
                self.ended(now, at, Asker::Client(*to, *id), outcome);
            }
            Effect::Send { message: Message::Partial(partial), .. } => {
                self.hold("counted_once", now, Some(at), None, counted_once::of_partial(partial));
                self.hold("bounded", now, Some(at), None, self.bounded.of_answer(&partial.missing));
            }
            Effect::Trace(TracePoint::BadMessage { problem, .. })
                if problem.starts_with("a packet down:") =>
            {
                self.streams.has_lost_down = true;
            }
            Effect::Run(job) => {
                self.hold("own_params", now, Some(at), None, self.own_params.ran(&job.work));
            }
            Effect::Send { message: Message::Call(call), .. } => {
                if let Some(params) = &call.params {
                    self.waves.entry(params.common.call).or_insert(call.tag.wave);
                }
            }
            _ => {}
        }
    }

    fn outcome(&mut self, now: Instant, at: usize, request: RequestId, outcome: &Outcome<Ink>) {
        self.ended(now, at, Asker::Own(request), outcome);
    }

    fn touched(&mut self, world: &World, at: usize) {
        let now = world.now();
        let says = self.ends_once.touched(world, at);
        self.hold_late(now, at, says);
        self.hold("bounded", now, Some(at), None, self.bounded.touched(world, at));
        self.hold("blame_lands", now, Some(at), None, self.blame_lands.touched(world, at));
        let says = self.placement_covers.touched(world);
        self.hold("placement_covers", now, Some(at), None, says);
        let says = stream_windows::touched(world, at, self.stream_packet_bytes);
        self.hold("stream_windows", now, Some(at), None, says);
        if let Some(feed) = world.mirrored()
            && let Err((invariant, what)) = self.mirrors.look(feed)
        {
            self.hold(invariant, now, None, None, Err(what));
        }
        if let Err((call, what)) = self.leaves_nothing.touched(world) {
            self.hold("leaves_nothing", now, None, Some(call), Err(what));
        }
    }
}
