//! The types of a packet's values.
//!
//! An array's number is its element's number with one bit set. Conversion between the two is therefore
//! arithmetic and needs no tables, which could disagree.

use std::fmt;

/// The bit that turns the number of a type into the number of its array type.
const ARRAY: u8 = 0x10;

/// The type of a value. The number is what goes on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Type {
    /// A signed whole number.
    I64 = 0x01,
    /// An unsigned whole number.
    U64 = 0x02,
    /// A floating-point number.
    F64 = 0x03,
    /// A floating-point number of 32 bits.
    F32 = 0x04,
    /// A text in UTF-8.
    Str = 0x05,
    /// A byte string.
    Blob = 0x06,
    /// An array of [`I64`](Self::I64).
    I64s = 0x11,
    /// An array of [`U64`](Self::U64).
    U64s = 0x12,
    /// An array of [`F64`](Self::F64).
    F64s = 0x13,
    /// An array of [`F32`](Self::F32).
    F32s = 0x14,
    /// An array of [`Str`](Self::Str).
    Strs = 0x15,
    /// An array of [`Blob`](Self::Blob).
    Blobs = 0x16,
}

impl Type {
    /// All types, scalars first.
    pub const ALL: [Self; 12] = [
        Self::I64,
        Self::U64,
        Self::F64,
        Self::F32,
        Self::Str,
        Self::Blob,
        Self::I64s,
        Self::U64s,
        Self::F64s,
        Self::F32s,
        Self::Strs,
        Self::Blobs,
    ];

    /// Returns the type with this number on the wire.
    pub const fn of_number(number: u8) -> Option<Self> {
        Some(match number {
            0x01 => Self::I64,
            0x02 => Self::U64,
            0x03 => Self::F64,
            0x04 => Self::F32,
            0x05 => Self::Str,
            0x06 => Self::Blob,
            0x11 => Self::I64s,
            0x12 => Self::U64s,
            0x13 => Self::F64s,
            0x14 => Self::F32s,
            0x15 => Self::Strs,
            0x16 => Self::Blobs,
            _ => return None,
        })
    }

    /// Returns the name used in a packet's format: `i64`, and `i64s` for an array.
    pub const fn name(self) -> &'static str {
        match self {
            Self::I64 => "i64",
            Self::U64 => "u64",
            Self::F64 => "f64",
            Self::F32 => "f32",
            Self::Str => "str",
            Self::Blob => "blob",
            Self::I64s => "i64s",
            Self::U64s => "u64s",
            Self::F64s => "f64s",
            Self::F32s => "f32s",
            Self::Strs => "strs",
            Self::Blobs => "blobs",
        }
    }

    /// Returns true for an array type.
    pub const fn is_array(self) -> bool {
        self as u8 & ARRAY != 0
    }

    /// Returns the element type of an array, or the type itself if it is a scalar.
    pub const fn element(self) -> Self {
        match Self::of_number(self as u8 & !ARRAY) {
            Some(element) => element,
            None => panic!("invariant: an array's number is its element's number with one bit set"),
        }
    }

    /// Returns the array type of an element, or the type itself if it is an array.
    pub const fn array(self) -> Self {
        match Self::of_number(self as u8 | ARRAY) {
            Some(array) => array,
            None => panic!("invariant: every element type has an array type"),
        }
    }

    /// Returns true for numbers and arrays of numbers.
    pub const fn is_number(self) -> bool {
        self.width().is_some()
    }

    /// Returns the size in bytes of one number (of an array: of one element), or `None` if the size varies
    /// between values.
    pub const fn width(self) -> Option<usize> {
        match self {
            Self::I64 | Self::U64 | Self::F64 | Self::I64s | Self::U64s | Self::F64s => Some(8),
            Self::F32 | Self::F32s => Some(4),
            Self::Str | Self::Blob | Self::Strs | Self::Blobs => None,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
