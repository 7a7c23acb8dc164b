//! Everything that can happen to a node.

use crate::call::CallOptions;
use crate::config::Placement;
use crate::error::{JobError, Reason};
use crate::id::{JobId, NodeId, RequestId};
use crate::message::Message;
use crate::partitions::PartitionSet;
use crate::schedule::share::ShareSetting;
use crate::stream::operator::OperatorNews;
use crate::stream::spec::Filtered;
use crate::stream::{StreamId, StreamOptions, StreamSpec};
use crate::time::Duration;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// One thing that happened.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Input<P> {
    /// A peer said something over its connection.
    Message {
        /// Who.
        from: NodeId,
        /// What.
        message: Message<P>,
    },
    /// A peer said something over its connection that the driver could not read, and dropped.
    Refused {
        /// Who.
        from: NodeId,
        /// What is wrong with it.
        problem: Arc<str>,
        /// What the peer is answered, if it waits for an answer.
        answer: Option<Box<Message<P>>>,
    },
    /// A datagram came; bytes of core's own making (gossip, polls), never a payload.
    Datagram {
        /// Where from.
        from: SocketAddr,
        /// What, without the driver's envelope.
        bytes: Vec<u8>,
    },
    /// A connection to a peer, or from one, is ready for messages.
    Connected {
        /// Who.
        peer: NodeId,
    },
    /// The connection to a peer broke, or could not be made. Messages on their way are lost.
    Lost {
        /// Who.
        peer: NodeId,
    },
    /// A job that was handed out is over.
    JobDone {
        /// Which.
        job: JobId,
        /// What it gave.
        result: Result<P, JobError>,
        /// Processor time it took.
        cost: Duration,
    },
    /// A job that makes slices is over.
    SlicesDone {
        /// Which.
        job: JobId,
        /// What it gave: as many as were asked for, in order.
        result: Result<Vec<P>, JobError>,
        /// Processor time it took.
        cost: Duration,
    },
    /// A stream's filter has been made, and where it is to run; or why it could not be.
    FilterOpened {
        /// The stream.
        stream: StreamId,
        /// Where it runs, or what is wrong.
        result: Result<Placement, Arc<str>>,
    },
    /// A stream's filter is through with a run.
    Filtered {
        /// The stream.
        stream: StreamId,
        /// Which run.
        run: u64,
        /// What it gave.
        result: Result<Filtered<P>, JobError>,
        /// Processor time it took.
        cost: Duration,
    },
    /// Something about an operator that came, or is lacking.
    Operator(OperatorNews<P>),
    /// The driver's user wants something.
    Command(Command<P>),
}

/// What the driver's own user can ask of a node.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Command<P> {
    /// Make a call.
    Call {
        /// The driver's name for it.
        request: RequestId,
        /// `service/aggregation`.
        name: Arc<str>,
        /// The aggregation's parameters.
        params: P,
        /// Deadline, coverage, shape and the rest.
        options: CallOptions,
    },
    /// The result of a call is no longer wanted.
    Cancel {
        /// The driver's name for it.
        request: RequestId,
    },
    /// How are you?
    Status {
        /// The driver's name for it.
        request: RequestId,
    },
    /// Set these shares, and tell what there are then; without any, only tell.
    Shares {
        /// The driver's name for it.
        request: RequestId,
        /// The shares; all hold from now on, or, when one of them can't be, none.
        settings: Vec<ShareSetting>,
    },
    /// Open a stream.
    StreamOpen {
        /// The driver's name for it.
        request: RequestId,
        /// What it is.
        spec: Box<StreamSpec<P>>,
        /// How it is laid out.
        options: StreamOptions,
    },
    /// Send a packet down a stream.
    StreamSend {
        /// The driver's name for the stream.
        request: RequestId,
        /// The packet's tag.
        tag: u64,
        /// For these endpoints; `None` for all.
        to: Option<PartitionSet>,
        /// What it says.
        payload: P,
    },
    /// The user has taken so many of a stream's waves.
    StreamTook {
        /// The driver's name for the stream.
        request: RequestId,
        /// How many, the oldest first.
        waves: u32,
    },
    /// End a stream.
    StreamClose {
        /// The driver's name for it.
        request: RequestId,
    },
    /// An endpoint that lives here sends a packet up.
    EndpointSend {
        /// The stream.
        stream: StreamId,
        /// The endpoint.
        endpoint: u32,
        /// Which wave it belongs to; `None` for the next of this endpoint.
        tag: Option<u64>,
        /// What it says.
        payload: P,
    },
    /// An endpoint that lives here has taken the packets it was given.
    EndpointTook {
        /// The stream.
        stream: StreamId,
        /// The endpoint.
        endpoint: u32,
        /// Up to this one.
        sequence: u64,
    },
    /// An endpoint that lives here gives and takes nothing more: it has no code, or its code has failed.
    EndpointGone {
        /// The stream.
        stream: StreamId,
        /// The endpoint.
        endpoint: u32,
        /// Why, for those who miss it.
        reason: Reason,
    },
    /// Find the cluster at these addresses.
    Join(Vec<SocketAddr>),
    /// Tell the cluster goodbye, refuse new work, finish what is open; then [`crate::effect::Event::Drained`].
    Leave,
}
