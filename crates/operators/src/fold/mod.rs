//! Operators without state: several packets in, one packet out.
//!
//! A [`Fold`] is written once and used wherever partial results travel up a tree. In a stream it is a filter:
//! it folds the packets of a wave. In a call, and for pushes of workers, it is a reduce: it folds two
//! partials. [`Folding`](crate::Folding) provides both uses; no other code distinguishes them.
//!
//! ```text
//!   call, push:  reduce(a, b) ──┐                                       ┌──▶ one partial
//!                               ├──▶ Fold::fold(&[piece, piece, …]) ────┤
//!   stream:      wave of pieces ┘      piece: payload and its source    └──▶ one packet
//! ```
//!
//! A *sample* is a packet from an endpoint of a stream. A *partial* is the result of a fold. For most folds,
//! both have the same format. Where they differ (a count, an average), [`Piece::source`] tells them apart: an
//! endpoint sends samples, a child sends partials. In calls and pushes, all pieces are partials.
//!
//! **The law.** Folding partials in any grouping and any order gives the same bytes, also when calls and
//! streams are compared. There are three exceptions. Sums of floating-point numbers agree except for
//! rounding. [`concatenate::fields`], `concat-batches` and `append` keep rows in the order in which they
//! arrive through the tree. A small sketch of [`distinct`] keeps its values in that order too, but its
//! figures agree. `laws` has the tests, and `family` applies them to every operator in both uses.
//!
//! **Numbers** mean the same in every fold, in typed packets, in Arrow columns and in Rust types:
//!
//! - A sum or a count that does not fit into 64 bits is an error, never a wrong figure (`group` sums in 128
//!   bits).
//! - Least and greatest ([`Extremes`]): NaN wins over every number, because an unknown figure makes the
//!   result unknown; −0 is less than +0. (In `group`, a NaN lies beyond infinity by its sign, as in query
//!   engines.)
//! - Rankings ([`TotalF64`]): NaN is below every number, because a row without a score must not displace a
//!   row with one.
//! - For least, greatest and rankings, all NaNs are equal: the result has the same bits in every order. (The
//!   NaN of a sum has the bits of one of its terms.)
//!
//! Typed partials implement [`Merge`]. Rust programs use them in calls ([`merging`](crate::merging())) and in
//! streams ([`folding`](crate::folding())). Operators on typed packets need no type at the nodes. Each file
//! here has both forms of one operator: the algebra once, and its application to each form.

pub mod average;
pub mod classes;
#[cfg(feature = "arrow")]
pub mod concat_batches;
pub mod concatenate;
pub mod count;
pub mod distinct;
mod elementwise;
mod encoded_lists;
mod error;
#[cfg(any(test, feature = "laws"))]
pub mod examples;
pub(crate) mod extremes;
#[cfg(test)]
mod family;
#[cfg(feature = "arrow")]
pub mod group;
mod group_count;
pub mod histogram;
#[cfg(any(test, feature = "laws"))]
pub mod laws;
mod limited;
pub(crate) mod lines;
mod merge;
mod merge_runs;
pub(crate) mod params;
pub mod quantiles;
pub(crate) mod samples;
mod side_by_side;
mod slicing;
pub(crate) mod sum;
pub mod top_k;
mod total_order;
mod vector_sum;

pub use average::Average;
pub use concatenate::{CONCATENATE_BYTES_MAX, Concatenate};
pub use count::Count;
pub use encoded_lists::merge_counted;
pub use error::FilterError;
pub use extremes::{Extremes, Max, Min};
pub use group_count::{GROUPS_MAX, GroupCount};
pub use merge::{Merge, MergeError, Typed};
pub use merge_runs::merge_runs;
pub use side_by_side::{Side, side_by_side};
pub use slicing::{slice_of, slice_range};
pub use sum::{FloatSum, Sum};
pub use top_k::TopK;
pub use total_order::{TotalF32, TotalF64};
pub use treefold_core::stream::spec::Source;
pub use vector_sum::VectorSum;

use crate::codec::{Body, Codec};
use crate::error::{OperatorError, Result};
use bytes::Bytes;

/// An operator without state.
///
/// ```
/// use bytes::Bytes;
/// use treefold_operators::fold::{Fold, Piece};
/// use treefold_operators::{Body, Folding, Operator, Result};
///
/// /// The bits that are set in any piece.
/// struct AnyOf;
///
/// impl Fold for AnyOf {
///     fn fold(&self, pieces: &[Piece]) -> Result<Bytes> {
///         let mut bits = 0;
///         for piece in pieces {
///             bits |= piece.read::<u64>()?;
///         }
///         Ok(bits.encode()?)
///     }
/// }
///
/// let any_of = Folding::new("any-of", |_params| Ok(AnyOf)); // both a stream's filter and a reduce
/// let (a, b) = (0b100u64.encode().unwrap(), 0b001u64.encode().unwrap());
/// let both = any_of.reduce(a, b, &Bytes::new()).now().unwrap().unwrap();
/// assert_eq!(u64::decode(&both), Ok(0b101));
/// ```
pub trait Fold: Send + Sync + 'static {
    /// The codecs of its parameters and of its partials, in this order.
    const CODECS: (Codec, Codec) = (Codec::MessagePack, Codec::Packet);

    /// Folds `pieces`, at least one, into one partial. Pieces of one source are adjacent, in the order it
    /// sent them.
    ///
    /// # Errors
    /// Any error loses the contributions of all pieces. In a reduce, an error of [`Piece::invalid`] loses only that piece's.
    fn fold(&self, pieces: &[Piece]) -> Result<Bytes>;
}

/// A packet to be folded, with its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The source: an endpoint, whose packets are samples, or a child, whose packets are partials.
    ///
    /// The two partials of a reduce have the sources [`Child(0)`](Source::Child) and `Child(1)`.
    pub source: Source,
    /// The packet's bytes.
    pub payload: Bytes,
}

impl Piece {
    /// Decodes the payload as a body.
    ///
    /// # Errors
    /// If the payload is not such a body; the error names the sender.
    pub fn read<T: Body>(&self) -> Result<T> {
        T::decode(&self.payload).map_err(|error| self.invalid(error))
    }

    /// Adds the sender of the packet to an error.
    #[cold]
    pub fn refused(&self, error: impl Into<OperatorError>) -> OperatorError {
        error.into().context(format_args!("the packet of {}", self.source))
    }

    /// As [`refused`](Self::refused), for a packet that is invalid by itself. If it is one of the two partials of a reduce, the
    /// other is not lost. Do not use it for two packets that only do not fit together: a packet that fits no other would
    /// then outlive all the packets that it meets.
    #[cold]
    pub fn invalid(&self, error: impl Into<OperatorError>) -> OperatorError {
        let error = self.refused(error);
        match self.source {
            Source::Child(at) => error.in_partial(at),
            Source::Endpoint(_) => error,
        }
    }
}
