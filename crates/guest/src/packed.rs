//! The return value of a guest's functions: an address, a number and an error flag, in 64 bits.
//!
//! ```text
//!   63          32   31   30            0
//!   ┌─────────────┬─────┬────────────────┐
//!   │ address     │error│ bytes, or count│
//!   └─────────────┴─────┴────────────────┘
//! ```

/// Set if the address is that of an error's text.
const ERROR: u64 = 1 << 31;
/// Greatest number of bytes or packets that fits.
const NUMBER_MAX: usize = (1 << 31) - 1;

/// Packs `number` bytes or packets at `address`.
///
/// # Panics
/// If the number does not fit. A guest's memory is smaller than that.
pub(crate) fn outcome(address: u32, number: usize) -> u64 {
    assert!(number <= NUMBER_MAX, "a guest must return less than 2 GiB");
    u64::from(address) << 32 | number as u64
}

/// Packs an error whose text has `bytes` bytes at `address`.
pub(crate) fn error(address: u32, bytes: usize) -> u64 {
    outcome(address, bytes) | ERROR
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_matches_the_specification() {
        assert_eq!(outcome(0x1234_5678, 9), 0x1234_5678_0000_0009);
        assert_eq!(error(0x1234_5678, 9), 0x1234_5678_8000_0009);
    }
}
