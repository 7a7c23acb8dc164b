//! A mirror of a simulated feed. It corresponds closely to `feed/src/{mirror,joining}.rs`: it gives the origin's packets
//! to the deciding follower, sends its votes, and asks the other mirrors for the snapshots that it needs, by calls.

use super::driving::FETCH;
use super::history::rows_of;
use super::serving::Place;
use super::{Content, Feed, FeedHappening, Ink, MirrorKey, News, Out, Sabotage};
use bytes::Bytes;
use std::collections::BTreeMap;
use treefold_core::error::{JobError, Reason};
use treefold_core::id::{NodeId, RequestId};
use treefold_core::input::{Command, Input};
use treefold_core::stream::StreamId;
use treefold_core::time::Duration;
use treefold_mirror::Cut;
use treefold_mirror::follow::{Followed, Follower, Opening, RestoreError};
use treefold_mirror::joining::{Arrived, Arriving};
use treefold_mirror::keyed::KeyedState;
use treefold_mirror::mirror::{Mirror, Taken};
use treefold_mirror::packet::{Checkpoint, Down, Holding, Monitored, Vote};
use treefold_mirror::reader::{Snapshots, encode};
use treefold_mirror::snapshot::Snapshot;

/// Time between two rounds in which no mirror had a snapshot.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// How often a mirror doubles the time that it gives the others for a snapshot. It does so after each round in which none
/// gave one.
const DOUBLINGS_MAX: u32 = 4;
/// The longest time for a snapshot, as a multiple of the first.
pub const SNAPSHOT_WITHIN_TIMES_MAX: u32 = 1 << DOUBLINGS_MAX;

/// A mirror in its process.
#[derive(Debug)]
pub(super) struct MirrorTask {
    pub(super) follower: Follower<KeyedState>,
    /// The origin's stream.
    pub(super) following: Option<StreamId>,
    pub(super) fetch: Option<Fetch>,
    pub(super) snapshots: Snapshots,
    /// The places of its readers, by their streams.
    pub(super) places: BTreeMap<StreamId, Place>,
}

/// The search for a snapshot.
#[derive(Debug)]
pub(super) struct Fetch {
    /// The present call, if one is open.
    pub(super) request: Option<RequestId>,
    /// The needed epoch and the least position.
    needed: Cut,
    /// The mirror that is asked, and the portions that it has given.
    from: Option<(u32, Arriving)>,
    turn: usize,
    /// Rounds in which no mirror had a snapshot, up to [`DOUBLINGS_MAX`].
    rounds: u32,
    serial: u64,
}

impl Fetch {
    /// The time that the asked mirror has, where it has `first` in the first round.
    pub(super) fn within(&self, first: Duration) -> Duration {
        first.mul_f64(f64::from(1 << self.rounds))
    }
}

impl Feed {
    pub(super) fn empty_state(&self) -> KeyedState {
        KeyedState::new(self.plan.state.clone(), &self.plan.limits, 5)
    }

    fn empty_mirror(&self, cut: Cut) -> Mirror<KeyedState> {
        Mirror::new(Snapshot::beginning(cut, self.empty_state()), &self.plan.limits)
    }

    /// The mirror of a process. One that has not followed any stream begins with an empty state.
    pub(super) fn mirror_of(&mut self, key: MirrorKey) -> &mut MirrorTask {
        if !self.mirrors.contains_key(&key) {
            let empty = self.empty_mirror(Cut::default());
            let follower = Follower::new(key.1, self.plan.total, empty, &self.plan.limits);
            let (snapshots, places) = (Snapshots::default(), BTreeMap::new());
            let task = MirrorTask { follower, following: None, fetch: None, snapshots, places };
            self.mirrors.insert(key, task);
        }
        self.mirrors.get_mut(&key).expect("invariant: it was inserted if it was absent")
    }

