//! The values of a packet, as views of its bytes.
//!
//! ```text
//!  i64 u64 f64     8 bytes          i8 u8           1 byte
//!  i32 u32 f32     4 bytes          str blob        length u32 │ octets
//!  i16 u16         2 bytes          strs blobs      count u32 │ bytes u32 │ (length u32 │ octets)*
//!  i64s … u8s      count u32 │ the numbers
//! ```
//!
//! A value begins with its length (where that can vary), so a reader can skip values. Reading has two parts:
//! `Span::first` finds the end of a value, and `Span::check` validates its content (texts are UTF-8, the
//! entries fill their list). A [`Packet`](super::Packet) has passed both, so every later view is a plain
//! slice. No memory is reserved according to a number from another node.

use super::error::PacketError;
use super::number::{Number, Numbers};
use super::types::Type;
use crate::number_types;
use std::fmt;

/// Size in bytes of a length or a count.
pub(crate) const LENGTH: usize = size_of::<u32>();

macro_rules! values {
    ($($one:ident $many:ident $number:ident $numbers:ident $wire:literal;)*) => {
        /// One value of a packet.
        #[derive(Clone, Copy, PartialEq)]
        pub enum Value<'a> {
            $(
                #[doc = concat!("A number, an `", stringify!($number), "`.")]
                $one($number),
            )*
            /// A text.
            Str(&'a str),
            /// A byte string.
            Blob(&'a [u8]),
            $(
                #[doc = concat!("An array of `", stringify!($number), "`.")]
                $many(Numbers<'a, $number>),
            )*
            /// Texts.
            Strs(Strs<'a>),
            /// Byte strings.
            Blobs(Blobs<'a>),
        }

        impl Value<'_> {
            /// Returns the value's type.
            pub fn kind(&self) -> Type {
                match self {
                    $(
                        Self::$one(_) => Type::$one,
                        Self::$many(_) => Type::$many,
                    )*
                    Self::Str(_) => Type::Str,
                    Self::Blob(_) => Type::Blob,
                    Self::Strs(_) => Type::Strs,
                    Self::Blobs(_) => Type::Blobs,
                }
            }

            /// Returns the number of elements of an array, and 1 for any other value.
            pub(crate) fn elements(&self) -> usize {
                match self {
                    $( Self::$many(numbers) => numbers.len(), )*
                    Self::Strs(texts) => texts.len(),
                    Self::Blobs(blobs) => blobs.len(),
                    _ => 1,
                }
            }

            /// Calls `take` with each number of the value as `f64`. Whole numbers above 2⁵³ are rounded; texts and
            /// bytes are skipped.
            #[inline]
            pub(crate) fn each_f64(&self, mut take: impl FnMut(f64)) {
                match self {
                    $(
                        Self::$one(number) => take(*number as f64),
                        Self::$many(numbers) => numbers.iter().for_each(|number| take(number as f64)),
                    )*
                    Self::Str(_) | Self::Blob(_) | Self::Strs(_) | Self::Blobs(_) => {}
                }
            }
        }

        impl fmt::Debug for Value<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(
                        Self::$one(number) => number.fmt(f),
                        Self::$many(numbers) => numbers.fmt(f),
                    )*
                    Self::Str(text) => text.fmt(f),
                    Self::Blob(octets) => write!(f, "b\"{}\"", octets.escape_ascii()),
                    Self::Strs(texts) => f.debug_list().entries(*texts).finish(),
                    Self::Blobs(blobs) => f.debug_list().entries(blobs.map(Value::Blob)).finish(),
                }
            }
        }

        impl<'a> Span<'a> {
            /// Returns the value of a span that has been checked.
            #[inline]
            pub(super) fn value(self) -> Value<'a> {
                match self.kind {
                    $(
                        Type::$one => Value::$one(self.number()),
                        Type::$many => Value::$many(Numbers::of_octets(&self.octets[LENGTH..])),
                    )*
                    Type::Str => Value::Str(text(&self.octets[LENGTH..])),
                    Type::Blob => Value::Blob(&self.octets[LENGTH..]),
                    Type::Strs => Value::Strs(Strs(self.list())),
                    Type::Blobs => Value::Blobs(self.list()),
                }
            }
        }
    };
}

number_types!(values);

/// An array of byte strings in a packet, and the iterator over its remaining entries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Blobs<'a> {
    pub(super) count: u32,
    pub(super) octets: &'a [u8],
}

impl<'a> Blobs<'a> {
    /// Returns the entries as they lie in the packet: each is a length (u32) and its octets.
    pub fn octets(&self) -> &'a [u8] {
        self.octets
    }
}

