//! Random draws of this wrapper. foca draws from a stream of its own.

use crate::time::Duration;
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A stream of random numbers.
pub(super) struct Draws(Xoshiro256PlusPlus);

impl Draws {
    /// Takes the generator one jump on, 2¹²⁸ numbers away, and returns the generator as it was for foca.
    pub(super) fn beside(mut rng: Xoshiro256PlusPlus) -> (Self, Xoshiro256PlusPlus) {
        let before = rng.clone();
        rng.jump();
        (Self(rng), before)
    }

    /// Varies `period` at random by up to ± `percent`. Equal periods on all nodes would fall into step.
    pub(super) fn vary(&mut self, period: Duration, percent: u64) -> Duration {
        let unit = (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        period.mul_f64(1.0 + (2.0 * unit - 1.0) * percent as f64 / 100.0)
    }

    /// A random number below `count`, which must not be zero, with uniform distribution.
    pub(super) fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.0.next_u64()) * count as u128) >> 64) as usize
    }
}
