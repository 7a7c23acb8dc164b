//! What a stream is, and what its front-end hears of it.

use super::{StreamError, StreamId};
use crate::error::Missing;
use crate::partitions::PartitionSet;
use crate::tree::Tree;
use crate::tree::shape::Shape;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

/// When a wave is complete at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Synchronisation {
    /// When everyone below has given a packet, or is known not to.
    #[default]
    WaitForAll,
    /// The same, but at the front-end no later than so long after the first of its packets came; nodes below wait for
    /// a share of that, the less the deeper they are.
    TimeOut(#[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))] Duration),
    /// At once: packets go up one by one.
    DoNotWait,
}

/// What a stream is; every node of it is told.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamSpec<P> {
    /// The service whose partitions are the endpoints.
    pub service: Arc<str>,
    /// What makes a wave's packets into those that go up; empty: they go up as they are.
    pub up_filter: Arc<str>,
    /// What packets pass at each node on their way down; empty: nothing. When it is the same as the up-filter, one
    /// instance does both.
    pub down_filter: Arc<str>,
    /// For the filters.
    pub filter_params: P,
    /// When a wave is complete.
    pub synchronisation: Synchronisation,
    /// For the endpoints.
    pub params: P,
}

impl<P> StreamSpec<P> {
    /// True when some filter is at work at all.
    pub(crate) fn has_filter(&self) -> bool {
        !self.up_filter.is_empty() || !self.down_filter.is_empty()
    }
}

/// How a stream is to be laid out.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamOptions {
    /// The endpoints; `None` for all that the service has now, and all that come.
    pub endpoints: Option<PartitionSet>,
    /// The shape of the tree. The front-end is its root: in a `kary:K` it has K children, in a `base` or `flat` one all.
    pub shape: Shape,
    /// The subtrees below the front-end, when whoever opens the stream knows them better: seats with endpoints, or
    /// without any, which only fold what climbs. The shape then says nothing. Endpoints that no seat has are away.
    #[cfg_attr(feature = "serde", serde(default))]
    pub trees: Option<Vec<Tree>>,
    /// Bytes that each node may have sent up and that are not settled; `None` for the limit.
    pub window_bytes: Option<u64>,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self { endpoints: None, shape: Shape::Auto, trees: None, window_bytes: None }
    }
}

/// A wave, as the front-end's user gets it.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamWave<P> {
    /// Its tag.
    pub tag: u64,
    /// What the filters made of its packets.
    pub packets: Vec<P>,
    /// Whose packets went into them.
    pub contributors: PartitionSet,
    /// Who is not in it, and why. With the contributors, everyone who was expected.
    pub missing: Vec<Missing>,
}

/// What a stream's front-end is told.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum StreamEvent<P> {
    /// Everyone who can be reached takes part.
    Opened {
        /// The stream.
        stream: StreamId,
        /// The subtrees below the front-end.
        trees: Vec<Tree>,
        /// Who takes part.
        endpoints: PartitionSet,
        /// Who does not, and why.
        missing: Vec<Missing>,
    },
    /// A wave, or a part of one that came late or was not waited for.
    Wave(StreamWave<P>),
    /// The tree has changed.
    Changed {
        /// The subtrees below the front-end.
        trees: Vec<Tree>,
        /// The endpoints that take part.
        endpoints: PartitionSet,
        /// Those that are away, and why.
        away: Vec<Missing>,
    },
    /// So many bytes that were sent down have been taken by everyone.
    Taken {
        /// Bytes.
        bytes: u64,
    },
    /// It is over.
    Closed(StreamError),
}

/// What an endpoint's user is told.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum EndpointEvent<P> {
    /// A stream has been opened to it.
    Opened {
        /// What the stream is.
        spec: Arc<StreamSpec<P>>,
        /// Bytes that may be on their way up.
        window_bytes: u64,
    },
    /// A packet from the front-end.
    Packet {
        /// To be said when it has been taken.
        sequence: u64,
        /// Its tag.
        tag: u64,
        /// What it says.
        payload: P,
    },
    /// So many bytes that it sent are settled.
    Settled {
        /// Bytes.
        bytes: u64,
    },
    /// The stream is over.
    Closed(StreamError),
}

/// Where a piece comes from, as one node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Source {
    /// An endpoint that lives here.
    Endpoint(u32),
    /// A child, by a number that this node never uses again.
    Child(u32),
}

impl core::fmt::Display for Source {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Endpoint(number) => write!(f, "endpoint {number}"),
            Self::Child(number) => write!(f, "child {number}"),
        }
    }
}

/// Work for a stream's filter, one at a time and in this order.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FilterRun<P> {
    /// The stream.
    pub stream: StreamId,
    /// Tells its outcome from that of one that was given up.
    pub run: u64,
    /// The tag of the wave or packet.
    pub tag: u64,
    /// What to do.
    pub work: FilterWork<P>,
    /// True when it takes microseconds and is to run on the driver's loop.
    pub inline: bool,
}

/// What a filter does.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum FilterWork<P> {
    /// A wave's packets, with where they come from, into those that go up.
    Up(Vec<(Source, P)>),
    /// A packet on its way down.
    Down(P),
}

/// What a filter gave.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Filtered<P> {
    /// Any number of packets.
    pub packets: Vec<P>,
    /// The oldest tag that it has not given all of.
    pub holds_from: Option<u64>,
}
