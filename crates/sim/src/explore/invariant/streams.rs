//! Records the open streams, so that the rules of streams can be checked.
//!
//! It sees the commands and events of front-ends' users. The world knows which packets endpoints have sent
//! ([`World::seats`](crate::world::World::seats)).

use super::{stream_counted_once, stream_partitioned, stream_tags};
use crate::world::ink::Ink;
use std::collections::BTreeMap;
use treefold_core::error::Missing;
use treefold_core::id::RequestId;
use treefold_core::partitions::PartitionSet;
use treefold_core::stream::{StreamEvent, StreamId, StreamSpec, StreamWave, Synchronisation};
use treefold_core::time::Instant;

/// A front-end's place, and the request with which it opened the stream.
pub type FrontEndKey = (usize, RequestId);

/// A packet that came as a wave of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Came {
    /// Its sequence number at its endpoint.
    pub number: u64,
    /// Its tag.
    pub tag: u64,
}

/// A stream as its front-end's user sees it.
#[derive(Debug)]
pub struct Heard {
    /// The stream's id, once it is open.
    pub stream: Option<StreamId>,
    /// The rule by which a wave is complete.
    pub synchronisation: Synchronisation,
    /// Endpoints that were asked when the stream was opened. Each takes part or is missing.
    pub asked: PartitionSet,
    /// The asked endpoints that took part from the start.
    pub first: PartitionSet,
    /// The endpoints that take part, by the latest event.
    pub present: PartitionSet,
    /// The endpoints that are away, by the latest event.
    pub away: Vec<Missing>,
    /// If waves wait for endpoints: the contributors and the missing endpoints of each wave, by tag.
    pub waves: BTreeMap<u64, (PartitionSet, PartitionSet)>,
    /// In do-not-wait mode: the packets that came, by endpoint.
    pub packets: BTreeMap<u32, Vec<Came>>,
    /// In do-not-wait mode: the number of packets that were reported lost, by endpoint.
    pub losses: BTreeMap<u32, u64>,
    /// All contributors of waves since [`Streams::forget_recent`].
    pub recent: PartitionSet,
    /// The endpoints that were to come back then.
    pub living: PartitionSet,
    /// The largest set of these in one wave since then.
    pub recent_most: PartitionSet,
    /// Whether the stream is over.
    pub is_over: bool,
}

impl Heard {
    fn new(synchronisation: Synchronisation) -> Self {
        Self {
            stream: None,
            synchronisation,
            asked: PartitionSet::new(),
            first: PartitionSet::new(),
            present: PartitionSet::new(),
            away: Vec::new(),
            waves: BTreeMap::new(),
            packets: BTreeMap::new(),
            losses: BTreeMap::new(),
            recent: PartitionSet::new(),
            living: PartitionSet::new(),
            recent_most: PartitionSet::new(),
            is_over: false,
        }
    }

    /// Tells whether packets of several endpoints make a wave.
    pub fn gathers(&self) -> bool {
        self.synchronisation != Synchronisation::DoNotWait
    }
}

/// All streams that were ever opened.
#[derive(Debug, Default)]
pub struct Streams {
    heard: BTreeMap<FrontEndKey, Heard>,
    /// The latest life of each place in a stream, and the time at which it last changed because the node
    /// began anew.
    lives: BTreeMap<(usize, StreamId), (u64, Option<Instant>)>,
    /// Number of streams that were opened.
    pub opened: u64,
    /// Number of waves that reached front-ends' users.
    pub waves: u64,
    /// True once a filter on the way down failed, or took too long. Nobody below it answers that packet, so its wave stays
    /// open if it waits for all.
    pub has_lost_down: bool,
}

impl Streams {
    pub(super) fn opens(&mut self, key: FrontEndKey, spec: &StreamSpec<Ink>) {
        self.opened += 1;
        self.heard.insert(key, Heard::new(spec.synchronisation));
    }

