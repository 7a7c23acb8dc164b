//! A reduce: two partials into one.

use crate::error::Result;
use alloc::vec::Vec;

/// Two partials into one. What the bytes mean is the aggregation's business.
///
/// It must be associative and commutative: which partials meet, where and in which order, differs from call to call.
/// It has no `self`, and a static that it changes may or may not be as it was left: a node is free to start a guest
/// anew between any two calls.
pub trait Reduce {
    /// Writes the partial of `a` and `b` to `out`, which is empty. `params` are those of the call.
    ///
    /// # Errors
    /// The partitions that both partials held go missing, with the error as the reason.
    fn reduce(a: &[u8], b: &[u8], params: &[u8], out: &mut Vec<u8>) -> Result;
}
