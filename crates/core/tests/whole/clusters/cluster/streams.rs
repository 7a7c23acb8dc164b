//! Streams of a cluster: the defaults for endpoints, filters and users, and the events that users have
//! received.

use super::Cluster;
use std::collections::BTreeSet;
use treefold_core::config::Placement;
use treefold_core::id::{NodeId, RequestId};
use treefold_core::input::{Command, Input};
use treefold_core::partitions::PartitionSet;
use treefold_core::stream::{StreamEvent, StreamId, StreamOptions, StreamSpec, StreamWave, Synchronisation};
use treefold_core::time::Duration;
use treefold_core::tree::Tree;
use treefold_core::tree::shape::Shape;
use treefold_sim::world::ink::Ink;
use treefold_sim::world::streams::{Habit, Play, Seat, SeatKey, StreamPlan, Tags};

/// A stream whose endpoints answer packets down and send nothing on their own. Packets of a wave are added
/// up.
pub fn plan(synchronisation: Synchronisation) -> StreamPlan {
    let folds = synchronisation != Synchronisation::DoNotWait;
    StreamPlan {
        synchronisation,
        up_filter: if folds { "sum".into() } else { "".into() },
        down_filter: "".into(),
        options: StreamOptions { shape: Shape::KAry(2), ..StreamOptions::default() },
        lag_bytes_max: None,
        play: Play {
            habit: Habit { answers: true, every: None, tags: Tags::Counted, packets_max: u64::MAX },
            packet_bytes: 100,
            takes_for: Duration::ZERO,
            slow: None,
            reads_for: Some(Duration::ZERO),
            filter_work: Duration::from_micros(5),
            filter_placement: Placement::Inline,
        },
    }
}

/// As [`plan`], but each endpoint sends up to `packets_max` packets on its own.
pub fn pushing(synchronisation: Synchronisation, every: Duration, packets_max: u64) -> StreamPlan {
    let mut plan = plan(synchronisation);
    plan.play.habit = Habit { every: Some(every), packets_max, ..plan.play.habit };
    plan
}

impl Cluster {
    /// The user of node `i` opens a stream.
    pub fn open(&mut self, i: u32, plan: &StreamPlan) -> RequestId {
        self.world.open_stream(i as usize, plan, &mut self.journal)
    }

    /// As [`open`](Self::open), with a spec that the world has made and the test may have changed.
    pub fn open_as(&mut self, i: u32, spec: StreamSpec<Ink>, options: StreamOptions) -> RequestId {
        self.world.open_stream_as(i as usize, spec, options, &mut self.journal)
    }

    /// The user of node `i` opens a stream, and time passes until it is open.
    pub fn open_wholly(&mut self, i: u32, plan: &StreamPlan) -> (RequestId, StreamId) {
        let request = self.open(i, plan);
        self.run_until(|cluster| cluster.stream(request).is_some());
        (request, self.stream(request).expect("run_until waited for it"))
    }

    /// The stream's user sends a packet down.
    pub fn speak(&mut self, i: u32, request: RequestId, tag: u64, to: Option<PartitionSet>) {
        let is_sent = self.world.send_down(i as usize, request, tag, to, &mut self.journal);
        assert!(is_sent, "{request:?} is open, and has room for packet {tag}");
    }

    /// The stream's user reads again, and takes the waves that it has not read.
    pub fn read_on(&mut self, i: u32, request: RequestId) {
        self.world.pace_reader(i as usize, request, Some(Duration::ZERO), &mut self.journal);
    }

    /// The stream's user closes it.
    pub fn close(&mut self, i: u32, request: RequestId) {
        self.input(i, Input::Command(Command::StreamClose { request }));
    }

    /// An endpoint sends a packet of the tag.
    pub fn send_from(&mut self, key: SeatKey, tag: u64) {
        let is_sent = self.world.send_from(key, Some(tag), &mut self.journal);
        assert!(is_sent, "{key:?} is open, and has room for packet {tag}");
    }

