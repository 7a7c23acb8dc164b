//! The readers' places at a mirror of a simulated feed. They correspond closely to `feed/src/serving/place.rs`.

use super::{Content, Feed, FeedHappening, MirrorKey, Out};
use bytes::Bytes;
use std::collections::VecDeque;
use treefold_core::stream::StreamId;
use treefold_core::time::{Duration, Instant};
use treefold_mirror::event::Name;
use treefold_mirror::filter::Filter;
use treefold_mirror::follow::Follower;
use treefold_mirror::keyed::KeyedState;
use treefold_mirror::message::{self, Begins, Message, Selected};
use treefold_mirror::mirror::{Mirror, ResumeError};
use treefold_mirror::opened::{Opened, selected_rows};
use treefold_mirror::reader::{Given, Reader, Snapshots};
use treefold_mirror::rules::file::StateOptions;
use treefold_mirror::{Cut, MirrorLimits};

/// Time after which a reader that got nothing is told its place.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(1);
/// Time that a reader which is ahead of its mirror waits for it.
const AHEAD_WAIT: Duration = Duration::from_millis(500);
/// Keys of a filter up to which their rows are read from the state.
const KEYS_READ_MAX: usize = 2;

/// A reader's place at a mirror.
#[derive(Debug)]
pub(super) struct Place {
    /// `None` until the mirror can begin with this reader.
    reader: Option<Reader>,
    from: Option<Cut>,
    filter: Filter,
    wait_until: Instant,
    ready: VecDeque<Message>,
    /// The streams of the snapshot that is being given.
    streams: Vec<(Name, u64)>,
    /// The place behind the packets that had nothing for the reader since its last message.
    skipped: Option<message::Place>,
    heartbeat_at: Instant,
}

impl Place {
    fn new(now: Instant, from: Option<Cut>, filter: Filter) -> Self {
        Self {
            reader: None,
            from,
            filter,
            wait_until: now + AHEAD_WAIT,
            ready: VecDeque::new(),
            streams: Vec::new(),
            skipped: None,
            heartbeat_at: now + HEARTBEAT,
        }
    }

    /// True if the reader waits for a snapshot or for its mirror.
    pub(super) fn waits(&self) -> bool {
        self.ready.is_empty() && self.reader.as_ref().is_none_or(Reader::is_waiting)
    }

    fn begins(state: &StateOptions, cut: Cut, rules_version: u32, because: Option<ResumeError>) -> Message {
        let (deletes, retention_ms) = (state.deletes.clone(), state.retention_ms);
        Message::Begins(Begins { cut, rules_version, deletes, retention_ms, because })
    }

    /// Takes further messages from the mirror, if it is current.
    fn fill(
        &mut self,
        now: Instant,
        follower: &Follower<KeyedState>,
        snapshots: &mut Snapshots,
        (limits, state): (&MirrorLimits, &StateOptions),
    ) {
        if !follower.is_current() {
            return;
        }
        let mirror = follower.mirror();
        if self.reader.is_none() {
            let known = mirror.cut();
            let is_ahead = self.from.is_some_and(|from| {
                from.epoch > known.epoch || matches!(mirror.check_place(from), Err(ResumeError::Ahead { .. }))
            });
            if is_ahead && now < self.wait_until {
                return;
            }
            let reader = Reader::new(mirror, self.from);
            self.ready.extend(reader.cut().map(Message::Resumes));
            self.reader = Some(reader);
        }
        let Some(reader) = &mut self.reader else { return };
        let few = self.filter.only_keys().filter(|keys| keys.len() <= KEYS_READ_MAX);
        if let Some(keys) = few
            && let Some(because) = reader.begin_now(mirror)
        {
            self.ready.push_back(Self::begins(state, mirror.cut(), mirror.rules_version(), because));
            let mut piece = Vec::new();
            keys.iter().filter_map(|key| mirror.state().value(key)).for_each(|row| row.write(&mut piece));
            let streams = mirror.streams().to_vec();
            let place = message::Place { cut: mirror.cut(), streams, sent_ms: 0 };
            self.ready.extend([Message::Piece(piece.into()), Message::Complete(place)]);
            return;
        }
        let after = reader.cut().unwrap_or_default();
        let Some(given) = reader.poll(mirror, snapshots, limits) else { return };
        match given {
            Given::Begins { snapshot, because } => {
                self.streams.clone_from(&snapshot.streams);
                self.ready.push_back(Self::begins(state, snapshot.cut, snapshot.rules_version, because));
            }
            Given::Piece(piece) => {
                let rows = selected_rows(&piece, &self.filter).expect("invariant: a mirror encoded it");
                self.ready.push_back(Message::Piece(rows));
            }
            Given::Complete(cut) => {
                let streams = std::mem::take(&mut self.streams);
                self.ready.push_back(Message::Complete(message::Place { cut, streams, sent_ms: 0 }));
            }
            Given::Events(packet) => self.select(packet, after, &state.deletes),
            Given::Lagging(because) => self.ready.push_back(Message::Lagging(because)),
        }
    }

