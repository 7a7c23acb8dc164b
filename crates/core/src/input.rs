//! Everything that can happen to a node.

use crate::call::CallOptions;
use crate::error::JobError;
use crate::id::{JobId, NodeId, RequestId};
use crate::message::Message;
use crate::time::Duration;
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
    /// Find the cluster at these addresses.
    Join(Vec<SocketAddr>),
    /// Tell the cluster goodbye, refuse new work, finish what is open; then [`crate::effect::Event::Drained`].
    Leave,
}
