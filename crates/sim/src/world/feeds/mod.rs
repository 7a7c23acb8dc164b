//! A feed in the simulated world: an origin, mirrors, sources and readers on the world's nodes.
//!
//! ```text
//!  source ─▶ OriginTask ─▶ journal ─▶ OriginTask ═══ stream ═══▶ MirrorTask ═══ stream ═══▶ ReaderTask
//!                ▲                                                │      └── call ──▶ another mirror
//!                └──────────────── votes, folded ◀════════════════┘
//! ```
//!
//! The tasks correspond closely to the crate `treefold-feed`: they stand on the streams and calls of the world's nodes,
//! and let `treefold-mirror` decide. A node's payload, [`Ink`], has no bytes. It carries the number of a content that the
//! world keeps (`Contents`), so core moves it as it moves bytes in production, and filters fold real votes.
//!
//! - `origin`, `mirror`, `serving`, `reader`, `source`: the tasks, a file each. They put their requests into `out`, which
//!   `driving` carries out.
//! - `journal`: the records that survive an origin. [`history`]: the reference that mirrors and readers are compared with.
//! - [`News`]: all that invariants need to know, in order.

mod driving;
pub mod history;
mod journal;
mod mirror;
mod origin;
mod plan;
mod reader;
mod serving;
mod source;

pub use history::{History, Rows};
pub use mirror::SNAPSHOT_WITHIN_TIMES_MAX;
pub use plan::{FeedPlan, ReaderPlan, SourcePlan};

use super::ink::Ink;
use super::{Happening, Sabotage};
use bytes::Bytes;
use mirror::MirrorTask;
use origin::OriginTask;
use reader::ReaderTask;
use source::SourceTask;
use std::collections::BTreeMap;
use treefold_core::error::Reason;
use treefold_core::id::{NodeId, RequestId};
use treefold_core::input::Input;
use treefold_core::random::Random;
use treefold_core::stream::StreamId;
use treefold_core::time::Instant;
use treefold_mirror::reader::Encoded;
use treefold_mirror::{Cut, Event, Filter, Lineage, Name};

use super::streams::SeatKey;
use history::History as Reference;
use journal::FeedJournal;
use treefold_mirror::packet::Vote;

/// The aggregation by which a mirror gives its snapshot.
pub const SNAPSHOT: &str = "s/snapshot";
/// Size of a vote on the network.
pub const VOTE_BYTES: u32 = 100;
/// The largest packet of a feed's stream.
pub const FEED_PACKET_BYTES: u32 = 64 << 10;

/// A mirror: the process that has it, and its number.
pub type MirrorKey = (NodeId, u32);

/// News of a feed, for invariants.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "a field is explained by its type, or by the sentence about its news")]
pub enum News {
    /// An origin has begun an epoch behind this position.
    EpochBegun { epoch: u32, after: u64 },
    /// The last origin's feed is gone, and another one has begun.
    FeedBegun { epoch: u32 },
    /// Events up to this position are part of the feed for good.
    Decided { last: u64 },
    /// An origin has committed.
    Committed { epoch: u32, position: u64 },
    /// An origin has acknowledged the events of a stream up to a number.
    Acknowledged { epoch: u32, stream: Name, number: u64 },
    /// An origin has refused an event that it should have taken.
    Refused { refusal: String },
    /// A mirror has begun to follow a stream.
    Began { mirror: MirrorKey, before: Cut, after: Cut, is_anew: bool },
    /// A mirror has applied events.
    Applied { mirror: MirrorKey, from: Cut, to: Cut, rows: Rows },
    /// A mirror has taken a snapshot and the packets after it.
    Restored { mirror: MirrorKey, before: Cut, after: Cut, rows: Rows },
    /// A mirror has learned of a commit.
    MirrorCommitted { mirror: MirrorKey, epoch: u32, position: u64 },
    /// A reader's state begins anew.
    ReaderBegins { reader: usize, cut: Cut },
    /// A reader has got an event.
    ReaderEvent { reader: usize, at: Cut, event: Event },
    /// A reader was told its place.
    ReaderAt { reader: usize, cut: Cut },
    /// A reader's state at a place.
    View { reader: usize, cut: Cut, rows: Rows },
    /// A reader has refused its mirror's message.
    ReaderRefused { reader: usize, why: String },
    /// A reader's process has died, and its state with it.
    ReaderForgot { reader: usize },
}

