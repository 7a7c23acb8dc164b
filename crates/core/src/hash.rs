//! Hashes of ids, for tables that are looked up for every message.
//!
//! They are keyed with the node's seed: a peer that chooses its ids cannot make many of them meet. No decision depends on the
//! order of such a table.

use core::hash::{BuildHasher, Hasher};

/// 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// The hash function of one node, for ids that consist of a few numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IdHash {
    seed: u64,
}

impl IdHash {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed }
    }
}

impl BuildHasher for IdHash {
    type Hasher = IdHasher;

    fn build_hasher(&self) -> IdHasher {
        IdHasher { state: self.seed, seed: self.seed }
    }
}

/// Mixes one number after the other into its state.
#[derive(Clone, Debug)]
pub(crate) struct IdHasher {
    state: u64,
    seed: u64,
}

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.state
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.state = folded(self.state ^ number, self.seed.rotate_left(32) ^ SPREAD);
    }
}

/// The product of two numbers, its upper half folded into its lower one.
fn folded(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{NodeId, Tag, WaveId};
    use core::hash::Hash;

    /// The most hashes in one slot, and the share of slots that have any, in per cent.
    fn spread<T: Hash>(ids: impl Fn(u32) -> T) -> (u32, usize) {
        let hash = IdHash::new(7);
        let slots = 1 << 14;
        let mut filled = alloc::vec![0_u32; slots];
        for number in 0..slots as u32 {
            // hashbrown takes the lowest bits for the slot.
            filled[hash.hash_one(ids(number)) as usize % slots] += 1;
        }
        let used = filled.iter().filter(|&&count| count > 0).count();
        (filled.into_iter().max().unwrap_or(0), used * 100 / slots)
    }

    #[test]
    fn hashes_of_similar_ids_spread() {
        let call = |sequence: u32| Tag {
            wave: WaveId { origin: 0xdead_beef, sequence: sequence.into() },
            branch: 0,
        };
        let retry = |branch| Tag { branch, ..call(9) };
        let port = |port: u32| NodeId::new(([127, 0, 0, 1], port as u16).into(), 5);
        let host = |host: u32| NodeId::new((host.to_be_bytes(), 7_700).into(), u64::from(host) * 3);
        for (most, used) in [spread(call), spread(retry), spread(port), spread(host)] {
            assert!(most < 12 && used > 60, "{most} in one slot, {used} % of the slots used");
        }
    }
}
