//! A reduce: merges two partials into one.

use crate::error::Result;
use alloc::vec::Vec;

/// Merges two partials into one. The aggregation defines the meaning of the bytes.
///
/// It must be associative and commutative, because the tree, and so the order of the merges, differs from
/// call to call. It has no `self`, and it must not rely on statics: a node may start a new instance between
/// any two calls, so a static may or may not keep its value.
pub trait Reduce {
    /// Writes the merged partial of `a` and `b` to `out`, which is empty. `params` are the call's parameters.
    ///
    /// # Errors
    /// The partitions of both partials are missing from the answer, with the error as the reason.
    fn reduce(a: &[u8], b: &[u8], params: &[u8], out: &mut Vec<u8>) -> Result;
}
