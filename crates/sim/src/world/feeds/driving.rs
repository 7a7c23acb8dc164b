//! Carries out the requests of a feed's tasks, and brings them the events of their nodes.

use super::super::ink::Ink;
use super::super::place::{Life, place_of};
use super::super::streams::{Habit, Play, SeatKey, StreamPlan, Tags};
use super::super::{Happening, Watch, World};
use super::{Content, FEED_PACKET_BYTES, Feed, FeedHappening, FeedPlan, Out, Role, SNAPSHOT, VOTE_BYTES};
use treefold_core::call::{CallOptions, Outcome};
use treefold_core::config::Placement;
use treefold_core::id::{NodeId, RequestId};
use treefold_core::input::{Command, Input};
use treefold_core::partitions::PartitionSet;
use treefold_core::stream::spec::EndpointEvent;
use treefold_core::stream::{StreamEvent, StreamId, StreamOptions, Synchronisation};
use treefold_core::time::Duration;
use treefold_mirror::packet::Vote;

/// The service whose partitions are the mirrors.
const SERVICE: &str = "s";
/// Time until an event at a stopped process is tried again.
const HELD_FOR: Duration = Duration::from_millis(10);
/// The bit that marks the numbers of calls for snapshots.
pub(super) const FETCH: u64 = 1 << 62;
/// Longest time until a source learns of an acknowledgement, in µs.
const LEARNS_WITHIN_US: usize = 5_000;

impl World {
    /// Begins a feed now. A world has one.
    pub fn begin_feed(&mut self, plan: FeedPlan) {
        let seed = super::super::ink::mixed(self.setting.seed ^ 3);
        let mut feed = Feed::new(plan, self.setting.sabotage, seed);
        feed.now = self.now;
        feed.plan_at(self.now, FeedHappening::StartOrigin);
        (0..feed.sources.len()).for_each(|source| feed.plan_at(self.now, FeedHappening::Offer(source)));
        (0..feed.readers.len()).for_each(|reader| feed.plan_at(self.now, FeedHappening::ReaderTries(reader)));
        self.feed = Some(Box::new(feed));
        self.carry_out_plans();
    }

    /// The feed, if one has begun.
    pub fn mirrored(&self) -> Option<&Feed> {
        self.feed.as_deref()
    }

    fn tasks(&mut self) -> &mut Feed {
        let now = self.now;
        let feed = self.feed.as_mut().expect("invariant: only a world with a feed has its events");
        feed.now = now;
        feed
    }

    /// Starts a further origin, although the last one may still run.
    pub fn replace_origin(&mut self) {
        if let Some(feed) = &self.feed
            && !feed.is_ending
        {
            self.agenda.plan(self.now, Happening::Feed(FeedHappening::StartOrigin));
        }
    }

    /// Replaces the rules of the present origin.
    pub fn change_rules(&mut self, rules: usize, watch: &mut dyn Watch) {
        let Some(number) = self.feed.as_ref().and_then(|feed| feed.serving_origin()) else { return };
        let at = self.tasks().origins[number].at;
        if self.places[at].life != Life::Running {
            return;
        }
        let (now, clock) = (self.now, self.places[at].clock(self.now));
        self.tasks().change_rules(now, clock, rules);
        self.drain_feed(watch);
    }

    /// Makes a source repeat the events of which it does not know that they are acknowledged, as after its death.
    pub fn repeat_source(&mut self, source: usize) {
        if self.feed.is_some() {
            let feed = self.tasks();
            let source = source % feed.sources.len();
            feed.sources[source].repeat();
        }
    }

    /// Makes a reader leave its mirror.
    pub fn move_reader(&mut self, reader: usize, watch: &mut dyn Watch) {
        if self.feed.as_ref().is_some_and(|feed| !feed.readers.is_empty()) {
            let feed = self.tasks();
            let reader = reader % feed.readers.len();
            feed.lose_mirror(reader);
            self.drain_feed(watch);
        }
    }

