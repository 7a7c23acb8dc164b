//! Headers that every wave needs, written and read field by field.
//!
//! The bytes are protobuf's. Prost's derived code for a header counts its bytes before it writes them, asks the buffer for room
//! at every byte, and reads a column through a buffer that it allocates; this was a third of a wave's cost at a node. A header
//! that is listed here is written to a row of bytes and read from a slice. Prost still writes and reads the messages that a
//! header contains, and a test compares both codecs for all headers, all messages and arbitrary bytes.

use crate::wire::error::{WireError, malformed};
use bytes::{BufMut, BytesMut};
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use treefold_core::encoding::numbers::put_number;

/// A header whose fields are listed.
pub(super) trait Fields: Default + prost::Message {
    /// Appends all fields.
    fn put(&self, row: &mut Vec<u8>);

    /// Reads fields into a cleared header.
    ///
    /// # Errors
    /// If the bytes are no fields, or a field has another form.
    fn take(&mut self, bytes: &[u8]) -> Result<(), WireError>;
}

/// Appends a header to a frame, through `row`, whose memory is reused.
pub(super) fn append(header: &impl Fields, row: &mut Vec<u8>, out: &mut BytesMut) {
    row.clear();
    header.put(row);
    out.put_slice(row);
}

/// Lists the fields of a header: number, form and name, in ascending order.
macro_rules! fields {
    ($header:ident { $($number:literal $form:ident $name:ident,)* }) => {
        impl $crate::wire::fields::Fields for $header {
            fn put(&self, row: &mut Vec<u8>) {
                $($crate::wire::fields::form::$form::put(row, $number, &self.$name);)*
            }

            fn take(&mut self, bytes: &[u8]) -> Result<(), $crate::wire::error::WireError> {
                let mut rest = bytes;
                while !rest.is_empty() {
                    let (number, kind) = $crate::wire::fields::take_key(&mut rest)?;
                    match number {
                        $($number => $crate::wire::fields::form::$form::take(&mut rest, kind, &mut self.$name),)*
                        _ => $crate::wire::fields::skip(&mut rest, kind, number),
                    }?;
                }
                Ok(())
            }
        }
    };
}
pub(super) use fields;

/// Takes a field's number and its wire type off the front of `rest`.
#[inline]
pub(super) fn take_key(rest: &mut &[u8]) -> Result<(u32, WireType), WireError> {
    match rest.split_first() {
        // Fields 1 to 15.
        Some((&byte @ 0x08..0x80, after)) => {
            *rest = after;
            let kind = WireType::try_from(u64::from(byte & 7)).map_err(|_| bad())?;
            Ok(((byte >> 3).into(), kind))
        }
        _ => decode_key(rest).map_err(|_| bad()),
    }
}

/// Skips a field that this version does not know.
#[cold]
pub(super) fn skip(rest: &mut &[u8], kind: WireType, number: u32) -> Result<(), WireError> {
    skip_field(kind, number, rest, DecodeContext::default()).map_err(|_| bad())
}

#[cold]
fn bad() -> WireError {
    malformed("header")
}

#[inline]
fn take_varint(rest: &mut &[u8]) -> Result<u64, WireError> {
    match rest.split_first() {
        Some((&byte, after)) if byte < 0x80 => {
            *rest = after;
            Ok(byte.into())
        }
        _ => decode_varint(rest).map_err(|_| bad()),
    }
}

/// The forms that fields have.
pub(super) mod form {
    use super::{WireType, bad, put_number, take_varint};
    use crate::wire::error::WireError;
    use prost::encoding::DecodeContext;

    const VARINT: u32 = 0;
    const FIXED: u32 = 1;
    const LENGTH: u32 = 2;

    #[inline]
    fn put_key(row: &mut Vec<u8>, number: u32, kind: u32) {
        put_number(row, (number << 3 | kind).into());
    }

    #[inline]
    fn expect(kind: WireType, expected: WireType) -> Result<(), WireError> {
        if kind == expected { Ok(()) } else { Err(bad()) }
    }

