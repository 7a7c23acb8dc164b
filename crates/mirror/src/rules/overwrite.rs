//! Overwrite: of a run of events of one key and type, one is sent (mirroring §3.2.1, `set_overwrite`).
//!
//! The first event of a run is sent, and the next `run − 1` are held back, each over the one before. The event
//! after them begins the next run, and takes along the fields that only a held one had. In the paper, held
//! events are lost, so a flight whose position is reported once an hour would be up to `run` hours out of
//! date. Here the last one is sent when it has been held for `max_age_ms`, or before any other event of its
//! key is sent.

use crate::event::{Event, Name};
use serde::{Deserialize, Serialize};
use treefold_core::time::{Duration, Instant};

/// Longest run.
pub const RUN_MAX: u32 = 1_000_000;

/// Sends one event of a run of one key and type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Overwrite {
    /// The events' type.
    #[serde(rename = "type")]
    pub kind: Name,
    /// Length of a run, from 2 to [`RUN_MAX`].
    pub run: u32,
    /// Longest time that an event is held back, in ms; default 1,000.
    #[serde(default = "second")]
    pub max_age_ms: u64,
}

fn second() -> u64 {
    1_000
}

impl Overwrite {
    /// Sends every second event of a type.
    pub fn every_second(kind: &Name) -> Self {
        Self { kind: kind.clone(), run: 2, max_age_ms: second() }
    }

    /// Longest time that an event is held back.
    pub fn max_age(&self) -> Duration {
        Duration::from_millis(self.max_age_ms)
    }
}

/// The run of one key and type.
#[derive(Clone, Debug, Default)]
pub(crate) struct Run {
    /// Events of this run that can still be held back.
    left: u32,
    held: Option<Held>,
}

/// An event that is held back.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    pub(crate) event: Event,
    /// Arrival of the first event that was held after the last one sent.
    pub(crate) since: Instant,
    /// Names its entry among the times at which something is due.
    pub(crate) ticket: u64,
    /// Orders the held events of one key by their arrival.
    pub(crate) order: u64,
    /// Earlier events of which this one carries fields that it did not set itself: for each stream, the first number. A
    /// source that repeats only the held event would not bring these fields back.
    pub(crate) carried: Vec<(Name, u64)>,
}

impl Held {
    /// The numbers that are decided with this event, by their streams.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (&Name, u64)> {
        let carried = self.carried.iter().map(|(stream, number)| (stream, *number));
        carried.chain([(&self.event.stream, self.event.number)])
    }

    /// Puts an event in place of the held one. Returns the numbers that are decided thereby.
    fn replace(&mut self, event: Event, serial: u64) -> Vec<(Name, u64)> {
        self.order = serial;
        let is_whole = event.replaces(&self.event);
        let merged = event.over(&self.event);
        let replaced = std::mem::replace(&mut self.event, merged);
        let number = (replaced.stream, replaced.number);
        if is_whole {
            let mut decided = std::mem::take(&mut self.carried);
            decided.push(number);
            return decided;
        }
        if self.carried.iter().any(|(stream, _)| *stream == number.0) {
            // The first number of the stream stays undecided, and so do all numbers after it.
            return vec![number];
        }
        self.carried.push(number);
        Vec::new()
    }
}

/// The effect of an event on its run.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a value is matched at once, and boxing would allocate for each run"
)]
pub(crate) enum Ran {
    /// The event is sent, over the held one if there was one.
    Send(Event, Option<Held>),
    /// The event is held, and nothing was before.
    Hold,
    /// The event is held in place of another one. Its source may forget these numbers.
    Replace(Vec<(Name, u64)>),
}

impl Run {
    /// Takes the next event. `serial` is greater than those of earlier events.
    pub(crate) fn take(&mut self, now: Instant, run: u32, event: Event, serial: u64) -> Ran {
        if self.left == 0 {
            self.left = run - 1;
            let held = self.held.take();
            let event = match &held {
                Some(held) => event.over(&held.event),
                None => event,
            };
            return Ran::Send(event, held);
        }
        self.left -= 1;
        match &mut self.held {
            Some(held) => Ran::Replace(held.replace(event, serial)),
            none => {
                let carried = Vec::new();
                *none = Some(Held { event, since: now, ticket: serial, order: serial, carried });
                Ran::Hold
            }
        }
    }

    /// Takes out the held event, to send it. It begins a new run.
    pub(crate) fn release(&mut self, run: u32) -> Option<Held> {
        let held = self.held.take()?;
        self.left = run - 1;
        Some(held)
    }

    /// The held event.
    pub(crate) fn held(&self) -> Option<&Held> {
        self.held.as_ref()
    }
}
