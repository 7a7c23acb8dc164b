//! Everything that can happen to a node.

use crate::call::CallOptions;
use crate::config::{Kind, Placement};
use crate::error::{JobError, Reason};
use crate::id::{JobId, NodeId, PartitionId, RequestId};
use crate::message::Message;
use crate::params::Params;
use crate::partitions::PartitionSet;
use crate::placement::PlacementAsk;
use crate::schedule::share::ShareSetting;
use crate::stream::operator::OperatorNews;
use crate::stream::spec::{Filtered, NoFilter};
use crate::stream::{StreamId, StreamOptions, StreamSpec};
use crate::time::Duration;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// One event for a node.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Input<P> {
    /// A message came over a peer's connection.
    Message {
        /// The peer.
        from: NodeId,
        /// The message.
        message: Message<P>,
    },
    /// A message came over a peer's connection that the driver could not read, and dropped.
    Refused {
        /// The peer.
        from: NodeId,
        /// The problem with the message.
        problem: Arc<str>,
        /// The answer to the peer, if it waits for one.
        answer: Option<Box<Message<P>>>,
    },
    /// A datagram came. Datagrams carry only gossip and polls, never a payload.
    Datagram {
        /// The sender's address.
        from: SocketAddr,
        /// The datagram without the driver's envelope.
        bytes: Vec<u8>,
    },
    /// A connection to a peer, or from one, is ready for messages.
    Connected {
        /// The peer.
        peer: NodeId,
    },
    /// A connection to a peer broke, or could not be made. Messages in flight are lost.
    Lost {
        /// The peer.
        peer: NodeId,
    },
    /// A job has ended.
    JobDone {
        /// The job.
        job: JobId,
        /// Its partial, or the error.
        result: Result<P, JobError>,
        /// Processor time it took.
        cost: Duration,
    },
    /// A job that makes slices has ended.
    SlicesDone {
        /// The job.
        job: JobId,
        /// The slices, as many as were requested, in order; or the error.
        result: Result<Vec<P>, JobError>,
        /// Processor time it took.
        cost: Duration,
    },
    /// A stream's filter was created, or could not be.
    FilterOpened {
        /// The stream.
        stream: StreamId,
        /// The placement of its runs, or the problem.
        result: Result<Placement, NoFilter>,
    },
    /// One run of a stream's filter has ended.
    Filtered {
        /// The stream.
        stream: StreamId,
        /// The number of the run.
        run: u64,
        /// The run's output, or the error.
        result: Result<Filtered<P>, JobError>,
        /// Processor time it took.
        cost: Duration,
    },
    /// News of an operator: it has arrived, or it is missing.
    Operator(OperatorNews<P>),
    /// A command from the driver's user.
    Command(Command<P>),
    /// The load of a partition has ended ([`Effect::Load`](crate::effect::Effect::Load)).
    Loaded {
        /// The service.
        service: Arc<str>,
        /// The partition.
        partition: PartitionId,
        /// The data is here, or the problem.
        result: Result<(), Arc<str>>,
    },
}

/// A command from the driver's user to its node.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command<P> {
    /// Make a call.
    Call {
        /// The driver's id for this request.
        request: RequestId,
        /// `service/aggregation`.
        name: Arc<str>,
        /// The aggregation's parameters.
        params: Params<P>,
        /// Deadline, coverage, shape and the rest.
        options: CallOptions,
    },
    /// Cancel a call: its result is no longer wanted.
    Cancel {
        /// The driver's id for this request.
        request: RequestId,
    },
    /// Report the node's status.
    Status {
        /// The driver's id for this request.
        request: RequestId,
    },
    /// Set these shares and report all shares; if the list is empty, only report them.
    Shares {
        /// The driver's id for this request.
        request: RequestId,
        /// The new shares. All of them take effect, or none if one of them is invalid.
        settings: Vec<ShareSetting>,
    },
    /// Open a stream.
    StreamOpen {
        /// The driver's id for this request.
        request: RequestId,
        /// The stream's filters, endpoints and parameters.
        spec: Box<StreamSpec<P>>,
        /// How the tree is laid out.
        options: StreamOptions,
    },
    /// Send a packet down a stream.
    StreamSend {
        /// The driver's id for the stream.
        request: RequestId,
        /// The packet's tag.
        tag: u64,
        /// The endpoints to send it to; `None` for all.
        to: Option<PartitionSet>,
        /// The packet's content.
        payload: P,
    },
    /// Send packets down a stream to all endpoints, in this order.
    StreamSendRun {
        /// The driver's id for the stream.
        request: RequestId,
        /// The packets with their tags.
        packets: Vec<(u64, P)>,
    },
    /// The user has taken waves of a stream.
    StreamTook {
        /// The driver's id for the stream.
        request: RequestId,
        /// The number of waves taken, the oldest first.
        waves: u32,
    },
    /// Close a stream.
    StreamClose {
        /// The driver's id for the stream.
        request: RequestId,
    },
    /// An endpoint on this node sends a packet up.
    EndpointSend {
        /// The stream.
        stream: StreamId,
        /// The endpoint.
        endpoint: u32,
        /// The packet's tag, which names its wave; `None` for the endpoint's next wave.
        tag: Option<u64>,
        /// The packet's content.
        payload: P,
    },
    /// An endpoint on this node has taken packets that it was given.
    EndpointTook {
        /// The stream.
        stream: StreamId,
        /// The endpoint.
        endpoint: u32,
        /// The sequence number of the last packet that it has taken.
        sequence: u64,
    },
    /// An endpoint on this node no longer sends or takes packets: it has no code, or its code has failed.
    EndpointGone {
        /// The stream.
        stream: StreamId,
        /// The endpoint.
        endpoint: u32,
        /// Why, for the nodes that miss it.
        reason: Reason,
    },
    /// Find the cluster at these addresses.
    Join(Vec<SocketAddr>),
    /// Leave the cluster: refuse new work and finish open work, then report
    /// [`crate::effect::Event::Drained`].
    Leave,
    /// Do what an operator asks for, and report the placement of partitions here.
    Placement {
        /// The driver's id for this request.
        request: RequestId,
        /// The operator's request.
        ask: PlacementAsk,
    },
    /// Announce a partition whose data is here, or stop to announce it and unload it later; then report.
    Hold {
        /// The driver's id for this request.
        request: RequestId,
        /// The service.
        service: Arc<str>,
        /// The partition.
        partition: PartitionId,
        /// True if the partition is here.
        holds: bool,
    },
    /// Say on this node's card that it stands below another one in a network.
    StandBelow {
        /// The node above.
        parent: NodeId,
    },
    /// The driver can fold for one more aggregation. Its jobs have the next number after the known kinds.
    Learn {
        /// The aggregation. No kind has its name.
        kind: Kind,
    },
}
