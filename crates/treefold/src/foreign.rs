//! Operators that a node was not built with: makes an operator of bytes that the node was sent.
//!
//! A stream names such an operator by the SHA-256 of its bytes: `wasm:` and 64 hexadecimal digits
//! ([`filter_name`]). A user gives the bytes to one node
//! ([`Client::operator_push`](crate::Client::operator_push)); the others fetch them on demand: a node that
//! lacks them asks its parent in the stream's tree, see [`treefold_core::stream::operator`].
//!
//! A master of [push waves](crate::push) names a reduce in the same way: `words/wasm:` and the digits.
//!
//! A [`Foreign`] knows the format of the bytes. A node has at most one
//! ([`NodeBuilder::foreign`](crate::NodeBuilder::foreign)); in the `treefold` command it loads WebAssembly.
//! A node without one cannot open such a filter, and reports that.

use bytes::Bytes;
use ring::digest::SHA256;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use treefold_operators::{FilterKind, Operator, OperatorError};

pub use treefold_core::message::OperatorStatus;
pub use treefold_core::stream::OperatorId;

/// Prefix of the name of a filter that was sent.
pub const NAME_PREFIX: &str = "wasm:";

/// Makes operators of bytes.
pub trait Foreign: Send + Sync + 'static {
    /// Makes an operator of these bytes. This may take as long as a compiler: it runs on a worker thread.
    ///
    /// # Errors
    /// If the bytes are not an operator. The sender is given the error.
    fn load(&self, bytes: &Bytes) -> Result<Loaded, OperatorError>;
}

/// An operator that was made of bytes.
#[derive(Clone)]
pub struct Loaded {
    /// The kind of operator, for people.
    pub kind: &'static str,
    /// Bytes held here besides those that were sent, for instance compiled code.
    pub made_bytes: usize,
    /// The operator as a filter.
    pub filter: Arc<dyn FilterKind>,
    /// The operator as the reduce of push waves; `None` if it is only a filter.
    pub reduce: Option<Arc<dyn Operator>>,
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loaded").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// The id of the operator with these bytes.
pub fn id_of(bytes: &[u8]) -> OperatorId {
    let digest = ring::digest::digest(&SHA256, bytes);
    OperatorId(digest.as_ref().try_into().expect("invariant: SHA-256 gives 32 bytes"))
}

/// The name by which streams use an operator as a filter.
pub fn filter_name(id: OperatorId) -> String {
    format!("{NAME_PREFIX}{id}")
}

/// The operator that a filter's name stands for; `None` if the name has no [`NAME_PREFIX`].
///
/// # Errors
/// If the prefix is not followed by a valid id.
pub(crate) fn named(filter: &str) -> Option<Result<OperatorId, Arc<str>>> {
    let digits = filter.strip_prefix(NAME_PREFIX)?;
    let form = || {
        format!("{filter:?}: expected {NAME_PREFIX:?} and 64 hexadecimal digits, the SHA-256 of the bytes")
    };
    Some(OperatorId::parse(digits).ok_or_else(|| form().into()))
}

/// An operator on a node's shelf. Users of the operator hold clones of the `Arc`.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) id: OperatorId,
    pub(crate) bytes: Bytes,
    pub(crate) loaded: Loaded,
}

impl Sent {
    /// Bytes that it occupies here.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.len() + self.loaded.made_bytes
    }
}

/// Bytes that a worker makes into an operator.
pub(crate) struct Loading {
    pub(crate) ticket: u64,
    pub(crate) foreign: Arc<dyn Foreign>,
    /// The id that the bytes must have; `None` if no id was given with them.
    pub(crate) expected: Option<OperatorId>,
    pub(crate) bytes: Bytes,
}

impl Loading {
    /// Makes the operator. A panic of the loader becomes an error.
    pub(crate) fn load(&self) -> Result<Arc<Sent>, Arc<str>> {
        let id = id_of(&self.bytes);
        if let Some(expected) = self.expected
            && expected != id
        {
            return Err(format!("the bytes received for operator {expected} are of {id}").into());
        }
        match catch_unwind(AssertUnwindSafe(|| self.foreign.load(&self.bytes))) {
            Ok(Ok(loaded)) => Ok(Arc::new(Sent { id, bytes: self.bytes.clone(), loaded })),
            Ok(Err(error)) => Err(format!("the operator {id}: {error}").into()),
            Err(_) => Err(format!("the operator {id}: its loader panicked").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_name_is_hash_of_operator_bytes() {
        let id = id_of(b"");
        let name = filter_name(id);
        assert_eq!(name, "wasm:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert_eq!(named(&name), Some(Ok(id)));
        assert_eq!(named(&name.to_uppercase().replace("WASM", "wasm")), Some(Ok(id)));
        assert_eq!(named("sum"), None);
        for bad in
            ["wasm:", "wasm:e3", &format!("wasm:{}", "g".repeat(64)), &format!("wasm:{}", "é".repeat(32))]
        {
            assert!(named(bad).is_some_and(|id| id.is_err()), "{bad}");
        }
    }
}
