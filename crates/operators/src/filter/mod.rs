//! Filters: the processing of a stream's packets on their way through a node (MRNet §2.4).
//!
//! ```text
//!              front-end
//!                  ▲ any number of packets       │ down: packet by packet
//!            ┌─────┴──────┐                      ▼
//!            │ Filter::up │               ┌──────────────┐
//!            └─────▲──────┘               │ Filter::down │
//!      one wave: a piece or more          └──────┬───────┘
//!      from each source, by tag                  ▼
//!      endpoints here, children below     endpoints and children
//! ```
//!
//! A node has one filter for each stream, for as long as it takes part in the stream. The filter keeps state
//! from wave to wave. Waves and packets are passed to it one at a time. Core decides *when* a wave is
//! complete (synchronisation) and *which* pieces belong to it: all pieces of a wave have its tag, and no
//! source is in it twice.
//!
//! If a filter keeps no state from wave to wave, implement it as a [`Fold`](crate::Fold) instead: calls and
//! pushes can then use it too. The filters here keep state, or send more than one packet.
//!
//! A piece from an endpoint is the packet that the endpoint sent. A piece from a child is the output of this
//! same filter at the child. A filter whose partials differ from its samples (an average) tells them apart by
//! [`Source`]. If a node dies, its children send the undelivered packets to its parent. Filters that keep
//! more than one wave must support that: see [`Filter::holds_from`] and [`Filter::replaced`].
//!
//! An error in a filter costs the wave, not the node. After an error or a panic, the contributors are missing
//! from that wave, with the error text as the reason.

pub mod by_node;
pub mod clock_skew;
pub(crate) mod identity;
pub mod merge_sorted;
pub mod time_aligned;

pub use crate::builtin::{Builtin, Param, builtin, builtins};
pub use crate::fold::{FilterError, Piece, Source, average, classes, distinct, histogram, quantiles};
#[cfg(feature = "arrow")]
pub use crate::fold::{concat_batches, group};
pub use crate::fold::{concatenate::fields as concatenate, top_k::rows as top_k};
pub use crate::folding::{Folding, folding};
pub use by_node::ByNode;
pub use clock_skew::ClockSkew;
pub use time_aligned::TimeAligned;

use crate::aggregation::Placement;
use crate::error::Result;
use bytes::Bytes;

/// The pieces that arrived under one tag.
#[derive(Clone, Copy, Debug)]
pub struct Wave<'a> {
    /// The tag. Its meaning belongs to the user of the stream.
    pub tag: u64,
    /// The packets, at least one. Packets of one source are adjacent, in the order they were sent.
    pub pieces: &'a [Piece],
    /// This node's clock in ns since the Unix epoch. It may differ from other nodes' clocks, and it may jump.
    pub now_ns: u64,
}

/// A packet on its way from the front-end to the endpoints.
#[derive(Clone, Copy, Debug)]
pub struct Descent<'a> {
    /// The tag that the front-end gave it.
    pub tag: u64,
    /// The packet as the front-end sent it, or as this filter changed it at the parent.
    pub payload: &'a Bytes,
    /// As [`Wave::now_ns`].
    pub now_ns: u64,
}

/// One stream's filter at one node.
pub trait Filter: Send {
    /// Folds a wave's pieces into the packets that go up in their place.
    ///
    /// The filter pushes any number of packets to `out`, which is empty at the start.
    ///
    /// # Errors
    /// All contributors to the wave at this node are missing from it. The filter stays as it is and gets the
    /// next wave.
    fn up(&mut self, wave: Wave<'_>, out: &mut Vec<Bytes>) -> Result<()>;

    /// Transforms a packet on its way down; the default passes it on unchanged.
    ///
    /// # Errors
    /// The packet reaches no node or endpoint below, and the stream's front-end gets the error.
    fn down(&mut self, descent: Descent<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        out.push(descent.payload.clone());
        Ok(())
    }

    /// Returns the oldest tag with data that the filter still holds and that no packet has taken up.
    ///
    /// `None` means that it holds nothing. Children and endpoints keep the packets they sent from this tag
    /// on, in case this node is lost with its state.
    fn holds_from(&self) -> Option<u64> {
        None
    }

    /// Announces that `source` takes part from now on.
    ///
    /// It is called for every source before the first wave, and later for each new one. For an heir, it is
    /// called just before [`replaced`](Self::replaced). A filter that must wait for all its sources learns of
    /// them here, because a wave may contain only one source.
    fn joined(&mut self, source: Source) {
        let _ = source;
    }

    /// Announces that `lost` sends nothing more and that `heirs` take its place.
    ///
    /// The heirs send the undelivered packets again. Without heirs, the source is gone.
    fn replaced(&mut self, lost: Source, heirs: &[Source]) {
        let _ = (lost, heirs);
    }
}

/// A kind of filter. Streams ask for it by name.
pub trait FilterKind: Send + Sync + 'static {
    /// Opens a filter for one stream at one node.
    ///
    /// # Errors
    /// If the parameters are invalid; the stream is then not opened.
    fn open(&self, params: &Bytes) -> Result<Box<dyn Filter>>;

    /// Returns the place where it runs.
    ///
    /// [`Placement::Measured`] starts on a worker, and moves to the loop once the filter is measured to take
    /// only microseconds.
    fn placement(&self) -> Placement {
        Placement::Measured
    }
}
