//! Distributions of service times, and the arrival times of requests.
//!
//! A draw is a function of (seed, purpose) and not of a generator's state. So the third partition of the
//! tenth call takes the same time with every compared shape and policy. Two series then differ because of
//! their decisions, and not because of random numbers (common random numbers).

use super::ink::mixed;
use std::sync::Arc;
use treefold_core::random::Random;
use treefold_core::time::{Duration, Instant};

/// A distribution of durations, in ms. No draw is below zero.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// A constant.
    Fixed(f64),
    /// Exponential, with this mean.
    Exponential(f64),
    /// Normal, with at least a tenth of the mean.
    Normal {
        /// Mean.
        mean_ms: f64,
        /// Standard deviation.
        deviation_ms: f64,
    },
    /// Log-normal, with the mean and deviation of the durations themselves.
    LogNormal {
        /// Mean.
        mean_ms: f64,
        /// Standard deviation.
        deviation_ms: f64,
    },
    /// One of these values, each with the same probability.
    Empirical(Arc<[f64]>),
}

impl Distribution {
    /// Draws a duration, in ms.
    pub fn draw_ms(&self, random: &mut Random) -> f64 {
        match self {
            Self::Fixed(ms) => *ms,
            Self::Exponential(mean_ms) => -mean_ms * (1.0 - random.unit()).ln(),
            Self::Normal { mean_ms, deviation_ms } => {
                (mean_ms + deviation_ms * random.normal()).max(mean_ms / 10.0)
            }
            Self::LogNormal { mean_ms, deviation_ms } => {
                let variance = (1.0 + (deviation_ms / mean_ms).powi(2)).ln();
                (mean_ms.ln() - variance / 2.0 + variance.sqrt() * random.normal()).exp()
            }
            Self::Empirical(seen) if seen.is_empty() => 0.0,
            Self::Empirical(seen) => seen[random.below(seen.len())],
        }
    }

    /// Draws the duration that belongs to `seed` and `purpose`, in ms.
    pub fn draw_for_ms(&self, seed: u64, purpose: u64) -> f64 {
        match self {
            // The usual case works without a generator, by inversion of a hashed uniform value.
            Self::Exponential(mean_ms) => {
                const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
                let unit = (mixed(mixed(seed) ^ purpose) >> 11) as f64 * STEP;
                -mean_ms * (1.0 - unit).ln()
            }
            Self::Fixed(ms) => *ms,
            _ => self.draw_ms(&mut Random::new(mixed(seed) ^ purpose)),
        }
    }

    /// Returns the mean, in ms.
    pub fn mean_ms(&self) -> f64 {
        match self {
            Self::Fixed(ms) | Self::Exponential(ms) => *ms,
            Self::Normal { mean_ms, .. } | Self::LogNormal { mean_ms, .. } => *mean_ms,
            Self::Empirical(seen) => seen.iter().sum::<f64>() / seen.len().max(1) as f64,
        }
    }
}

/// The arrival times of requests.
#[derive(Clone, Debug)]
pub enum Arrivals {
    /// Independent arrivals with this mean number per second.
    Poisson {
        /// The generator of the next arrival.
        random: Random,
        /// The rate.
        per_s: f64,
        /// The last arrival.
        at: Instant,
    },
    /// Arrivals whose gaps have a distribution, for example a trace's.
    Renewal {
        /// The generator of the next arrival.
        random: Random,
        /// The time between two arrivals.
        gap: Distribution,
        /// The last arrival.
        at: Instant,
    },
}

impl Arrivals {
    /// Creates Poisson arrivals that begin at `at`.
    pub fn poisson(seed: u64, per_s: f64, at: Instant) -> Self {
        Self::Poisson { random: Random::new(mixed(seed ^ 0x6172_7269)), per_s, at }
    }

    /// Creates arrivals with independent gaps that begin at `at`.
    pub fn renewal(seed: u64, gap: Distribution, at: Instant) -> Self {
        Self::Renewal { random: Random::new(mixed(seed ^ 0x6172_7269)), gap, at }
    }
}

impl Iterator for Arrivals {
    type Item = Instant;

    fn next(&mut self) -> Option<Instant> {
        match self {
            Self::Poisson { random, per_s, at } => {
                let gap_ms = Distribution::Exponential(1_000.0 / *per_s).draw_ms(random);
                *at = *at + Duration::from_millis_f64(gap_ms);
                Some(*at)
            }
            Self::Renewal { random, gap, at } => {
                *at = *at + Duration::from_millis_f64(gap.draw_ms(random));
                Some(*at)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_have_the_mean_and_the_deviation_of_their_distribution() {
        let trace: Arc<[f64]> = (1..=9).map(f64::from).collect();
        for (distribution, mean, deviation) in [
            (Distribution::Fixed(5.0), 5.0, 0.0),
            (Distribution::Exponential(25.0), 25.0, 25.0),
            (Distribution::Normal { mean_ms: 208.9, deviation_ms: 62.9 }, 208.9, 62.9),
            (Distribution::LogNormal { mean_ms: 22.2, deviation_ms: 10.0 }, 22.2, 10.0),
            (Distribution::Empirical(trace), 5.0, (60.0_f64 / 9.0).sqrt()),
        ] {
            let draws: Vec<f64> = (0..100_000).map(|call| distribution.draw_for_ms(7, call)).collect();
            let found = draws.iter().sum::<f64>() / draws.len() as f64;
            let variance = draws.iter().map(|x| (x - found).powi(2)).sum::<f64>() / draws.len() as f64;
            assert!((found / mean - 1.0).abs() < 0.02, "{distribution:?}: mean {found}");
            assert!((distribution.mean_ms() / mean - 1.0).abs() < 1e-9);
            assert!((variance.sqrt() - deviation).abs() <= 0.03 * mean, "{distribution:?}: {variance}");
            assert!(draws.iter().all(|&ms| ms >= 0.0));
        }
    }

    #[test]
    fn poisson_arrivals_keep_their_rate() {
        let last = Arrivals::poisson(3, 40.0, Instant::START).nth(39_999).expect("arrivals never end");
        let rate = 40_000.0 / (last.since(Instant::START).as_millis_f64() / 1_000.0);
        assert!((rate - 40.0).abs() < 0.6, "{rate}");
    }
}
