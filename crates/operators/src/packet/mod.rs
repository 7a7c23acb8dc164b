//! Typed packets: a row of values, as MRNet's packets are (§2.4).
//!
//! Because the values have types, a filter can add, compare and join packets of applications that it was not
//! written for.
//!
//! ```text
//!  ┌────────┬──────┬───────┬──────┬───────┬─
//!  │ fields │ type │ value │ type │ value │ …      all integers little-endian, nothing aligned
//!  │   u8   │  u8  │       │  u8  │       │
//!  └────────┴──────┴───────┴──────┴───────┴─
//! ```
//!
//! Types and values are in [`types`] and [`value`]; docs/protocol.md, "Typed packets", specifies them. The
//! *format* of a packet names its types in order: `i64 f64s str`.
//!
//! A [`Packet`] *is* its encoded bytes, once they are known to be well-formed. Reading a packet checks it and
//! allocates nothing, writing one is free, and every field is a view. A row has exactly one encoding, so
//! packets with the same values are the same bytes. Numbers are compared by their bits: a NaN is equal to
//! itself.
//!
//! ```
//! use treefold_operators::packet::Row;
//! use treefold_operators::{Body, Packet};
//!
//! let packet = Row::new().i64(-3).f64s(&[0.5, 1.5]).str("phase one").packet();
//! assert_eq!(packet.format(), "i64 f64s str");
//!
//! let read = Packet::decode(&packet.encode().unwrap()).unwrap();
//! assert_eq!(read.i64(0).unwrap(), -3);
//! assert_eq!(read.f64s(1).unwrap().iter().sum::<f64>(), 2.0);
//! assert_eq!(read.u64(0).unwrap_err().to_string(), "field 0 of a packet `i64 f64s str` is not of type u64");
//! ```

mod error;
mod number;
mod row;
pub mod types;
pub mod value;

pub use error::PacketError;
pub use number::{Number, Numbers};
pub use row::Row;
pub use types::Type;
pub use value::{Blobs, Strs, Value};

use crate::codec::{Body, BodyError, Codec};
use crate::number_types;
use bytes::Bytes;
use std::fmt;
use value::Span;

/// Most fields of a packet, limited by the byte that counts them.
pub const FIELDS_MAX: usize = u8::MAX as usize;

/// A row of typed values, held as the bytes that travel.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Packet(Bytes);

macro_rules! read_fields {
    ($($variant:ident $read:ident -> $type:ty;)*) => { $(
        #[doc = concat!("Returns field `field`, which must be of type `", stringify!($read), "`.")]
        ///
        /// # Errors
        /// [`PacketError::NoField`] and [`PacketError::WrongType`], both with the format that the packet has.
        #[inline]
        pub fn $read(&self, field: usize) -> Result<$type, PacketError> {
            match self.values().nth(field) {
                Some(Value::$variant(value)) => Ok(value),
                other => Err(self.refused(field, other, Type::$variant)),
            }
        }
    )* };
}

impl Packet {
    /// Checks `bytes` and returns them as a packet that shares their memory.
    ///
    /// # Errors
    /// A [`PacketError`] that names the field.
    #[inline]
    pub fn read(bytes: &Bytes) -> Result<Self, PacketError> {
        check(bytes)?;
        Ok(Self(bytes.clone()))
    }

