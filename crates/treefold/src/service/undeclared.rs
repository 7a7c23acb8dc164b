//! The operator of an aggregation that was learned, and that no member declares any more.

use bytes::Bytes;
use treefold_operators::{Codec, Operator, OperatorError, Outcome, Partition, Placement};

/// In place of a reduce that is no longer declared: the service folds in a way that this node does not have.
pub(super) struct Undeclared;

impl Undeclared {
    fn refusal<T>() -> treefold_operators::Result<T> {
        Err(OperatorError::new("the service has another reduce now, which this node does not have"))
    }
}

impl Operator for Undeclared {
    fn local(&self, _: &Partition, _: &Bytes) -> Outcome {
        Outcome::Now(Self::refusal())
    }

    fn reduce(&self, _: Bytes, _: Bytes, _: &Bytes) -> Outcome {
        Outcome::Now(Self::refusal())
    }

    fn finish(&self, partial: Bytes, _: &Bytes) -> treefold_operators::Result<Bytes> {
        Ok(partial)
    }

    fn placement(&self) -> Placement {
        Placement::Inline
    }

    fn holds_processor(&self) -> bool {
        true
    }

    fn codecs(&self) -> (Codec, Codec) {
        (Codec::MessagePack, Codec::MessagePack)
    }
}
