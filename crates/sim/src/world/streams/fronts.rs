//! The users of front-ends: they open streams, take waves at their speed, send packets down, and close
//! streams.

use super::super::ink::Ink;
use super::super::{Happening, Watch, World};
use super::StreamPlan;
use treefold_core::id::{NodeId, RequestId};
use treefold_core::input::{Command, Input};
use treefold_core::partitions::PartitionSet;
use treefold_core::stream::{PACKET_BYTES, StreamEvent, StreamId, StreamOptions, StreamSpec};
use treefold_core::time::{Duration, Instant};

/// A stream as its front-end's user sees it.
#[derive(Clone, Debug)]
pub struct FrontEnd {
    /// Index of its play.
    pub play: usize,
    /// The stream, once it has been opened.
    pub stream: Option<StreamId>,
    /// Whether it is closed.
    pub is_over: bool,
    /// Waves that have come and that the user has not begun to take.
    pub unread: u32,
    /// Bytes that were sent down and not yet taken by every endpoint.
    pub down_bytes: u64,
    /// The most of these, in a stream with a lag limit; the node's limit if `None`.
    window_bytes: Option<u64>,
    /// Time that the user takes for each wave; `None` if it does not read.
    reads_for: Option<Duration>,
    /// Time at which it has taken all waves that it has begun to take.
    busy_until: Instant,
}

impl World {
    /// Opens a stream for the user of the node at `at` now.
    pub fn open_stream(&mut self, at: usize, plan: &StreamPlan, watch: &mut dyn Watch) -> RequestId {
        let spec = self.stream_spec(plan);
        self.open_stream_as(at, spec, plan.options.clone(), watch)
    }

    /// Like [`World::open_stream`], with a spec of [`World::stream_spec`], which the caller may have changed.
    pub fn open_stream_as(
        &mut self,
        at: usize,
        spec: StreamSpec<Ink>,
        options: StreamOptions,
        watch: &mut dyn Watch,
    ) -> RequestId {
        let request = self.next_request();
        let play = self.streams.play_of(&spec.params);
        let window_bytes = options.window_bytes.filter(|_| spec.lag_bytes_max.is_some());
        let front = FrontEnd {
            play,
            window_bytes,
            stream: None,
            is_over: false,
            unread: 0,
            down_bytes: 0,
            reads_for: self.streams.plays[play].reads_for,
            busy_until: self.now,
        };
        self.streams.fronts.insert((self.places[at].id, request), front);
        let command = Command::StreamOpen { request, spec: Box::new(spec), options };
        self.feed(at, Input::Command(command), watch);
        request
    }

    /// Returns a stream as its front-end's user sees it, as long as the user's process lives.
    pub fn front(&self, node: NodeId, request: RequestId) -> Option<&FrontEnd> {
        self.streams.fronts.get(&(node, request))
    }

    /// Sends a packet down for the user of the front-end at `at`. Returns false if its window is full.
    pub fn send_down(
        &mut self,
        at: usize,
        request: RequestId,
        tag: u64,
        to: Option<PartitionSet>,
        watch: &mut dyn Watch,
    ) -> bool {
        let Some(payload) = self.take_down_room(at, request, tag) else { return false };
        let send = Command::StreamSend { request, tag, to, payload };
        self.feed(at, Input::Command(send), watch);
        true
    }

    /// Sends packets with consecutive tags down together, as many of them as the window has room for. Returns their
    /// number.
    pub fn send_run_down(
        &mut self,
        at: usize,
        request: RequestId,
        tags: std::ops::Range<u64>,
        watch: &mut dyn Watch,
    ) -> u64 {
        let payloads = tags.map_while(|tag| Some((tag, self.take_down_room(at, request, tag)?)));
        let packets: Vec<(u64, Ink)> = payloads.collect();
        let sent = packets.len() as u64;
        if sent > 0 {
            self.feed(at, Input::Command(Command::StreamSendRun { request, packets }), watch);
        }
        sent
    }

    /// Takes room for a packet in a front-end's window, and returns the packet.
    fn take_down_room(&mut self, at: usize, request: RequestId, tag: u64) -> Option<Ink> {
        let window_bytes = self.places[at].spec.limits.stream_window_bytes as u64;
        let key = (self.places[at].id, request);
        let front = self.streams.fronts.get_mut(&key).filter(|front| !front.is_over)?;
        let payload = Ink { bytes: 0, ..Ink::params(tag, 1.0) };
        let bytes = u64::from(payload.bytes) + PACKET_BYTES as u64;
        let window_bytes = front.window_bytes.unwrap_or(window_bytes);
        let has_room = front.stream.is_some() && front.down_bytes + bytes <= window_bytes;
        front.down_bytes += if has_room { bytes } else { 0 };
        has_room.then_some(payload)
    }

    /// Closes a stream for the user of the front-end at `at`.
    pub fn close_stream(&mut self, at: usize, request: RequestId, watch: &mut dyn Watch) {
        self.feed(at, Input::Command(Command::StreamClose { request }), watch);
    }

    /// Sets the time that the user takes for each wave from now on. Unread waves are taken at once.
    pub fn pace_reader(
        &mut self,
        at: usize,
        request: RequestId,
        reads_for: Option<Duration>,
        watch: &mut dyn Watch,
    ) {
        let key = (self.places[at].id, request);
        let Some(front) = self.streams.fronts.get_mut(&key) else { return };
        front.reads_for = reads_for;
        if reads_for.is_some() && front.unread > 0 {
            let waves = std::mem::take(&mut front.unread);
            self.feed(at, Input::Command(Command::StreamTook { request, waves }), watch);
        }
    }

    /// Handles an event for a front-end's user.
    pub(in crate::world) fn tell_front(
        &mut self,
        at: usize,
        request: RequestId,
        event: &StreamEvent<Ink>,
        inline: &mut Vec<Input<Ink>>,
    ) {
        let (now, to) = (self.now, self.places[at].id);
        if let StreamEvent::Wave(wave) = event {
            self.note(10, wave.tag ^ (wave.contributors.len() as u64) << 48);
        }
        let Some(front) = self.streams.fronts.get_mut(&(to, request)) else { return };
        let play = front.play;
        match event {
            StreamEvent::Opened { stream, .. } => front.stream = Some(*stream),
            StreamEvent::Wave(_) => {
                let took = Input::Command(Command::StreamTook { request, waves: 1 });
                match front.reads_for {
                    None => front.unread += 1,
                    Some(Duration::ZERO) if front.busy_until <= now => inline.push(took),
                    Some(reads_for) => {
                        front.busy_until = front.busy_until.max(now) + reads_for;
                        self.agenda.plan(front.busy_until, Happening::Input { to, input: took });
                    }
                }
            }
            StreamEvent::Changed { .. } => {}
            StreamEvent::Taken { bytes } => front.down_bytes = front.down_bytes.saturating_sub(*bytes),
            StreamEvent::Closed(_) => front.is_over = true,
        }
        self.tell_opener(at, play, event, inline);
    }
}
