//! Numbers that lie in a packet's bytes, wherever in memory these begin.
//!
//! Values are not aligned, so an array is seen as rows of octets and each element is put together when it is asked
//! for. The compiler makes that a plain load, and of a loop over it the same vector instructions as of a slice of
//! numbers (the bench `packets` says how nearly), without a copy and without a word of `unsafe`.

use super::types::Type;
use std::fmt;
use std::marker::PhantomData;

mod sealed {
    pub trait Sealed {}
}

/// A number that a packet can hold.
pub trait Number: sealed::Sealed + Copy + PartialEq + fmt::Debug + Send + 'static {
    /// Its octets, least first.
    type Octets: Copy + AsRef<[u8]>;
    /// The type of one.
    const TYPE: Type;

    /// The number of these octets.
    fn from_octets(octets: Self::Octets) -> Self;

    /// Its octets.
    fn octets(self) -> Self::Octets;

    /// `octets` as rows of one number each; what is left over at the end is left out.
    fn rows(octets: &[u8]) -> &[Self::Octets];

    /// As [`rows`](Self::rows), to be changed.
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
    /// The numbers whose octets these are; a number cut short at the end is left out.
    pub fn of_octets(octets: &'a [u8]) -> Self {
        let whole = octets.len() - octets.len() % size_of::<N::Octets>();
        Self { octets: &octets[..whole], number: PhantomData }
    }

    /// How many there are.
    pub fn len(self) -> usize {
        N::rows(self.octets).len()
    }

    /// True when there are none.
    pub fn is_empty(self) -> bool {
        self.octets.is_empty()
    }

    /// The one at `index`.
    pub fn at(self, index: usize) -> Option<N> {
        N::rows(self.octets).get(index).map(|&octets| N::from_octets(octets))
    }

    /// All of them, in order.
    #[inline]
    pub fn iter(self) -> impl ExactSizeIterator<Item = N> + DoubleEndedIterator + Clone + 'a {
        N::rows(self.octets).iter().map(|&octets| N::from_octets(octets))
    }

    /// All of them, to keep.
    pub fn to_vec(self) -> Vec<N> {
        self.iter().collect()
    }

    /// As they lie in the packet.
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
