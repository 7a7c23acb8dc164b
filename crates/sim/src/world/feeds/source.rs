//! The sources of a simulated feed. A source offers its events in order, and repeats them from the first one of which
//! it does not know that it is acknowledged when it has lost its origin.

use super::{Feed, FeedHappening, News, Out, SourcePlan};
use treefold_core::time::{Duration, Instant};
use treefold_mirror::Name;
use treefold_mirror::origin::{Numbers, Refusal};

/// Pause before a source tries again.
const RETRY_AFTER: Duration = Duration::from_millis(20);
/// A source moves to a later origin although it still reaches an earlier one, once in this many tries.
const MOVES_ONCE_IN: usize = 16;

/// A source.
#[derive(Debug)]
pub(super) struct SourceTask {
    pub(super) plan: SourcePlan,
    /// Index of the next event to offer.
    next: usize,
    /// The last number that it knows to be acknowledged.
    pub(super) acknowledged: u64,
    /// The origin that it offers events to.
    origin: Option<usize>,
}

impl SourceTask {
    pub(super) fn new(plan: SourcePlan) -> Self {
        Self { plan, next: 0, acknowledged: 0, origin: None }
    }

    /// True if all of its events are acknowledged, as far as it knows.
    pub(super) fn is_done(&self) -> bool {
        self.acknowledged as usize >= self.plan.events.len()
    }

    /// Begins again behind the last event that it knows to be acknowledged.
    pub(super) fn repeat(&mut self) {
        self.next = self.acknowledged as usize;
    }
}

impl Feed {
    /// The place of the origin to which a source offers its next events. `None` if there is none.
    pub(super) fn source_origin(&mut self, number: usize) -> Option<usize> {
        let serving = self.serving_origin();
        let present = self.sources[number].origin.filter(|&origin| self.origins[origin].serves());
        let moves = present != serving && self.random.below(MOVES_ONCE_IN) == 0;
        let chosen = if moves { serving } else { present.or(serving) };
        let source = &mut self.sources[number];
        if chosen != source.origin && chosen.is_some() {
            source.origin = chosen;
            source.repeat();
            self.tell_newcomer(number);
        }
        chosen
    }

    /// Tells a source that has moved to an origin which events are acknowledged there. Later ones are told as they come.
    fn tell_newcomer(&mut self, number: usize) {
        let source = &self.sources[number];
        let Some(origin) = source.origin else { return };
        if let Some(told) = self.origins[origin].told(&source.plan.stream) {
            self.out.push(Out::Acknowledge(origin, source.plan.stream.clone(), told));
        }
    }

    /// Offers a source's next events to an origin.
    pub(super) fn source_offers(&mut self, clock: Instant, number: usize, origin: usize) {
        let now = self.now;
        for _ in 0..=self.random.below(self.sources[number].plan.burst.max(1)) {
            let source = &self.sources[number];
            let Some(event) = source.plan.events.get(source.next).cloned() else { break };
            let given = event.number;
            match self.origin_offered(clock, origin, event, Numbers::Consecutive) {
                Ok(()) => self.sources[number].next += 1,
                Err(Refusal::Repeated { last, .. }) => {
                    self.sources[number].next = last.max(given) as usize;
                }
                Err(Refusal::Busy { .. }) => break,
                Err(refusal) => {
                    self.news.push(News::Refused { refusal: refusal.to_string() });
                    break;
                }
            }
        }
        self.send_next(now, clock, origin);
        self.plan_offer(number);
    }

    /// Plans the next offers of a source.
    pub(super) fn plan_offer(&mut self, number: usize) {
        let source = &self.sources[number];
        let has_more = source.next < source.plan.events.len();
        let wait = if has_more { source.plan.every } else { RETRY_AFTER };
        if !self.is_ending && !source.is_done() {
            self.plan_at(self.now + wait.max(Duration::from_micros(10)), FeedHappening::Offer(number));
        }
    }

    /// Notes that a source has learned of an acknowledgement by an origin.
    pub(super) fn source_learns(&mut self, origin: usize, stream: &Name, acknowledged: u64) {
        for source in &mut self.sources {
            let is_it = source.plan.stream == *stream && source.origin == Some(origin);
            if is_it && self.origins[origin].serves() {
                source.acknowledged = source.acknowledged.max(acknowledged);
            }
        }
    }
}