    /// Ends the feed: its streams are closed, and nothing of it happens any more.
    pub fn end_feed(&mut self, watch: &mut dyn Watch) {
        if self.feed.is_none() {
            return;
        }
        let now = self.now;
        let feed = self.tasks();
        feed.is_ending = true;
        (0..feed.origins.len()).for_each(|origin| feed.end_origin(now, origin));
        (0..feed.readers.len()).for_each(|reader| feed.lose_mirror(reader));
        let keys: Vec<_> = feed.mirrors.keys().copied().collect();
        keys.into_iter().for_each(|key| feed.drop_fetch(key));
        self.drain_feed(watch);
    }

    /// Removes the tasks of the process at `at`, because it is gone.
    pub(in crate::world) fn lose_feed_at(&mut self, at: usize) {
        if self.feed.is_none() {
            return;
        }
        let (now, node) = (self.now, self.places[at].id);
        let feed = self.tasks();
        feed.lose_mirrors(node);
        feed.lose_readers(node);
        for origin in 0..feed.origins.len() {
            if feed.origins[origin].node == node {
                feed.origins[origin].request = None;
                feed.end_origin(now, origin);
            }
        }
        feed.calls.retain(|(of, _), _| *of != node);
        self.carry_out_plans();
    }

    /// Carries out requests that concern no node.
    fn carry_out_plans(&mut self) {
        for out in std::mem::take(&mut self.tasks().out) {
            if let Out::Plan(at, happening) = out {
                self.agenda.plan(at, happening);
            }
        }
    }

    /// The place that an event of a feed happens at. `None` if it happens nowhere in particular, or its process is gone.
    fn happens_at(&self, what: &FeedHappening) -> Option<usize> {
        let feed = self.feed.as_ref()?;
        match what {
            FeedHappening::OriginWakes(origin) | FeedHappening::Flushed(origin, _) => {
                Some(feed.origins[*origin].at)
            }
            FeedHappening::FetchAgain((node, _), _)
            | FeedHappening::Encoded((node, _), _)
            | FeedHappening::Beat((node, _), _) => Some(place_of(*node).0),
            FeedHappening::ReaderTries(reader)
            | FeedHappening::OpenReader { reader, .. }
            | FeedHappening::ReaderLooks(reader, _) => Some(feed.readers[*reader].plan.at),
            FeedHappening::StartOrigin | FeedHappening::Offer(_) | FeedHappening::Learned(..) => None,
        }
    }

    /// Handles a planned event of a feed.
    pub(in crate::world) fn feed_happens(&mut self, what: FeedHappening, watch: &mut dyn Watch) {
        let at = self.happens_at(&what);
        if let Some(at) = at
            && self.places[at].life == Life::Stopped
        {
            return self.agenda.plan(self.now + HELD_FOR, Happening::Feed(what));
        }
        let now = self.now;
        let clock = at.map_or(now, |at| self.places[at].clock(now));
        match what {
            FeedHappening::StartOrigin => return self.start_origin(watch),
            FeedHappening::Offer(source) => self.offer(source),
            FeedHappening::OriginWakes(origin) => self.tasks().origin_wakes(now, clock, origin),
            FeedHappening::Flushed(origin, last) => self.tasks().origin_flushed(now, clock, origin, last),
            FeedHappening::Learned(origin, stream, number) => {
                self.tasks().source_learns(origin, &stream, number);
            }
            FeedHappening::FetchAgain(key, serial) => self.tasks().fetch_again(key, serial),
            FeedHappening::Encoded(key, encoded) => {
                let feed = self.tasks();
                if let Some(task) = feed.mirrors.get_mut(&key) {
                    task.snapshots.finish(*encoded, task.follower.mirror());
                    feed.wake_readers(key);
                }
            }
            FeedHappening::Beat(key, stream) => self.tasks().beat(key, stream),
            FeedHappening::ReaderTries(reader) => self.try_reader(reader),
            FeedHappening::OpenReader { reader, serial, mirror, content } => {
                return self.open_reader(reader, serial, mirror, content, watch);
            }
            FeedHappening::ReaderLooks(reader, serial) => self.tasks().reader_looks(reader, serial),
        }
        self.drain_feed(watch);
        watch.touched(self, at.unwrap_or(0));
    }

