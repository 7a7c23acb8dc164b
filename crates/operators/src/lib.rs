//! Aggregations and the bodies they exchange: pure functions, and nothing that waits, sends or remembers.
//!
//! A service is a local and a reduce ([`Aggregation`]). Partials travel as bytes, and a node that folds them
//! has nothing but bytes, so [`erased`] puts decode, call, encode around the author's typed functions. Core
//! decides *when* a local or a reduce runs and never sees a byte; the driver decides *where* (worker or
//! loop), by the author's [`Placement`], and catches what panics.
//!
//! A map of the code:
//!
//! - [`codec`]: what a body is, and its encodings: MessagePack for anything serde knows, raw bytes as they are.
//! - [`aggregation`]: the traits an author implements, synchronous and asynchronous, and the partition they see.
//! - [`error`]: the one error an operator gives, made from any other by `?`.
//! - [`erased`]: the same aggregations as functions of bytes, which is what a driver runs.
//! - [`fold`]: operators without state (sum, min, max, average, count, top-k, concatenate, …), each defined once and
//!   shown by random trees to give the same bytes whatever the tree. [`merge`] has those of them that are Rust types.
//! - [`folding`](mod@folding): a fold as a stream's filter and as the reduce of calls and pushes.
//! - [`filter`]: what happens to the packets of a stream at each node, and the filters that keep state.
//! - [`packet`]: typed packets, rows of numbers, texts and arrays that filters fold without knowing whose they are.
//! - `builtin`: the table of all operators that every node has, by name.
//! - [`ready`]: reduces by name, for applications that push what is folded and bring no code.
//! - [`merging`](mod@merging): an aggregation from one closure and a typed partial.
#![forbid(unsafe_code)]

pub mod aggregation;
mod builtin;
pub mod codec;
pub mod erased;
pub mod error;
pub mod filter;
pub mod fold;
pub mod folding;
pub mod merging;
pub mod packet;
pub mod ready;

pub use aggregation::{Aggregation, AsyncAggregation, Partition, Placement};
pub use codec::{Body, BodyError, Codec, Raw};
pub use erased::{Operator, Outcome, erase, erase_async};
pub use error::{OperatorError, Result};
pub use filter::{Filter, FilterKind};
pub use fold::{Fold, Merge, MergeError};
pub use folding::{Folding, folding, over};
pub use merging::{Mergeable, merging};
pub use packet::Packet;

/// Typed partials: the [folds](fold) that are Rust types.
pub mod merge {
    #[cfg(any(test, feature = "laws"))]
    pub use crate::fold::laws;
    pub use crate::fold::{
        Average, CONCATENATE_BYTES_MAX, Concatenate, Count, Extremes, FloatSum, GROUPS_MAX, GroupCount, Max,
        Merge, MergeError, Min, Sum, TopK, TotalF32, TotalF64, VectorSum, slice_of,
    };
}
