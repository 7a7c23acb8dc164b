//! Gives a source's events to the origin, in batches: waits while the origin is busy, passes over events that it
//! refuses, and counts.

use crate::intake::{Intake, Reached};
use crate::limits::SourceLimits;
use crate::stop::Stop;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use treefold_feed::OfferError;
use treefold_mirror::origin::{Numbers, Refusal};
use treefold_mirror::{Event, Name};

/// Time after which a busy origin is asked again. It doubles up to [`BUSY_RETRY_MAX`], because hundreds of connections
/// may ask.
const BUSY_RETRY: Duration = Duration::from_millis(5);
const BUSY_RETRY_MAX: Duration = Duration::from_millis(80);

/// A source's way to its feed. Cloning shares it.
pub struct Feeder<I> {
    /// The origin.
    pub intake: Arc<I>,
    /// Tells the source to stop.
    pub stop: Stop,
    /// The source's counts.
    pub tally: Arc<Tally>,
    /// The stream of events that name none.
    pub stream: Option<Name>,
    /// The limits.
    pub limits: Arc<SourceLimits>,
}

impl<I> Clone for Feeder<I> {
    fn clone(&self) -> Self {
        Self {
            intake: Arc::clone(&self.intake),
            stop: self.stop.clone(),
            tally: Arc::clone(&self.tally),
            stream: self.stream.clone(),
            limits: Arc::clone(&self.limits),
        }
    }
}

/// Counts events of one source while it runs.
#[derive(Debug, Default)]
pub struct Tally {
    offered: AtomicU64,
    repeated: AtomicU64,
    refused: AtomicU64,
}

/// Numbers of a source's events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Counts {
    /// Events, and lines that are none.
    pub offered: u64,
    /// Events that the origin had already.
    pub repeated: u64,
    /// Events that the origin did not take for another reason, and lines that are no events.
    pub refused: u64,
}

impl Tally {
    /// The present counts.
    pub fn counts(&self) -> Counts {
        let value = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Counts {
            offered: value(&self.offered),
            repeated: value(&self.repeated),
            refused: value(&self.refused),
        }
    }

    /// Counts a line that is no event.
    pub(crate) fn malformed(&self) {
        self.offered.fetch_add(1, Ordering::Relaxed);
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// The reason why a batch was not offered to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandError {
    /// The origin was busy for too long. The events that it did not take are left.
    #[error("the origin is busy")]
    Busy,
    /// The origin has ended.
    #[error("the origin has ended")]
    Ended,
}

/// An event that the origin did not take.
#[derive(Debug)]
pub struct Refused {
    /// Its place in the batch.
    pub index: usize,
    /// Its stream.
    pub stream: Name,
    /// Its number.
    pub number: u64,
    /// The reason; never [`Refusal::Busy`].
    pub refusal: Refusal,
}

impl<I: Intake> Feeder<I> {
    /// Offers a batch to its end. Passes each refused event to `refused`, and goes on. Notes in `reached` the events
    /// that the origin has. Waits for a busy origin, up to `busy_within` if it is given.
    ///
    /// # Errors
    /// [`HandError`]. If this future is dropped, the origin may have taken events that `reached` does not note.
    pub async fn hand_over(
        &self,
        events: &mut VecDeque<Event>,
        numbers: Numbers,
        busy_within: Option<Duration>,
        reached: &mut Reached,
        mut refused: impl FnMut(Refused),
    ) -> Result<(), HandError> {
        let batch = Batch::of(events);
        let total = events.len();
        let mut give_up_at = None;
        let (mut noted, mut retry) = (0, BUSY_RETRY);
        while !events.is_empty() {
            let offered = self.intake.offer_all(events, numbers).await;
            if matches!(offered, Err(OfferError::Ended)) {
                // It may have taken some of them, but nobody will ever know.
                return Err(HandError::Ended);
            }
            let taken = total - events.len();
            if numbers != Numbers::Received {
                batch.note(noted..taken, reached);
            }
            self.tally.offered.fetch_add((taken - noted) as u64, Ordering::Relaxed);
            if taken > noted {
                (give_up_at, retry) = (None, BUSY_RETRY);
            }
            noted = taken;
            match offered {
                Ok(()) | Err(OfferError::Ended) => {}
                Err(OfferError::Refused(Refusal::Busy { .. })) => {
                    let now = Instant::now();
                    let give_up_at = *give_up_at.get_or_insert(busy_within.map(|within| now + within));
                    if give_up_at.is_some_and(|at| now >= at) {
                        return Err(HandError::Busy);
                    }
                    sleep(retry).await;
                    retry = (2 * retry).min(BUSY_RETRY_MAX);
                }
                Err(OfferError::Refused(refusal)) => {
                    let Some(event) = events.pop_front() else { continue };
                    let is_repeated = matches!(refusal, Refusal::Repeated { .. });
                    if is_repeated {
                        reached.note(&event.stream, event.number);
                    }
                    let count = if is_repeated { &self.tally.repeated } else { &self.tally.refused };
                    count.fetch_add(1, Ordering::Relaxed);
                    self.tally.offered.fetch_add(1, Ordering::Relaxed);
                    let Event { stream, number, .. } = event;
                    refused(Refused { index: noted, stream, number, refusal });
                    noted += 1;
                }
            }
        }
        Ok(())
    }
}

/// Streams and numbers of a batch, noted before the origin takes the events.
struct Batch {
    streams: Vec<Name>,
    numbers: Vec<(usize, u64)>,
}

impl Batch {
    fn of(events: &VecDeque<Event>) -> Self {
        let (mut streams, mut numbers) = (Vec::<Name>::new(), Vec::with_capacity(events.len()));
        for event in events {
            let known = streams.iter().rposition(|stream| *stream == event.stream);
            let at = known.unwrap_or_else(|| {
                streams.push(event.stream.clone());
                streams.len() - 1
            });
            numbers.push((at, event.number));
        }
        Self { streams, numbers }
    }

    fn note(&self, range: std::ops::Range<usize>, reached: &mut Reached) {
        for &(stream, number) in &self.numbers[range] {
            reached.note(&self.streams[stream], number);
        }
    }
}