    fn try_reader(&mut self, reader: usize) {
        let (now, at) = (self.now, self.tasks().readers[reader].plan.at);
        let (life, node) = (self.places[at].life, self.places[at].id);
        let feed = self.tasks();
        if life == Life::Running {
            feed.reader_tries(reader, node);
        } else if !feed.is_ending {
            feed.plan_at(now + super::reader::RETRY_AFTER, FeedHappening::ReaderTries(reader));
        }
    }

    fn offer(&mut self, source: usize) {
        let origin = self.tasks().source_origin(source);
        let at = origin.map(|origin| self.tasks().origins[origin].at);
        match (origin, at.filter(|&at| self.places[at].life == Life::Running)) {
            (Some(origin), Some(at)) => {
                let clock = self.places[at].clock(self.now);
                self.tasks().source_offers(clock, source, origin);
            }
            _ => self.tasks().plan_offer(source),
        }
    }

    /// Starts the next origin at the next place that runs.
    fn start_origin(&mut self, watch: &mut dyn Watch) {
        let now = self.now;
        let feed = self.tasks();
        if feed.is_ending {
            return;
        }
        let at = feed.plan.origins[feed.starts % feed.plan.origins.len()];
        feed.starts += 1;
        let again = now + feed.plan.restart_after;
        // An origin without a journal is replaced only when it is gone, because its successor begins another feed.
        let must_wait = !feed.plan.has_journal && feed.serving_origin().is_some();
        let node = self.places[at].id;
        // An origin that sees no mirror begins no epoch, as in production.
        let has_mirrors = self.places[at].node().view().service(SERVICE).is_some();
        if must_wait || self.places[at].life != Life::Running || !has_mirrors {
            if !must_wait {
                self.agenda.plan(again, Happening::Feed(FeedHappening::StartOrigin));
            }
            return;
        }
        let feed = self.tasks();
        let number = feed.make_origin(now, at, node);
        let (role, content) = feed.origin_opening(number);
        let play = feed.play(feed.plan.takes_for, Duration::ZERO);
        let synchronisation = Synchronisation::TimeOut(feed.plan.votes_within.into());
        let options = StreamOptions {
            endpoints: Some(feed.plan.mirrors.clone()),
            shape: feed.plan.shape,
            ..StreamOptions::default()
        };
        let up_filter = "votes".into();
        let lag_bytes_max = Some(feed.plan.limits.mirror_lag_bytes_max as u64);
        let plan =
            StreamPlan { synchronisation, up_filter, down_filter: "".into(), options, lag_bytes_max, play };
        let request = RequestId(self.next_request_number());
        self.tasks().origins[number].request = Some(request);
        self.open_role(at, role, content, plan, watch);
        self.drain_feed(watch);
    }

    fn open_reader(&mut self, reader: usize, serial: u64, mirror: u32, content: u64, watch: &mut dyn Watch) {
        let request = RequestId(self.next_request_number());
        let feed = self.tasks();
        let at = feed.readers[reader].plan.at;
        if feed.is_ending || !feed.note_link(reader, serial, request) {
            return;
        }
        let plan = &feed.readers[reader].plan;
        let options = StreamOptions {
            endpoints: Some(PartitionSet::from_iter([mirror])),
            window_bytes: Some(plan.window_bytes),
            ..StreamOptions::default()
        };
        let play = feed.play(Duration::ZERO, plan.reads_for);
        let synchronisation = Synchronisation::DoNotWait;
        let (up_filter, down_filter) = ("".into(), "".into());
        let plan = StreamPlan { synchronisation, up_filter, down_filter, options, lag_bytes_max: None, play };
        self.open_role(at, Feed::reader_role(reader, serial), content, plan, watch);
        self.drain_feed(watch);
    }

    fn open_role(
        &mut self,
        at: usize,
        role: Role,
        content: u64,
        plan: StreamPlan,
        watch: &mut dyn Watch,
    ) -> RequestId {
        let number = self.plays();
        self.tasks().roles.insert(number, role);
        let mut spec = self.stream_spec(&plan);
        spec.params.content = content;
        self.open_stream_as(at, spec, plan.options, watch)
    }

