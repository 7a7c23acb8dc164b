//! Messages between nodes about a stream.
//!
//! The messages of a stream keep their order on a connection, except [`Beat`](StreamMessage::Beat) and
//! [`Report`](StreamMessage::Report), which may overtake the others.

use super::places::Places;
use super::tags::TagRuns;
use super::{OperatorId, PACKET_BYTES, StreamError, StreamId, StreamSpec};
use crate::error::Missing;
use crate::id::NodeId;
use crate::message::Payload;
use crate::partitions::PartitionSet;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Parent to child: take part in this stream. To a child that already does: its current place and subtree.
///
/// Only the front-end assigns places. A parent passes on the places of a child, and adds the fields that
/// concern only the two of them.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamOpen<P> {
    /// The stream.
    pub stream: StreamId,
    /// The description of the stream.
    pub spec: Arc<StreamSpec<P>>,
    /// The child's subtree, with the child at its root, and the number of each seat.
    ///
    /// If the root's place is later than the child's current place, the sender becomes the child's parent. If
    /// the root's life is later too, the child begins anew.
    pub places: Places,
    /// The epoch of the layout that contains the places. The front-end counts the changes of its layout.
    pub epoch: u64,
    /// Levels of the whole tree below the front-end. Staged time-outs need it.
    pub levels: u32,
    /// Bytes that the child may have sent up and that are not yet settled.
    pub window_bytes: u64,
    /// First tag for new endpoints; they begin with this tag or a later one.
    pub first_tag: u64,
    /// Last down-sequence number that the front-end had sent when it made the layout, or that the parent had
    /// received by then.
    ///
    /// A child that does not know the stream receives only the packets after it: its endpoints may have taken
    /// the earlier ones in a former life.
    pub packets_before: u64,
    /// True if the sender knows [`StreamNews::unfiltered`].
    #[cfg_attr(feature = "serde", serde(default))]
    pub takes_unfiltered: bool,
}

/// Child to parent: the contribution of the child's subtree to one wave.
///
/// A child may send several for one wave, with disjoint contributors.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamUp<P> {
    /// The stream.
    pub stream: StreamId,
    /// 0 if waves gather all endpoints; otherwise the number of the endpoint that sent the packet, plus one.
    pub lane: u32,
    /// The tag of the wave.
    pub tag: u64,
    /// In a lane other than 0: sequence number of the packet at its endpoint.
    pub serial: u64,
    /// A packet; `None` if the part has no packet.
    pub payload: Option<P>,
    /// True if further frames of the same part follow. The last frame has the fields that concern the whole
    /// part.
    pub more: bool,
    /// True if a sender below has filled a quarter of its window since its last mark.
    ///
    /// The front-end settles at once when its user has taken this wave.
    pub urgent: bool,
    /// Endpoints whose packets are in this part.
    pub contributors: PartitionSet,
    /// Endpoints of the subtree that will not be in this wave, with reasons.
    pub missing: Vec<Missing>,
    /// Oldest tag of which the sender's filter still holds something.
    pub holds_from: Option<u64>,
}

/// Parent to child: a packet from the front-end.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamDown<P> {
    /// The stream.
    pub stream: StreamId,
    /// Sequence number at the front-end, from 1.
    pub sequence: u64,
    /// The tag that the front-end gave the packet.
    pub tag: u64,
    /// Endpoints that receive the packet; `None` for all.
    pub to: Option<PartitionSet>,
    /// The packet; `None` if a filter on its way dropped it.
    pub payload: Option<P>,
    /// True if a filter on its way made several packets of it and more follow.
    pub more: bool,
}

/// The most packets of one [`StreamRun`].
pub const RUN_PACKETS_MAX: usize = 1_024;
/// The most payload bytes of one [`StreamRun`], as few as one chunk of a payload has.
pub const RUN_BYTES_MAX: usize = 64 << 10;

/// Parent to child: packets from the front-end that follow each other, for all endpoints.
///
/// Packets that wait together travel as one message, which all children share. No run passes a filter.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamRun<P> {
    /// The stream.
    pub stream: StreamId,
    /// Sequence number of the first packet at the front-end; the others follow without a gap.
    pub first: u64,
    /// The packets with their tags, from 1 to [`RUN_PACKETS_MAX`], of [`RUN_BYTES_MAX`] bytes together.
    pub packets: Vec<(u64, P)>,
}

impl<P> StreamRun<P> {
    /// Sequence number of the last packet.
    pub fn last(&self) -> u64 {
        self.first.saturating_add((self.packets.len() as u64).saturating_sub(1))
    }

    /// The packets with their sequence numbers and tags.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64, &P)> {
        (self.first..).zip(&self.packets).map(|(sequence, (tag, payload))| (sequence, *tag, payload))
    }
}

impl<P: Payload> StreamRun<P> {
    /// The packets after one of them.
    pub(crate) fn after(&self, sequence: u64) -> Self {
        let known = sequence.saturating_sub(self.first).saturating_add(1);
        let known = usize::try_from(known).unwrap_or(usize::MAX).min(self.packets.len());
        let packets = self.packets[known..].to_vec();
        Self { stream: self.stream, first: sequence.saturating_add(1), packets }
    }

