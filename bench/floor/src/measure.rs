//! Starts a tree, times its waves, and counts CPU.
//!
//! The CPU time is collected by a separate wave, before and after the measured waves: every process adds the
//! time that the kernel has charged it so far. The figure includes the cost of that wave, which is one part
//! in the number of measured waves.

use crate::event::Client;
use crate::options::{Kind, Options};
use crate::root::Root;
use crate::tree::{Fanout, Place};
use std::io;
use std::time::{Duration, Instant};

/// Warm-up waves before the timed ones, as a share of the timed ones.
const WARM_UP_SHARE: u32 = 10;

/// A tree of processes as its launcher drives it. Each wave's sum is checked.
pub(crate) trait Tree {
    /// Runs `rounds` waves, each begun when the previous one has ended. Returns the time of each.
    fn one_at_a_time(&mut self, rounds: u32) -> io::Result<Vec<Duration>>;

    /// Runs `waves` waves with up to `depth` of them in flight. Returns the time of all.
    fn pipelined(&mut self, waves: u32, depth: u32) -> io::Result<Duration>;

    /// Collects the CPU time of every process.
    fn spent(&mut self) -> io::Result<Spent>;
}

/// CPU time up to now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    /// Of all processes, including the launcher.
    pub(crate) all_ns: u64,
    /// Of the launcher.
    pub(crate) launcher_ns: u64,
}

/// CPU time per wave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Of all processes, including the launcher.
    pub(crate) all_us: f64,
    /// Of the launcher.
    pub(crate) launcher_us: f64,
}

impl Cost {
    fn of(before: Spent, after: Spent, waves: u32) -> Self {
        let per_wave_us = |from_ns: u64, to_ns: u64| (to_ns - from_ns) as f64 / 1e3 / f64::from(waves);
        Self {
            all_us: per_wave_us(before.all_ns, after.all_ns),
            launcher_us: per_wave_us(before.launcher_ns, after.launcher_ns),
        }
    }
}

/// The figures of one tree.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// Nodes, including the root.
    pub(crate) nodes: u32,
    /// The tree's shape.
    pub(crate) fanout: Fanout,
    /// How its processes wait.
    pub(crate) kind: Kind,
    /// Time until every process has started and connected.
    pub(crate) startup_ms: f64,
    /// Median round trip, one wave at a time.
    pub(crate) roundtrip_us_p50: f64,
    /// 99th percentile of the round trip.
    pub(crate) roundtrip_us_p99: f64,
    /// CPU per wave, one wave at a time.
    pub(crate) roundtrip_cost: Cost,
    /// Waves in flight in the two figures below.
    pub(crate) depth: u32,
    /// Waves per second when pipelined.
    pub(crate) waves_per_s: f64,
    /// CPU per wave when pipelined.
    pub(crate) pipelined_cost: Cost,
}

/// Starts a tree, measures it, and ends it.
///
/// # Errors
/// An error of the system, a lost process, or a wrong sum: a figure that counts a wrong wave would be
/// worthless.
pub(crate) fn measure(nodes: u32, fanout: Fanout, kind: Kind, options: &Options) -> io::Result<Figures> {
    let begun = Instant::now();
    let place = Place::root(nodes, fanout);
    let mut tree: Box<dyn Tree> = match kind {
        Kind::Blocking | Kind::Told => Box::new(Root::start(place, kind)?),
        Kind::Events | Kind::EventsRoot => Box::new(Client::start(place, kind)?),
    };
    let startup = begun.elapsed();

    let &Options { rounds, waves, depth, .. } = options;
    tree.one_at_a_time(rounds / WARM_UP_SHARE)?;
    let before = tree.spent()?;
    let mut took = tree.one_at_a_time(rounds)?;
    let roundtrip_cost = Cost::of(before, tree.spent()?, rounds);
    took.sort_unstable();

    tree.pipelined(waves / WARM_UP_SHARE, depth)?;
    let before = tree.spent()?;
    let pipelined_took = tree.pipelined(waves, depth)?;
    let pipelined_cost = Cost::of(before, tree.spent()?, waves);

    Ok(Figures {
        nodes,
        fanout,
        kind,
        startup_ms: startup.as_secs_f64() * 1e3,
        roundtrip_us_p50: quantile_us(&took, 0.50),
        roundtrip_us_p99: quantile_us(&took, 0.99),
        roundtrip_cost,
        depth,
        waves_per_s: f64::from(waves) / pipelined_took.as_secs_f64(),
        pipelined_cost,
    })
}

/// Returns the nearest-rank quantile of sorted durations in microseconds, or NaN if there are none.
fn quantile_us(sorted: &[Duration], share: f64) -> f64 {
    treefold_figures::quantile(sorted, share).map_or(f64::NAN, |took| took.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_measured_values() {
        let sorted: Vec<Duration> = (1..=200).map(Duration::from_micros).collect();
        assert!((quantile_us(&sorted, 0.50) - 100.0).abs() < 1e-9);
        assert!((quantile_us(&sorted, 0.99) - 198.0).abs() < 1e-9);
        assert!((quantile_us(&sorted[..1], 0.50) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_cost_is_the_difference_per_wave() {
        let before = Spent { all_ns: 5_000, launcher_ns: 1_000 };
        let after = Spent { all_ns: 25_000, launcher_ns: 5_000 };
        let cost = Cost::of(before, after, 4);
        assert!((cost.all_us - 5.0).abs() < 1e-9 && (cost.launcher_us - 1.0).abs() < 1e-9);
    }
}
