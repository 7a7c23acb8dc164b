//! What nodes say to each other about a stream. A stream's messages keep their order on a connection, but for
//! [`Beat`](StreamMessage::Beat) and [`Report`](StreamMessage::Report), which may overtake the others.

use super::places::Places;
use super::tags::TagRuns;
use super::{OperatorId, StreamError, StreamId, StreamSpec};
use crate::error::Missing;
use crate::id::NodeId;
use crate::message::Payload;
use crate::partitions::PartitionSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Parent to child: take part in this stream; or, to one that does, this is your place now, and your subtree.
///
/// The front-end alone gives places. A parent passes on what it is told of a child, and adds what concerns only the two.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamOpen<P> {
    /// Which stream.
    pub stream: StreamId,
    /// What it is.
    pub spec: Arc<StreamSpec<P>>,
    /// The child's subtree, itself at the root, with the number of each seat. If the root's place is later than the child's
    /// own, the child answers to whoever sends this; if the root's life is later too, it begins anew.
    pub places: Places,
    /// The layout that the places are of: the front-end counts its changes.
    pub epoch: u64,
    /// Levels of the whole tree below the front-end, for time-outs that are staged.
    pub levels: u32,
    /// Bytes that the child may have sent up and not been told to be settled.
    pub window_bytes: u64,
    /// Endpoints that are new begin with this tag, or a later one.
    pub first_tag: u64,
    /// Packets that the front-end had sent when it made the layout, or that had come to the parent by then, counted from 1. A
    /// child that knows nothing of the stream is given those after them: its endpoints may have taken the others in a former
    /// life.
    pub packets_before: u64,
}

/// Child to parent: what my subtree gives to one wave. There may be several, of disjoint contributors.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamUp<P> {
    /// Which stream.
    pub stream: StreamId,
    /// 0 where endpoints are waited for; else the endpoint that sent it, plus one.
    pub lane: u32,
    /// Which wave.
    pub tag: u64,
    /// In a lane other than 0: the how-manieth packet of its endpoint.
    pub serial: u64,
    /// A packet; `None` when there is none, or no more.
    pub payload: Option<P>,
    /// True when further packets of the same part follow; the last frame has what concerns them all.
    pub more: bool,
    /// True when it ends a quarter of a window of someone below: once the front-end's user has it, what he has is settled.
    pub urgent: bool,
    /// Whose packets went into these.
    pub contributors: PartitionSet,
    /// Who of the subtree will not be in this wave, and why.
    pub missing: Vec<Missing>,
    /// The oldest tag that the sender's filter has not given all of.
    pub holds_from: Option<u64>,
}

/// Parent to child: a packet from the front-end.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamDown<P> {
    /// Which stream.
    pub stream: StreamId,
    /// The front-end's count of its packets, from 1.
    pub sequence: u64,
    /// The tag that it gave it.
    pub tag: u64,
    /// For these endpoints; `None` for all.
    pub to: Option<PartitionSet>,
    /// The packet; `None` when the filter on its way made it into none.
    pub payload: Option<P>,
    /// True when the filter on its way made several of it and more follow.
    pub more: bool,
}

/// Parent to child: the front-end has these; nobody need keep them any longer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamSettled {
    /// Which stream.
    pub stream: StreamId,
    /// By lane, ascending: tags in lane 0, serials in the others.
    pub lanes: Vec<(u32, TagRuns)>,
}

/// Child to parent: I have opened it, or who takes part below me has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamNews {
    /// Which stream.
    pub stream: StreamId,
    /// The place that the sender speaks from. What it says from another than its parent gave it is no answer.
    pub place: u64,
    /// The epoch of the last [`StreamOpen`] that it has had there: of what came later it knows nothing yet.
    pub epoch: u64,
    /// The last packet that has come from above.
    pub received: u64,
    /// Endpoints that begin with some tag; 0 for those who have been there all along.
    pub joined: Vec<(PartitionSet, u64)>,
    /// Endpoints of the subtree that give nothing now, and why.
    pub away: Vec<Missing>,
}

/// Child to parent, and on to the front-end: a child is lost, or may be called back. May overtake other messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamReport {
    /// Which stream.
    pub stream: StreamId,
    /// Whom this is about.
    pub node: NodeId,
    /// The place that it had. The report says nothing of any other.
    pub place: u64,
    /// True when it is to be called back at once: it took part until now, or has been heard again.
    pub at_once: bool,
}

/// A message about a stream.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum StreamMessage<P> {
    /// See [`StreamOpen`].
    Open(StreamOpen<P>),
    /// See [`StreamUp`].
    Up(StreamUp<P>),
    /// See [`StreamDown`].
    Down(StreamDown<P>),
    /// See [`StreamSettled`].
    Settled(StreamSettled),
    /// Child to parent: my endpoints have taken all packets up to this one.
    Taken {
        /// Which stream.
        stream: StreamId,
        /// Counts as [`StreamDown::sequence`].
        upto: u64,
    },
    /// See [`StreamNews`].
    News(StreamNews),
    /// See [`StreamReport`].
    Report(StreamReport),
    /// Parent to child: waves up to this one have gone without you; begin after it.
    Ahead {
        /// Which stream.
        stream: StreamId,
        /// The last of them.
        tag: u64,
    },
    /// Child to parent: I am alive. Sent in every [`stream_beat`](crate::config::Tuning::stream_beat).
    Beat {
        /// Which stream.
        stream: StreamId,
    },
    /// Whoever can't open its filter to its parent: give me this operator. Parent to child: have you, or has anybody
    /// below you?
    WantOperator {
        /// Which stream.
        stream: StreamId,
        /// Which operator.
        id: OperatorId,
    },
    /// The answer.
    Operator {
        /// Which stream.
        stream: StreamId,
        /// Which operator.
        id: OperatorId,
        /// What it is; `None`, said by children only, when nobody there has it.
        payload: Option<P>,
    },
    /// Parent to child: it is over. Child to parent: I can't take part, or no longer.
    Close {
        /// Which stream.
        stream: StreamId,
        /// Why.
        reason: StreamError,
    },
}

impl<P> StreamMessage<P> {
    /// The stream it is about.
    pub fn stream(&self) -> StreamId {
        match self {
            Self::Open(open) => open.stream,
            Self::Up(up) => up.stream,
            Self::Down(down) => down.stream,
            Self::Settled(settled) => settled.stream,
            Self::News(news) => news.stream,
            Self::Report(report) => report.stream,
            Self::Taken { stream, .. }
            | Self::Ahead { stream, .. }
            | Self::Beat { stream }
            | Self::WantOperator { stream, .. }
            | Self::Operator { stream, .. }
            | Self::Close { stream, .. } => *stream,
        }
    }
}

impl<P: Payload> StreamUp<P> {
    /// What tells it from others of its lane.
    pub fn key(&self) -> u64 {
        if self.lane == 0 { self.tag } else { self.serial }
    }
}
