//! The book of streams that are open, from which the rules of streams are held.
//!
//! It sees what front-ends' users ask for and hear. What endpoints have sent, the world says
//! ([`World::seats`](crate::world::World::seats)).

use super::{stream_counted_once, stream_partitioned, stream_tags};
use crate::world::ink::Ink;
use std::collections::BTreeMap;
use treefold_core::id::RequestId;
use treefold_core::partitions::PartitionSet;
use treefold_core::stream::{StreamEvent, StreamId, StreamSpec, StreamWave, Synchronisation};
use treefold_core::time::Instant;

/// The front-end's place, and its name for the stream.
pub type FrontEndKey = (usize, RequestId);

/// A packet that came alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Came {
    /// Its number at its endpoint.
    pub number: u64,
    /// Its tag.
    pub tag: u64,
}

/// A stream as its front-end's user has heard of it.
#[derive(Debug)]
pub struct Heard {
    /// Its name, once it is open.
    pub stream: Option<StreamId>,
    /// When a wave is complete.
    pub synchronisation: Synchronisation,
    /// Endpoints that were asked for when it was opened: they take part, or are missing.
    pub asked: PartitionSet,
    /// Those of them that took part from the start.
    pub first: PartitionSet,
    /// Endpoints that take part, as was last said.
    pub present: PartitionSet,
    /// Where endpoints are waited for: by tag, who was in the wave, and who was missing from it.
    pub waves: BTreeMap<u64, (PartitionSet, PartitionSet)>,
    /// Where nobody is waited for: the packets that came, by endpoint.
    pub packets: BTreeMap<u32, Vec<Came>>,
    /// The same, of each endpoint the packets of which only the loss came.
    pub losses: BTreeMap<u32, u64>,
    /// Who was in a wave since [`Streams::forget_recent`].
    pub recent: PartitionSet,
    /// The largest set of contributors of one wave since then.
    pub recent_most: PartitionSet,
    /// True when it is over.
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
            waves: BTreeMap::new(),
            packets: BTreeMap::new(),
            losses: BTreeMap::new(),
            recent: PartitionSet::new(),
            recent_most: PartitionSet::new(),
            is_over: false,
        }
    }

    /// True when packets of several endpoints make a wave.
    pub fn gathers(&self) -> bool {
        self.synchronisation != Synchronisation::DoNotWait
    }
}

/// All streams that were ever opened.
#[derive(Debug, Default)]
pub struct Streams {
    heard: BTreeMap<FrontEndKey, Heard>,
    /// The life that each place was told last, and when it was another than before: then it begins anew.
    lives: BTreeMap<(usize, StreamId), (u64, Option<Instant>)>,
    /// Streams that were opened.
    pub opened: u64,
    /// Waves that came to front-ends' users.
    pub waves: u64,
}

impl Streams {
    pub(super) fn opens(&mut self, key: FrontEndKey, spec: &StreamSpec<Ink>) {
        self.opened += 1;
        self.heard.insert(key, Heard::new(spec.synchronisation));
    }

    /// A stream, if it was ever asked for.
    pub fn heard(&self, key: &FrontEndKey) -> Option<&Heard> {
        self.heard.get(key)
    }

    /// A place is told its life.
    pub(super) fn has_life(&mut self, now: Instant, at: usize, stream: StreamId, life: u64) {
        let (last, anew_at) = self.lives.entry((at, stream)).or_insert((life, None));
        if life > *last {
            (*last, *anew_at) = (life, Some(now));
        }
    }

    /// When a place was last told to begin anew.
    pub fn anew_at(&self, at: usize, stream: StreamId) -> Option<Instant> {
        self.lives.get(&(at, stream)).and_then(|&(_, anew_at)| anew_at)
    }

    /// What a front-end's user hears; the invariant that it breaks, by name, and how.
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
                heard.first.clone_from(endpoints);
                heard.asked.clone_from(endpoints);
                missing.iter().for_each(|loss| heard.asked.union_with(&loss.partitions));
            }
            StreamEvent::Changed { endpoints, .. } => heard.present.clone_from(endpoints),
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

    /// What came until now says nothing about who is back.
    pub fn forget_recent(&mut self) {
        for heard in self.heard.values_mut() {
            heard.recent = PartitionSet::new();
            heard.recent_most = PartitionSet::new();
        }
    }

    /// The process at a place is gone, and with it the streams of its users.
    pub(super) fn killed(&mut self, at: usize) {
        for (_, heard) in self.heard.iter_mut().filter(|((place, _), _)| *place == at) {
            heard.is_over = true;
        }
    }
}

impl Heard {
    fn note(&mut self, wave: &StreamWave<Ink>) {
        self.recent.union_with(&wave.contributors);
        if wave.contributors.len() > self.recent_most.len() {
            self.recent_most.clone_from(&wave.contributors);
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
