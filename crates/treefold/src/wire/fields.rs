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

    /// Reads fields into a cleared header; `None` if the bytes are no fields, or a field has another form. (An error has so many
    /// bytes that each function would return it through memory.)
    fn take_fields(&mut self, bytes: &[u8]) -> Option<()>;

    /// Reads fields into a cleared header.
    ///
    /// # Errors
    /// If the bytes are no fields, or a field has another form.
    fn take(&mut self, bytes: &[u8]) -> Result<(), WireError> {
        self.take_fields(bytes).ok_or_else(|| malformed("header"))
    }
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

            fn take_fields(&mut self, bytes: &[u8]) -> Option<()> {
                let mut rest = bytes;
                while !rest.is_empty() {
                    match $crate::wire::fields::take_key(&mut rest)? {
                        $(key if key == const {
                            $crate::wire::fields::key($number, $crate::wire::fields::form::$form::KIND)
                        } => $crate::wire::fields::form::$form::take(&mut rest, &mut self.$name),)*
                        key => $crate::wire::fields::skip(&mut rest, key, &[$($number),*]),
                    }?;
                }
                Some(())
            }
        }
    };
}
pub(super) use fields;

/// A field's number and its wire type in one number, as they are on the wire.
pub(super) const fn key(number: u32, kind: u32) -> u32 {
    number << 3 | kind
}

/// Takes a field's key off the front of `rest`.
#[inline]
pub(super) fn take_key(rest: &mut &[u8]) -> Option<u32> {
    match **rest {
        // Fields 1 to 15.
        [byte @ 0x08..0x80, ..] => {
            *rest = &rest[1..];
            Some(byte.into())
        }
        // Fields 16 to 31.
        [low @ 0x80..=0xff, high @ 1..4, ..] => {
            *rest = &rest[2..];
            Some(u32::from(low & 0x7f) | u32::from(high) << 7)
        }
        _ => {
            let (number, kind) = decode_key(rest).ok()?;
            Some(key(number, kind as u32))
        }
    }
}

/// Skips a field that this version does not know, and refuses a known one that has another form.
#[cold]
pub(super) fn skip(rest: &mut &[u8], key: u32, known: &[u32]) -> Option<()> {
    let (number, kind) = (key >> 3, WireType::try_from(u64::from(key & 7)).ok()?);
    if known.contains(&number) {
        return None;
    }
    skip_field(kind, number, rest, DecodeContext::default()).ok()
}

#[inline]
fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    match **rest {
        [byte @ ..0x80, ..] => {
            *rest = &rest[1..];
            Some(byte.into())
        }
        [low, high @ ..0x80, ..] => {
            *rest = &rest[2..];
            Some(u64::from(low & 0x7f) | u64::from(high) << 7)
        }
        _ => decode_varint(rest).ok(),
    }
}

/// The forms that fields have.
pub(super) mod form {
    use super::{WireType, key, put_number, take_varint};
    use prost::encoding::DecodeContext;

    const VARINT: u32 = 0;
    const FIXED: u32 = 1;
    const LENGTH: u32 = 2;

    #[inline]
    fn put_key(row: &mut Vec<u8>, number: u32, kind: u32) {
        put_number(row, key(number, kind).into());
    }

    #[inline]
    fn take_slice<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
        let length = usize::try_from(take_varint(rest)?).ok()?;
        rest.split_off(..length)
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

        pub(in crate::wire) const KIND: u32 = VARINT;

        #[inline]
        pub(in crate::wire) fn put(row: &mut Vec<u8>, number: u32, value: &u64) {
            if *value != 0 {
                put_key(row, number, VARINT);
                put_number(row, *value);
            }
        }

