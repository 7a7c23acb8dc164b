//! Arrival times of calls, which do not wait for answers.
//!
//! Intervals are drawn from one of three distributions. A Poisson process is that of the DAC paper's MICRO. For its RET,
//! the paper plays a trace of ask.com, of which it publishes nothing. A paper of the same group publishes figures of
//! another search engine's traces (Shen, Yang and Chu, ICDCS'02, table 1: Teoma, peak times): the medium-grain
//! service had intervals of 341.5 ms with a deviation of 321.1 ms. [`Pacing::Trace`] draws intervals of that ratio
//! from a Weibull distribution, which that paper names as a usual model. [`Pacing::LogNormal`] has any ratio, and is the
//! distribution by which the simulator draws that paper's traces.
//!
//! If a caller waited for each answer before its next call, it would call a stalling system less often and
//! would not measure the stall (coordinated omission). Here the seed determines all arrivals in advance. A
//! separate thread sends each arrival when it is due, because the runtime's timer has a resolution of
//! milliseconds. Any delay of a call after its planned instant counts as response time.

use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use treefold_core::random::Random;
use treefold_sim::world::distribution::Distribution;

/// Ratio of the intervals' deviation to their mean in the published trace.
#[cfg(test)]
const TRACE_DEVIATION: f64 = 321.1 / 341.5;

/// Shape of the Weibull distribution whose deviation is that share of its mean.
const TRACE_SHAPE: f64 = 1.0641;

/// Mean of the Weibull distribution of that shape and of scale 1: Γ(1 + 1/[`TRACE_SHAPE`]).
const TRACE_MEAN: f64 = 0.97601;

/// Distribution of the intervals between arrivals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pacing {
    /// Exponential.
    Poisson,
    /// As varied as a published trace of a search engine.
    Trace,
    /// Log-normal, with this deviation as a share of the mean.
    LogNormal { deviation: f64 },
}

impl Pacing {
    /// Draws an interval of mean 1.
    fn interval(self, random: &mut Random) -> f64 {
        let exponential = |random: &mut Random| -(1.0 - random.unit()).ln();
        match self {
            Self::Poisson => exponential(random),
            Self::Trace => exponential(random).powf(1.0 / TRACE_SHAPE) / TRACE_MEAN,
            Self::LogNormal { deviation } => {
                Distribution::LogNormal { mean_ms: 1.0, deviation_ms: deviation }.draw_ms(random)
            }
        }
    }
}

/// A call that is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    pub(crate) number: u64,
    /// Planned instant, counted from the beginning of the run.
    pub(crate) planned: Duration,
    /// Seed of the durations of the call's work.
    pub(crate) seed: u64,
}

impl Arrival {
    /// The place of the call's turn among so many: 0, 1, and so on, and again from 0.
    pub(crate) fn turn(&self, of: usize) -> usize {
        (self.number % of as u64) as usize
    }
}

/// Draws the endless sequence of arrivals of a seed at a rate.
fn drawn(pacing: Pacing, seed: u64, rate_per_s: f64) -> impl Iterator<Item = Arrival> {
    let mut random = Random::new(seed);
    let mut planned_s = 0.0;
    (0..).map(move |number| {
        planned_s += pacing.interval(&mut random) / rate_per_s;
        Arrival { number, planned: Duration::from_secs_f64(planned_s), seed: random.next_u64() }
    })
}

/// Sends each arrival when it is due, counted from `began_at`, until the receiver is dropped.
pub(crate) fn arrivals(
    pacing: Pacing,
    seed: u64,
    rate_per_s: f64,
    began_at: Instant,
) -> UnboundedReceiver<Arrival> {
    let (due, arrivals) = unbounded_channel();
    // The thread ends at the first arrival after the receiver was dropped.
    thread::spawn(move || {
        for arrival in drawn(pacing, seed, rate_per_s) {
            thread::sleep((began_at + arrival.planned).saturating_duration_since(Instant::now()));
            if due.send(arrival).is_err() {
                return;
            }
        }
    });
    arrivals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seed_determines_arrivals_and_rate_scales_them() {
        let take = |seed, rate| {
            drawn(Pacing::Poisson, seed, rate).take(5).map(|a| (a.planned, a.seed)).collect::<Vec<_>>()
        };
        assert_eq!(take(1, 30.0), take(1, 30.0));
        assert_ne!(take(1, 30.0), take(2, 30.0));
        let (slow, fast) = (take(1, 10.0), take(1, 20.0));
        assert_eq!(slow[3].1, fast[3].1, "the same costs at each rate");
        assert!((slow[3].0.as_secs_f64() / fast[3].0.as_secs_f64() - 2.0).abs() < 1e-6);
    }

    #[test]
    fn intervals_have_the_mean_and_deviation_of_their_distribution() {
        // The seed is fixed, so the test cannot fail by chance. Figures of 40,000 intervals are within 2 % for all
        // but one seed in thousands.
        let log_normal = Pacing::LogNormal { deviation: 0.5 };
        for (pacing, expected) in
            [(Pacing::Poisson, 1.0), (Pacing::Trace, TRACE_DEVIATION), (log_normal, 0.5)]
        {
            let ends: Vec<f64> = drawn(pacing, 1, 40.0)
                .take(40_000)
                .map(|arrival| arrival.planned.as_secs_f64() * 40.0)
                .collect();
            let mean = ends.last().unwrap() / 40_000.0;
            let squares = ends.windows(2).map(|pair| (pair[1] - pair[0] - mean).powi(2)).sum::<f64>();
            let deviation = (squares / 39_999.0).sqrt() / mean;
            assert!((mean - 1.0).abs() < 0.02, "{pacing:?}: mean {mean}");
            assert!((deviation / expected - 1.0).abs() < 0.02, "{pacing:?}: deviation {deviation}");
        }
    }
}