    /// Writes the events of a packet that the reader wants.
    fn select(&mut self, packet: Bytes, after: Cut, deletes: &[Name]) {
        if self.filter.is_whole() {
            return self.ready.push_back(Message::Events(packet));
        }
        let opened = Opened::read(&packet).expect("invariant: the mirror has applied it");
        let mut selected = opened.selected(&self.filter, deletes, after.position).peekable();
        if selected.peek().is_none() {
            let cut = Cut { position: opened.last(), ..opened.head.first };
            let (streams, sent_ms) = (opened.head.streams.clone(), opened.head.sent_ms);
            self.skipped = Some(message::Place { cut, streams, sent_ms });
            return;
        }
        let mut out = Vec::new();
        Selected::write(&opened.head, opened.last(), selected, &mut out);
        self.ready.extend(self.skipped.take().map(Message::At));
        self.ready.push_back(Message::Selected(out.into()));
    }

    /// The sign of life.
    fn beat(&mut self, mirror: &Mirror<KeyedState>) -> Message {
        if let Some(place) = self.skipped.take() {
            return Message::At(place);
        }
        match self.reader.as_ref().and_then(Reader::cut) {
            Some(cut) => {
                let is_latest = mirror.cut() == cut;
                let streams = if is_latest { mirror.streams().to_vec() } else { Vec::new() };
                Message::At(message::Place { cut, streams, sent_ms: 0 })
            }
            None => Message::Alive,
        }
    }
}

impl Feed {
    /// Handles the opening of a reader's stream at a mirror.
    pub(super) fn reader_opened(&mut self, key: MirrorKey, stream: StreamId, content: u64) {
        let Some(Content::Reader { from, filter }) = self.contents.read(content).cloned() else {
            panic!("a stream of a reader opened without its parameters")
        };
        let now = self.now;
        self.mirror_of(key).places.insert(stream, Place::new(now, from, filter));
        self.plan_at(now + AHEAD_WAIT, FeedHappening::Beat(key, stream));
        self.out.push(Out::Pump(key, stream));
    }

    /// Lets all readers of a mirror look for messages.
    pub(super) fn wake_readers(&mut self, key: MirrorKey) {
        let Some(task) = self.mirrors.get(&key) else { return };
        self.out.extend(task.places.keys().map(|&stream| Out::Pump(key, stream)));
    }

    /// The next message for a reader that can take one: its tag, and its bytes.
    pub(super) fn next_message(&mut self, key: MirrorKey, stream: StreamId) -> Option<(u64, Bytes)> {
        let now = self.now;
        let task = self.mirrors.get_mut(&key)?;
        let place = task.places.get_mut(&stream)?;
        loop {
            if let Some(message) = place.ready.pop_front() {
                place.heartbeat_at = now + HEARTBEAT;
                return Some(message.write());
            }
            let before = place.reader.as_ref().and_then(Reader::cut);
            let settings = (&self.plan.limits, &self.plan.state);
            place.fill(now, &task.follower, &mut task.snapshots, settings);
            // A packet without an event for the reader has moved only its place.
            if place.ready.is_empty() && place.reader.as_ref().and_then(Reader::cut) == before {
                break;
            }
        }
        self.encode_if_wanted(key);
        None
    }

    /// Gives a reader a sign of life if it is due.
    pub(super) fn beat(&mut self, key: MirrorKey, stream: StreamId) {
        let now = self.now;
        let Some(task) = self.mirrors.get_mut(&key) else { return };
        let Some(place) = task.places.get_mut(&stream) else { return };
        if now >= place.heartbeat_at {
            if place.ready.is_empty() {
                let message = place.beat(task.follower.mirror());
                place.ready.push_back(message);
            }
            place.heartbeat_at = now + HEARTBEAT;
        }
        let next = place.heartbeat_at;
        self.plan_at(next, FeedHappening::Beat(key, stream));
        self.out.push(Out::Pump(key, stream));
    }
}
