//! Numbers of every type in typed packets, through one function each way.

use crate::boundary::{copy_out, guard, lent_slice};
use crate::code::{Failure, Outcome, treefold_code, treefold_error};
use crate::packet::{mistyped, place_field, treefold_packet, typed};
use crate::row::{append, append_many, treefold_row};
use std::ffi::c_void;
use std::iter::once;
use treefold::operators::number_types;
use treefold::operators::packet::{PacketError, Row, Type};

/// The type of a field of a typed packet, as docs/protocol.md numbers it. An array's number is its element's plus 16.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum treefold_type {
    /// An int64_t.
    TREEFOLD_I64 = 1,
    /// A uint64_t.
    TREEFOLD_U64 = 2,
    /// A double.
    TREEFOLD_F64 = 3,
    /// A float.
    TREEFOLD_F32 = 4,
    /// A text.
    TREEFOLD_STR = 5,
    /// Bytes.
    TREEFOLD_BLOB = 6,
    /// An int32_t.
    TREEFOLD_I32 = 7,
    /// A uint32_t.
    TREEFOLD_U32 = 8,
    /// An int16_t.
    TREEFOLD_I16 = 9,
    /// A uint16_t.
    TREEFOLD_U16 = 10,
    /// An int8_t.
    TREEFOLD_I8 = 11,
    /// A uint8_t.
    TREEFOLD_U8 = 12,
    /// An array of TREEFOLD_I64.
    TREEFOLD_I64S = 17,
    /// An array of TREEFOLD_U64.
    TREEFOLD_U64S = 18,
    /// An array of TREEFOLD_F64.
    TREEFOLD_F64S = 19,
    /// An array of TREEFOLD_F32.
    TREEFOLD_F32S = 20,
    /// An array of TREEFOLD_STR.
    TREEFOLD_STRS = 21,
    /// An array of TREEFOLD_BLOB.
    TREEFOLD_BLOBS = 22,
    /// An array of TREEFOLD_I32.
    TREEFOLD_I32S = 23,
    /// An array of TREEFOLD_U32.
    TREEFOLD_U32S = 24,
    /// An array of TREEFOLD_I16.
    TREEFOLD_I16S = 25,
    /// An array of TREEFOLD_U16.
    TREEFOLD_U16S = 26,
    /// An array of TREEFOLD_I8.
    TREEFOLD_I8S = 27,
    /// An array of TREEFOLD_U8.
    TREEFOLD_U8S = 28,
}

/// Gets the type of field `field`, counted from 0, as a treefold_type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_packet_type(
    packet: *const treefold_packet,
    field: usize,
    kind: *mut u32,
    error: *mut treefold_error,
) -> treefold_code {
    // SAFETY: the caller lends all of these, or null.
    unsafe {
        guard(error, || {
            place_field(packet, "kind", kind, |packet| {
                let no_field =
                    || PacketError::NoField { field, fields: packet.len(), format: packet.format() };
                packet.types().nth(field).map(|kind| u32::from(kind as u8)).ok_or_else(no_field)
            })
        })
    }
}

/// Copies the numbers in field `field`, which must be of type `kind`, to `values`, which has room for `capacity` of them,
/// and sets `count` to how many there are. `kind` is a treefold_type: TREEFOLD_I16 gets one int16_t, and TREEFOLD_I16S an
/// array of them. If there is too little room, nothing is copied and TREEFOLD_NO_ROOM is returned. Use a capacity of 0 to
/// get only the count.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_packet_numbers(
    packet: *const treefold_packet,
    field: usize,
    kind: u32,
    values: *mut c_void,
    capacity: usize,
    count: *mut usize,
    error: *mut treefold_error,
) -> treefold_code {
    // SAFETY: the caller lends all of these, or null, with room for `capacity` numbers of this type.
    unsafe { guard(error, || copy_numbers(packet, field, number_type(kind)?, (values, capacity), count)) }
}

/// Appends `count` numbers of type `kind`, a treefold_type: one if it is the type of a number, such as TREEFOLD_U8, and
/// any number of them if it is the type of an array, such as TREEFOLD_U8S.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn treefold_row_numbers(
    row: *mut treefold_row,
    kind: u32,
    values: *const c_void,
    count: usize,
    error: *mut treefold_error,
) -> treefold_code {
    // SAFETY: the caller lends a row for exclusive use, and `count` numbers of this type, or null.
    unsafe { guard(error, || append_numbers(row, number_type(kind)?, values, count)) }
}

/// The type that a program names, if it is one of numbers.
fn number_type(kind: u32) -> Outcome<Type> {
    let known = u8::try_from(kind).ok().and_then(Type::of_number);
    known.filter(|kind| kind.is_number()).ok_or_else(|| {
        Failure::argument(
            "kind",
            format_args!("is {kind}; allowed: a treefold_type of numbers or of their arrays"),
        )
    })
}

