//! Headers whose fields are listed are written and read as protobuf's own code does it.

use super::bytes_of;
use super::strategies::message;
use crate::wire::fields::Fields;
use crate::wire::frame::{Kind, PREFIX_BYTES, Prefix};
use crate::wire::header::{CallHeader, PartialHeader};
use crate::wire::stream::header::{DownHeader, SettledHeader, UpHeader};
use proptest::prelude::*;
use std::fmt::Debug;
use treefold_core::limits::Limits;

/// Reads bytes with both codecs, and writes the header again with both.
fn compare<H: Fields + PartialEq + Debug>(bytes: &[u8]) -> Result<bool, TestCaseError> {
    let mut ours = H::default();
    match (ours.take(bytes), H::decode(bytes)) {
        (Ok(()), Ok(theirs)) => {
            // A NaN differs from itself.
            prop_assert_eq!(format!("{ours:?}"), format!("{theirs:?}"));
            let mut row = Vec::new();
            ours.put(&mut row);
            prop_assert_eq!(row, theirs.encode_to_vec());
            Ok(true)
        }
        (Err(_), Err(_)) => Ok(false),
        (ours, theirs) => Err(TestCaseError::fail(format!("{ours:?}, {theirs:?}"))),
    }
}

fn compare_all(bytes: &[u8]) -> Result<bool, TestCaseError> {
    let read = [
        compare::<CallHeader>(bytes)?,
        compare::<PartialHeader>(bytes)?,
        compare::<UpHeader>(bytes)?,
        compare::<DownHeader>(bytes)?,
        compare::<SettledHeader>(bytes)?,
    ];
    Ok(read.contains(&true))
}

/// The header of a message's frame.
fn header_of(bytes: &[u8]) -> (u8, &[u8]) {
    let prefix = Prefix::read(bytes).expect("a frame begins with its prefix");
    (prefix.kind, &bytes[PREFIX_BYTES..PREFIX_BYTES + prefix.header_length as usize])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 512 }))]

    #[test]
    fn headers_of_messages(message in message(), flips in prop::collection::vec((any::<prop::sample::Index>(), 0_u32..8), 0..4)) {
        let bytes = bytes_of(&message, &Limits::DEFAULT).unwrap();
        let (kind, header) = header_of(&bytes);
        let is_read = compare_all(header)?;
        let listed = [Kind::Call, Kind::Partial, Kind::StreamUp, Kind::StreamDown, Kind::StreamSettled];
        prop_assert!(is_read || listed.iter().all(|&of| of as u8 != kind));
        let mut header = header.to_vec();
        for (at, bit) in flips {
            if !header.is_empty() {
                let at = at.index(header.len());
                header[at] ^= 1 << bit;
            }
        }
        compare_all(&header)?;
        header.truncate(header.len() / 2);
        compare_all(&header)?;
    }

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        compare_all(&bytes)?;
    }

    /// Fields in any order, repeated, unknown, of any form.
    #[test]
    fn arbitrary_fields(fields in prop::collection::vec((0_u32..30, 0_u8..6, any::<u64>(), prop::collection::vec(0_u8..16, 0..6)), 0..6)) {
        let mut bytes = Vec::new();
        for (number, kind, value, content) in fields {
            prost::encoding::encode_varint((number << 3 | u32::from(kind)).into(), &mut bytes);
            match kind {
                0 => prost::encoding::encode_varint(value >> (value % 64), &mut bytes),
                1 => bytes.extend(value.to_le_bytes()),
                2 => {
                    bytes.push(content.len() as u8);
                    bytes.extend(content);
                }
                5 => bytes.extend((value as u32).to_le_bytes()),
                _ => {}
            }
        }
        compare_all(&bytes)?;
    }
}

/// A number may take ten bytes, and a longer form than needed is allowed, as in protobuf.
#[test]
fn numbers_of_unusual_length() {
    for number in [
        &[0xff; 10][..],
        &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
        &[0x80, 0x80, 0],
        &[0x80],
    ] {
        compare_all(&[&[0x18][..], number].concat()).unwrap();
        compare_all(&[number, &[1]].concat()).unwrap();
    }
}