    /// Handles the opening of an origin's stream at a mirror.
    pub(super) fn mirror_opened(&mut self, key: MirrorKey, stream: StreamId, content: u64) {
        let Some(Content::Opening { epoch, past }) = self.contents.read(content).cloned() else {
            panic!("a stream of an origin opened without its parameters")
        };
        let empty = self.empty_mirror(Cut { epoch, position: 0 });
        let task = self.mirror_of(key);
        let before = task.follower.mirror().cut();
        let mut is_anew = false;
        let anew = |_: Cut| {
            is_anew = true;
            empty
        };
        let begun = task.follower.begin(&Opening { stream, epoch, past, candidate: None }, anew);
        let after = task.follower.mirror().cut();
        if let Err(why) = begun {
            return self.leave(key, stream, &why.to_string());
        }
        let former = task.following.replace(stream).filter(|former| *former != stream);
        self.drop_fetch(key);
        if let Some(former) = former {
            self.leave(key, former, "a newer origin's stream");
        }
        self.news.push(News::Began { mirror: key, before, after, is_anew });
        self.wake_readers(key);
    }

    /// Leaves a stream.
    fn leave(&mut self, key: MirrorKey, stream: StreamId, why: &str) {
        let reason = Reason::LocalFailed(why.into());
        self.out.push(Out::Leave((key.0, stream, key.1), reason));
    }

    /// Handles the end of a stream at a mirror.
    pub(super) fn mirror_closed(&mut self, key: MirrorKey, stream: StreamId) {
        let Some(task) = self.mirrors.get_mut(&key) else { return };
        task.places.remove(&stream);
        if task.following == Some(stream) {
            task.following = None;
            self.drop_fetch(key);
        }
    }

    /// Takes a packet of an origin.
    pub(super) fn mirror_takes(&mut self, key: MirrorKey, stream: StreamId, tag: u64, packet: &Bytes) {
        let Some(task) = self.mirrors.get_mut(&key).filter(|task| task.following == Some(stream)) else {
            return;
        };
        let (from, was_current) = (task.follower.mirror().cut(), task.follower.is_current());
        let pending = task.places.values().filter(|place| place.waits()).count() as u64;
        let followed = task.follower.take(packet, pending);
        match followed {
            Err(why) => {
                self.mirror_closed(key, stream);
                return self.leave(key, stream, &why.to_string());
            }
            Ok(Followed::Votes(vote)) => {
                let vote = self.cast(key, packet, vote);
                let content = self.contents.keep(Content::Vote(vote));
                self.out.push(Out::Vote((key.0, stream, key.1), tag, content));
            }
            Ok(Followed::Took(Taken::Applied { events, .. })) if events > 0 => self.note_applied(key, from),
            Ok(Followed::Took(Taken::Committed(position))) => {
                let epoch = self.mirrors[&key].follower.mirror().cut().epoch;
                self.news.push(News::MirrorCommitted { mirror: key, epoch, position });
            }
            Ok(Followed::Took(_) | Followed::Kept) => {}
        }
        let task = &self.mirrors[&key];
        if task.follower.mirror().cut() != from || task.follower.is_current() != was_current {
            self.wake_readers(key);
        }
        self.fetch_if_needed(key);
    }

    /// The vote that a mirror sends. With sabotage, a mirror that joins claims to have everything.
    fn cast(&self, key: MirrorKey, packet: &Bytes, vote: Vote) -> Vote {
        let joins = vote.holdings().any(|(_, holding)| matches!(holding, Holding::Joins));
        match Down::read(packet) {
            Ok(Down::Checkpoint(Checkpoint { number, position }))
                if joins && self.sabotage == Some(Sabotage::MirrorCountJoining) =>
            {
                Vote::of(key.1, self.plan.total, number, Holding::Has(position), Monitored::default())
            }
            _ => vote,
        }
    }

    fn note_applied(&mut self, key: MirrorKey, from: Cut) {
        let mirror = self.mirrors[&key].follower.mirror();
        let (to, rows) = (mirror.cut(), rows_of(mirror.state()));
        self.news.push(News::Applied { mirror: key, from, to, rows });
    }

