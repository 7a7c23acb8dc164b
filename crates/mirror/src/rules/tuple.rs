//! Complex tuple: events A and B and C of one key, within a time, become one event D (mirroring §3.2.1,
//! `set_complex_tuple`). Example: *landed*, *at runway* and *at gate* become *arrived*.
//!
//! The parts may come in any order. They are held back; if the time runs out before the last of them is here,
//! they are sent as they are, late. D has the fields of all parts, the later over the earlier.

use super::{Condition, Scalar};
use crate::event::{Event, Name};
use crate::fields::Fields;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use treefold_core::time::{Duration, Instant};

/// Most parts of a tuple.
pub const PARTS_MAX: usize = 8;

/// Combines events of one key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tuple {
    /// The parts, from 2 to [`PARTS_MAX`].
    pub of: Vec<Condition>,
    /// Longest time from the first part to the last, in ms.
    pub within_ms: u64,
    /// D's type.
    pub becomes: Name,
    /// Fields that D has besides those of its parts.
    #[serde(default)]
    pub fields: BTreeMap<String, Scalar>,
}

impl Tuple {
    /// Longest time from the first part to the last.
    pub fn within(&self) -> Duration {
        Duration::from_millis(self.within_ms)
    }

    /// The index of the part that an event is.
    pub(crate) fn part_of(&self, event: &Event) -> Option<usize> {
        self.of.iter().position(|condition| condition.matches(event))
    }

    /// Makes D. It has the stream and number of the last part.
    fn form(&self, parts: Vec<Event>) -> Event {
        let added: Fields =
            self.fields.iter().map(|(name, scalar)| (name.as_str(), scalar.value())).collect();
        let formed = parts.into_iter().reduce(|earlier, later| later.over(&earlier));
        let mut formed = formed.expect("invariant: a tuple has at least two parts");
        formed.kind = self.becomes.clone();
        formed.fields = formed.fields.merged(&added);
        formed
    }
}

/// The parts of one key's tuple that are here.
#[derive(Clone, Debug)]
pub(crate) struct Partial {
    /// The parts by order of arrival, each with its index.
    parts: Vec<(usize, Event)>,
    /// Arrival of the first part.
    pub(crate) since: Instant,
    /// Names its entry among the times at which something is due.
    pub(crate) ticket: u64,
}

/// The effect of a part.
#[derive(Debug)]
pub(crate) enum Formed {
    /// Parts are missing. `replaced` is an earlier event that was the same part; the new one has taken it up.
    Waits { replaced: Option<Event> },
    /// All parts are here: D, and the parts other than the last, which is not held any more.
    Done { formed: Event, parts: Vec<Event> },
}

impl Partial {
    pub(crate) fn new(since: Instant, ticket: u64) -> Self {
        Self { parts: Vec::new(), since, ticket }
    }

    pub(crate) fn take(&mut self, tuple: &Tuple, index: usize, event: Event) -> Formed {
        if let Some(at) = self.parts.iter().position(|(known, _)| *known == index) {
            let (_, earlier) = self.parts.remove(at);
            self.parts.push((index, event.over(&earlier)));
            return Formed::Waits { replaced: Some(earlier) };
        }
        self.parts.push((index, event));
        if self.parts.len() < tuple.of.len() {
            return Formed::Waits { replaced: None };
        }
        let mut all: Vec<Event> = self.parts.drain(..).map(|(_, event)| event).collect();
        let formed = tuple.form(all.clone());
        all.pop();
        Formed::Done { formed, parts: all }
    }

    /// True if a part is such an event.
    pub(crate) fn has(&self, is_it: impl Fn(&Event) -> bool) -> bool {
        self.parts.iter().any(|(_, part)| is_it(part))
    }

    /// The parts, by order of arrival.
    pub(crate) fn into_parts(self) -> impl Iterator<Item = Event> {
        self.parts.into_iter().map(|(_, event)| event)
    }
}
