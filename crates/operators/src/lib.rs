//! Aggregations and the bodies they exchange: pure functions that never wait, send or keep state.
//!
//! A service is a local and a reduce ([`Aggregation`]). Partials travel as bytes, and a node that folds them
//! has only bytes. So [`erased`] wraps the author's typed functions in decode, call, encode. Core decides
//! *when* a local or a reduce runs and never reads a payload. The driver decides *where* it runs (on a worker
//! or on the loop), by the author's [`Placement`], and catches panics.
//!
//! A map of the code:
//!
//! - [`codec`]: bodies and their encodings: MessagePack for every type that serde knows, and raw bytes.
//! - [`aggregation`]: the traits an author implements, synchronous and asynchronous, and the partition they
//!   see.
//! - [`cancel`](mod@cancel): how a blocking operator asks whether its result is still wanted.
//! - [`error`]: the single error type of operators; any other error converts to it with `?`.
//! - [`erased`]: the same aggregations as functions of bytes, which is the form that a driver runs.
//! - [`fold`]: operators without state (sum, min, max, average, count, top-k, concatenate, …). Each is
//!   defined once. Tests with random trees show that every tree gives the same bytes. [`merge`] has the folds
//!   that are Rust types.
//! - [`folding`](mod@folding): a fold as a stream's filter and as the reduce of calls and pushes.
//! - [`filter`]: the processing of a stream's packets at each node, and the filters that keep state.
//! - [`packet`]: typed packets: rows of numbers, texts and arrays that filters can fold without knowing the
//!   application.
//! - [`text`]: JSON, lines and CSV from outside, by one set of rules. [`number`] compares integers and floats.
//! - `builtin`: the table of all operators that every node has, by name.
//! - [`ready`]: reduces by name, for applications that push partials and bring no code.
//! - [`declared`]: reduces as nodes declare them to nodes that lack the service.
//! - [`merging`](mod@merging): an aggregation from one closure and a typed partial.
#![forbid(unsafe_code)]

pub mod aggregation;
mod builtin;
pub mod cancel;
pub mod codec;
pub mod declared;
pub mod erased;
pub mod error;
pub mod filter;
pub mod fold;
pub mod folding;
pub mod merging;
pub mod number;
pub mod packet;
pub mod ready;
pub mod separate;
pub mod text;

pub use aggregation::{Aggregation, AsyncAggregation, Partition, Placement};
pub use cancel::cancelled;
pub use codec::{Body, BodyError, Codec, Raw};
pub use declared::{Declared, ReduceParams};
pub use erased::{Operator, Outcome, erase, erase_async};
pub use error::{OperatorError, Result};
pub use filter::{Filter, FilterKind};
pub use fold::slice_range;
pub use fold::{Fold, Merge, MergeError};
pub use folding::{Folding, folding, over};
pub use merging::{Mergeable, merging};
pub use packet::Packet;
pub use separate::SeparateAggregation;
pub use treefold_core::wave::slice::Slice;

/// Typed partials: the [folds](fold) that are Rust types.
pub mod merge {
    #[cfg(any(test, feature = "laws"))]
    pub use crate::fold::laws;
    pub use crate::fold::{
        Average, CONCATENATE_BYTES_MAX, Concatenate, Count, Extremes, FloatSum, GROUPS_MAX, GroupCount, Max,
        Merge, MergeError, Min, Sum, TopK, TotalF32, TotalF64, VectorSum, slice_of,
    };
}
