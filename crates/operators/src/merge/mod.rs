//! Partials that are ready to be folded by any tree.
//!
//! Which partials meet first is decided by load and by who is late, so it differs between two runs of one
//! call. An answer that differed with it would be worthless; hence the one invariant here: **the same
//! partials give the same bytes, whatever the tree and whatever the order**. The tests (`laws.rs`) hold each
//! of them to it with random trees over shuffled partials. The exceptions are sums of floating-point numbers
//! ([`FloatSum`], [`Average`], [`VectorSum`]), which agree but for rounding, and say so.
//!
//! What grows with the number of partitions ([`Concatenate`], [`GroupCount`]) bears a limit and fails with an
//! error that names it: cutting in silence would depend on the tree too. A limit travels in the partial, and
//! of two the lesser rules, so that failing doesn't depend on the tree either.

mod average;
mod concatenate;
mod count;
mod group_count;
#[cfg(any(test, feature = "laws"))]
pub mod laws;
mod max;
mod min;
mod slicing;
mod sum;
mod top_k;
mod total_order;
mod vector_sum;

pub use average::Average;
pub use concatenate::{CONCATENATE_BYTES_MAX, Concatenate};
pub use count::Count;
pub use group_count::{GROUPS_MAX, GroupCount};
pub use max::Max;
pub use min::Min;
pub use slicing::slice_of;
pub use sum::{FloatSum, Sum};
pub use top_k::TopK;
pub use total_order::{TotalF32, TotalF64};
pub use vector_sum::VectorSum;

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
