//! A reader of a simulated feed. It corresponds closely to `feed/src/follow`: it follows one mirror by a stream, and
//! resumes at another one when it has lost it.

use super::history::rows_of;
use super::{Content, Feed, FeedHappening, Ink, News, Out, ReaderPlan, Role, Sabotage};
use std::collections::VecDeque;
use treefold_core::error::Reason;
use treefold_core::id::{NodeId, RequestId};
use treefold_core::input::{Command, Input};
use treefold_core::stream::{StreamEvent, StreamWave};
use treefold_core::time::{Duration, Instant};
use treefold_mirror::Cut;
use treefold_mirror::event::Name;
use treefold_mirror::keyed::KeyedState;
use treefold_mirror::message::{Begins, Message};
use treefold_mirror::receiver::{Receiver, Update};
use treefold_mirror::rules::file::StateOptions;
use treefold_mirror::state::{Moment, State};

/// Time without any sign of a mirror after which a reader leaves it.
const SILENCE_MAX: Duration = Duration::from_millis(3_200);
/// Time in which a mirror that its node's neighbours have not heard may return.
const LATE_MAX: Duration = Duration::from_millis(600);
/// Time for which a reader avoids a mirror that it has lost.
const AVOIDED_FOR: Duration = Duration::from_secs(1);
/// Pause before another attempt.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(50);

/// A reader.
#[derive(Debug)]
pub(super) struct ReaderTask {
    pub(super) plan: ReaderPlan,
    /// The process in which it runs.
    node: Option<NodeId>,
    receiver: Receiver,
    link: Option<Link>,
    links: u64,
    state: KeyedState,
    loading: Option<(Begins, KeyedState)>,
    avoided: Vec<(u32, Instant)>,
}

/// The stream to a mirror.
#[derive(Clone, Copy, Debug)]
struct Link {
    serial: u64,
    mirror: u32,
    request: Option<RequestId>,
    heard_at: Instant,
    is_late: bool,
}

fn feed_name() -> Name {
    Name::new("s").expect("invariant: `s` is a name")
}

impl ReaderTask {
    pub(super) fn new(plan: ReaderPlan, state: KeyedState) -> Self {
        Self {
            plan,
            node: None,
            receiver: Receiver::new(feed_name(), None),
            link: None,
            links: 0,
            state,
            loading: None,
            avoided: Vec::new(),
        }
    }

    /// The place up to which the user has everything.
    pub(super) fn cut(&self) -> Option<Cut> {
        self.receiver.cut()
    }
}

impl Feed {
    /// Lets a reader without a mirror choose one. `node` is the process at its place.
    pub(super) fn reader_tries(&mut self, number: usize, node: NodeId) {
        if self.is_ending || self.readers[number].link.is_some() {
            return;
        }
        let now = self.now;
        let current = |mirror: &u32| {
            let of = |(key, task): (&super::MirrorKey, &super::mirror::MirrorTask)| {
                key.1 == *mirror && task.follower.is_current()
            };
            self.mirrors.iter().any(of)
        };
        let all: Vec<u32> = self.plan.mirrors.iter().collect();
        let mut candidates: Vec<u32> = all.iter().copied().filter(current).collect();
        let reader = &mut self.readers[number];
        reader.avoided.retain(|(_, until)| *until > now);
        let avoided = &reader.avoided;
        if candidates.iter().any(|one| !avoided.iter().any(|(mirror, _)| mirror == one)) {
            candidates.retain(|one| !avoided.iter().any(|(mirror, _)| mirror == one));
        }
        // The states that mirrors have told may be old.
        if candidates.is_empty() || self.random.below(8) == 0 {
            candidates = all;
        }
        let mirror = candidates[self.random.below(candidates.len())];
        let mut from = reader.receiver.resume_from();
        if self.sabotage == Some(Sabotage::MirrorResumeSkips)
            && let Some(cut) = &mut from
        {
            cut.position += 1;
            reader.receiver = Receiver::new(feed_name(), Some(*cut));
            let _ = reader.receiver.resume_from();
        }
        reader.links += 1;
        reader.node = Some(node);
        let serial = reader.links;
        reader.link = Some(Link { serial, mirror, request: None, heard_at: now, is_late: false });
        let content = self.contents.keep(Content::Reader { from, filter: reader.plan.filter.clone() });
        self.plan_at(now, FeedHappening::OpenReader { reader: number, serial, mirror, content });
        self.plan_at(now + LATE_MAX, FeedHappening::ReaderLooks(number, serial));
    }

    /// Notes the stream of a link. Returns false if the link is gone.
    pub(super) fn note_link(&mut self, number: usize, serial: u64, request: RequestId) -> bool {
        let link = self.readers[number].link.as_mut().filter(|link| link.serial == serial);
        link.map(|link| link.request = Some(request)).is_some()
    }

