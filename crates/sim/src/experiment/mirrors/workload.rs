//! The settings of a run: the rules, the events and the requests.

use super::cost::Costs;
use crate::world::distribution::Arrivals;
use crate::world::ink::mixed;
use std::sync::Arc;
use treefold_core::time::Instant;
use treefold_mirror::rules::RuleFile;

/// The rules of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// Every event is mirrored; a checkpoint every 50 events.
    Simple,
    /// One of a run of up to 20 positions of a flight is mirrored; a checkpoint every 50 mirrored events.
    Selective,
    /// The same with half the checkpoints.
    SelectiveHalf,
    /// Up to 10 events are coalesced; a checkpoint every 50 mirrored events.
    Fixed,
    /// As [`Fixed`](Self::Fixed) while few requests wait, otherwise as [`SelectiveHalf`](Self::SelectiveHalf).
    Adaptive,
}

impl Rules {
    /// Returns the name of the series.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::Selective => "selective",
            Self::SelectiveHalf => "selective, half the checkpoints",
            Self::Fixed => "fixed",
            Self::Adaptive => "adaptive",
        }
    }

    /// Returns the rules as users write them.
    pub fn text(self) -> &'static str {
        match self {
            Self::Simple => "",
            Self::Selective => {
                "[[rule]]
                name = 'positions'
                overwrite = { type = 'position', run = 20, max_age_ms = 2000 }"
            }
            Self::SelectiveHalf => {
                "[[rule]]
                name = 'positions'
                overwrite = { type = 'position', run = 20, max_age_ms = 2000 }
                [checkpoint]
                every_events = 100"
            }
            Self::Fixed => {
                "[[rule]]
                name = 'together'
                coalesce = { events = 10 }"
            }
            Self::Adaptive => {
                "[[rule]]
                name = 'together'
                active = 'normal'
                coalesce = { events = 10 }
                [[rule]]
                name = 'positions'
                active = 'loaded'
                overwrite = { type = 'position', run = 20, max_age_ms = 2000 }
                [checkpoint]
                every_events = 50
                every_events_loaded = 100
                [adapt]
                pending_requests = { primary = 20, secondary = 15 }"
            }
        }
    }

    /// Returns the checked rules.
    pub fn file(self) -> Arc<RuleFile> {
        Arc::new(RuleFile::read(self.text()).expect("invariant: these rules are valid"))
    }
}

/// The times at which events enter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Each event enters when the origin has taken the one before.
    WhenTaken,
    /// This many events a second enter, at equal distances, taken or not.
    PerSecond(f64),
}

/// Requests for initial states at a constant mean rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Requests {
    /// The time of the first request, in s.
    pub from_s: f64,
    /// The time after the last request, in s.
    pub until_s: f64,
    /// Requests a second, over all mirrors.
    pub per_s: f64,
}

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Number of mirrors. Without mirrors the origin's site only runs business logic.
    pub mirrors: usize,
    /// The rules.
    pub rules: Rules,
    /// Number of events.
    pub events: u64,
    /// Size of a position, in KB.
    pub event_kb: f64,
    /// The times at which events enter.
    pub pace: Pace,
    /// Requests of readers. Without mirrors there are none.
    pub requests: Vec<Requests>,
    /// The costs.
    pub costs: Costs,
    /// The seed of everything random.
    pub seed: u64,
}

/// Bytes of a mirrored position without a body, about.
const HEAD_BYTES: f64 = 100.0;

impl Setting {
    /// Creates a run in which events enter as fast as they are taken, without requests, on the paper's machine.
    pub fn new(mirrors: usize, rules: Rules, events: u64, event_kb: f64, seed: u64) -> Self {
        let (pace, requests) = (Pace::WhenTaken, Vec::new());
        Self { mirrors, rules, events, event_kb, pace, requests, costs: Costs::PAPER, seed }
    }

    /// Makes events enter at this rate.
    #[must_use]
    pub fn paced(self, per_s: f64) -> Self {
        Self { pace: Pace::PerSecond(per_s), ..self }
    }

    /// Adds requests at this rate, for as long as an unmirrored site takes for all events. So their number depends on
    /// nothing that is compared.
    #[must_use]
    pub fn requested(mut self, per_s: f64) -> Self {
        self.requests.push(Requests { from_s: 0.0, until_s: self.unmirrored_s(), per_s });
        self
    }

    /// Returns the time that an unmirrored site takes for all events, in s.
    pub fn unmirrored_s(&self) -> f64 {
        let bytes = (self.event_kb * 1e3) as usize;
        self.events as f64 * (self.costs.receive.of(bytes) + self.costs.logic.of(bytes)) / 1e6
    }

    /// Returns the bytes of a position's body.
    pub(super) fn body_bytes(&self) -> usize {
        (self.event_kb * 1e3 - HEAD_BYTES).max(0.0) as usize
    }

    /// Returns the times of all requests, in order.
    pub(super) fn request_times(&self) -> Vec<Instant> {
        let at = |s: f64| Instant::from_nanos((s * 1e9) as u64);
        let mut times = Vec::new();
        for (number, requests) in self.requests.iter().enumerate().filter(|(_, one)| one.per_s > 0.0) {
            let seed = mixed(self.seed ^ 0x7265_7175 ^ number as u64);
            let arrivals = Arrivals::poisson(seed, requests.per_s, at(requests.from_s));
            times.extend(arrivals.take_while(|&time| time < at(requests.until_s)));
        }
        times.sort_unstable();
        times
    }
}
