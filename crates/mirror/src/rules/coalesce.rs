//! Coalesce: several events are sent as one batch, in which each key and type occurs once (mirroring §3.2.1).
//!
//! The origin's sending side applies it to the events at the head of the ready queue, once `events` are there
//! or the first has waited `max_age_ms`. Of the events of one key and type the last is sent, at its own place,
//! with the fields that only earlier ones had. So order within a key holds.

use crate::event::Event;
use bytestring::ByteString;
use hashbrown::HashMap;
use serde::Deserialize;
use treefold_core::time::Duration;

/// Most events of one batch.
pub const EVENTS_MAX: u32 = 10_000;

/// Sends several events as one batch.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Coalesce {
    /// Number of events that are sent together, from 2 to [`EVENTS_MAX`].
    pub events: u32,
    /// Longest time that the first of them waits for the others, in ms; default 100.
    #[serde(default = "tenth")]
    pub max_age_ms: u64,
}

fn tenth() -> u64 {
    100
}

impl Coalesce {
    /// Longest time that the first event waits.
    pub fn max_age(&self) -> Duration {
        Duration::from_millis(self.max_age_ms)
    }
}

/// Keeps one event of each key and type. Returns the number of events that others have taken up.
pub(crate) fn coalesce(events: &mut Vec<Event>) -> u64 {
    let mut last: HashMap<(ByteString, crate::event::Name), usize, foldhash::fast::FixedState> =
        HashMap::with_capacity_and_hasher(events.len(), foldhash::fast::FixedState::default());
    let mut kept: Vec<Option<Event>> = Vec::with_capacity(events.len());
    for event in events.drain(..) {
        let place = kept.len();
        let earlier = last.insert((event.key.clone(), event.kind.clone()), place);
        let event = match earlier.and_then(|at| kept[at].take()) {
            Some(earlier) => event.over(&earlier),
            None => event,
        };
        kept.push(Some(event));
    }
    let before = kept.len();
    events.extend(kept.into_iter().flatten());
    (before - events.len()) as u64
}
