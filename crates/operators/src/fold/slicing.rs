//! Assigns keys and rows to slices.
//!
//! Every node must assign a key to the same slice, on any machine and in any version. So this uses neither
//! the standard library's hasher, which may change, nor the machine's byte order. The hash is FNV-1a over
//! little-endian bytes, mixed once at the end because its low bits alone are poor.

use std::hash::{Hash, Hasher};
use std::ops::Range;
use treefold_core::wave::slice::Slice;

/// Returns the slice of `key`, below `slices` (at least 1), for an [`Aggregation::split`] by keys.
///
/// [`Aggregation::split`]: crate::Aggregation::split
pub fn slice_of(key: &impl Hash, slices: u32) -> usize {
    let mut hasher = KeyHasher(0xcbf2_9ce4_8422_2325);
    key.hash(&mut hasher);
    // The high half of the product is as even as a remainder, and needs no division.
    ((u128::from(hasher.finish()) * u128::from(slices)) >> 64) as usize
}

/// Returns the rows of a slice, if `rows` rows are dealt out in order: the slices differ by at most one row.
pub fn slice_range(rows: usize, slice: Slice) -> Range<usize> {
    let start = |index: u32| (index as u128 * rows as u128 / u128::from(slice.of())) as usize;
    start(slice.index())..start(slice.index() + 1)
}

struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn write_u16(&mut self, number: u16) {
        self.write(&number.to_le_bytes());
    }

    fn write_u32(&mut self, number: u32) {
        self.write(&number.to_le_bytes());
    }

    fn write_u64(&mut self, number: u64) {
        self.write(&number.to_le_bytes());
    }

    fn write_u128(&mut self, number: u128) {
        self.write(&number.to_le_bytes());
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_have_every_row_once_and_in_order() {
        for (rows, of) in [(0, 3), (1, 3), (10, 3), (10, 10), (7, 4_096), (usize::MAX, 4_096)] {
            let slices = (0..of).map(|index| slice_range(rows, Slice::alone(index, of).unwrap()));
            let (mut end, mut most, mut least) = (0, 0, usize::MAX);
            for slice in slices {
                assert_eq!(slice.start, end);
                (end, most, least) = (slice.end, most.max(slice.len()), least.min(slice.len()));
            }
            assert!(end == rows && most - least <= 1, "{rows} rows in {of} slices");
        }
    }

    #[test]
    fn a_key_s_slice_never_changes() {
        let slices = ["", "a", "treefold", "Größe"].map(|word| slice_of(&word.to_string(), 8));
        assert_eq!(slices, [2, 0, 6, 5]);
        assert_eq!([0_u32, 1, 2, 3].map(|key| slice_of(&key, 8)), [5, 6, 7, 4]);
        assert_eq!([0_i64, -1].map(|key| slice_of(&key, 1_000)), [504, 592]);
    }

    #[test]
    fn keys_are_spread_evenly() {
        let mut counts = [0_u32; 7];
        (0..7_000_u64).for_each(|key| counts[slice_of(&key, 7)] += 1);
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
    }
}
