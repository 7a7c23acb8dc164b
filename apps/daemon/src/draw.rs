//! Random draws that depend only on a seed and on their purpose.
//!
//! Every process that emulates a daemon, and the front-end that checks it, must draw the same values. So
//! each purpose and each number has its own generator, and no draw depends on how many others were drawn
//! before.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;

/// The purpose of a draw.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Class = 1,
    Process,
    Executable,
    Metrics,
    DaemonClock,
    HostClock,
    Phase,
    Delay,
}

/// A sequence of draws.
#[derive(Clone, Debug)]
pub(crate) struct Draw(SplitMix64);

impl Draw {
    /// The draws for a purpose and number `of`.
    pub(crate) fn new(seed: u64, purpose: Purpose, of: u64) -> Self {
        // SplitMix64 leaves no pattern even for consecutive seeds if its output is used as a seed again.
        let step = |seed: u64| SplitMix64::seed_from_u64(seed).next_u64();
        Self(SplitMix64::seed_from_u64(step(step(seed) ^ (purpose as u64)) ^ of))
    }

    /// Draws from [0, 1), with the 53 bits that fit an `f64`.
    pub(crate) fn uniform(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1u64 << 53) as f64;
        (self.0.next_u64() >> 11) as f64 * STEP
    }

    /// Draws a whole number below `bound`, which must be far below 2^53.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        (self.uniform() * bound as f64) as u64
    }

    /// Draws from (-1, 1).
    pub(crate) fn signed(&mut self) -> f64 {
        2.0 * self.uniform() - 1.0
    }

    /// Draws from the exponential distribution, by inversion.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.uniform()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_depend_on_seed_purpose_and_number_alone() {
        let first = |seed, purpose, of| Draw::new(seed, purpose, of).uniform().to_bits();
        assert_eq!(first(1, Purpose::Class, 7), first(1, Purpose::Class, 7));
        assert_ne!(first(1, Purpose::Class, 7), first(2, Purpose::Class, 7));
        assert_ne!(first(1, Purpose::Class, 7), first(1, Purpose::Phase, 7));
        assert_ne!(first(1, Purpose::Class, 7), first(1, Purpose::Class, 8));
    }

    #[test]
    fn draws_of_neighbours_have_the_mean_of_their_distribution() {
        let mean = |draw: fn(&mut Draw) -> f64| {
            (0..10_000).map(|of| draw(&mut Draw::new(3, Purpose::Delay, of))).sum::<f64>() / 1e4
        };
        assert!((mean(Draw::uniform) - 0.5).abs() < 0.02);
        assert!(mean(Draw::signed).abs() < 0.04);
        assert!((mean(|draw| draw.exponential(4.0)) - 4.0).abs() < 0.2);
    }
}