impl<'a> Iterator for Blobs<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.count = self.count.checked_sub(1)?;
        let (entry, rest) =
            first_blob(self.octets).expect("invariant: entries are counted when a packet is read");
        self.octets = rest;
        Some(entry)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count as usize, Some(self.count as usize))
    }
}

impl ExactSizeIterator for Blobs<'_> {}

/// An array of texts in a packet, and the iterator over its remaining entries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Strs<'a>(pub(super) Blobs<'a>);

impl<'a> Strs<'a> {
    /// Returns the texts as byte strings.
    pub fn as_blobs(&self) -> Blobs<'a> {
        self.0
    }
}

impl<'a> Iterator for Strs<'a> {
    type Item = &'a str;

    #[inline]
    fn next(&mut self) -> Option<&'a str> {
        self.0.next().map(text)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Strs<'_> {}

fn text(octets: &[u8]) -> &str {
    std::str::from_utf8(octets).expect("invariant: texts are known to be UTF-8 when a packet is read")
}

/// Reads the length or count at the beginning of `octets`.
#[inline]
pub(super) fn length(octets: &[u8]) -> Option<u32> {
    octets.first_chunk().map(|&length| u32::from_le_bytes(length))
}

/// Returns the first entry of a list's octets, and the remaining octets.
#[inline]
pub(crate) fn first_blob(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    octets.get(LENGTH..)?.split_at_checked(length(octets)? as usize)
}

/// One value's type and its bytes.
#[derive(Clone, Copy)]
pub(crate) struct Span<'a> {
    pub(super) kind: Type,
    pub(super) octets: &'a [u8],
}

impl<'a> Span<'a> {
    /// Splits off the value of type `kind` at the beginning of `octets`.
    ///
    /// If the bytes are incomplete, the error is the number of bytes that the value claims.
    #[inline]
    pub(super) fn first(kind: Type, octets: &'a [u8]) -> Result<(Self, &'a [u8]), u64> {
        let claimed = |at: usize| match octets.get(at..).and_then(length) {
            Some(claimed) => Ok(u64::from(claimed)),
            None => Err((at + LENGTH) as u64),
        };
        let bytes = match (kind.width(), kind) {
            (Some(width), array) if array.is_array() => LENGTH as u64 + claimed(0)? * width as u64,
            (Some(width), _) => width as u64,
            (None, Type::Str | Type::Blob) => LENGTH as u64 + claimed(0)?,
            (None, _) => 2 * LENGTH as u64 + claimed(LENGTH)?,
        };
        let here = usize::try_from(bytes).ok().and_then(|bytes| octets.split_at_checked(bytes));
        let (octets, rest) = here.ok_or(bytes)?;
        Ok((Self { kind, octets }, rest))
    }

    /// Checks the content, which the length alone does not validate.
    pub(super) fn check(self, field: usize) -> Result<(), PacketError> {
        let kind = self.kind;
        let utf8 = |text: &[u8]| match std::str::from_utf8(text) {
            Ok(_) => Ok(()),
            Err(cause) => Err(PacketError::NotUtf8 { field, kind, cause }),
        };
        match kind {
            Type::Str => utf8(&self.octets[LENGTH..]),
            Type::Strs | Type::Blobs => {
                let Blobs { count: entries, octets } = self.list();
                let unfilled = || PacketError::List { field, kind, entries, bytes: octets.len() };
                let mut rest = octets;
                for _ in 0..entries {
                    let (entry, after) = first_blob(rest).ok_or_else(unfilled)?;
                    if kind == Type::Strs {
                        utf8(entry)?;
                    }
                    rest = after;
                }
                if rest.is_empty() { Ok(()) } else { Err(unfilled()) }
            }
            _ => Ok(()),
        }
    }

    /// Returns how many elements a checked value adds to an array of its type, and their octets.
    pub(crate) fn elements(self) -> (usize, &'a [u8]) {
        let counted =
            || length(self.octets).expect("invariant: an array's span begins with its count") as usize;
        match (self.kind.is_array(), self.kind.is_number()) {
            // a text or a byte string is an entry of its array as it is, with its length
            (false, _) => (1, self.octets),
            (true, true) => (counted(), &self.octets[LENGTH..]),
            (true, false) => (counted(), &self.octets[2 * LENGTH..]),
        }
    }

    fn number<N: Number>(self) -> N {
        N::from_octets(N::rows(self.octets)[0])
    }

    fn list(self) -> Blobs<'a> {
        let count = length(self.octets).expect("invariant: a list's span begins with its count");
        Blobs { count, octets: &self.octets[2 * LENGTH..] }
    }
}
