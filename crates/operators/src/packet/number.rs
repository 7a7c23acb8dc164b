//! Numbers in a packet's bytes, at any alignment.
//!
//! Values are not aligned, so an array is seen as rows of octets, and each element is assembled when it is
//! read. The compiler turns that into a plain load. A loop over it gets the same vector instructions as a
//! loop over a slice of numbers (the bench `packets` measures how nearly), without a copy and without
//! `unsafe`.

use super::types::Type;
use std::fmt;
use std::marker::PhantomData;

/// Calls the macro `$then` with all types of numbers, a line each.
///
/// A line has the type, the type of its arrays, their names in a packet's format (the first of which is the Rust type),
/// and the type's number on the wire. Code that treats every number in the same way is written once with it.
///
/// ```
/// use treefold_operators::packet::Value;
///
/// macro_rules! in_words {
///     ($($one:ident $many:ident $number:ident $numbers:ident $wire:literal;)*) => {
///         fn in_words(value: &Value<'_>) -> String {
///             match value {
///                 $( Value::$one(number) => number.to_string(), )*
///                 $( Value::$many(numbers) => format!("{} numbers", numbers.len()), )*
///                 _ => "no number".into(),
///             }
///         }
///     };
/// }
/// treefold_operators::number_types!(in_words);
///
/// assert_eq!(in_words(&Value::I16(-3)), "-3");
/// ```
#[macro_export]
macro_rules! number_types {
    ($then:ident) => {
        $then! {
            I64 I64s i64 i64s 0x01;
            U64 U64s u64 u64s 0x02;
            F64 F64s f64 f64s 0x03;
            F32 F32s f32 f32s 0x04;
            I32 I32s i32 i32s 0x07;
            U32 U32s u32 u32s 0x08;
            I16 I16s i16 i16s 0x09;
            U16 U16s u16 u16s 0x0a;
            I8 I8s i8 i8s 0x0b;
            U8 U8s u8 u8s 0x0c;
        }
    };
}

mod sealed {
    pub trait Sealed {}
}

/// A number that a packet can hold.
pub trait Number: sealed::Sealed + Copy + PartialEq + fmt::Debug + Send + 'static {
    /// The number's octets, least significant first.
    type Octets: Copy + AsRef<[u8]>;
    /// The packet type of one number.
    const TYPE: Type;

    /// Assembles the number from its octets.
    fn from_octets(octets: Self::Octets) -> Self;

    /// Returns the number's octets.
    fn octets(self) -> Self::Octets;

    /// Splits `octets` into rows of one number each; an incomplete row at the end is ignored.
    fn rows(octets: &[u8]) -> &[Self::Octets];

    /// As [`rows`](Self::rows), but mutable.
    fn rows_mut(octets: &mut [u8]) -> &mut [Self::Octets];
}

macro_rules! numbers {
    ($($one:ident $many:ident $number:ident $numbers:ident $wire:literal;)*) => { $(
        impl sealed::Sealed for $number {}

        impl Number for $number {
            type Octets = [u8; size_of::<$number>()];
            const TYPE: Type = Type::$one;

            #[inline]
            fn from_octets(octets: Self::Octets) -> Self {
                Self::from_le_bytes(octets)
            }

            #[inline]
            fn octets(self) -> Self::Octets {
                self.to_le_bytes()
            }

            #[inline]
            fn rows(octets: &[u8]) -> &[Self::Octets] {
                octets.as_chunks().0
            }

            #[inline]
            fn rows_mut(octets: &mut [u8]) -> &mut [Self::Octets] {
                octets.as_chunks_mut().0
            }
        }
    )* };
}

number_types!(numbers);

/// An array of numbers in a packet's bytes.
pub struct Numbers<'a, N> {
    octets: &'a [u8],
    number: PhantomData<N>,
}

impl<'a, N: Number> Numbers<'a, N> {
    /// Views `octets` as numbers; an incomplete number at the end is ignored.
    pub fn of_octets(octets: &'a [u8]) -> Self {
        let whole = octets.len() - octets.len() % size_of::<N::Octets>();
        Self { octets: &octets[..whole], number: PhantomData }
    }

    /// Returns the number of elements.
    pub fn len(self) -> usize {
        N::rows(self.octets).len()
    }

    /// Returns true if the array is empty.
    pub fn is_empty(self) -> bool {
        self.octets.is_empty()
    }

    /// Returns the number at `index`.
    pub fn at(self, index: usize) -> Option<N> {
        N::rows(self.octets).get(index).map(|&octets| N::from_octets(octets))
    }

    /// Iterates over all numbers, in order.
    #[inline]
    pub fn iter(self) -> impl ExactSizeIterator<Item = N> + DoubleEndedIterator + Clone + 'a {
        N::rows(self.octets).iter().map(|&octets| N::from_octets(octets))
    }

    /// Copies all numbers into a vector.
    pub fn to_vec(self) -> Vec<N> {
        self.iter().collect()
    }

    /// Returns the octets as they lie in the packet.
    pub fn octets(self) -> &'a [u8] {
        self.octets
    }
}

impl<N> Clone for Numbers<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N> Copy for Numbers<'_, N> {}

impl<N: Number> PartialEq for Numbers<'_, N> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<N: Number> fmt::Debug for Numbers<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
