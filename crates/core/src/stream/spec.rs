//! The description of a stream, and the events that its two ends receive.

use super::message::StreamRun;
use super::{StreamError, StreamId};
use crate::error::Missing;
use crate::partitions::PartitionSet;
use crate::right::Rights;
use crate::tree::Tree;
use crate::tree::shape::Shape;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

/// When a wave is complete at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Synchronisation {
    /// When every endpoint below has given a packet, or is known not to give one.
    #[default]
    WaitForAll,
    /// As [`WaitForAll`](Self::WaitForAll), but the front-end waits at most this long after the first packet
    /// of the wave.
    ///
    /// A node below waits for a part of that time; the deeper the node, the smaller the part.
    TimeOut(#[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))] Duration),
    /// At once: packets go up one by one.
    DoNotWait,
}

/// The description of a stream. Every node of the stream receives it.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamSpec<P> {
    /// The service whose partitions are the endpoints.
    pub service: Arc<str>,
    /// Name of the filter that turns a wave's packets into the packets that go up. If empty, packets go up
    /// unchanged.
    pub up_filter: Arc<str>,
    /// Name of the filter that packets pass at each node on their way down. If empty, they pass none.
    ///
    /// If it is the same as the up-filter, one instance does both.
    pub down_filter: Arc<str>,
    /// Parameters for the filters.
    pub filter_params: P,
    /// When a wave is complete.
    pub synchronisation: Synchronisation,
    /// Parameters for the endpoints.
    pub params: P,
    /// Bytes by which an endpoint may be behind the one that is furthest ahead with packets down. Above that, packets
    /// pass over it, and it is told that it missed them. `None`: no packet passes over an endpoint, and the front-end
    /// waits for the slowest one.
    #[cfg_attr(feature = "serde", serde(default))]
    pub lag_bytes_max: Option<u64>,
    /// The rights of the opener. Drivers set it where a stream enters from a process that is no member.
    #[cfg_attr(feature = "serde", serde(default))]
    pub opener: Rights,
}

impl<P> StreamSpec<P> {
    /// True if the stream has an up-filter or a down-filter.
    pub(crate) fn has_filter(&self) -> bool {
        !self.up_filter.is_empty() || !self.down_filter.is_empty()
    }
}

/// How to lay out a stream.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamOptions {
    /// The endpoints; `None` for all that the service has now or gets later.
    pub endpoints: Option<PartitionSet>,
    /// The shape of the tree, with the front-end as its root.
    ///
    /// In `kary:K` the front-end has K children; in `base` or `flat` all nodes are its children.
    pub shape: Shape,
    /// The subtrees below the front-end, if the user lays them out by hand. [`shape`](Self::shape) is then
    /// ignored.
    ///
    /// A seat without endpoints only folds what its children send. Endpoints that have no seat are away.
    #[cfg_attr(feature = "serde", serde(default))]
    pub trees: Option<Vec<Tree>>,
    /// Bytes that each node may have sent up and that are not yet settled; `None` for the limit.
    pub window_bytes: Option<u64>,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self { endpoints: None, shape: Shape::Auto, trees: None, window_bytes: None }
    }
}

/// A wave as the front-end's user receives it.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamWave<P> {
    /// Its tag.
    pub tag: u64,
    /// The packets that the filters made of the wave.
    pub packets: Vec<P>,
    /// Endpoints whose packets are in the wave.
    pub contributors: PartitionSet,
    /// Endpoints that are not in the wave, with reasons. Contributors and missing together are all expected
    /// endpoints.
    pub missing: Vec<Missing>,
}

/// Events for the front-end's user.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum StreamEvent<P> {
    /// Every endpoint that can be reached takes part.
    Opened {
        /// The stream.
        stream: StreamId,
        /// The subtrees below the front-end.
        trees: Vec<Tree>,
        /// The endpoints that take part.
        endpoints: PartitionSet,
        /// The endpoints that do not take part, with reasons.
        missing: Vec<Missing>,
    },
    /// A wave; or a part of one that came late, or that was not waited for.
    Wave(StreamWave<P>),
    /// The tree has changed.
    Changed {
        /// The subtrees below the front-end.
        trees: Vec<Tree>,
        /// The endpoints that take part.
        endpoints: PartitionSet,
        /// The endpoints that are away, with reasons.
        away: Vec<Missing>,
    },
    /// All endpoints have taken this many bytes that were sent down.
    Taken {
        /// Bytes.
        bytes: u64,
    },
    /// The stream is over.
    Closed(StreamError),
}

/// Events for an endpoint's user.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum EndpointEvent<P> {
    /// A stream has been opened to this endpoint.
    Opened {
        /// The description of the stream.
        spec: Arc<StreamSpec<P>>,
        /// Bytes that the endpoint may have sent and that are not yet settled.
        window_bytes: u64,
        /// Bytes of packets, by their weight, after which the user should acknowledge that it has taken them.
        acknowledge_bytes: u64,
    },
    /// A packet from the front-end.
    Packet {
        /// Sequence number. The user acknowledges it when it has taken the packet.
        sequence: u64,
        /// Its tag.
        tag: u64,
        /// The payload.
        payload: P,
    },
    /// Packets from the front-end that arrived together.
    Packets(Arc<StreamRun<P>>),
    /// Packets with these sequence numbers passed over this endpoint, because it or a node above it lagged. It needs
    /// no acknowledgement.
    Missed {
        /// The first of them. Some of the numbers may be of packets that were not for this endpoint.
        first: u64,
        /// The last of them.
        last: u64,
    },
    /// This many bytes that the endpoint sent are settled.
    Settled {
        /// Bytes.
        bytes: u64,
    },
    /// The stream is over.
    Closed(StreamError),
}

/// The source of a piece, as one node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Source {
    /// An endpoint hosted by this node.
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
    /// Number of the run. It distinguishes the result from that of a run that was given up.
    pub run: u64,
    /// The tag of the wave or packet.
    pub tag: u64,
    /// The work.
    pub work: FilterWork<P>,
    /// True if the run takes microseconds and must run on the driver's loop.
    pub inline: bool,
}

/// The work of a filter.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum FilterWork<P> {
    /// Turn a wave's packets, with their sources, into the packets that go up.
    Up(Vec<(Source, P)>),
    /// Filter a packet on its way down.
    Down(P),
}

/// Why a node has no filter for a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum NoFilter {
    /// The node knows no filter of that name. Its parent filters what its endpoints send, if it has no other node
    /// below it.
    Unknown(Arc<str>),
    /// The filter refused its parameters, or could not be made.
    Refused(Arc<str>),
}

/// The result of a filter.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Filtered<P> {
    /// Any number of packets.
    pub packets: Vec<P>,
    /// Oldest tag of which the filter still holds something.
    pub holds_from: Option<u64>,
}
