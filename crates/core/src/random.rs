//! Randomness as a value that is passed in.
//!
//! Core draws no entropy: a driver seeds a [`Random`], and core passes it to each function that decides at
//! random. The same seed and the same inputs give the same decisions on every machine. A recorded run can
//! therefore be replayed, and a simulated failure can be reproduced from one number.
//!
//! The generator is xoshiro256++ (Blackman and Vigna). It is fast and statistically sound, but not secret:
//! never draw a key from it.

use core::convert::Infallible;
use rand_core::{SeedableRng, TryRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A hash of some words: splitmix64's finaliser over each word combined with the hash so far. Do not use it
/// on input from untrusted sources, which can construct collisions.
pub(crate) fn hashed(words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().fold(0, |hash, word| finalised(hash ^ word))
}

fn finalised(word: u64) -> u64 {
    let word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A seeded generator. It implements `rand_core`'s traits, so other crates can use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    generator: Xoshiro256PlusPlus,
}

impl Random {
    /// The generator for `seed`.
    pub fn new(seed: u64) -> Self {
        Self { generator: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// Sixty-four random bits.
    pub fn next_u64(&mut self) -> u64 {
        rand_core::Rng::next_u64(&mut self.generator)
    }

    /// A number in `0..n`, each equally likely (Lemire's multiplication with rejection, without bias).
    ///
    /// # Panics
    /// If `n` is zero.
    pub fn below(&mut self, n: usize) -> usize {
        assert!(n > 0, "expected n above 0, found 0: no number can be drawn below it");
        let n = n as u64;
        // Rejects the first `2^64 mod n` values of the low half, which would make some results likelier than
        // others.
        let unfair = n.wrapping_neg() % n;
        loop {
            let product = u128::from(self.next_u64()) * u128::from(n);
            if product as u64 >= unfair {
                return (product >> 64) as usize;
            }
        }
    }

    /// A number in `[0, 1)` with 53 random bits.
    pub fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
        (self.next_u64() >> 11) as f64 * STEP
    }

    /// A number in `[low, high)`; `low` itself when the interval is empty.
    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        if low < high { low + (high - low) * self.unit() } else { low }
    }

    /// A number of the normal distribution with mean 0 and deviation 1 (Box and Muller's transform).
    pub fn normal(&mut self) -> f64 {
        // `1 − unit` is never zero, so the logarithm is finite.
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.unit()));
        radius * libm::cos(core::f64::consts::TAU * self.unit())
    }

    /// Puts `items` in a random order, every order equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

impl TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.generator.try_next_u32()
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.generator.try_next_u64()
    }

    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        self.generator.try_fill_bytes(dst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn a_seed_names_one_sequence() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..8).map(|_| random.next_u64()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        // Pinned: a recording made by one version must replay in the next.
        assert_eq!(draw(0)[0], 5_987_356_902_031_041_503);
    }

    #[test]
    fn works_as_a_rand_core_generator() {
        fn borrow(mut generator: impl rand_core::Rng) -> u64 {
            generator.next_u64()
        }
        let mut random = Random::new(3);
        let mut same = random.clone();
        assert_eq!(borrow(&mut random), same.next_u64());
        assert_eq!(random, same, "lending advances the lender");
    }

    #[test]
    fn below_draws_each_number_equally_often() {
        let mut random = Random::new(1);
        let mut seen = [0_u32; 5];
        (0..50_000).for_each(|_| seen[random.below(5)] += 1);
        assert!(seen.iter().all(|count| (9_500..10_500).contains(count)), "{seen:?}");
    }

    #[test]
    fn normal_has_mean_zero_and_deviation_one() {
        let mut random = Random::new(2);
        let drawn: Vec<f64> = (0..100_000).map(|_| random.normal()).collect();
        let mean = drawn.iter().sum::<f64>() / drawn.len() as f64;
        let variance = drawn.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / drawn.len() as f64;
        assert!(mean.abs() < 0.02, "{mean}");
        assert!((variance - 1.0).abs() < 0.03, "{variance}");
    }

    proptest! {
        #[test]
        fn draws_stay_within_their_bounds(seed: u64, n in 1_usize.., low in -1e6..1e6, width in 0.0..1e6) {
            let mut random = Random::new(seed);
            prop_assert!(random.below(n) < n);
            prop_assert!((0.0..1.0).contains(&random.unit()));
            let drawn = random.between(low, low + width);
            prop_assert!(drawn >= low && drawn <= low + width);
            prop_assert_eq!(random.between(low, low - width), low);
            prop_assert!(random.normal().is_finite());
        }

        #[test]
        fn shuffle_returns_a_permutation(seed: u64, items: Vec<u8>) {
            let mut shuffled = items.clone();
            Random::new(seed).shuffle(&mut shuffled);
            let sorted = |mut row: Vec<u8>| { row.sort_unstable(); row };
            prop_assert_eq!(sorted(shuffled), sorted(items));
        }
    }
}
