//! One reader's place in a mirror, and the messages for it.

use super::forms::{Form, Writer, Written};
use super::{Seat, Serving, encode_elsewhere};
use crate::mirror::Shared;
use bytes::Bytes;
use bytestring::ByteString;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep_until};
use treefold_mirror::Cut;
use treefold_mirror::filter::Filter;
use treefold_mirror::keyed::{KeyValue, KeyedState};
use treefold_mirror::message::{Begins, Place, Refusal};
use treefold_mirror::mirror::{Mirror, ResumeError};
use treefold_mirror::packet::PacketError;
use treefold_mirror::reader::{Given, Reader};

/// Messages that a reader takes from the mirror at once, so that it does not lock the state for each.
const READY_MAX: usize = 16;
/// Bytes of packets after which a reader takes no further message at once. Of pieces, it takes one at a turn. A reader
/// that stops reading keeps what it has taken, so it pins no more than this and one message.
const READY_BYTES: usize = 64 << 10;
/// Keys of a filter up to which their rows are read from the state; for more, a snapshot is encoded.
const KEYS_READ_MAX: usize = 64;
/// Bytes of rows up to which they are read from the state, where they are copied for one reader alone.
const ROWS_BYTES_MAX: usize = 256 << 10;

/// A message for a reader, before it is written.
#[derive(Debug)]
pub(super) enum Served {
    Resumes(Cut),
    /// The second value is the reason why the reader's place is unknown.
    Begins(Begins, Option<String>),
    /// A piece of the snapshot at a place, which all readers get.
    Piece(Bytes, Cut),
    /// Rows for this reader alone.
    Rows(Vec<KeyValue>),
    Complete(Place),
    /// A packet, and the place up to which the reader has its events.
    Events(Bytes, Cut),
    At(Place),
    Alive,
    Lagging(ResumeError),
}

/// The place from which a reader goes on.
#[derive(Debug)]
pub(crate) enum Start {
    /// Nowhere: the reader has no state.
    Snapshot,
    /// Behind the events up to here.
    Place(Cut),
    /// Nowhere, because the text that the reader has is no place in this feed. It gets a snapshot with this reason.
    Unknown(String),
}

impl From<Option<Cut>> for Start {
    fn from(place: Option<Cut>) -> Self {
        place.map_or(Self::Snapshot, Self::Place)
    }
}

/// Serves one reader. Fifteen fields, because its task reads all of them.
pub(crate) struct Service {
    seat: Seat,
    changed: watch::Receiver<Cut>,
    finished: watch::Receiver<u64>,
    writer: Writer,
    /// `None` until the mirror can begin with this reader.
    reader: Option<Reader>,
    from: Option<Cut>,
    /// The reason for the first snapshot, if the reader's place is unknown.
    unknown: Option<String>,
    /// Until then, a mirror behind `from` may catch up.
    wait_until: Instant,
    ready: VecDeque<Served>,
    /// A written message that follows the last one.
    second: Option<(u64, Bytes)>,
    /// A piece that a worker writes for this reader.
    writing: Option<(Bytes, JoinHandle<Result<Written, PacketError>>)>,
    /// The place of the snapshot that is being given.
    loading: Place,
    /// Time of the next sign of life.
    heartbeat_at: Instant,
    skipped: Skipped,
    is_leaving: bool,
}

/// Packets without an event for the reader since it got its last message.
#[derive(Debug, Default)]
struct Skipped {
    bytes: u64,
    /// The place behind the last of them.
    place: Option<Place>,
}