    /// The events that the user has received of the stream.
    pub fn heard(&self, request: RequestId) -> &[StreamEvent<Ink>] {
        self.journal.streams.get(&request).map_or(&[], Vec::as_slice)
    }

    /// The stream, if it has been opened.
    pub fn stream(&self, request: RequestId) -> Option<StreamId> {
        self.heard(request).iter().find_map(|event| match event {
            StreamEvent::Opened { stream, .. } => Some(*stream),
            _ => None,
        })
    }

    /// The waves that have arrived.
    pub fn waves(&self, request: RequestId) -> Vec<&StreamWave<Ink>> {
        self.heard(request).iter().filter_map(wave_of).collect()
    }

    /// The last wave.
    pub fn last_wave(&self, request: RequestId) -> &StreamWave<Ink> {
        let last = self.heard(request).iter().rev().find_map(wave_of);
        last.unwrap_or_else(|| panic!("no wave has come: {:?}", self.heard(request).last()))
    }

    /// The tree in the latest event for the user.
    pub fn trees(&self, request: RequestId) -> Vec<Tree> {
        let trees = self.heard(request).iter().rev().find_map(|event| match event {
            StreamEvent::Opened { trees, .. } | StreamEvent::Changed { trees, .. } => Some(trees.clone()),
            _ => None,
        });
        trees.expect("the stream has been opened")
    }

    /// A node below the front-end that has children.
    pub fn inner_node(&self, request: RequestId) -> u32 {
        let trees = self.trees(request);
        let inner = trees.iter().map(Tree::root).find(|root| root.size > 1).expect("an inner node");
        self.number_of(inner.node)
    }

    fn number_of(&self, node: NodeId) -> u32 {
        let numbers = 0..self.world.places() as u32;
        numbers.into_iter().find(|&i| self.id(i) == node).expect("a node of this cluster")
    }

    /// An endpoint at node `i`.
    pub fn seat(&self, i: u32, stream: StreamId, endpoint: u32) -> &Seat {
        self.world.seat(&(self.id(i), stream, endpoint)).expect("the endpoint was opened")
    }

    /// Asserts that in every wave each contributor counts once, with packets of its tag, and that no endpoint
    /// is both contributor and missing.
    pub fn assert_honest_stream(&self, request: RequestId) {
        let waves = self.waves(request);
        let Some(stream) = self.stream(request) else { return assert_eq!(waves.len(), 0) };
        for wave in &waves {
            let holds = Ink::hold_wave(&wave.packets, stream, wave.tag, &wave.contributors);
            assert!(holds, "its packets are not those of its contributors: {wave:?}");
            assert!(!wave.contributors.intersects(&missing_of(wave)), "in and missing: {wave:?}");
        }
    }

    /// As [`assert_honest_stream`](Self::assert_honest_stream), and no tag comes twice.
    pub fn assert_honest_waves(&self, request: RequestId) {
        self.assert_honest_stream(request);
        let waves = self.waves(request);
        let tags: BTreeSet<u64> = waves.iter().map(|wave| wave.tag).collect();
        assert_eq!(tags.len(), waves.len(), "a tag came twice");
    }
}

fn wave_of(event: &StreamEvent<Ink>) -> Option<&StreamWave<Ink>> {
    match event {
        StreamEvent::Wave(wave) => Some(wave),
        _ => None,
    }
}

/// The endpoints missing from a wave, each once.
pub fn missing_of(wave: &StreamWave<Ink>) -> PartitionSet {
    let mut missing = PartitionSet::new();
    wave.missing.iter().for_each(|loss| {
        assert!(!missing.intersects(&loss.partitions), "missing twice: {wave:?}");
        missing.union_with(&loss.partitions);
    });
    missing
}

/// The tags of waves, in the order in which they came.
pub fn tags_of(waves: &[&StreamWave<Ink>]) -> Vec<u64> {
    waves.iter().map(|wave| wave.tag).collect()
}