    #[inline]
    fn take_slice<'a>(rest: &mut &'a [u8], kind: WireType) -> Result<&'a [u8], WireError> {
        expect(kind, WireType::LengthDelimited)?;
        let length = usize::try_from(take_varint(rest)?).map_err(|_| bad())?;
        rest.split_off(..length).ok_or_else(bad)
    }

    #[inline]
    fn put_slice(row: &mut Vec<u8>, number: u32, slice: &[u8]) {
        put_key(row, number, LENGTH);
        put_number(row, slice.len() as u64);
        row.extend_from_slice(slice);
    }

    /// `uint64`; 0 is left out.
    pub(in crate::wire) mod uint64 {
        use super::*;

        #[inline]
        pub(in crate::wire) fn put(row: &mut Vec<u8>, number: u32, value: &u64) {
            if *value != 0 {
                put_key(row, number, VARINT);
                put_number(row, *value);
            }
        }

        #[inline]
        pub(in crate::wire) fn take(
            rest: &mut &[u8],
            kind: WireType,
            value: &mut u64,
        ) -> Result<(), WireError> {
            expect(kind, WireType::Varint)?;
            *value = take_varint(rest)?;
            Ok(())
        }
    }

    /// `uint32`; 0 is left out.
    pub(in crate::wire) mod uint32 {
        use super::*;

        #[inline]
        pub(in crate::wire) fn put(row: &mut Vec<u8>, number: u32, value: &u32) {
            uint64::put(row, number, &(*value).into());
        }

        #[inline]
        pub(in crate::wire) fn take(
            rest: &mut &[u8],
            kind: WireType,
            value: &mut u32,
        ) -> Result<(), WireError> {
            let mut long = 0;
            uint64::take(rest, kind, &mut long)?;
            // Protobuf cuts off the upper bits.
            *value = long as u32;
            Ok(())
        }
    }

    /// `bool`; false is left out.
    pub(in crate::wire) mod bool {
        use super::*;

        #[inline]
        pub(in crate::wire) fn put(row: &mut Vec<u8>, number: u32, value: &bool) {
            uint64::put(row, number, &(*value).into());
        }

        #[inline]
        pub(in crate::wire) fn take(
            rest: &mut &[u8],
            kind: WireType,
            value: &mut bool,
        ) -> Result<(), WireError> {
            let mut long = 0;
            uint64::take(rest, kind, &mut long)?;
            *value = long != 0;
            Ok(())
        }
    }

    /// `optional uint64`.
    pub(in crate::wire) mod optional_uint64 {
        use super::*;

        #[inline]
        pub(in crate::wire) fn put(row: &mut Vec<u8>, number: u32, value: &Option<u64>) {
            if let Some(value) = value {
                put_key(row, number, VARINT);
                put_number(row, *value);
            }
        }

        #[inline]
        pub(in crate::wire) fn take(
            rest: &mut &[u8],
            kind: WireType,
            value: &mut Option<u64>,
        ) -> Result<(), WireError> {
            uint64::take(rest, kind, value.insert(0))
        }
    }

    /// `double`; +0.0 is left out.
    pub(in crate::wire) mod double {
        use super::*;

        #[inline]
        pub(in crate::wire) fn put(row: &mut Vec<u8>, number: u32, value: &f64) {
            if *value != 0.0 {
                put_key(row, number, FIXED);
                row.extend_from_slice(&value.to_le_bytes());
            }
        }

        #[inline]
        pub(in crate::wire) fn take(
            rest: &mut &[u8],
            kind: WireType,
            value: &mut f64,
        ) -> Result<(), WireError> {
            expect(kind, WireType::SixtyFourBit)?;
            let (bytes, after) = rest.split_first_chunk().ok_or_else(bad)?;
            *value = f64::from_le_bytes(*bytes);
            *rest = after;
            Ok(())
        }
    }

    /// `bytes`; an empty string is left out.
    pub(in crate::wire) mod bytes {
        use super::*;

        #[inline]
        pub(in crate::wire) fn put(row: &mut Vec<u8>, number: u32, value: &[u8]) {
            if !value.is_empty() {
                put_slice(row, number, value);
            }
        }

        #[inline]
        pub(in crate::wire) fn take(
            rest: &mut &[u8],
            kind: WireType,
            value: &mut Vec<u8>,
        ) -> Result<(), WireError> {
            let slice = take_slice(rest, kind)?;
            value.clear();
            value.extend_from_slice(slice);
            Ok(())
        }
    }

    /// `string`; an empty one is left out.
    pub(in crate::wire) mod string {
        use super::*;

        #[inline]
        pub(in crate::wire) fn put(row: &mut Vec<u8>, number: u32, value: &str) {
            bytes::put(row, number, value.as_bytes());
        }

        #[inline]
        pub(in crate::wire) fn take(
            rest: &mut &[u8],
            kind: WireType,
            value: &mut String,
        ) -> Result<(), WireError> {
            let text = str::from_utf8(take_slice(rest, kind)?).map_err(|_| bad())?;
            value.clear();
            value.push_str(text);
            Ok(())
        }
    }

    /// `repeated bytes`.
    pub(in crate::wire) mod repeated_bytes {
        use super::*;

        #[inline]
        pub(in crate::wire) fn put(row: &mut Vec<u8>, number: u32, values: &[Vec<u8>]) {
            values.iter().for_each(|value| put_slice(row, number, value));
        }

        #[inline]
        pub(in crate::wire) fn take(
            rest: &mut &[u8],
            kind: WireType,
            values: &mut Vec<Vec<u8>>,
        ) -> Result<(), WireError> {
            values.push(take_slice(rest, kind)?.to_vec());
            Ok(())
        }
    }

    /// A message, if there is one.
    pub(in crate::wire) mod message {
        use super::*;

        #[inline]
        pub(in crate::wire) fn put<M: prost::Message>(row: &mut Vec<u8>, number: u32, value: &Option<M>) {
            if let Some(value) = value {
                prost::encoding::message::encode(number, value, row);
            }
        }

        #[inline]
        pub(in crate::wire) fn take<M: prost::Message + Default>(
            rest: &mut &[u8],
            kind: WireType,
            value: &mut Option<M>,
        ) -> Result<(), WireError> {
            let value = value.get_or_insert_default();
            prost::encoding::message::merge(kind, value, rest, DecodeContext::default()).map_err(|_| bad())
        }
    }

    /// `repeated` messages.
    pub(in crate::wire) mod messages {
        use super::*;

        #[inline]
        pub(in crate::wire) fn put<M: prost::Message>(row: &mut Vec<u8>, number: u32, values: &[M]) {
            prost::encoding::message::encode_repeated(number, values, row);
        }

        #[inline]
        pub(in crate::wire) fn take<M: prost::Message + Default>(
            rest: &mut &[u8],
            kind: WireType,
            values: &mut Vec<M>,
        ) -> Result<(), WireError> {
            prost::encoding::message::merge_repeated(kind, values, rest, DecodeContext::default())
                .map_err(|_| bad())
        }
    }
}