/// A content that a payload stands for.
#[derive(Clone, Debug)]
enum Content {
    /// A packet down, a reader's message, or a snapshot.
    Bytes(Bytes),
    /// A vote.
    Vote(Vote),
    /// The parameters of an origin's stream.
    Opening { epoch: u32, past: Lineage },
    /// The parameters of a reader's stream.
    Reader { from: Option<Cut>, filter: Filter },
}

/// All contents, by their numbers from 1.
#[derive(Debug, Default)]
struct Contents(Vec<Content>);

impl Contents {
    fn keep(&mut self, content: Content) -> u64 {
        self.0.push(content);
        self.0.len() as u64
    }

    fn read(&self, number: u64) -> Option<&Content> {
        self.0.get(usize::try_from(number.checked_sub(1)?).ok()?)
    }

    /// A packet down, with its tag.
    fn packet(&mut self, packet: Bytes, tag: u64) -> Ink {
        let bytes = packet.len() as u32;
        Ink { bytes, content: self.keep(Content::Bytes(packet)), ..Ink::params(tag, 1.0) }
    }
}

/// The front-end of a feed's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// An origin, by its index.
    Origin(usize),
    /// A reader, by its index, and the number of its stream.
    Reader(usize, u64),
}

/// A planned event of a feed.
#[derive(Debug)]
pub(super) enum FeedHappening {
    StartOrigin,
    OriginWakes(usize),
    Flushed(usize, u64),
    Learned(usize, Name, u64),
    Offer(usize),
    FetchAgain(MirrorKey, u64),
    Encoded(MirrorKey, Box<Encoded>),
    Beat(MirrorKey, StreamId),
    ReaderTries(usize),
    OpenReader { reader: usize, serial: u64, mirror: u32, content: u64 },
    ReaderLooks(usize, u64),
}

/// A request of a task.
enum Out {
    Plan(Instant, Happening),
    Input(NodeId, Input<Ink>),
    /// An endpoint sends a vote.
    Vote(SeatKey, u64, u64),
    /// An endpoint leaves its stream.
    Leave(SeatKey, Reason),
    /// A mirror asks another one for a snapshot.
    Fetch(MirrorKey, u32),
    /// A reader's place may have messages.
    Pump(MirrorKey, StreamId),
    /// An origin tells a source.
    Acknowledge(usize, Name, u64),
}

/// A feed.
pub struct Feed {
    plan: FeedPlan,
    sabotage: Option<Sabotage>,
    random: Random,
    now: Instant,
    contents: Contents,
    journal: FeedJournal,
    history: Reference,
    origins: Vec<OriginTask>,
    mirrors: BTreeMap<MirrorKey, MirrorTask>,
    sources: Vec<SourceTask>,
    readers: Vec<ReaderTask>,
    /// The streams, by their plays.
    roles: BTreeMap<usize, Role>,
    /// Calls for snapshots.
    calls: BTreeMap<(NodeId, RequestId), MirrorKey>,
    news: Vec<News>,
    out: Vec<Out>,
    /// The rules in force.
    rules: usize,
    /// Number of origins that were started or tried.
    starts: usize,
    serial: u64,
    is_ending: bool,
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feed").field("origins", &self.origins.len()).finish_non_exhaustive()
    }
}

impl Feed {
    fn new(plan: FeedPlan, sabotage: Option<Sabotage>, seed: u64) -> Self {
        let empty = || treefold_mirror::keyed::KeyedState::new(plan.state.clone(), &plan.limits, 6);
        let readers = plan.readers.iter().map(|reader| ReaderTask::new(reader.clone(), empty())).collect();
        let sources = plan.sources.iter().map(|source| SourceTask::new(source.clone())).collect();
        Self {
            history: Reference::new(1, empty()),
            journal: FeedJournal::new(plan.segment),
            sabotage,
            random: Random::new(seed),
            now: Instant::START,
            contents: Contents::default(),
            origins: Vec::new(),
            mirrors: BTreeMap::new(),
            sources,
            readers,
            roles: BTreeMap::new(),
            calls: BTreeMap::new(),
            news: Vec::new(),
            out: Vec::new(),
            rules: 0,
            starts: 0,
            serial: 0,
            is_ending: false,
            plan,
        }
    }

