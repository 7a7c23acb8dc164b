//! Operators without state: several packets in, one packet out.
//!
//! A [`Fold`] is written once and used everywhere that partial results climb a tree. In a stream it is a filter: it
//! folds the packets of a wave. In a call, and for what workers push, it is a reduce: it folds two partials. Both come
//! from [`Folding`](crate::Folding), which is the only code that knows the difference.
//!
//! ```text
//!   call, push:  reduce(a, b) ──┐                                       ┌──▶ one partial
//!                               ├──▶ Fold::fold(&[piece, piece, …]) ────┤
//!   stream:      wave of pieces ┘      piece: payload and its source    └──▶ one packet
//! ```
//!
//! A *sample* is what an endpoint of a stream sends. A *partial* is what a fold gives. For most folds they are the same
//! kind of packet. Where they differ (a count, an average), [`Piece::source`] tells them apart: an endpoint sends
//! samples, a child sends partials. Calls and pushes have partials alone.
//!
//! **The law.** Folding partials in any grouping and any order gives the same bytes, also when calls and streams are
//! compared. The exceptions are named where they occur: sums of floating-point numbers agree but for rounding;
//! [`concatenate::fields`], `concat-batches` and `append` keep rows in the order in which the tree brings them; and so
//! does a small sketch of [`distinct`] with its values, though its figures agree. `laws` has the checks, and
//! `family` applies them to every operator in both uses.
//!
//! **Numbers** mean the same in every fold, whether they arrive in typed packets, in Arrow columns or as Rust types:
//!
//! - a sum or a count that leaves 64 bits is an error, never a wrong figure (`group` sums in 128 bits);
//! - least and greatest ([`Extremes`]): NaN wins over every number, since a figure that is not known makes the result
//!   unknown; −0 is less than +0 (in `group`, a NaN lies beyond infinity by its sign, as in query engines);
//! - rankings ([`TotalF64`]): NaN is below every number, since a row that could not be scored must not displace one
//!   that was;
//! - in both of these all NaNs are one: the result has the same bits, whichever of them was met first (the NaN of a sum
//!   has those of one of its terms).
//!
//! Typed partials, which Rust programs use in calls ([`merging`](crate::merging())) and in streams
//! ([`folding`](crate::folding())), implement [`Merge`]. Operators on typed packets need no type at the nodes. Each
//! file here has both forms of one operator: the algebra once, then how it is applied to each.

pub mod average;
pub mod classes;
#[cfg(feature = "arrow")]
pub mod concat_batches;
pub mod concatenate;
pub mod count;
pub mod distinct;
mod elementwise;
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
pub(crate) mod lines;
mod merge;
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
pub use error::FilterError;
pub use extremes::{Extremes, Max, Min};
pub use group_count::{GROUPS_MAX, GroupCount};
pub use merge::{Merge, MergeError, Typed};
pub use side_by_side::{Side, side_by_side};
pub use slicing::slice_of;
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
/// /// The bits that anybody has set.
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
/// let any_of = Folding::new("any-of", |_params| Ok(AnyOf)); // a stream's filter, and a reduce:
/// let (a, b) = (0b100u64.encode().unwrap(), 0b001u64.encode().unwrap());
/// let both = any_of.reduce(a, b, &Bytes::new()).now().unwrap().unwrap();
/// assert_eq!(u64::decode(&both), Ok(0b101));
/// ```
pub trait Fold: Send + Sync + 'static {
    /// The codecs of its parameters and of its partials, in this order.
    const CODECS: (Codec, Codec) = (Codec::MessagePack, Codec::Packet);

    /// Makes one partial of `pieces`, of which there is at least one. Pieces of one source stand together, in the order
    /// in which it sent them.
    ///
    /// # Errors
    /// Any error loses what all of the pieces held.
    fn fold(&self, pieces: &[Piece]) -> Result<Bytes>;
}

/// What is to be folded, and where it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// An endpoint, whose packets are samples, or a child, whose packets are partials. The two partials of a reduce
    /// have the sources [`Child(0)`](Source::Child) and `Child(1)`.
    pub source: Source,
    /// What was sent.
    pub payload: Bytes,
}

impl Piece {
    /// What was sent, read as a body.
    ///
    /// # Errors
    /// When it is none; the error says who sent it.
    pub fn read<T: Body>(&self) -> Result<T> {
        T::decode(&self.payload).map_err(|error| self.refused(error))
    }

    /// What is wrong with it, and who sent it.
    #[cold]
    pub fn refused(&self, error: impl Into<OperatorError>) -> OperatorError {
        error.into().context(format_args!("the packet of {}", self.source))
    }
}
