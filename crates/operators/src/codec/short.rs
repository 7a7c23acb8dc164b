//! Short payloads in one allocation.
//!
//! `Bytes` that are copied from a slice have one allocation, and get another one, for the number of their owners, as soon as
//! they are cloned. Core clones every part that it folds, keeps or passes on, so a short payload would cost two allocations
//! wherever it goes. Here the number of owners and the bytes are together from the beginning.

use bytes::Bytes;

/// Longest payload that is made like this. With it, the allocation has 72 bytes.
const SHORT_BYTES_MAX: usize = 55;

struct Short {
    bytes: [u8; SHORT_BYTES_MAX],
    len: u8,
}

impl AsRef<[u8]> for Short {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len.into()]
    }
}

/// Copies bytes to a payload that is cheap to clone.
#[inline]
pub fn copied(bytes: &[u8]) -> Bytes {
    if bytes.len() > SHORT_BYTES_MAX {
        return Bytes::copy_from_slice(bytes);
    }
    if bytes.is_empty() {
        return Bytes::new();
    }
    let mut short = Short { bytes: [0; SHORT_BYTES_MAX], len: bytes.len() as u8 };
    short.bytes[..bytes.len()].copy_from_slice(bytes);
    Bytes::from_owner(short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied() {
        let long: Vec<u8> = (0..=255).collect();
        for length in 0..=long.len() {
            let copy = copied(&long[..length]);
            assert_eq!(copy, long[..length]);
            assert_eq!(copy.clone().slice(length / 2..), long[length / 2..length]);
        }
    }
}