    /// Carries out the requests of tasks. Inputs of nodes are fed at once.
    fn drain_feed(&mut self, watch: &mut dyn Watch) {
        loop {
            let out = std::mem::take(&mut self.tasks().out);
            if out.is_empty() {
                return;
            }
            for one in out {
                let mut inputs = Vec::new();
                self.carry_out_request(one, &mut inputs);
                // The inputs of a request are of one node. They go in together: the effects of the first message for a
                // reader may make room for further ones, which must not overtake the second.
                let Some(&(node, _)) = inputs.first() else { continue };
                if self.is_there(node) {
                    let inputs = inputs.into_iter().map(|(_, input)| input);
                    self.feed_all(place_of(node).0, inputs, watch);
                }
            }
        }
    }

    /// Carries out the requests of tasks of one node, which handles inputs right after this.
    fn drain_feed_inline(&mut self, inline: &mut Vec<Input<Ink>>) {
        loop {
            let out = std::mem::take(&mut self.tasks().out);
            if out.is_empty() {
                return;
            }
            for one in out {
                let mut inputs = Vec::new();
                self.carry_out_request(one, &mut inputs);
                inline.extend(inputs.into_iter().map(|(_, input)| input));
            }
        }
    }

    fn carry_out_request(&mut self, out: Out, inputs: &mut Vec<(NodeId, Input<Ink>)>) {
        match out {
            Out::Plan(at, happening) => self.agenda.plan(at, happening),
            // Watchers see the beginning and the end of each call.
            Out::Input(to, input @ Input::Command(Command::Cancel { .. })) => {
                self.agenda.plan(self.now, Happening::Input { to, input });
            }
            Out::Input(node, input) => inputs.push((node, input)),
            Out::Vote(seat, tag, content) => {
                let input = self.send_content(seat, tag, content, VOTE_BYTES);
                inputs.extend(input.map(|input| (seat.0, input)));
            }
            Out::Leave(key, reason) => {
                if self.leave_seat(&key) {
                    let (node, stream, endpoint) = key;
                    let gone = Command::EndpointGone { stream, endpoint, reason };
                    inputs.push((node, Input::Command(gone)));
                }
            }
            Out::Fetch(key, other) => self.fetch(key, other),
            Out::Pump(key, stream) => self.pump(key, stream, inputs),
            Out::Acknowledge(origin, stream, number) => {
                let learns_us = self.tasks().random.below(LEARNS_WITHIN_US);
                let at = self.now + Duration::from_micros(learns_us as u64);
                self.agenda.plan(at, Happening::Feed(FeedHappening::Learned(origin, stream, number)));
            }
        }
    }

    /// Gives a reader as many messages as its stream's window has room for.
    fn pump(&mut self, key: super::MirrorKey, stream: StreamId, inputs: &mut Vec<(NodeId, Input<Ink>)>) {
        let seat = (key.0, stream, key.1);
        while self.seat(&seat).is_some_and(super::super::streams::Seat::has_room) {
            let Some((tag, bytes)) = self.tasks().next_message(key, stream) else { return };
            let length = bytes.len() as u32;
            let content = self.tasks().contents.keep(Content::Bytes(bytes));
            let input = self.send_content(seat, tag, content, length);
            inputs.extend(input.map(|input| (seat.0, input)));
        }
    }

    /// Lets a mirror ask another one for its snapshot by a call.
    fn fetch(&mut self, key: super::MirrorKey, other: u32) {
        let request = self.next_request();
        let (to, serial) = (key.0, request.0);
        let feed = self.tasks();
        feed.note_fetch(key, request);
        feed.calls.insert((to, request), key);
        let fetch = feed.mirrors.get(&key).and_then(|task| task.fetch.as_ref());
        let first = feed.plan.snapshot_within;
        let options = CallOptions {
            deadline: fetch.map_or(first, |fetch| fetch.within(first)),
            partitions: Some(PartitionSet::from_iter([other])),
            ..CallOptions::default()
        };
        let params = Ink::params(FETCH | serial, 1.0);
        let call = Command::Call { request, name: SNAPSHOT.into(), params: params.into(), options };
        self.agenda.plan(self.now, Happening::Input { to, input: Input::Command(call) });
    }