impl Service {
    /// Takes a place for a reader.
    ///
    /// # Errors
    /// If the mirror has no place left.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        changed: watch::Receiver<Cut>,
        form: Form,
        filter: Filter,
        start: Start,
    ) -> Result<Self, Refusal> {
        let seat = Seat::take(shared)?;
        let serving = &shared.serving;
        let channel = serving.shelf().channel(filter);
        let deletes = shared.options.state.deletes.clone();
        let now = Instant::now();
        let (from, unknown) = match start {
            Start::Snapshot => (None, None),
            Start::Place(cut) => (Some(cut), None),
            Start::Unknown(reason) => (None, Some(reason)),
        };
        Ok(Self {
            changed,
            finished: serving.finished.subscribe(),
            writer: Writer { form, channel, deletes },
            reader: None,
            from,
            unknown,
            wait_until: now + serving.limits.ahead_wait,
            ready: VecDeque::new(),
            second: None,
            writing: None,
            loading: Place { cut: Cut::default(), streams: Vec::new(), sent_ms: 0 },
            heartbeat_at: now + serving.limits.heartbeat,
            skipped: Skipped::default(),
            is_leaving: false,
            seat,
        })
    }

    /// Waits for the next message: its tag, and its bytes. `None` if the mirror has ended. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<(u64, Bytes)> {
        loop {
            if let Some(message) = self.second.take() {
                return Some(message);
            }
            while let Some(written) = self.next_written().await {
                match written {
                    Ok(Some(message)) => {
                        self.heartbeat_at = Instant::now() + self.serving().limits.heartbeat;
                        return Some(message);
                    }
                    // Other readers take turns with one who selects little of a large snapshot.
                    Ok(None) => tokio::task::yield_now().await,
                    // The mirror has applied this packet, so it can be read.
                    Err(error) => {
                        tracing::error!(%error, "a packet in the log is invalid");
                        return None;
                    }
                }
            }
            let has_turn = self.seat.ticket.is_some() && self.turn().await?;
            if !self.ready.is_empty() {
                continue;
            }
            self.fill(has_turn);
            // A reader that needs a turn now waits for nothing else.
            let waits = has_turn || self.seat.ticket.is_none();
            if self.ready.is_empty() && waits && !self.wait().await {
                return None;
            }
        }
    }

    /// Writes the next message that is ready; it is `Ok(None)` if it has nothing for this reader. `None` if no message is
    /// ready. Cancel safe.
    async fn next_written(&mut self) -> Option<Result<Option<(u64, Bytes)>, PacketError>> {
        if self.writing.is_none() {
            let served = self.ready.pop_front()?;
            let Served::Piece(piece, of) = served else { return Some(self.write(served)) };
            if self.writer.has_written(&piece, &self.serving().shelf()) {
                return Some(self.write(Served::Piece(piece, of)));
            }
            // This takes longer than many events, so it is not done on the thread that serves them.
            let (writer, shared) = (self.writer.clone(), Arc::clone(&self.seat.shared));
            let from = piece.clone();
            let write = move || writer.write(Served::Piece(from, of), || shared.serving.shelf());
            self.writing = Some((piece, spawn_blocking(write)));
        }
        let (piece, writing) = self.writing.as_mut()?;
        let written = writing.await;
        let piece = std::mem::take(piece);
        self.writing = None;
        // Without a worker, which is so while the mirror ends, it is written here.
        let Ok(written) = written else { return Some(self.write(Served::Piece(piece, self.loading.cut))) };
        self.skipped = Skipped::default();
        Some(written.map(|written| written.message))
    }

    /// The last message: the place that the reader has reached. `None` the second time, or if it has none, or if
    /// messages wait to be written.
    pub(crate) fn farewell(&mut self) -> Option<(u64, Bytes)> {
        if std::mem::replace(&mut self.is_leaving, true)
            || !self.ready.is_empty()
            || self.second.is_some()
            || self.writing.is_some()
        {
            return None;
        }
        match self.heartbeat() {
            at @ Served::At(_) => self.write(at).ok().flatten(),
            _ => None,
        }
    }

    fn serving(&self) -> &Serving {
        &self.seat.shared.serving
    }

    /// Writes a message. `None` if it has nothing for this reader.
    fn write(&mut self, served: Served) -> Result<Option<(u64, Bytes)>, PacketError> {
        let packet_bytes = match &served {
            Served::Events(packet, _) => packet.len() as u64,
            _ => 0,
        };
        let shared = Arc::clone(&self.seat.shared);
        let written = self.writer.write(served, || shared.serving.shelf())?;
        if let Some(passed) = written.passed {
            self.skipped.bytes += packet_bytes;
            self.skipped.place = Some(passed);
            if self.skipped.bytes < self.serving().limits.untold_bytes_max {
                return Ok(None);
            }
            return self.tell_place();
        }
        // A reader over a stream checks that its events have no gap, so it is told first that it has no events in between.
        let tells_place = packet_bytes > 0 && matches!(self.writer.form, Form::Packets);
        let place = if tells_place { self.tell_place()? } else { None };
        self.skipped = Skipped::default();
        if place.is_some() {
            self.second = written.message;
            return Ok(place);
        }
        Ok(written.message)
    }

    fn tell_place(&mut self) -> Result<Option<(u64, Bytes)>, PacketError> {
        let Some(place) = std::mem::take(&mut self.skipped).place else { return Ok(None) };
        let shared = Arc::clone(&self.seat.shared);
        Ok(self.writer.write(Served::At(place), || shared.serving.shelf())?.message)
    }

    /// Takes further messages from the mirror. Of a snapshot, it takes one piece if it is this reader's turn.
    fn fill(&mut self, has_turn: bool) {
        let shared = Arc::clone(&self.seat.shared);
        let held = shared.held();
        if held.is_current() {
            self.take_from(held.mirror(), has_turn);
        }
        drop(held);
        let waits = self.ready.is_empty() && self.reader.as_ref().is_none_or(Reader::is_waiting);
        self.seat.wait(waits);
    }

    fn take_from(&mut self, mirror: &Mirror<KeyedState>, mut has_turn: bool) {
        let shared = Arc::clone(&self.seat.shared);
        let limits = &shared.options.limits;
        if self.reader.is_none() {
            let known = mirror.cut();
            let is_ahead = self.from.is_some_and(|from| {
                from.epoch > known.epoch || matches!(mirror.check_place(from), Err(ResumeError::Ahead { .. }))
            });
            if is_ahead && Instant::now() < self.wait_until {
                return;
            }
            let reader = Reader::new(mirror, self.from);
            self.ready.extend(reader.cut().map(Served::Resumes));
            self.reader = Some(reader);
        }
        let Some(reader) = &mut self.reader else { return };
        let mut snapshots = shared.serving.snapshots();
        let filter = &self.writer.channel.filter;
        let mut bytes = 0;
        while self.ready.len() < READY_MAX && bytes < READY_BYTES {
            if reader.is_waiting()
                && let Some(keys) = few_keys(filter, mirror.state())
                && let Some(because) = reader.begin_now(mirror)
            {
                let begins = begins(&shared, mirror.cut(), mirror.rules_version(), because);
                let rows: Vec<_> = keys.iter().filter_map(|key| mirror.state().value(key)).collect();
                let place = Place { cut: mirror.cut(), streams: mirror.streams().to_vec(), sent_ms: 0 };
                let begins = Served::Begins(begins, self.unknown.take());
                self.ready.extend([begins, Served::Rows(rows), Served::Complete(place)]);
                continue;
            }
            let is_loading = reader.cut().is_none();
            self.seat.load(is_loading);
            if is_loading && !has_turn {
                break;
            }
            reader.skip_pieces(filter);
            let after = reader.cut().unwrap_or_default();
            let Some(given) = reader.poll(mirror, &mut snapshots, limits) else { break };
            self.ready.push_back(match given {
                Given::Begins { snapshot, because } => {
                    self.loading = Place { cut: snapshot.cut, streams: snapshot.streams.clone(), sent_ms: 0 };
                    let begins = begins(&shared, snapshot.cut, snapshot.rules_version, because);
                    Served::Begins(begins, self.unknown.take())
                }
                Given::Piece(piece) => {
                    bytes += piece.len();
                    has_turn = false;
                    Served::Piece(piece, self.loading.cut)
                }
                Given::Complete(_) => Served::Complete(self.loading.clone()),
                Given::Events(packet) => {
                    bytes += packet.len();
                    Served::Events(packet, after)
                }
                Given::Lagging(because) => Served::Lagging(because),
            });
        }
        if let Some(frozen) = snapshots.poll_job(mirror) {
            drop(snapshots);
            encode_elsewhere(&shared, frozen);
        }
    }

    /// Waits for a turn. False if a sign of life is due before; `None` if the mirror has ended. Cancel safe.
    async fn turn(&mut self) -> Option<bool> {
        tokio::select! {
            () = self.seat.turn() => return Some(true),
            () = sleep_until(self.heartbeat_at) => {}
        }
        self.changed.has_changed().ok()?;
        self.ready.push_back(Served::Alive);
        Some(false)
    }

    /// Waits for news. False if the mirror has ended.
    async fn wait(&mut self) -> bool {
        let is_ahead = self.reader.is_none() && self.from.is_some() && Instant::now() < self.wait_until;
        let until = if is_ahead { self.wait_until.min(self.heartbeat_at) } else { self.heartbeat_at };
        tokio::select! {
            changed = self.changed.changed() => return changed.is_ok(),
            // The sender lives as long as this reader.
            _ = self.finished.changed() => return true,
            () = sleep_until(until) => {}
        }
        if Instant::now() >= self.heartbeat_at {
            let beat = self.heartbeat();
            self.ready.push_back(beat);
        }
        true
    }

    fn heartbeat(&mut self) -> Served {
        if let Some(place) = self.skipped.place.take() {
            return Served::At(place);
        }
        match self.reader.as_ref().and_then(Reader::cut) {
            Some(cut) => {
                let held = self.seat.shared.held();
                let is_latest = held.mirror().cut() == cut;
                let streams = if is_latest { held.mirror().streams().to_vec() } else { Vec::new() };
                Served::At(Place { cut, streams, sent_ms: 0 })
            }
            None => Served::Alive,
        }
    }
}

/// The keys of a filter whose rows are read from the state: few keys with few bytes.
fn few_keys<'a>(filter: &'a Filter, state: &KeyedState) -> Option<&'a BTreeSet<ByteString>> {
    let keys = filter.only_keys().filter(|keys| keys.len() <= KEYS_READ_MAX)?;
    let bytes: usize = keys.iter().map(|key| state.value_bytes(key)).sum();
    (bytes <= ROWS_BYTES_MAX).then_some(keys)
}

fn begins(shared: &Shared, cut: Cut, rules_version: u32, because: Option<ResumeError>) -> Begins {
    let state = &shared.options.state;
    let (deletes, retention_ms) = (state.deletes.clone(), state.retention_ms);
    Begins { cut, rules_version, deletes, retention_ms, because }
}

#[cfg(test)]
mod tests;