    /// Begins to fetch a snapshot if the mirror waits for one, and stops if it no longer does.
    fn fetch_if_needed(&mut self, key: MirrorKey) {
        let Some(task) = self.mirrors.get(&key) else { return };
        let Some(position) = task.follower.joins_at() else { return self.drop_fetch(key) };
        if task.fetch.is_some() || self.is_ending {
            return;
        }
        let needed = Cut { epoch: task.follower.mirror().cut().epoch, position };
        self.serial += 1;
        let fetch = Fetch { request: None, needed, from: None, turn: 0, rounds: 0, serial: self.serial };
        self.mirror_of(key).fetch = Some(fetch);
        self.ask_next(key);
    }

    /// Asks the next mirror for its snapshot. After the last one, asks again after a pause.
    fn ask_next(&mut self, key: MirrorKey) {
        // Begins behind this mirror, so that not all ask the same.
        let (behind, before): (Vec<u32>, Vec<u32>) =
            self.plan.mirrors.iter().filter(|&other| other != key.1).partition(|&other| other > key.1);
        let others = [behind, before].concat();
        let (now, state, limits) = (self.now, self.empty_state(), self.plan.limits.clone());
        let Some(fetch) = self.mirrors.get_mut(&key).and_then(|task| task.fetch.as_mut()) else { return };
        (fetch.request, fetch.from) = (None, None);
        match others.get(fetch.turn) {
            Some(&other) => {
                fetch.turn += 1;
                fetch.from = Some((other, Arriving::new(fetch.needed, state, &limits)));
                self.out.push(Out::Fetch(key, other));
            }
            None => {
                (fetch.turn, fetch.rounds) = (0, DOUBLINGS_MAX.min(fetch.rounds + 1));
                let again = FeedHappening::FetchAgain(key, fetch.serial);
                self.plan_at(now + RETRY_AFTER, again);
            }
        }
    }

    pub(super) fn fetch_again(&mut self, key: MirrorKey, serial: u64) {
        let fetch = self.mirrors.get(&key).and_then(|task| task.fetch.as_ref());
        let Some(fetch) = fetch.filter(|fetch| fetch.serial == serial && fetch.request.is_none()) else {
            return;
        };
        match &fetch.from {
            Some((other, _)) => self.out.push(Out::Fetch(key, *other)),
            None => self.ask_next(key),
        }
    }

    /// Notes the call by which a mirror asks for a snapshot.
    pub(super) fn note_fetch(&mut self, key: MirrorKey, request: RequestId) {
        if let Some(fetch) = self.mirrors.get_mut(&key).and_then(|task| task.fetch.as_mut()) {
            fetch.request = Some(request);
        }
    }

    pub(super) fn drop_fetch(&mut self, key: MirrorKey) {
        let Some(fetch) = self.mirrors.get_mut(&key).and_then(|task| task.fetch.take()) else { return };
        if let Some(request) = fetch.request {
            self.out.push(Out::Input(key.0, Input::Command(Command::Cancel { request })));
        }
    }

    /// Handles the end of a call for a portion of a snapshot.
    pub(super) fn mirror_fetched(&mut self, key: MirrorKey, request: RequestId, content: Option<u64>) {
        let fetch = self.mirrors.get_mut(&key).and_then(|task| task.fetch.as_mut());
        let Some(fetch) = fetch.filter(|fetch| fetch.request == Some(request)) else { return };
        fetch.request = None;
        let Some((other, arriving)) = fetch.from.take() else { return };
        let portion = match content.and_then(|content| self.contents.read(content)) {
            Some(Content::Bytes(bytes)) => bytes,
            _ => return self.ask_next(key),
        };
        if portion.is_empty() {
            // It is being encoded.
            fetch.from = Some((other, arriving));
            let again = FeedHappening::FetchAgain(key, fetch.serial);
            return self.plan_at(self.now + RETRY_AFTER, again);
        }
        match arriving.take(portion) {
            Ok(Arrived::More(more)) => {
                fetch.from = Some((other, *more));
                self.out.push(Out::Fetch(key, other));
            }
            Ok(Arrived::Whole(snapshot)) => self.restore(key, *snapshot),
            Err(_) => self.ask_next(key),
        }
    }