    /// Handles an event of a reader's stream.
    pub(super) fn reader_hears(&mut self, number: usize, serial: u64, event: &StreamEvent<Ink>) {
        let now = self.now;
        let Some(link) = self.readers[number].link.as_mut().filter(|link| link.serial == serial) else {
            return;
        };
        link.heard_at = now;
        match event {
            StreamEvent::Opened { endpoints, .. } => {
                if !endpoints.contains(link.mirror) {
                    self.lose_mirror(number);
                }
            }
            StreamEvent::Changed { endpoints, away, .. } => {
                let is_there = endpoints.contains(link.mirror);
                let is_late = away.iter().any(|missing| missing.reason == Reason::Late);
                link.is_late = !is_there && is_late;
                if !is_there && !is_late {
                    self.lose_mirror(number);
                }
            }
            StreamEvent::Wave(wave) => {
                link.is_late = false;
                self.reader_takes(number, wave);
            }
            StreamEvent::Taken { .. } => {}
            StreamEvent::Closed(_) => {
                link.request = None;
                self.lose_mirror(number);
            }
        }
    }

    fn reader_takes(&mut self, number: usize, wave: &StreamWave<Ink>) {
        let before = self.readers[number].cut();
        let mut updates = VecDeque::new();
        for packet in &wave.packets {
            let Some(Content::Bytes(bytes)) = self.contents.read(packet.content) else { continue };
            let message = Message::read(wave.tag, bytes.clone()).map_err(|error| error.to_string());
            let receiver = &mut self.readers[number].receiver;
            let taken = message
                .and_then(|message| receiver.take(message, &mut updates).map_err(|error| error.to_string()));
            if let Err(why) = taken {
                updates.drain(..).for_each(|update| self.read(number, update));
                self.news.push(News::ReaderRefused { reader: number, why });
                self.lose_mirror(number);
                break;
            }
            updates.drain(..).for_each(|update| self.read(number, update));
        }
        let reader = &self.readers[number];
        if reader.cut() != before
            && let Some(cut) = reader.cut()
        {
            self.news.push(News::View { reader: number, cut, rows: rows_of(&reader.state) });
        }
    }

    /// Takes an update into the user's state.
    fn read(&mut self, number: usize, update: Update) {
        let limits = &self.plan.limits;
        let reader = &mut self.readers[number];
        match update {
            Update::Begins(begins) => {
                let options =
                    StateOptions { deletes: begins.deletes.clone(), retention_ms: begins.retention_ms };
                self.news.push(News::ReaderBegins { reader: number, cut: begins.cut });
                reader.loading = Some((begins, KeyedState::new(options, limits, 6)));
            }
            Update::Row(row) => {
                if let Some((_, state)) = &mut reader.loading {
                    let mut piece = Vec::new();
                    row.write(&mut piece);
                    state.restore(&piece.into()).expect("invariant: a row was written");
                }
            }
            Update::Complete(_) => {
                if let Some((_, state)) = reader.loading.take() {
                    reader.state = state;
                }
            }
            Update::Event { at, sent_ms, event } => {
                reader.state.apply(
                    Moment { position: at.position, sent_ms },
                    event.borrowed(),
                    &mut Vec::new(),
                );
                self.news.push(News::ReaderEvent { reader: number, at, event });
            }
            Update::At { time, .. } => {
                if let Some(cut) = time.feed("s") {
                    self.news.push(News::ReaderAt { reader: number, cut });
                }
            }
            Update::Moved { .. } | Update::Lagging(_) => {}
        }
    }

    /// Leaves the mirror of a reader, and tries another one soon.
    pub(super) fn lose_mirror(&mut self, number: usize) {
        let now = self.now;
        let reader = &mut self.readers[number];
        let Some(link) = reader.link.take() else { return };
        reader.avoided.push((link.mirror, now + AVOIDED_FOR));
        if let (Some(request), Some(node)) = (link.request, reader.node) {
            self.out.push(Out::Input(node, Input::Command(Command::StreamClose { request })));
        }
        self.plan_at(now + RETRY_AFTER, FeedHappening::ReaderTries(number));
    }

    /// Looks whether a reader's mirror has been silent for too long.
    pub(super) fn reader_looks(&mut self, number: usize, serial: u64) {
        let now = self.now;
        let Some(link) = self.readers[number].link.filter(|link| link.serial == serial) else { return };
        let patience = if link.is_late { LATE_MAX } else { SILENCE_MAX };
        if now >= link.heard_at + patience {
            return self.lose_mirror(number);
        }
        self.plan_at(now + LATE_MAX, FeedHappening::ReaderLooks(number, serial));
    }

    /// Handles the death of a process with readers. A reader that keeps its state on its disk resumes; the others
    /// begin anew.
    pub(super) fn lose_readers(&mut self, node: NodeId) {
        let now = self.now;
        for number in 0..self.readers.len() {
            if self.readers[number].node != Some(node) {
                continue;
            }
            let empty = self.empty_state();
            let reader = &mut self.readers[number];
            (reader.node, reader.link, reader.loading) = (None, None, None);
            if !reader.plan.keeps_state {
                (reader.receiver, reader.state) = (Receiver::new(feed_name(), None), empty);
                self.news.push(News::ReaderForgot { reader: number });
            }
            self.plan_at(now + RETRY_AFTER, FeedHappening::ReaderTries(number));
        }
    }

    /// The role of a reader's stream.
    pub(super) fn reader_role(number: usize, serial: u64) -> Role {
        Role::Reader(number, serial)
    }
}
