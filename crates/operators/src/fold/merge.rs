//! Typed partials: Rust types with a merge of two values.
//!
//! A typed partial defines its encoding ([`Body`]) and its merge ([`Merge`]) once. Calls use it through
//! [`merging`](crate::merging()), streams and pushes through [`folding`](crate::folding()).
//!
//! A partial that grows with the number of partitions ([`Concatenate`](super::Concatenate),
//! [`GroupCount`](super::GroupCount)) has a limit. Exceeding it is an error that names the limit; silent
//! truncation would depend on the tree. The limit travels in the partial, and of two limits the lesser
//! applies, so that the error does not depend on the tree either.

use super::{Fold, Piece};
use crate::codec::{Body, Codec};
use crate::error::Result;
use bytes::Bytes;
use std::fmt;
use std::marker::PhantomData;
use treefold_core::limits::FOLD_INPUTS_MAX;

/// A type that can be folded: `merge` is associative and commutative. If `Default` is implemented, it is the
/// identity.
pub trait Merge: Sized {
    /// Merges `other` into `self`.
    ///
    /// # Errors
    /// If the two can't be merged; `self` must not be used after that.
    fn merge(&mut self, other: Self) -> Result<(), MergeError>;

    /// Merges all `others` into `self`. The result must be that of merging them one after the other, which the default does.
    ///
    /// # Errors
    /// As [`merge`](Self::merge).
    fn merge_all(&mut self, others: Vec<Self>) -> Result<(), MergeError> {
        others.into_iter().try_for_each(|other| self.merge(other))
    }

    /// Merges encoded partials into one that is encoded, without decoding them whole. Returns `None` if it can't, which is the
    /// default; the partials are then decoded and merged, and that finds any error.
    ///
    /// The result must have the bytes of the other way. It may leave unread what the result does not need, so it finds no
    /// mistakes there. It is therefore used for partials of nodes only, not for samples that endpoints send.
    fn merge_encoded(parts: &[Bytes]) -> Option<Bytes> {
        let _ = parts;
        None
    }

    /// True if it can be cut by key into slices that are folded separately: see [`Aggregation::split`].
    ///
    /// [`Aggregation::split`]: crate::Aggregation::split
    const IS_SLICEABLE: bool = false;

    /// Cuts it into `slices` slices (at least one); some may be empty.
    ///
    /// # Errors
    /// The default implementation always fails.
    fn split(self, slices: u32) -> Result<Vec<Self>, MergeError> {
        Err(MergeError::Refused(format!("this partial can't be cut into {slices} slices")))
    }

    /// Joins the slices of a whole, given in order. The default merges them.
    ///
    /// # Errors
    /// If there are no slices, or they can't be merged.
    fn join(parts: Vec<Self>) -> Result<Self, MergeError> {
        let mut parts = parts.into_iter();
        let mut whole =
            parts.next().ok_or_else(|| MergeError::Refused("there are no slices to join".into()))?;
        parts.try_for_each(|part| whole.merge(part))?;
        Ok(whole)
    }
}

/// The reason why two partials can't be merged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// A figure does not fit into its type.
    #[error("overflow: the {figure} does not fit into 64 bits")]
    Overflow {
        /// The figure that overflows.
        figure: &'static str,
    },
    /// The merged entries would have more encoded bytes than allowed.
    #[error("{bytes} bytes are above the limit `bytes_max` of {bytes_max}")]
    TooManyBytes {
        /// Encoded bytes that would be needed.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// There are more groups than allowed.
    #[error("there are more groups than the limit `groups_max` of {groups_max}")]
    TooManyGroups {
        /// The limit.
        groups_max: u32,
    },
    /// Two entries have the same key, so their order would depend on the tree.
    #[error("two entries have the same key")]
    DuplicateKey,
    /// An entry could not be encoded to measure it.
    #[error(transparent)]
    Body(#[from] crate::codec::BodyError),
    /// A reason given by the partial's implementation.
    #[error("{0}")]
    Refused(String),
}

/// Adapts any typed partial to [`Fold`]: samples and partials are both bodies of type `M`.
pub struct Typed<M>(PhantomData<fn() -> M>);

impl<M> Default for Typed<M> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<M: Body + Merge> Fold for Typed<M> {
    const CODECS: (Codec, Codec) = (Codec::MessagePack, M::CODEC);

    fn fold(&self, pieces: &[Piece]) -> Result<Bytes> {
        let (first, others) = pieces.split_first().expect("invariant: there is at least one piece");
        let mut total: M = first.read()?;
        for several in others.chunks(FOLD_INPUTS_MAX - 1) {
            let partials = several.iter().map(Piece::read).collect::<Result<Vec<M>>>()?;
            if total.merge_all(partials).is_err() {
                return one_by_one::<M>(first, others);
            }
        }
        Ok(total.encode()?)
    }
}

/// Finds the piece that can't be merged with those before it.
#[cold]
fn one_by_one<M: Body + Merge>(first: &Piece, others: &[Piece]) -> Result<Bytes> {
    let mut total: M = first.read()?;
    for piece in others {
        total.merge(piece.read()?).map_err(|error| piece.refused(error))?;
    }
    Ok(total.encode()?)
}

impl<M> fmt::Debug for Typed<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Typed")
    }
}