        #[inline]
        pub(in crate::wire) fn take(rest: &mut &[u8], value: &mut u64) -> Option<()> {
            *value = take_varint(rest)?;
            Some(())
        }
    }

    /// `uint32`; 0 is left out.
    pub(in crate::wire) mod uint32 {
        use super::*;

        pub(in crate::wire) const KIND: u32 = VARINT;

        #[inline]
        pub(in crate::wire) fn put(row: &mut Vec<u8>, number: u32, value: &u32) {
            uint64::put(row, number, &(*value).into());
        }

        #[inline]
        pub(in crate::wire) fn take(rest: &mut &[u8], value: &mut u32) -> Option<()> {
            let mut long = 0;
            uint64::take(rest, &mut long)?;
            // Protobuf cuts off the upper bits.
            *value = long as u32;
            Some(())
        }
    }

    /// `bool`; false is left out.
    pub(in crate::wire) mod bool {
        use super::*;

        pub(in crate::wire) const KIND: u32 = VARINT;

        #[inline]
        pub(in crate::wire) fn put(row: &mut Vec<u8>, number: u32, value: &bool) {
            uint64::put(row, number, &(*value).into());
        }

        #[inline]
        pub(in crate::wire) fn take(rest: &mut &[u8], value: &mut bool) -> Option<()> {
            let mut long = 0;
            uint64::take(rest, &mut long)?;
            *value = long != 0;
            Some(())
        }
    }

    /// `optional uint64`.
    pub(in crate::wire) mod optional_uint64 {
        use super::*;

        pub(in crate::wire) const KIND: u32 = VARINT;

        #[inline]
        pub(in crate::wire) fn put(row: &mut Vec<u8>, number: u32, value: &Option<u64>) {
            if let Some(value) = value {
                put_key(row, number, VARINT);
                put_number(row, *value);
            }
        }

        #[inline]
        pub(in crate::wire) fn take(rest: &mut &[u8], value: &mut Option<u64>) -> Option<()> {
            uint64::take(rest, value.insert(0))
        }
    }

    /// `double`; +0.0 is left out.
    pub(in crate::wire) mod double {
        use super::*;

        pub(in crate::wire) const KIND: u32 = FIXED;

        #[inline]
        pub(in crate::wire) fn put(row: &mut Vec<u8>, number: u32, value: &f64) {
            if *value != 0.0 {
                put_key(row, number, FIXED);
                row.extend_from_slice(&value.to_le_bytes());
            }
        }

        #[inline]
        pub(in crate::wire) fn take(rest: &mut &[u8], value: &mut f64) -> Option<()> {
            let (bytes, after) = rest.split_first_chunk()?;
            *value = f64::from_le_bytes(*bytes);
            *rest = after;
            Some(())
        }
    }

    /// `bytes`; an empty string is left out.
    pub(in crate::wire) mod bytes {
        use super::*;

        pub(in crate::wire) const KIND: u32 = LENGTH;

        #[inline]
        pub(in crate::wire) fn put(row: &mut Vec<u8>, number: u32, value: &[u8]) {
            if !value.is_empty() {
                put_slice(row, number, value);
            }
        }

        #[inline]
        pub(in crate::wire) fn take(rest: &mut &[u8], value: &mut Vec<u8>) -> Option<()> {
            let slice = take_slice(rest)?;
            value.clear();
            value.extend_from_slice(slice);
            Some(())
        }
    }

    /// `string`; an empty one is left out.
    pub(in crate::wire) mod string {
        use super::*;

        pub(in crate::wire) const KIND: u32 = LENGTH;

        #[inline]
        pub(in crate::wire) fn put(row: &mut Vec<u8>, number: u32, value: &str) {
            bytes::put(row, number, value.as_bytes());
        }

        #[inline]
        pub(in crate::wire) fn take(rest: &mut &[u8], value: &mut String) -> Option<()> {
            let text = str::from_utf8(take_slice(rest)?).ok()?;
            value.clear();
            value.push_str(text);
            Some(())
        }
    }

    /// `repeated bytes`.
    pub(in crate::wire) mod repeated_bytes {
        use super::*;

        pub(in crate::wire) const KIND: u32 = LENGTH;

        #[inline]
        pub(in crate::wire) fn put(row: &mut Vec<u8>, number: u32, values: &[Vec<u8>]) {
            values.iter().for_each(|value| put_slice(row, number, value));
        }

        #[inline]
        pub(in crate::wire) fn take(rest: &mut &[u8], values: &mut Vec<Vec<u8>>) -> Option<()> {
            values.push(take_slice(rest)?.to_vec());
            Some(())
        }
    }

    /// A message, if there is one.
    pub(in crate::wire) mod message {
        use super::*;

        pub(in crate::wire) const KIND: u32 = LENGTH;

        #[inline]
        pub(in crate::wire) fn put<M: prost::Message>(row: &mut Vec<u8>, number: u32, value: &Option<M>) {
            if let Some(value) = value {
                prost::encoding::message::encode(number, value, row);
            }
        }

        #[inline]
        pub(in crate::wire) fn take<M: prost::Message + Default>(
            rest: &mut &[u8],
            value: &mut Option<M>,
        ) -> Option<()> {
            let value = value.get_or_insert_default();
            prost::encoding::message::merge(WireType::LengthDelimited, value, rest, DecodeContext::default())
                .ok()
        }
    }

    /// `repeated` messages.
    pub(in crate::wire) mod messages {
        use super::*;

        pub(in crate::wire) const KIND: u32 = LENGTH;

        #[inline]
        pub(in crate::wire) fn put<M: prost::Message>(row: &mut Vec<u8>, number: u32, values: &[M]) {
            prost::encoding::message::encode_repeated(number, values, row);
        }

        #[inline]
        pub(in crate::wire) fn take<M: prost::Message + Default>(
            rest: &mut &[u8],
            values: &mut Vec<M>,
        ) -> Option<()> {
            prost::encoding::message::merge_repeated(
                WireType::LengthDelimited,
                values,
                rest,
                DecodeContext::default(),
            )
            .ok()
        }
    }
}
