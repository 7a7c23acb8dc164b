//! The root: starts a tree, times waves, counts CPU, checks every sum.
//!
//! The CPU time is collected by a separate wave, before and after the measured waves: every process adds the
//! time that the kernel has charged it so far. The figure includes the cost of that wave, which is one part
//! in `rounds`.

use crate::branches::Branches;
use crate::options::Options;
use crate::tree::{Fanout, ORDER_BYTES, Order, Place};
use std::io;
use std::time::{Duration, Instant};

/// Warm-up waves before the timed ones, as a share of the timed ones.
const WARM_UP_SHARE: u32 = 10;

/// The figures of one tree.
#[derive(Clone, Debug)]
pub(crate) struct Figures {
    /// Nodes, including the root.
    pub(crate) nodes: u32,
    /// The tree's shape.
    pub(crate) fanout: Fanout,
    /// Time until every process has started and connected.
    pub(crate) startup_ms: f64,
    /// Median round trip, one wave at a time.
    pub roundtrip_us_p50: f64,
    /// 99th percentile of the round trip.
    pub roundtrip_us_p99: f64,
    /// CPU of all processes per wave, one wave at a time.
    pub(crate) roundtrip_cpu_us: f64,
    /// Waves in flight in the two figures below.
    pub(crate) depth: u32,
    /// Waves per second when pipelined.
    pub(crate) waves_per_s: f64,
    /// CPU of all processes per wave when pipelined.
    pub(crate) cpu_us_per_wave: f64,
}

/// Starts a tree, measures it, and ends it.
///
/// # Errors
/// An error of the system, a lost process, or a wrong sum: a figure that counts a wrong wave would be
/// worthless.
pub(crate) fn measure(nodes: u32, fanout: Fanout, options: &Options) -> io::Result<Figures> {
    let begun = Instant::now();
    let mut root = Root::start(Place::root(nodes, fanout))?;
    let startup = begun.elapsed();

    let rounds = options.rounds;
    root.one_at_a_time(rounds / WARM_UP_SHARE)?;
    let (cpu_before, _) = root.wave(Order::CpuTime)?;
    let mut took = root.one_at_a_time(rounds)?;
    let (cpu_between, _) = root.wave(Order::CpuTime)?;
    took.sort_unstable();

    root.pipelined(rounds / WARM_UP_SHARE, options.depth)?;
    let (cpu_again, _) = root.wave(Order::CpuTime)?;
    let pipelined_took = root.pipelined(rounds, options.depth)?;
    let (cpu_after, _) = root.wave(Order::CpuTime)?;

    let per_round_us = |from_ns: u64, to_ns: u64| (to_ns - from_ns) as f64 / 1e3 / f64::from(rounds);
    Ok(Figures {
        nodes,
        fanout,
        startup_ms: startup.as_secs_f64() * 1e3,
        roundtrip_us_p50: quantile_us(&took, 0.50),
        roundtrip_us_p99: quantile_us(&took, 0.99),
        roundtrip_cpu_us: per_round_us(cpu_before, cpu_between),
        depth: options.depth,
        waves_per_s: f64::from(rounds) / pipelined_took.as_secs_f64(),
        cpu_us_per_wave: per_round_us(cpu_again, cpu_after),
    })
}

/// Returns the nearest-rank quantile of sorted durations in microseconds, or NaN if there are none.
fn quantile_us(sorted: &[Duration], share: f64) -> f64 {
    treefold_figures::quantile(sorted, share).map_or(f64::NAN, |took| took.as_secs_f64() * 1e6)
}

/// The launcher as the root node of its tree.
struct Root {
    place: Place,
    branches: Branches,
}

impl Root {
    fn start(place: Place) -> io::Result<Self> {
        let (branches, below) = Branches::grow(place)?;
        if below + 1 == u64::from(place.nodes) {
            Ok(Self { place, branches })
        } else {
            Err(io::Error::other(format!("only {} of {} nodes started", below + 1, place.nodes)))
        }
    }

    /// Runs one wave. Returns its sum, and the time from the first byte down to the last byte up.
    fn wave(&mut self, order: Order) -> io::Result<(u64, Duration)> {
        let begun = Instant::now();
        self.branches.send(&order.to_bytes())?;
        let mut sum = [order.share(self.place.number)];
        self.branches.fold(&mut sum)?;
        let took = begun.elapsed();
        self.check(order, sum[0])?;
        Ok((sum[0], took))
    }

    /// Runs `rounds` waves, each begun when the previous one has ended.
    fn one_at_a_time(&mut self, rounds: u32) -> io::Result<Vec<Duration>> {
        (0..rounds).map(|round| Ok(self.wave(Order::Sum(u64::from(round)))?.1)).collect()
    }

    /// Runs `rounds` waves with `depth` of them in flight. After a batch of answers, it sends as many orders
    /// in one batch.
    fn pipelined(&mut self, rounds: u32, depth: u32) -> io::Result<Duration> {
        let begun = Instant::now();
        let (mut sent, mut answered) = (0, 0);
        let mut orders = Vec::with_capacity(depth as usize * ORDER_BYTES);
        let mut sums = Vec::with_capacity(depth as usize);
        while answered < rounds {
            orders.clear();
            while sent < rounds && sent - answered < depth {
                orders.extend_from_slice(&Order::Sum(u64::from(sent)).to_bytes());
                sent += 1;
            }
            self.branches.send(&orders)?;
            sums.clear();
            sums.extend((answered..sent).map(|round| Order::Sum(u64::from(round)).share(self.place.number)));
            let ready = self.branches.fold_ready(&mut sums)?;
            for (round, &sum) in (answered..).zip(&sums[..ready]) {
                self.check(Order::Sum(u64::from(round)), sum)?;
            }
            answered += u32::try_from(ready).expect("at most `depth` waves are in flight");
        }
        Ok(begun.elapsed())
    }

    fn check(&self, order: Order, sum: u64) -> io::Result<()> {
        match order.total(self.place.nodes) {
            Some(total) if total != sum => {
                Err(io::Error::other(format!("expected the sum {total} for {order:?}, found {sum}")))
            }
            _ => Ok(()),
        }
    }
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
}
