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
//! - [`filter`]: what happens to the packets of a stream at each node.
//! - [`merge`]: ready partials (count, sum, min, max, average, top-k, concatenate, group count), each shown by
//!   random trees to give the same bytes whatever the tree.
//! - [`packet`]: typed packets, rows of numbers, texts and arrays that filters fold without knowing whose they are.
//! - [`ready`]: reduces by name, for applications that push what is folded and bring no code.
//! - [`merging`](mod@merging): an aggregation from one closure and a ready partial.
#![forbid(unsafe_code)]

pub mod aggregation;
pub mod codec;
pub mod erased;
pub mod error;
pub mod filter;
pub mod merge;
pub mod merging;
pub mod packet;
pub mod ready;

pub use aggregation::{Aggregation, AsyncAggregation, Partition, Placement};
pub use codec::{Body, BodyError, Codec, Raw};
pub use erased::{Operator, Outcome, erase, erase_async};
pub use error::{OperatorError, Result};
pub use filter::{Filter, FilterKind};
pub use merge::{Merge, MergeError};
pub use merging::{Mergeable, merging};
pub use packet::Packet;