    /// Builds a packet of these values.
    pub fn of<'a>(values: impl IntoIterator<Item = Value<'a>>) -> Self {
        values.into_iter().fold(Row::new(), Row::value).packet()
    }

    /// Wraps bytes that the caller has built and knows to be a valid packet.
    pub(crate) fn of_checked(bytes: Bytes) -> Self {
        debug_assert_eq!(check(&bytes), Ok(()), "invariant: bytes built by this crate are a valid packet");
        Self(bytes)
    }

    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        usize::from(self.0[0])
    }

    /// Returns true if the packet has no fields.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the values, in order.
    #[inline]
    pub fn values(&self) -> Values<'_> {
        Values { rest: &self.0[1..] }
    }

    /// Returns the types, in order.
    pub fn types(&self) -> impl Iterator<Item = Type> + '_ {
        self.values().spans().map(|span| span.kind)
    }

    /// Returns the types by name: `i64 f64s str`.
    pub fn format(&self) -> String {
        self.types().map(Type::name).collect::<Vec<_>>().join(" ")
    }

    /// Returns the encoded bytes.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Returns the encoded bytes by value.
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// Returns the bytes of a field's view as `Bytes`, which share the packet's memory without a copy.
    ///
    /// # Panics
    /// If `view` is not a view of this packet.
    pub fn share(&self, view: &[u8]) -> Bytes {
        self.0.slice_ref(view)
    }

    read_fields! {
        Str str -> &str;
        Blob blob -> &[u8];
        Strs strs -> Strs<'_>;
        Blobs blobs -> Blobs<'_>;
    }

    #[cold]
    fn refused(&self, field: usize, other: Option<Value<'_>>, wanted: Type) -> PacketError {
        let format = self.format();
        match other {
            Some(_) => PacketError::WrongType { field, wanted, format },
            None => PacketError::NoField { field, fields: self.len(), format },
        }
    }
}

macro_rules! read_numbers {
    ($($one:ident $many:ident $number:ident $numbers:ident $wire:literal;)*) => {
        impl Packet {
            read_fields! {
                $(
                    $one $number -> $number;
                    $many $numbers -> Numbers<'_, $number>;
                )*
            }
        }
    };
}

number_types!(read_numbers);

/// Checks whether `bytes` are a valid packet.
#[inline]
fn check(bytes: &[u8]) -> Result<(), PacketError> {
    let (&count, mut rest) = bytes.split_first().ok_or(PacketError::Empty)?;
    let fields = usize::from(count);
    for field in 0..fields {
        let (&number, after) = rest.split_first().ok_or(PacketError::Missing { field, fields })?;
        let kind = Type::of_number(number).ok_or(PacketError::UnknownType { field, number })?;
        let cut = |bytes| PacketError::Cut { field, kind, bytes, left: after.len() };
        let (span, after) = Span::first(kind, after).map_err(cut)?;
        span.check(field)?;
        rest = after;
    }
    if rest.is_empty() { Ok(()) } else { Err(PacketError::Trailing { bytes: rest.len(), fields }) }
}

/// The values of a packet, in order.
#[derive(Clone)]
pub struct Values<'a> {
    rest: &'a [u8],
}

impl<'a> Values<'a> {
    /// Returns the next value's bytes. They were checked when the packet was made.
    #[inline]
    fn next_span(&mut self) -> Option<Span<'a>> {
        let (&number, rest) = self.rest.split_first()?;
        let kind = Type::of_number(number).expect("invariant: the types of a packet are known");
        let (span, rest) = Span::first(kind, rest).expect("invariant: the fields of a packet are there");
        self.rest = rest;
        Some(span)
    }

    /// Returns the values with their bytes.
    pub(crate) fn spans(mut self) -> impl Iterator<Item = Span<'a>> {
        std::iter::from_fn(move || self.next_span())
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = Value<'a>;

    #[inline]
    fn next(&mut self) -> Option<Value<'a>> {
        self.next_span().map(Span::value)
    }

    #[inline]
    fn nth(&mut self, n: usize) -> Option<Value<'a>> {
        (0..n).try_for_each(|_| self.next_span().map(|_| ()))?;
        self.next()
    }
}

impl Body for Packet {
    const CODEC: Codec = Codec::Packet;

    fn encode(&self) -> Result<Bytes, BodyError> {
        Ok(self.0.clone())
    }

    fn decode(bytes: &Bytes) -> Result<Self, BodyError> {
        Self::read(bytes).map_err(|error| BodyError::decode::<Self>(Codec::Packet, bytes.len(), &error))
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` ", self.format())?;
        f.debug_list().entries(self.values()).finish()
    }
}

#[cfg(test)]
mod tests;