    /// Notes that the events of a packet are part of the feed for good.
    fn note_decided(&mut self, packet: &Bytes) {
        self.history.push(packet);
        self.news.push(News::Decided { last: self.history.last() });
    }

    /// Begins another feed, because the last origin has died without a journal.
    fn begin_history(&mut self, epoch: u32) {
        if epoch > 1 {
            self.history = Reference::new(epoch, self.empty_state());
            self.news.push(News::FeedBegun { epoch });
        }
    }

    /// The news, in order.
    pub fn news(&self) -> &[News] {
        &self.news
    }

    /// The reference.
    pub fn history(&self) -> &Reference {
        &self.history
    }

    /// The plan.
    pub fn plan(&self) -> &FeedPlan {
        &self.plan
    }

    /// The number of origins that have begun an epoch.
    pub fn origins(&self) -> usize {
        self.origins.len()
    }

    /// The position after which an epoch's successor began. `None` for the last epoch.
    pub fn end_of(&self, epoch: u32) -> Option<u64> {
        self.journal.end_of(epoch)
    }

    /// The mirrors: process and number, place, and whether they have all events that the origin had sent.
    pub fn mirrors(&self) -> impl Iterator<Item = (MirrorKey, Cut, bool)> {
        self.mirrors
            .iter()
            .map(|(key, task)| (*key, task.follower.mirror().cut(), task.follower.is_current()))
    }

    /// Each reader: its place in the world, and its place in the feed.
    pub fn readers(&self) -> impl Iterator<Item = (usize, Option<Cut>)> {
        self.readers.iter().map(|reader| (reader.plan.at, reader.cut()))
    }

    /// The rows of each mirror that is current.
    pub fn current_rows(&self) -> impl Iterator<Item = (MirrorKey, Rows)> {
        let current = self.mirrors.iter().filter(|(_, task)| task.follower.is_current());
        current.map(|(key, task)| (*key, history::rows_of(task.follower.mirror().state())))
    }

    /// The present origin: its place in the world, its place in the feed, and whether it has sent everything.
    pub fn present(&self) -> Option<(usize, Cut, bool)> {
        let origin = &self.origins[self.serving_origin()?];
        Some((origin.at, origin.deciding.cut(), origin.deciding.is_idle()))
    }

    /// Events that each source has, and those that it knows to be acknowledged.
    pub fn sources(&self) -> impl Iterator<Item = (&Name, u64, u64)> {
        self.sources
            .iter()
            .map(|source| (&source.plan.stream, source.plan.events.len() as u64, source.acknowledged))
    }

    /// True if no mirror has a state that the feed continues, and neither the origin's log nor its journal still begins
    /// with the first event. Such a feed is lost; its documentation says so.
    pub fn is_lost(&self) -> bool {
        let Some(number) = self.serving_origin() else { return false };
        let origin = &self.origins[number];
        let has_state = |task: &MirrorTask| {
            task.follower.is_current() && task.follower.mirror().cut().epoch == origin.epoch
        };
        origin.deciding.log().packets_after(0).is_err() && !self.mirrors.values().any(has_state)
    }

    /// A line about each origin and mirror, for reports.
    pub fn described(&self) -> String {
        let mirror = |(key, task): (&MirrorKey, &MirrorTask)| {
            let cut = task.follower.mirror().cut();
            let (current, joins) = (task.follower.is_current(), task.follower.joins_at());
            let place = super::place::place_of(key.0).0;
            format!("mirror {} at {place}: {cut}, current {current}, joins {joins:?}", key.1)
        };
        let mut lines: Vec<String> = self.mirrors.iter().map(mirror).collect();
        if let Some(origin) = self.origins.last() {
            let log = origin.deciding.log();
            let standing: Vec<_> = origin.deciding.checkpoints().mirrors().collect();
            lines.push(format!(
                "origin {} of epoch {} at {}: open {}, over {}, cut {}, committed {}, journal after {} durable {}, \
                 standing {standing:?}",
                self.origins.len(),
                origin.epoch,
                origin.at,
                origin.is_open,
                origin.is_over,
                origin.deciding.cut(),
                log.committed(),
                self.journal.base(),
                self.journal.durable()
            ));
        }
        lines.extend(self.sources().map(|(name, all, known)| format!("source {name}: {known} of {all}")));
        lines.extend(self.readers().map(|(number, cut)| format!("reader {number}: {cut:?}")));
        lines.join("; ")
    }
}
