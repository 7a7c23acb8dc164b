//! Times of full answers, by the faults during the call.
//!
//! A call that meets a fault waits until another node has taken the broken node's place: at once if the
//! connection broke, after a share of the deadline if the node is silent. The cost of the takeover is the
//! difference to calls that met no fault.

use crate::breaker::{Fault, Happening};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use treefold_cli::commands::bench::call::quantile_us;

/// Nodes that are broken now, and number of faults so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Weather {
    killed: Faults,
    stopped: Faults,
}

/// Faults of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Faults {
    /// Broken nodes, one bit each; nodes from 127 on share the last bit.
    now: u128,
    ever: u64,
}

/// The worst kind of fault that a call met.
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
    /// Records an event of the breaker.
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

    /// Returns the worst fault that was present when the call began (`before`) or occurred until now.
    pub(super) fn met_since(self, before: Self) -> Met {
        let met = |before: Faults, now: Faults| before.now != 0 || now.ever > before.ever;
        match (met(before.killed, self.killed), met(before.stopped, self.stopped)) {
            (_, true) => Met::Stopped,
            (true, false) => Met::Killed,
            (false, false) => Met::Calm,
        }
    }
}

/// Times of full answers by the fault that they met.
#[derive(Clone, Debug, Default)]
pub(super) struct Times(BTreeMap<Met, Vec<Duration>>);

impl Times {
    pub(super) fn note(&mut self, met: Met, elapsed: Duration) {
        self.0.entry(met).or_default().push(elapsed);
    }

    /// Summarises the times.
    pub(super) fn took(mut self) -> Took {
        let mut of = |met| Spread::of(self.0.remove(&met).unwrap_or_default());
        Took { calm: of(Met::Calm), killed: of(Met::Killed), stopped: of(Met::Stopped) }
    }
}

/// Spread of the times of full answers, by the fault that they met.
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
    fn call_meets_faults_present_at_its_start_or_during_it() {
        let calm = Weather::default();
        let mut now = calm;
        assert_eq!(now.met_since(calm), Met::Calm);
        now.note(Happening::Broke(3, Fault::Killed));
        assert_eq!(now.met_since(calm), Met::Killed, "the node broke during the call");
        let killed = now;
        now.note(Happening::Mended(3));
        assert_eq!(now.met_since(killed), Met::Killed, "the node was broken at the start");
        assert_eq!(now.met_since(now), Met::Calm);
        now.note(Happening::Broke(4, Fault::Stopped));
        assert_eq!(now.met_since(killed), Met::Stopped, "the worst of the two");
    }
}
