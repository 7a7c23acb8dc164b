//! Operators that a node was not built with: what makes something of the bytes that it is sent.
//!
//! A stream names such an operator by the SHA-256 of its bytes, `wasm:` and 64 hexadecimal digits
//! ([`filter_name`]). Whoever has given the bytes to a node ([`Client::operator_push`](crate::Client::operator_push))
//! need not care how they come to all others: a node that lacks them asks its parent in the stream's tree, as
//! [`treefold_core::stream::operator`] says.
//!
//! What the bytes are is a [`Foreign`]'s business, of which a node has at most one
//! ([`NodeBuilder::foreign`](crate::NodeBuilder::foreign)): WebAssembly, in the `treefold` command. A node without one
//! can't open such a filter, and says so.

use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use treefold_operators::{FilterKind, OperatorError};

pub use treefold_core::message::OperatorStatus;
pub use treefold_core::stream::OperatorId;

/// What the name of a filter that was sent begins with.
pub const NAME_PREFIX: &str = "wasm:";

/// Makes operators of bytes.
pub trait Foreign: Send + Sync + 'static {
    /// Makes an operator of these bytes. It may take the time of a compiler: it runs on a worker.
    ///
    /// # Errors
    /// When they are none; whoever sent them is told why.
    fn load(&self, bytes: &Bytes) -> Result<Loaded, OperatorError>;
}

/// An operator that was made of bytes.
#[derive(Clone)]
pub struct Loaded {
    /// What it is, for people.
    pub kind: &'static str,
    /// Bytes that it takes here besides those it was sent as: compiled, for one.
    pub made_bytes: usize,
    /// The filter that it is.
    pub filter: Arc<dyn FilterKind>,
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loaded").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// What these bytes are called.
pub fn id_of(bytes: &[u8]) -> OperatorId {
    OperatorId(Sha256::digest(bytes).into())
}

/// How streams name the filter that an operator is.
pub fn filter_name(id: OperatorId) -> String {
    format!("{NAME_PREFIX}{id}")
}

/// The operator that a filter's name names; `None` for a filter that is no such.
///
/// # Errors
/// When it names none by its form.
pub(crate) fn named(filter: &str) -> Option<Result<OperatorId, Arc<str>>> {
    let digits = filter.strip_prefix(NAME_PREFIX)?;
    let form =
        || format!("{filter:?}: after {NAME_PREFIX:?} come 64 hexadecimal digits, the SHA-256 of the bytes");
    Some(OperatorId::parse(digits).ok_or_else(|| form().into()))
}

/// An operator on a node's shelf. Whoever has a clone of the `Arc` uses it.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) id: OperatorId,
    pub(crate) bytes: Bytes,
    pub(crate) loaded: Loaded,
}

impl Sent {
    /// Bytes that it takes here.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.len() + self.loaded.made_bytes
    }
}

/// Bytes to be made an operator of, by a worker.
pub(crate) struct Loading {
    pub(crate) ticket: u64,
    pub(crate) foreign: Arc<dyn Foreign>,
    /// What they are said to be; `None` when nobody has said it yet.
    pub(crate) expected: Option<OperatorId>,
    pub(crate) bytes: Bytes,
}

impl Loading {
    /// Makes the operator; what goes wrong in the making costs nobody else anything.
    pub(crate) fn load(&self) -> Result<Arc<Sent>, Arc<str>> {
        let id = id_of(&self.bytes);
        if let Some(expected) = self.expected
            && expected != id
        {
            return Err(format!("what came as the operator {expected} is {id}").into());
        }
        match catch_unwind(AssertUnwindSafe(|| self.foreign.load(&self.bytes))) {
            Ok(Ok(loaded)) => Ok(Arc::new(Sent { id, bytes: self.bytes.clone(), loaded })),
            Ok(Err(error)) => Err(format!("the operator {id}: {error}").into()),
            Err(_) => Err(format!("the operator {id}: whatever makes something of it panicked").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_hash_of_what_it_names() {
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