    /// The weight of the packets against a window.
    pub(crate) fn weight(&self) -> usize {
        self.packets.iter().map(|(_, payload)| PACKET_BYTES + payload.len()).sum()
    }
}

/// Parent to child: the front-end's user has taken these waves, so no node needs to keep them.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamSettled {
    /// The stream.
    pub stream: StreamId,
    /// By lane, ascending: tags in lane 0, sequence numbers in the others.
    pub lanes: Vec<(u32, TagRuns)>,
}

/// Child to parent: the child has entered the stream, or the endpoints that take part below it have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamNews {
    /// The stream.
    pub stream: StreamId,
    /// The place from which the sender speaks.
    ///
    /// The parent ignores news from another place than the one it last gave.
    pub place: u64,
    /// Epoch of the last [`StreamOpen`] received for this place. The sender does not know later changes yet.
    pub epoch: u64,
    /// Last down-sequence number received from the parent.
    pub received: u64,
    /// Endpoints and the tag with which each set begins; 0 for endpoints that have been there from the start.
    pub joined: Vec<(PartitionSet, u64)>,
    /// Endpoints of the subtree that give nothing now, with reasons.
    pub away: Vec<Missing>,
    /// True if the stream has a lag limit and the sender knows [`StreamMessage::Missed`]. No packet passes over a
    /// child that does not.
    #[cfg_attr(feature = "serde", serde(default))]
    pub hears_missed: bool,
    /// True if the sender has no filter. Packets of its endpoints come up as they are, one of each endpoint in a part, in
    /// the order of the endpoints.
    #[cfg_attr(feature = "serde", serde(default))]
    pub unfiltered: bool,
}

/// Child to parent, forwarded to the front-end: a child is lost, or may be called back.
///
/// A report may overtake other messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamReport {
    /// The stream.
    pub stream: StreamId,
    /// The node that the report is about.
    pub node: NodeId,
    /// The place that the node had. The report is valid only for this place.
    pub place: u64,
    /// True if the node is to be called back at once: it took part until now, or has been heard again. A node that reports
    /// itself is slow.
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
    /// See [`StreamRun`].
    Run(Arc<StreamRun<P>>),
    /// Parent to child: these packets passed over the child, because it lagged. The next ones follow. Sent only in
    /// streams with a lag limit.
    Missed {
        /// The stream.
        stream: StreamId,
        /// The first [`StreamDown::sequence`] that the child did not get.
        first: u64,
        /// The last one.
        last: u64,
    },
    /// See [`StreamSettled`].
    Settled(StreamSettled),
    /// Child to parent: the endpoints below have taken all packets up to this one.
    Taken {
        /// The stream.
        stream: StreamId,
        /// A [`StreamDown::sequence`].
        upto: u64,
    },
    /// See [`StreamNews`].
    News(StreamNews),
    /// See [`StreamReport`].
    Report(StreamReport),
    /// Parent to child: waves up to this one have gone without this child; its endpoints continue after it.
    Ahead {
        /// The stream.
        stream: StreamId,
        /// The last of these waves.
        tag: u64,
    },
    /// Child to parent: a sign of life. Sent every [`stream_beat`](crate::config::Tuning::stream_beat).
    Beat {
        /// The stream.
        stream: StreamId,
    },
    /// A request for an operator.
    ///
    /// A child that can't open its filter sends it to its parent. A parent without the operator sends it to
    /// its children, to find a node below that has it.
    WantOperator {
        /// The stream.
        stream: StreamId,
        /// The operator.
        id: OperatorId,
    },
    /// The answer to [`WantOperator`](Self::WantOperator).
    Operator {
        /// The stream.
        stream: StreamId,
        /// The operator.
        id: OperatorId,
        /// The operator itself. A child sends `None` if neither it nor a node below has it.
        payload: Option<P>,
    },
    /// Parent to child: the stream is over. Child to parent: the child can't take part, or no longer takes
    /// part.
    Close {
        /// The stream.
        stream: StreamId,
        /// The reason.
        reason: StreamError,
    },
}

impl<P> StreamMessage<P> {
    /// The stream that the message is about.
    pub fn stream(&self) -> StreamId {
        match self {
            Self::Open(open) => open.stream,
            Self::Up(up) => up.stream,
            Self::Down(down) => down.stream,
            Self::Run(run) => run.stream,
            Self::Settled(settled) => settled.stream,
            Self::News(news) => news.stream,
            Self::Report(report) => report.stream,
            Self::Taken { stream, .. }
            | Self::Missed { stream, .. }
            | Self::Ahead { stream, .. }
            | Self::Beat { stream }
            | Self::WantOperator { stream, .. }
            | Self::Operator { stream, .. }
            | Self::Close { stream, .. } => *stream,
        }
    }
}

impl<P: Payload> StreamUp<P> {
    /// The key that identifies the wave or packet within its lane.
    pub fn key(&self) -> u64 {
        if self.lane == 0 { self.tag } else { self.serial }
    }
}
