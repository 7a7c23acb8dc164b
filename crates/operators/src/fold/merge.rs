//! Typed partials: Rust types of which two become one.
//!
//! A typed partial says once how it is encoded ([`Body`]) and how two of it become one ([`Merge`]). Calls get it by
//! [`merging`](crate::merging()), streams and pushes by [`folding`](crate::folding()).
//!
//! What grows with the number of partitions ([`Concatenate`](super::Concatenate), [`GroupCount`](super::GroupCount))
//! bears a limit and fails with an error that names it: cutting in silence would depend on the tree too. A limit travels
//! in the partial, and of two the lesser rules, so that failing doesn't depend on the tree either.

use super::{Fold, Piece};
use crate::codec::{Body, Codec};
use crate::error::Result;
use bytes::Bytes;
use std::fmt;
use std::marker::PhantomData;

/// What can be folded: associative and commutative. Where `Default` exists, it is the identity.
pub trait Merge: Sized {
    /// Takes `other` in.
    ///
    /// # Errors
    /// When the two can't be one; `self` is then of no further use.
    fn merge(&mut self, other: Self) -> Result<(), MergeError>;

    /// True when it can be cut by key into slices that fold by themselves: see [`Aggregation::split`].
    ///
    /// [`Aggregation::split`]: crate::Aggregation::split
    const IS_SLICEABLE: bool = false;

    /// Cuts it into so many slices, at least one, some of them empty perhaps.
    ///
    /// # Errors
    /// By default it can't be cut.
    fn split(self, slices: u32) -> Result<Vec<Self>, MergeError> {
        Err(MergeError::Refused(format!("it can't be cut into {slices} slices")))
    }

    /// The slices of a whole, in order, as the whole; by default merged.
    ///
    /// # Errors
    /// When there are none, or they can't be one.
    fn join(parts: Vec<Self>) -> Result<Self, MergeError> {
        let mut parts = parts.into_iter();
        let mut whole = parts.next().ok_or_else(|| MergeError::Refused("there are no slices".into()))?;
        parts.try_for_each(|part| whole.merge(part))?;
        Ok(whole)
    }
}

/// Why two partials can't be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// A figure is outside of its type.
    #[error("overflow: the {figure} is outside of what 64 bits hold")]
    Overflow {
        /// Which figure.
        figure: &'static str,
    },
    /// More encoded bytes than allowed.
    #[error("{bytes} bytes are above the limit `bytes_max` of {bytes_max}")]
    TooManyBytes {
        /// How many there would be.
        bytes: u64,
        /// The limit.
        bytes_max: u64,
    },
    /// More groups than allowed.
    #[error("there are more groups than the limit `groups_max` of {groups_max}")]
    TooManyGroups {
        /// The limit.
        groups_max: u32,
    },
    /// One key twice, where its two values have no order that every tree would agree on.
    #[error("two entries have the same key")]
    DuplicateKey,
    /// A body that could not be measured.
    #[error(transparent)]
    Body(#[from] crate::codec::BodyError),
    /// A reason of the author's own.
    #[error("{0}")]
    Refused(String),
}

/// Any typed partial as a [`Fold`]: samples and partials are both bodies of type `M`.
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
        for piece in others {
            total.merge(piece.read()?).map_err(|error| piece.refused(error))?;
        }
        Ok(total.encode()?)
    }
}

impl<M> fmt::Debug for Typed<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Typed")
    }
}
