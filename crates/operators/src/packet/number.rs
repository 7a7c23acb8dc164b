//! Numbers in a packet's bytes, at any alignment.
//!
//! Values are not aligned, so an array is seen as rows of octets, and each element is assembled when it is
//! read. The compiler turns that into a plain load. A loop over it gets the same vector instructions as a
//! loop over a slice of numbers (the bench `packets` measures how nearly), without a copy and without
//! `unsafe`.

use super::types::Type;
use std::fmt;
use std::marker::PhantomData;

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

macro_rules! number {
    ($number:ty, $type:expr) => {
        impl sealed::Sealed for $number {}

        impl Number for $number {
            type Octets = [u8; size_of::<$number>()];
            const TYPE: Type = $type;

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
    };
}

number!(i64, Type::I64);
number!(u64, Type::U64);
number!(f64, Type::F64);
number!(f32, Type::F32);

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