    /// Returns a stream, if it was ever opened.
    pub fn heard(&self, key: &FrontEndKey) -> Option<&Heard> {
        self.heard.get(key)
    }

    /// Records the life that a place has got.
    pub(super) fn has_life(&mut self, now: Instant, at: usize, stream: StreamId, life: u64) {
        let (last, anew_at) = self.lives.entry((at, stream)).or_insert((life, None));
        if life > *last {
            (*last, *anew_at) = (life, Some(now));
        }
    }

    /// Returns the time at which a place was last told to begin anew.
    pub fn anew_at(&self, at: usize, stream: StreamId) -> Option<Instant> {
        self.lives.get(&(at, stream)).and_then(|&(_, anew_at)| anew_at)
    }

    /// Records an event of a front-end's user. An error holds the name of the broken invariant, and a
    /// description.
    pub(super) fn hears(
        &mut self,
        key: FrontEndKey,
        event: &StreamEvent<Ink>,
    ) -> Result<(), (&'static str, String)> {
        let Some(heard) = self.heard.get_mut(&key) else { return Ok(()) };
        match event {
            StreamEvent::Opened { stream, endpoints, missing, .. } => {
                heard.stream = Some(*stream);
                heard.present.clone_from(endpoints);
                heard.away.clone_from(missing);
                heard.first.clone_from(endpoints);
                heard.asked.clone_from(endpoints);
                missing.iter().for_each(|loss| heard.asked.union_with(&loss.partitions));
            }
            StreamEvent::Changed { endpoints, away, .. } => {
                heard.present.clone_from(endpoints);
                heard.away.clone_from(away);
            }
            StreamEvent::Wave(wave) => {
                self.waves += 1;
                let Some(stream) = heard.stream else {
                    return Err((
                        "stream_partitioned",
                        format!("a wave came before the stream was open: {wave:?}"),
                    ));
                };
                let named = |name: &'static str| move |what: String| (name, what);
                stream_counted_once::of_wave(heard, wave).map_err(named("stream_counted_once"))?;
                stream_tags::of_wave(stream, wave).map_err(named("stream_tags"))?;
                stream_partitioned::of_wave(heard, wave).map_err(named("stream_partitioned"))?;
                heard.note(wave);
            }
            StreamEvent::Taken { .. } => {}
            StreamEvent::Closed(_) => heard.is_over = true,
        }
        Ok(())
    }

    /// Forgets the recent waves, so that only later waves show which of the endpoints `living` are back.
    pub fn forget_recent(&mut self, living: &PartitionSet) {
        for heard in self.heard.values_mut() {
            heard.living.clone_from(living);
            heard.recent = PartitionSet::new();
            heard.recent_most = PartitionSet::new();
        }
    }

    /// Records that the process at a place is gone, and with it the streams of its users.
    pub(super) fn killed(&mut self, at: usize) {
        for (_, heard) in self.heard.iter_mut().filter(|((place, _), _)| *place == at) {
            heard.is_over = true;
        }
    }
}

impl Heard {
    fn note(&mut self, wave: &StreamWave<Ink>) {
        self.recent.union_with(&wave.contributors);
        let living = wave.contributors.intersection(&self.living);
        if living.len() > self.recent_most.len() {
            self.recent_most = living;
        }
        if self.gathers() {
            let mut missing = PartitionSet::new();
            wave.missing.iter().for_each(|loss| missing.union_with(&loss.partitions));
            self.waves.insert(wave.tag, (wave.contributors.clone(), missing));
            return;
        }
        let lost = wave.missing.first().and_then(|loss| loss.partitions.least());
        match (wave.contributors.least(), &wave.packets[..]) {
            (Some(endpoint), [packet]) => {
                let came = Came { number: packet.call, tag: wave.tag };
                self.packets.entry(endpoint).or_default().push(came);
            }
            (endpoint, _) => {
                if let Some(endpoint) = endpoint.or(lost) {
                    *self.losses.entry(endpoint).or_default() += 1;
                }
            }
        }
    }
}
