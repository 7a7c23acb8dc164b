//! Filters: what happens to a stream's packets on their way through a node (MRNet §2.4).
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
//! A node has one filter of each stream, for as long as it takes part; what it remembers from wave to wave is its
//! state. Waves and packets are handed to it one at a time. *When* a wave is complete is not its business, that is
//! synchronisation and core's; *which* pieces belong together is settled too: all pieces of a wave bear its tag, and
//! nobody is in it twice.
//!
//! A filter that remembers nothing from wave to wave is better written as a [`Fold`](crate::Fold): it then folds calls
//! and pushes too. The filters here keep state, or give more than one packet.
//!
//! A piece from an endpoint is what the endpoint sent; a piece from a child is what this same filter gave there. A
//! filter whose partials differ from its samples (an average) tells them apart by [`Source`]. Nodes may die and their
//! children come to their parent with what was not yet delivered: see [`Filter::holds_from`] and [`Filter::replaced`]
//! for those who keep more than one wave.
//!
//! Whatever goes wrong in a filter is the wave's loss and not the node's: an error, or a panic, makes those who
//! contributed missing from that wave, with the text as the reason.

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
pub use clock_skew::ClockSkew;
pub use time_aligned::TimeAligned;

use crate::aggregation::Placement;
use crate::error::Result;
use bytes::Bytes;

/// What came together under one tag.
#[derive(Clone, Copy, Debug)]
pub struct Wave<'a> {
    /// The tag; what it counts is the stream's user's business.
    pub tag: u64,
    /// The packets, those of one source together and in the order they were sent; at least one.
    pub pieces: &'a [Piece],
    /// This node's clock in ns since the Unix epoch. Nobody promises that it agrees with others', or never jumps.
    pub now_ns: u64,
}

/// A packet on its way from the front-end to the endpoints.
#[derive(Clone, Copy, Debug)]
pub struct Descent<'a> {
    /// The tag the front-end gave it.
    pub tag: u64,
    /// What was sent, or what this filter made of it at the parent.
    pub payload: &'a Bytes,
    /// As [`Wave::now_ns`].
    pub now_ns: u64,
}

/// One stream's filter at one node.
pub trait Filter: Send {
    /// Makes a wave's pieces into what goes up in their place: any number of packets, pushed to `out`, which is
    /// empty.
    ///
    /// # Errors
    /// The wave loses everyone who contributed here; the filter stays as it is and gets the next wave.
    fn up(&mut self, wave: Wave<'_>, out: &mut Vec<Bytes>) -> Result<()>;

    /// Makes a packet on its way down into what goes on in its place; by default it is passed on as it is.
    ///
    /// # Errors
    /// Nobody below gets the packet; the stream's front-end is told.
    fn down(&mut self, descent: Descent<'_>, out: &mut Vec<Bytes>) -> Result<()> {
        out.push(descent.payload.clone());
        Ok(())
    }

    /// The oldest tag of which something is still in here and in no packet that went up; `None` when there is
    /// nothing. Those below keep what they sent from this tag on, in case this node is lost with its state.
    fn holds_from(&self) -> Option<u64> {
        None
    }

    /// `source` takes part from now on. Said of everyone before the first wave, and later of those who come: of an
    /// heir too, just before [`replaced`](Self::replaced) says whose heir it is. Whoever must know whom to wait for,
    /// where waves may bring one source alone, learns it here.
    fn joined(&mut self, source: Source) {
        let _ = source;
    }

    /// `lost` gives nothing more, and `heirs` come in its place; they send again what had not been delivered. Without
    /// heirs it is simply gone.
    fn replaced(&mut self, lost: Source, heirs: &[Source]) {
        let _ = (lost, heirs);
    }
}

/// A kind of filter, by whose name streams ask for it.
pub trait FilterKind: Send + Sync + 'static {
    /// A filter for one stream at one node.
    ///
    /// # Errors
    /// When the parameters make no sense; the stream is not opened.
    fn open(&self, params: &Bytes) -> Result<Box<dyn Filter>>;

    /// Where it runs. [`Placement::Measured`] starts on a worker and comes to the loop once it is seen to take
    /// microseconds.
    fn placement(&self) -> Placement {
        Placement::Measured
    }
}
