//! A compact encoding of sets of endpoints.
//!
//! As in docs/protocol.md ("Columns", partition set): each run of consecutive numbers is written as the gap
//! from the least number where it could start, and its length less one, both as varints. A tree folds
//! neighbours, so a class consists mostly of long runs: a thousand endpoints with equal values take three
//! bytes.

use treefold_core::partitions::PartitionSet;

/// Most bytes of a varint that holds 32 bits.
const VARINT_BYTES_MAX: usize = 5;

/// Encodes a set.
pub(super) fn written(members: &PartitionSet) -> Vec<u8> {
    let mut octets = Vec::with_capacity(members.runs().len() * 3);
    let mut least = 0;
    for &(start, end) in members.runs() {
        write_varint(&mut octets, start - least);
        write_varint(&mut octets, end - start - 1);
        least = end.saturating_add(1); // a run that ends at the last number is the last run
    }
    octets
}

/// Decodes a set; returns `None` for bytes that [`written`] can't produce.
pub(super) fn read(mut octets: &[u8]) -> Option<PartitionSet> {
    let mut runs = Vec::new();
    let mut least = 0u32;
    while !octets.is_empty() {
        let start = least.checked_add(read_varint(&mut octets)?)?;
        let end = start.checked_add(read_varint(&mut octets)?)?.checked_add(1)?;
        runs.push((start, end));
        least = match end.checked_add(1) {
            Some(least) => least,
            None if octets.is_empty() => end,
            None => return None,
        };
    }
    PartitionSet::from_runs(runs)
}

fn write_varint(octets: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        octets.push(number as u8 | 0x80);
        number >>= 7;
    }
    octets.push(number as u8);
}

/// Reads the number at the beginning of `octets`; refuses an encoding that is longer than necessary.
fn read_varint(octets: &mut &[u8]) -> Option<u32> {
    let mut number = 0u64;
    for at in 0..VARINT_BYTES_MAX {
        let (&octet, rest) = octets.split_first()?;
        *octets = rest;
        number |= u64::from(octet & 0x7f) << (7 * at);
        if octet < 0x80 {
            let shortest = at == 0 || octet != 0;
            return if shortest { u32::try_from(number).ok() } else { None };
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_set_survives(members in proptest::collection::vec((0u32..5000, 1u32..300), 0..20)) {
            let mut set = PartitionSet::new();
            members.into_iter().for_each(|(start, length)| set.insert_range(start..start + length));
            prop_assert_eq!(read(&written(&set)), Some(set));
        }

        #[test]
        fn one_set_has_one_encoding(octets in proptest::collection::vec(any::<u8>(), 0..12)) {
            if let Some(set) = read(&octets) {
                prop_assert_eq!(written(&set), octets);
            }
        }
    }

    #[test]
    fn a_thousand_neighbours_are_three_bytes() {
        assert_eq!(written(&PartitionSet::first(1000)), [0, 0xe7, 7]);
    }

    #[test]
    fn the_last_numbers_fit() {
        let set = PartitionSet::from_range(u32::MAX - 1..u32::MAX);
        assert_eq!(read(&written(&set)), Some(set));
    }
}