macro_rules! by_type {
    ($($one:ident $many:ident $number:ident $numbers:ident $wire:literal;)*) => {
        /// # Safety
        /// `packet` is null or live, and the pointers are null or valid for writing, `values` for `capacity` numbers of
        /// this type.
        unsafe fn copy_numbers(
            packet: *const treefold_packet,
            field: usize,
            kind: Type,
            (values, capacity): (*mut c_void, usize),
            count: *mut usize,
        ) -> Outcome {
            // SAFETY: as the caller promises.
            let packet = unsafe { typed(packet)? };
            match kind {
                $(
                    Type::$one => {
                        let number = packet.$number(field).map_err(|error| mistyped(&error))?;
                        // SAFETY: as the caller promises.
                        unsafe { copy_out((values.cast(), capacity), count, once(number)) }
                    }
                    Type::$many => {
                        let numbers = packet.$numbers(field).map_err(|error| mistyped(&error))?;
                        // SAFETY: as the caller promises.
                        unsafe { copy_out((values.cast(), capacity), count, numbers.iter()) }
                    }
                )*
                Type::Str | Type::Blob | Type::Strs | Type::Blobs => unreachable!("invariant: a type of numbers"),
            }
        }

        /// # Safety
        /// `row` is null or live and nothing else uses it during the call; `values` is null, or `count` numbers of this
        /// type.
        unsafe fn append_numbers(
            row: *mut treefold_row,
            kind: Type,
            values: *const c_void,
            count: usize,
        ) -> Outcome {
            if !kind.is_array() && count != 1 {
                return Err(Failure::argument("count", format_args!("is {count}; allowed: 1, as a {kind} is one number")));
            }
            match kind {
                $(
                    Type::$one => {
                        // SAFETY: as the caller promises.
                        let one = unsafe { lent_slice::<$number>("values", values.cast(), 1)?[0] };
                        // SAFETY: as the caller promises.
                        unsafe { append(row, |row| row.$number(one)) }
                    }
                    Type::$many => {
                        // SAFETY: as the caller promises.
                        unsafe { append_many(row, lent_slice("values", values.cast(), count)?, Row::$numbers) }
                    }
                )*
                Type::Str | Type::Blob | Type::Strs | Type::Blobs => unreachable!("invariant: a type of numbers"),
            }
        }
    };
}

number_types!(by_type);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{handle, treefold_packet_free};
    use crate::row::{treefold_row_free, treefold_row_new};
    use std::ptr::{from_mut, from_ref, null_mut};

    #[test]
    fn types_have_the_numbers_of_the_protocol() {
        for (kind, number) in [
            (treefold_type::TREEFOLD_I64, Type::I64),
            (treefold_type::TREEFOLD_STR, Type::Str),
            (treefold_type::TREEFOLD_U8, Type::U8),
            (treefold_type::TREEFOLD_I16S, Type::I16s),
            (treefold_type::TREEFOLD_BLOBS, Type::Blobs),
            (treefold_type::TREEFOLD_U8S, Type::U8s),
        ] {
            assert_eq!(kind as u32, u32::from(number as u8));
        }
    }

    #[test]
    fn numbers_of_fewer_bits_are_appended_and_read_back() {
        let (sent, mut received, mut count) = ([-3i16, 4], [0i16; 2], 0);
        // SAFETY: all of these live through the calls.
        unsafe {
            let row = treefold_row_new();
            let code = treefold_row_numbers(row, 9, from_ref(&-7i16).cast(), 1, null_mut());
            assert_eq!(code, treefold_code::TREEFOLD_OK);
            let code = treefold_row_numbers(row, 25, sent.as_ptr().cast(), 2, null_mut());
            assert_eq!(code, treefold_code::TREEFOLD_OK);
            let packet = handle(1, (*row).bytes());
            let (values, room) = (received.as_mut_ptr().cast(), from_mut(&mut count));
            let read = |field, kind, capacity| {
                treefold_packet_numbers(packet, field, kind, values, capacity, room, null_mut())
            };
            assert_eq!(read(1, 25, 1), treefold_code::TREEFOLD_NO_ROOM);
            assert_eq!(read(0, 25, 2), treefold_code::TREEFOLD_TYPE, "one number is no array");
            assert_eq!(read(1, 25, 2), treefold_code::TREEFOLD_OK);
            assert_eq!((received, count), (sent, 2));
            assert_eq!(read(0, 9, 1), treefold_code::TREEFOLD_OK);
            assert_eq!((received[0], count), (-7, 1));
            let mut kind = 0;
            assert_eq!(
                treefold_packet_type(packet, 1, &raw mut kind, null_mut()),
                treefold_code::TREEFOLD_OK
            );
            assert_eq!(kind, treefold_type::TREEFOLD_I16S as u32);
            assert_eq!(
                treefold_packet_type(packet, 2, &raw mut kind, null_mut()),
                treefold_code::TREEFOLD_TYPE
            );
            treefold_packet_free(packet);
            treefold_row_free(row);
        }
    }

    #[test]
    fn types_without_numbers_and_wrong_counts_are_refused() {
        for (kind, count) in [(5, 1), (22, 1), (0, 1), (13, 1), (256 + 9, 1), (9, 0), (9, 2)] {
            // SAFETY: these are refused before `values` is read.
            unsafe {
                let row = treefold_row_new();
                let code = treefold_row_numbers(row, kind, from_ref(&0u64).cast(), count, null_mut());
                assert_eq!(code, treefold_code::TREEFOLD_INVALID, "{kind}, {count}");
                treefold_row_free(row);
            }
        }
    }
}
