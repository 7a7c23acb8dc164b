//! Hashes of tags, for tables that are looked up for every message.
//!
//! They are keyed with the node's seed: a peer that chooses its tags cannot make many of them meet.

use crate::id::Tag;

/// 2^64 divided by the golden ratio, and by its square.
const KEYS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0x61c8_8646_80b5_83eb];

/// The hash function of one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TagHash {
    seed: u64,
}

impl TagHash {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { seed }
    }

    pub(crate) fn of(self, tag: &Tag) -> u64 {
        let wave = folded(tag.wave.origin ^ self.seed, tag.wave.sequence ^ KEYS[0]);
        folded(wave ^ self.seed.rotate_left(32), u64::from(tag.branch) ^ KEYS[1])
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
    use crate::id::WaveId;

    #[test]
    fn hashes_of_successive_calls_spread() {
        let hash = TagHash::new(7);
        let slots = 1 << 14;
        let mut filled = alloc::vec![0_u32; slots];
        for sequence in 0..slots as u64 {
            let tag = Tag { wave: WaveId { origin: 0xdead_beef, sequence }, branch: 0 };
            // hashbrown takes the lowest bits for the slot.
            filled[hash.of(&tag) as usize % slots] += 1;
        }
        let (most, used) = (filled.iter().max(), filled.iter().filter(|&&count| count > 0).count());
        assert!(most < Some(&12) && used > slots * 6 / 10, "{most:?} in one slot, {used} slots used");
    }
}
