//! Coalesce: several events are sent as one batch, in which each key and type occurs once (mirroring §3.2.1).
//!
//! The origin's sending side applies it to the events at the head of the ready queue, once `events` are there
//! or the first has waited `max_age_ms`. Of the events of one key and type the last is sent, at its own place,
//! with the fields that only earlier ones had. So order within a key holds.

use crate::event::{Event, Name};
use bytestring::ByteString;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use treefold_core::time::Duration;

/// Most events of one batch.
pub const EVENTS_MAX: u32 = 10_000;

/// Sends several events as one batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

impl Default for Coalesce {
    fn default() -> Self {
        Self { events: 2, max_age_ms: tenth() }
    }
}

impl Coalesce {
    /// Longest time that the first event waits.
    pub fn max_age(&self) -> Duration {
        Duration::from_millis(self.max_age_ms)
    }
}

/// Keeps one event of each key and type. Returns the number of events that others have taken up.
///
/// An event that sets fewer fields than an earlier one of its type takes up the others, unless an event of
/// another type stands between the two: older values would then arrive after younger ones.
pub(crate) fn coalesce(events: &mut Vec<Event>) -> u64 {
    let mut last_of_kind: HashMap<(ByteString, Name), usize, FixedState> =
        HashMap::with_capacity_and_hasher(events.len(), FixedState::default());
    let mut last_of_key: HashMap<ByteString, usize, FixedState> =
        HashMap::with_capacity_and_hasher(events.len(), FixedState::default());
    let mut kept: Vec<Option<Event>> = Vec::with_capacity(events.len());
    for event in events.drain(..) {
        let place = kept.len();
        let earlier = last_of_kind.insert((event.key.clone(), event.kind.clone()), place);
        let between = last_of_key.insert(event.key.clone(), place);
        let is_taken_up = |at: &usize| {
            let held = kept[*at].as_ref();
            between == Some(*at) || held.is_some_and(|earlier| event.replaces(earlier))
        };
        let event = match earlier.filter(is_taken_up).and_then(|at| kept[at].take()) {
            Some(earlier) => event.over(&earlier),
            None => event,
        };
        kept.push(Some(event));
    }
    let before = kept.len();
    events.extend(kept.into_iter().flatten());
    (before - events.len()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MirrorLimits;

    fn event(number: u64, kind: &str, field: &str) -> Event {
        let text = format!(
            r#"{{"stream":"s","number":{number},"key":"k","type":"{kind}","fields":{{"{field}":{number}}}}}"#
        );
        Event::from_json(&text, None, &MirrorLimits::DEFAULT).unwrap()
    }

    fn numbers(mut events: Vec<Event>) -> Vec<u64> {
        coalesce(&mut events);
        events.iter().map(|event| event.number).collect()
    }

    #[test]
    fn last_event_of_a_type_stands_at_its_own_place() {
        assert_eq!(numbers(vec![event(1, "a", "x"), event(2, "b", "y"), event(3, "a", "x")]), [2, 3]);
        let mut one = vec![event(1, "a", "x"), event(2, "a", "y")];
        coalesce(&mut one);
        assert_eq!(one[0].fields.iter().map(|(name, _)| name).collect::<Vec<_>>(), ["x", "y"]);
    }

    #[test]
    fn older_values_do_not_move_behind_younger_ones() {
        let events = vec![event(1, "a", "x"), event(2, "b", "x"), event(3, "a", "y")];
        assert_eq!(numbers(events), [1, 2, 3], "3 does not set x, so 1 must go before 2");
    }
}
