//! The types of a packet's values.
//!
//! An array's number is its element's number with one bit set. Conversion between the two is therefore
//! arithmetic and needs no tables, which could disagree.

use crate::number_types;
use std::fmt;

/// The bit that turns the number of a type into the number of its array type.
const ARRAY: u8 = 0x10;

macro_rules! types {
    ($($one:ident $many:ident $number:ident $numbers:ident $wire:literal;)*) => {
        /// The type of a value. The number is what goes on the wire.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Type {
            $(
                #[doc = concat!("A number, an `", stringify!($number), "` of Rust.")]
                $one = $wire,
            )*
            /// A text in UTF-8.
            Str = 0x05,
            /// A byte string.
            Blob = 0x06,
            $(
                #[doc = concat!("An array of [`", stringify!($one), "`](Self::", stringify!($one), ").")]
                $many = $wire | ARRAY,
            )*
            /// An array of [`Str`](Self::Str).
            Strs = 0x05 | ARRAY,
            /// An array of [`Blob`](Self::Blob).
            Blobs = 0x06 | ARRAY,
        }

        impl Type {
            /// All types, scalars first.
            pub const ALL: &[Self] = &[
                $(Self::$one,)*
                Self::Str,
                Self::Blob,
                $(Self::$many,)*
                Self::Strs,
                Self::Blobs,
            ];

            /// Returns the name used in a packet's format: `i64`, and `i64s` for an array.
            pub const fn name(self) -> &'static str {
                match self {
                    $(
                        Self::$one => stringify!($number),
                        Self::$many => stringify!($numbers),
                    )*
                    Self::Str => "str",
                    Self::Blob => "blob",
                    Self::Strs => "strs",
                    Self::Blobs => "blobs",
                }
            }

            /// Returns the size in bytes of one number (of an array: of one element), or `None` if the size
            /// varies between values.
            pub const fn width(self) -> Option<usize> {
                match self {
                    $( Self::$one | Self::$many => Some(size_of::<$number>()), )*
                    Self::Str | Self::Blob | Self::Strs | Self::Blobs => None,
                }
            }
        }
    };
}

number_types!(types);

/// The types by their numbers.
const BY_NUMBER: [Option<Type>; 2 * ARRAY as usize] = {
    let mut types = [None; 2 * ARRAY as usize];
    let mut at = 0;
    while at < Type::ALL.len() {
        types[Type::ALL[at] as usize] = Some(Type::ALL[at]);
        at += 1;
    }
    types
};

impl Type {
    /// Returns the type with this number on the wire.
    #[inline]
    pub const fn of_number(number: u8) -> Option<Self> {
        if (number as usize) < BY_NUMBER.len() { BY_NUMBER[number as usize] } else { None }
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
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
