//! How long full answers took, by what was broken meanwhile.
//!
//! A call that a fault met waits until somebody has taken the broken node's place: at once where its connection broke,
//! after a share of the deadline where it is silent. What that adds is the difference to calls that met nothing.

use crate::breaker::{Fault, Happening};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use treefold_cli::commands::bench::call::quantile_us;

/// What is broken, and how often anything was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weather {
    killed: Faults,
    stopped: Faults,
}

/// Faults of one kind. A node that is mended is told from others by whether it was stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Faults {
    /// Nodes that are so now, a bit each; those beyond share the last.
    now: u128,
    ever: u64,
}

/// The worst that a call met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Met {
    Calm,
    Killed,
    Stopped,
}

fn bit(node: usize) -> u128 {
    1 << node.min(127)
}

impl Weather {
    /// Takes in what the breaker tells.
    pub(super) fn note(&mut self, happening: Happening) {
        match happening {
            Happening::Broke(node, fault) => {
                let faults = if fault == Fault::Killed { &mut self.killed } else { &mut self.stopped };
                faults.now |= bit(node);
                faults.ever += 1;
            }
            Happening::Mended(node) => {
                self.killed.now &= !bit(node);
                self.stopped.now &= !bit(node);
            }
        }
    }

    /// What a call met that began in `before` and has ended now.
    pub(super) fn met_since(self, before: Self) -> Met {
        let met = |before: Faults, now: Faults| before.now != 0 || now.ever > before.ever;
        match (met(before.killed, self.killed), met(before.stopped, self.stopped)) {
            (_, true) => Met::Stopped,
            (true, false) => Met::Killed,
            (false, false) => Met::Calm,
        }
    }
}

/// Times by what was met.
#[derive(Clone, Debug, Default)]
pub(super) struct Times(BTreeMap<Met, Vec<Duration>>);

impl Times {
    pub(super) fn note(&mut self, met: Met, elapsed: Duration) {
        self.0.entry(met).or_default().push(elapsed);
    }

    /// In a few figures.
    pub(super) fn took(mut self) -> Took {
        let mut of = |met| Spread::of(self.0.remove(&met).unwrap_or_default());
        Took { calm: of(Met::Calm), killed: of(Met::Killed), stopped: of(Met::Stopped) }
    }
}

/// How long full answers took.
#[derive(Serialize)]
pub(super) struct Took {
    calm: Spread,
    killed: Spread,
    stopped: Spread,
}

impl Took {
    pub(super) fn lines(&self) -> String {
        let line = |name: &str, spread: &Spread| {
            let Spread { calls, p50_ms, p99_ms, max_ms } = spread;
            format!(
                "  {name:<9} {calls} full answers, p50 {p50_ms:.2} ms, p99 {p99_ms:.2} ms, at most {max_ms:.2} ms"
            )
        };
        [("calm", &self.calm), ("killed", &self.killed), ("stopped", &self.stopped)]
            .map(|(name, spread)| line(name, spread))
            .join("\n")
    }
}

#[derive(Serialize)]
struct Spread {
    calls: usize,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    p50_ms: f64,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    p99_ms: f64,
    #[serde(serialize_with = "treefold_cli::output::rounded")]
    max_ms: f64,
}

impl Spread {
    fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let ms = |share| quantile_us(&times, share) / 1e3;
        Self { calls: times.len(), p50_ms: ms(0.5), p99_ms: ms(0.99), max_ms: ms(1.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_met_what_was_broken_when_it_began_or_broke_until_it_ended() {
        let calm = Weather::default();
        let mut now = calm;
        assert_eq!(now.met_since(calm), Met::Calm);
        now.note(Happening::Broke(3, Fault::Killed));
        assert_eq!(now.met_since(calm), Met::Killed, "it broke meanwhile");
        let killed = now;
        now.note(Happening::Mended(3));
        assert_eq!(now.met_since(killed), Met::Killed, "it was broken to begin with");
        assert_eq!(now.met_since(now), Met::Calm);
        now.note(Happening::Broke(4, Fault::Stopped));
        assert_eq!(now.met_since(killed), Met::Stopped, "the worst of the two");
    }
}