    fn restore(&mut self, key: MirrorKey, snapshot: Snapshot<KeyedState>) {
        let limits = self.plan.limits.clone();
        let task = self.mirror_of(key);
        task.fetch = None;
        let before = task.follower.mirror().cut();
        let restored = task.follower.restore(snapshot, &limits);
        let mirror = task.follower.mirror();
        let (after, rows) = (mirror.cut(), rows_of(mirror.state()));
        match restored {
            Ok(()) => {
                self.news.push(News::Restored { mirror: key, before, after, rows });
                self.wake_readers(key);
                self.fetch_if_needed(key);
            }
            Err(RestoreError::Old { .. }) => self.fetch_if_needed(key),
            Err(why) => {
                if let Some(stream) = self.mirrors[&key].following {
                    self.mirror_closed(key, stream);
                    self.leave(key, stream, &why.to_string());
                }
            }
        }
    }

    /// The result of the local by which a mirror gives a portion of its snapshot. `ink` is a partial without a content.
    pub(in crate::world) fn give_snapshot(
        &mut self,
        node: NodeId,
        mirror: u32,
        call: u64,
        ink: Ink,
    ) -> Result<Ink, JobError> {
        let portion = self.portion_of((node, mirror), call);
        let bytes = portion.map_err(|error| JobError::Failed(error.as_str().into()))?;
        let length = bytes.len() as u32;
        Ok(Ink { content: self.contents.keep(Content::Bytes(bytes)), bytes: length, ..ink })
    }

    /// A portion of the snapshot of a process's mirror, for the mirror that has made a call. It is empty if the snapshot is
    /// being encoded.
    fn portion_of(&mut self, key: MirrorKey, call: u64) -> Result<Bytes, String> {
        let asking =
            self.calls.iter().find(|((_, request), _)| FETCH | request.0 == call).map(|(_, asking)| asking);
        let fetch = asking.and_then(|asking| self.mirrors.get(asking)).and_then(|task| task.fetch.as_ref());
        let Some((_, arriving)) = fetch.and_then(|fetch| fetch.from.as_ref()) else {
            return Err("the asking mirror has gone on".into());
        };
        let ask = arriving.ask();
        let Some(task) = self.mirrors.get_mut(&key) else { return Err("no mirror".into()) };
        if !task.follower.is_current() {
            return Err("this mirror lacks events".into());
        }
        let limits = &self.plan.limits;
        if self.sabotage == Some(Sabotage::MirrorSnapshotAhead) && task.follower.mirror().cut().position > 0 {
            let mut ahead = encode(&task.follower.mirror().snapshot(), limits);
            ahead.cut.position += 1;
            return ahead.portion(0, usize::MAX).map_err(|error| error.to_string());
        }
        match task.snapshots.asked(ask, task.follower.mirror()).map_err(|error| error.to_string())? {
            // Small portions, so that most snapshots have several.
            Some(encoded) => {
                encoded.portion(ask.item(), 2 * limits.piece_bytes).map_err(|error| error.to_string())
            }
            None => {
                self.encode_if_wanted(key);
                Ok(Bytes::new())
            }
        }
    }

    /// Begins to encode a snapshot if somebody waits for one.
    pub(super) fn encode_if_wanted(&mut self, key: MirrorKey) {
        let Some(task) = self.mirrors.get_mut(&key) else { return };
        if let Some(frozen) = task.snapshots.poll_job(task.follower.mirror()) {
            let encoded = encode(&frozen, &self.plan.limits);
            let done = self.now + self.plan.encode;
            self.plan_at(done, FeedHappening::Encoded(key, Box::new(encoded)));
        }
    }

    /// Forgets the mirrors of a process that is gone.
    pub(super) fn lose_mirrors(&mut self, node: NodeId) {
        self.mirrors.retain(|(of, _), _| *of != node);
    }
}
