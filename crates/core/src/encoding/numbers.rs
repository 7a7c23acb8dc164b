//! Variable-length integers: seven bits a byte, least significant first, as protobuf writes them.

use alloc::vec::Vec;

/// The reason why bytes are no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberError {
    /// The bytes end within the number.
    Truncated,
    /// The number needs more than 64 bits.
    TooLarge,
    /// The number has a shorter encoding.
    NotShortest,
}

/// Appends a number.
#[inline]
pub fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number off the front of `rest`.
///
/// # Errors
/// [`NumberError`]; then part of the number may be taken.
#[inline]
pub fn take_number(rest: &mut &[u8]) -> Result<u64, NumberError> {
    let &first = rest.split_off_first().ok_or(NumberError::Truncated)?;
    if first < 0x80 {
        return Ok(first.into());
    }
    let mut number = u64::from(first & 0x7f);
    for shift in (7..64).step_by(7) {
        let &byte = rest.split_off_first().ok_or(NumberError::Truncated)?;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return Err(NumberError::TooLarge);
        }
        number |= bits << shift;
        if byte < 0x80 {
            return if byte == 0 { Err(NumberError::NotShortest) } else { Ok(number) };
        }
    }
    Err(NumberError::TooLarge)
}

/// Takes a number of at most 32 bits off the front of `rest`; `None` if there is none.
#[inline]
pub fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    u32::try_from(take_number(rest).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn number_reads_back_and_takes_no_more(number: u64, shift in 0_u32..64, tail: [u8; 3]) {
            let number = number >> shift;
            let mut bytes = Vec::new();
            put_number(&mut bytes, number);
            bytes.extend_from_slice(&tail);
            let mut rest = bytes.as_slice();
            prop_assert_eq!(take_number(&mut rest), Ok(number));
            prop_assert_eq!(rest, tail);
        }

        #[test]
        fn padded_number_is_refused(number: u64, shift in 0_u32..64, pad in 1_usize..3) {
            let mut bytes = Vec::new();
            put_number(&mut bytes, number >> shift);
            if bytes.len() + pad <= 9 {
                *bytes.last_mut().expect("a number has a byte") |= 0x80;
                bytes.extend(core::iter::repeat_n(0x80, pad - 1));
                bytes.push(0);
                prop_assert_eq!(take_number(&mut bytes.as_slice()), Err(NumberError::NotShortest));
            }
        }
    }

    #[test]
    fn truncated_and_oversized_numbers_are_refused() {
        for bad in [&[][..], &[0x80], &[0xff, 0xff]] {
            assert_eq!(take_number(&mut &*bad), Err(NumberError::Truncated), "{bad:?}");
        }
        assert_eq!(take_number(&mut &[0xff; 10][..]), Err(NumberError::TooLarge));
        assert_eq!(take_number(&mut &[0xff; 11][..]), Err(NumberError::TooLarge));
    }
}
