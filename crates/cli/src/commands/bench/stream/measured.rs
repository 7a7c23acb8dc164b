//! The front-end of a measured stream: sends, receives, and checks every wave.

use crate::commands::bench::moment::{Moment, Span};
use crate::commands::failure_of;
use crate::exit::Failure;
use crate::fleet::processes::Processes;
use bytes::Bytes;
use std::time::{Duration, Instant};
use treefold::operators::Packet;
use treefold::{PartitionSet, Stream, StreamWave};

/// Payload of a broadcast, as long as the one of the benchmark's lower bound.
///
/// No endpoint reads it.
const BROADCAST: Bytes = Bytes::from_static(&[7; 32]);

/// Limit on the time of a wave.
///
/// A wave that takes longer is a failure, not a figure.
const WAVE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time that a phase runs before it is measured.
const WARM_UP: Duration = Duration::from_millis(500);

/// A stream and the expected properties of its waves.
pub(super) struct MeasuredStream {
    stream: Stream,
    backends: PartitionSet,
    /// Number of waves that reported missing back-ends.
    incomplete: u64,
}

impl MeasuredStream {
    /// Makes the front-end of a stream over `backends` back-ends, each of which sends its own number.
    pub(super) fn of(stream: Stream, backends: u32) -> Self {
        Self { stream, backends: PartitionSet::first(backends), incomplete: 0 }
    }

    /// Returns the number of waves so far that reported missing back-ends.
    ///
    /// If a machine has far more processes than processors, one of them may not run for longer than the
    /// others wait.
    pub(super) fn incomplete(&self) -> u64 {
        self.incomplete
    }

    /// Returns the number of nodes of the stream's tree that have no endpoint, and of those that send to the front-end.
    pub(super) fn tree(&self) -> (usize, usize) {
        let trees = self.stream.trees();
        let inner =
            trees.iter().map(|tree| tree.seats().iter().filter(|seat| seat.partitions.is_empty()).count());
        (inner.sum(), trees.len())
    }

    /// Makes a broadcast and waits for the sum that answers it.
    pub(super) async fn round_trip(&mut self) -> Result<(), Failure> {
        let tag = self.broadcast().await?;
        self.wave_of(Some(tag)).await
    }

    /// Keeps `in_flight` broadcasts in flight and measures in the middle.
    pub(super) async fn pipeline(
        &mut self,
        nodes: &Processes,
        in_flight: u32,
        seconds: Duration,
    ) -> Result<Span, Failure> {
        let mut next = self.broadcast().await?;
        for _ in 1..in_flight {
            self.broadcast().await?;
        }
        let mut course = Course::of(nodes, seconds);
        while !course.is_over()? {
            self.wave_of(Some(next)).await?;
            next += 1;
            course.waves += 1;
            self.broadcast().await?;
        }
        course.span()
    }

    /// Receives the waves that back-ends push, and measures in the middle.
    pub(super) async fn watch(&mut self, nodes: &Processes, seconds: Duration) -> Result<Span, Failure> {
        let mut course = Course::of(nodes, seconds);
        while !course.is_over()? {
            self.wave_of(None).await?;
            course.waves += 1;
        }
        course.span()
    }

    async fn broadcast(&self) -> Result<u64, Failure> {
        self.stream.send(BROADCAST).await.map_err(failure_of)
    }

    /// Receives the next wave.
    ///
    /// It must be the exact sum over its contributors, report all others as missing, and have this tag if one
    /// is given.
    async fn wave_of(&mut self, tag: Option<u64>) -> Result<(), Failure> {
        let wave = tokio::time::timeout(WAVE_TIMEOUT, self.stream.wave()).await;
        let wave = wave
            .map_err(|_| Failure::failed(format!("no wave came within {WAVE_TIMEOUT:?}")))?
            .map_err(failure_of)?;
        let sum: i64 = wave.contributors.iter().map(i64::from).sum();
        let mut told = wave.contributors.clone();
        wave.missing.iter().for_each(|missing| told.union_with(&missing.partitions));
        let is_exact =
            tag.is_none_or(|tag| tag == wave.tag) && told == self.backends && figure(&wave) == Some(sum);
        if is_exact {
            self.incomplete += u64::from(wave.contributors != self.backends);
            return Ok(());
        }
        Err(Failure::failed(format!(
            "wave {} from {} of {} back-ends is {:?}, expected {sum} in wave {tag:?}; missing {:?}",
            wave.tag,
            wave.contributors.len(),
            self.backends.len(),
            figure(&wave),
            wave.missing
        )))
    }
}

/// Returns the one number of the one packet of a wave of sums.
fn figure(wave: &StreamWave<Bytes>) -> Option<i64> {
    match &wave.packets[..] {
        [packet] => Packet::read(packet).and_then(|packet| packet.i64(0)).ok(),
        _ => None,
    }
}

/// A phase with its warm-up and the two moments of its measurement.
struct Course<'a> {
    nodes: &'a Processes,
    waves: u64,
    warm_at: Instant,
    ends_at: Instant,
    began: Option<Moment>,
    ended: Option<Moment>,
}

impl<'a> Course<'a> {
    fn of(nodes: &'a Processes, seconds: Duration) -> Self {
        let warm_at = Instant::now() + WARM_UP;
        Self { nodes, waves: 0, warm_at, ends_at: warm_at + seconds, began: None, ended: None }
    }

    /// Takes the two moments when they are due.
    ///
    /// Called after every wave.
    fn is_over(&mut self) -> Result<bool, Failure> {
        let now = Instant::now();
        if now >= self.warm_at && self.began.is_none() {
            self.began = Some(Moment::of(self.nodes, self.waves)?);
        }
        if now >= self.ends_at {
            self.ended = Some(Moment::of(self.nodes, self.waves)?);
        }
        Ok(self.ended.is_some())
    }

    fn span(self) -> Result<Span, Failure> {
        let began = self.began.expect("invariant: a phase that is over has begun");
        began.until(&self.ended.expect("invariant: called when the phase is over"))
    }
}
