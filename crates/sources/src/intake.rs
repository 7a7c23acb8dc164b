//! The way into an origin, as sources see it.

use std::collections::VecDeque;
use tokio::sync::watch;
use treefold_feed::{Acknowledged, OfferError, Origin};
use treefold_mirror::origin::Numbers;
use treefold_mirror::{Event, Name};

/// Takes events of sources, and tells which of them are acknowledged. Origins do; tests have one that records.
pub trait Intake: Send + Sync + 'static {
    /// Offers events in their order, and removes each one that is taken. Stops at the first one that is refused; it
    /// is then the first one left.
    ///
    /// # Errors
    /// [`OfferError`].
    fn offer_all(
        &self,
        events: &mut VecDeque<Event>,
        numbers: Numbers,
    ) -> impl Future<Output = Result<(), OfferError>> + Send;

    /// The acknowledged events of each incoming stream, and every later change.
    fn acknowledged(&self) -> watch::Receiver<Acknowledged>;

    /// The name of the rule that holds an event back.
    fn held_by(&self, stream: &Name, number: u64) -> impl Future<Output = Option<String>> + Send;
}

impl Intake for Origin {
    async fn offer_all(&self, events: &mut VecDeque<Event>, numbers: Numbers) -> Result<(), OfferError> {
        Self::offer_all(self, events, numbers).await
    }

    fn acknowledged(&self) -> watch::Receiver<Acknowledged> {
        Self::acknowledged(self)
    }

    async fn held_by(&self, stream: &Name, number: u64) -> Option<String> {
        Self::held_by(self, stream, number).await
    }
}

/// Highest numbers by stream that a source has offered, and that the origin has: taken now, or earlier.
///
/// It has no more streams than the origin allows, because the origin refuses events of further ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reached(Vec<(Name, u64)>);

impl Reached {
    /// Notes that the origin has the event with this number.
    pub fn note(&mut self, stream: &Name, number: u64) {
        match self.0.iter_mut().find(|(known, _)| known == stream) {
            Some((_, reached)) => *reached = number.max(*reached),
            None => self.0.push((stream.clone(), number)),
        }
    }

    /// The streams with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, u64)> {
        self.0.iter().map(|(stream, number)| (stream, *number))
    }

    /// True if all these events are acknowledged.
    pub fn is_within(&self, acknowledged: &Acknowledged) -> bool {
        self.iter().all(|(stream, number)| {
            number == 0 || acknowledged.of(stream).is_some_and(|reached| reached >= number)
        })
    }
}

/// Returns when all these events are acknowledged. Returns false if the origin has ended before.
pub async fn until_acknowledged(acknowledged: &mut watch::Receiver<Acknowledged>, reached: &Reached) -> bool {
    acknowledged.wait_for(|acknowledged| reached.is_within(acknowledged)).await.is_ok()
}