    /// Handles the end of a call, if it asked for a snapshot.
    pub(in crate::world) fn tell_fetcher(
        &mut self,
        at: usize,
        request: RequestId,
        outcome: &Outcome<Ink>,
        inline: &mut Vec<Input<Ink>>,
    ) {
        if self.feed.is_none() {
            return;
        }
        let node = self.places[at].id;
        let Some(key) = self.tasks().calls.remove(&(node, request)) else { return };
        let content = outcome.value.as_ref().map(|value| value.content).filter(|&content| content > 0);
        self.tasks().mirror_fetched(key, request, content);
        self.drain_feed_inline(inline);
    }

    /// Brings an event of a stream to the task that opened it.
    pub(in crate::world) fn tell_opener(
        &mut self,
        at: usize,
        play: usize,
        event: &StreamEvent<Ink>,
        inline: &mut Vec<Input<Ink>>,
    ) {
        let Some(&role) = self.feed.as_ref().and_then(|feed| feed.roles.get(&play)) else { return };
        let (now, clock) = (self.now, self.places[at].clock(self.now));
        match role {
            Role::Origin(origin) => self.tasks().origin_hears(now, clock, origin, event),
            Role::Reader(reader, serial) => self.tasks().reader_hears(reader, serial, event),
        }
        self.drain_feed_inline(inline);
    }

    /// Brings an event of an endpoint to its mirror. `params` are those of the stream.
    pub(in crate::world) fn tell_mirror(
        &mut self,
        key: SeatKey,
        play: usize,
        event: &EndpointEvent<Ink>,
        inline: &mut Vec<Input<Ink>>,
    ) {
        let Some(&role) = self.feed.as_ref().and_then(|feed| feed.roles.get(&play)) else { return };
        let (node, stream, endpoint) = key;
        let mirror = (node, endpoint);
        let feed = self.tasks();
        match (event, role) {
            (EndpointEvent::Opened { spec, .. }, Role::Origin(_)) => {
                feed.mirror_opened(mirror, stream, spec.params.content);
            }
            (EndpointEvent::Opened { spec, .. }, Role::Reader(..)) => {
                feed.reader_opened(mirror, stream, spec.params.content);
            }
            (EndpointEvent::Packet { tag, payload, .. }, _) => {
                feed.take_content(mirror, stream, *tag, payload.content);
            }
            (EndpointEvent::Packets(run), _) => {
                for (_, tag, payload) in run.iter() {
                    feed.take_content(mirror, stream, tag, payload.content);
                }
            }
            (EndpointEvent::Missed { .. }, Role::Origin(_)) => feed.mirror_of(mirror).follower.miss(),
            // A reader's stream has no limit for its lag.
            (EndpointEvent::Missed { .. }, Role::Reader(..)) => {}
            (EndpointEvent::Settled { .. }, Role::Reader(..)) => feed.out.push(Out::Pump(mirror, stream)),
            (EndpointEvent::Settled { .. }, Role::Origin(_)) => {}
            (EndpointEvent::Closed(_), _) => feed.mirror_closed(mirror, stream),
        }
        self.drain_feed_inline(inline);
    }

    /// The content of the votes of a wave, folded.
    pub(in crate::world) fn fold_votes(&mut self, pieces: &[Ink]) -> u64 {
        let feed = self.tasks();
        let read = |piece: &Ink| match feed.contents.read(piece.content) {
            Some(Content::Vote(vote)) => Some(vote.clone()),
            _ => None,
        };
        let folded = pieces.iter().filter_map(read).reduce(Vote::folded);
        folded.map_or(0, |vote| feed.contents.keep(Content::Vote(vote)))
    }
}

impl Feed {
    fn take_content(&mut self, mirror: super::MirrorKey, stream: StreamId, tag: u64, content: u64) {
        if let Some(Content::Bytes(packet)) = self.contents.read(content).cloned() {
            self.mirror_takes(mirror, stream, tag, &packet);
        }
    }

    fn play(&self, takes_for: Duration, reads_for: Duration) -> Play {
        Play {
            habit: Habit { answers: false, every: None, tags: Tags::Counted, packets_max: 0 },
            packet_bytes: FEED_PACKET_BYTES,
            takes_for,
            slow: None,
            reads_for: Some(reads_for),
            filter_work: Duration::from_micros(20),
            filter_placement: Placement::Inline,
        }
    }
}
