//! A small generator of random numbers, the same on every machine: SplitMix64.
//!
//! It draws the levels of a graph's rows, and the generated vectors and faces. It does not resist adversaries.

/// A stream of random numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// The bits that belong to a number, in this state.
    pub(crate) fn bits_of(self, number: u64) -> u64 {
        Self(self.0 ^ number.wrapping_mul(0xd6e8_feb8_6659_fd93)).bits()
    }

    /// From 0 up to 1, without 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Between two bounds.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.unit()
    }

    /// Nearly the standard normal distribution: the sum of twelve uniform numbers, which needs no function
    /// whose last bits differ between machines.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}
