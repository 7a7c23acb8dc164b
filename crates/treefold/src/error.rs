//! What can go wrong for whoever starts a node, makes a call, or reads a recording.
//!
//! A call that ends below full coverage is no error: its [`Reply`](crate::Reply) says what is missing and why.
//! Errors are for calls that have no outcome at all.

use std::io;
use std::sync::Arc;
use std::time::Duration;
use treefold_core::error::CallError;
use treefold_core::membership::card::CardError;
use treefold_core::membership::service::AgreedTotal;
use treefold_core::stream::StreamError;
use treefold_operators::{BodyError, OperatorError};

/// Why a call or a query has no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No connection could be made. Nothing was asked.
    #[error("can't connect to {addr}: {source}")]
    Connect {
        /// Where to.
        addr: String,
        /// What the system says.
        source: io::Error,
    },
    /// Who answered there doesn't speak with us. Nothing was asked.
    #[error("{addr} refused the handshake: {problem}")]
    Handshake {
        /// Who.
        addr: String,
        /// What it says.
        problem: String,
    },
    /// The connection broke while the call was open. It may or may not have been carried out.
    #[error("the connection to the front broke before the answer was there")]
    Lost,
    /// The front gave no answer, long after the call's deadline. It may or may not have been carried out.
    #[error("the front gave no answer within {waited:?}")]
    FrontSilent {
        /// The deadline, and the patience beyond it.
        waited: Duration,
    },
    /// The front turned the call away. No partition was asked.
    #[error(transparent)]
    Rejected(#[from] CallError),
    /// The front's reply says one thing in one place and another elsewhere, as a status of full beside missing
    /// partitions. The call was carried out, but nothing of the reply can be trusted.
    #[error("the front's reply contradicts itself: {problem}")]
    Contradiction {
        /// What contradicts what.
        problem: String,
    },
    /// The parameters could not be written (nothing was asked), or the answer is not of the type asked for.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The aggregation's `finish` failed on the answer.
    #[error("finish: {0}")]
    Finish(OperatorError),
    /// No member of the cluster came into sight in time. Nothing was asked.
    #[error("no member of the cluster answered within {waited:?}")]
    NoMembers {
        /// How long that was.
        waited: Duration,
    },
    /// The stream could not be opened, or is over.
    #[error(transparent)]
    Stream(StreamError),
    /// A stream's front-end is the root of its tree, and this client only passes on what it wants to a node.
    #[error("streams need a client with a loop of its own: one in direct mode, or that of a node")]
    NoLoop,
    /// A packet is longer than anything that is sent may be. Nothing was sent.
    #[error("the packet has {bytes} bytes; allowed: at most {bytes_max} (payload_bytes_max)")]
    PacketTooLarge {
        /// Its length.
        bytes: usize,
        /// The most there may be.
        bytes_max: usize,
    },
    /// The operator was not taken.
    #[error("the operator was not taken: {problem}")]
    Operator {
        /// What the node says of it.
        problem: Arc<str>,
    },
    /// Shares were not set; all are as they were.
    #[error("no shares were set: {problem}")]
    Shares {
        /// What the node says of them.
        problem: Arc<str>,
    },
    /// The node, the client or the stream has been shut down.
    #[error("the node has been shut down")]
    Closed,
    /// The node's loop could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Why a node could not be started. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An address names nothing.
    #[error("the address {given:?}: {source}")]
    Address {
        /// What was given.
        given: String,
        /// What the system says.
        source: io::Error,
    },
    /// The address can't be listened at, with TCP or with UDP.
    #[error("can't listen at {addr}: {source}")]
    Listen {
        /// Where.
        addr: String,
        /// What the system says.
        source: io::Error,
    },
    /// The cluster's name is too long.
    #[error("the cluster's name has {bytes} bytes; allowed: at most {bytes_max}")]
    Cluster {
        /// Its length.
        bytes: usize,
        /// The most there may be.
        bytes_max: usize,
    },
    /// A service makes no sense.
    #[error("service {service:?}: {problem}")]
    Service {
        /// Which.
        service: String,
        /// What about it.
        problem: String,
    },
    /// The cluster has another total of a service than the node.
    #[error(
        "service {service:?}: this node's total is {claim}, that of the cluster, as {seed} knows it, is {agreed}; \
         give this node the cluster's total, or stop the nodes that have another first"
    )]
    Total {
        /// The service.
        service: String,
        /// What the node says.
        claim: AgreedTotal,
        /// What the members agree on.
        agreed: AgreedTotal,
        /// The member that was asked.
        seed: String,
    },
    /// A relay holds nothing: its partitions and endpoints would be asked as its folds are.
    #[error("a relay holds nothing, and this one was given partitions of {service}")]
    RelayHolds {
        /// A service of which it was.
        service: String,
    },
    /// What the node would tell of itself is beyond what others take.
    #[error("the node's card: {0}")]
    Card(#[source] CardError),
    /// The recording could not be begun.
    #[error("can't record to {path}: {source}")]
    Record {
        /// Where to.
        path: String,
        /// What the system says.
        source: io::Error,
    },
    /// The node's thread or its event loop could not be made.
    #[error("can't start the node's loop: {0}")]
    Loop(#[source] io::Error),
    /// The nodes of an embedded cluster did not find each other in time.
    #[error("{known} of {wanted} nodes in sight after {waited:?}")]
    NotMet {
        /// Nodes in sight of the node that sees least, itself included.
        known: usize,
        /// Nodes there are.
        wanted: usize,
        /// How long they had.
        waited: Duration,
    },
}

/// `error` again, for one more who waits for it.
pub(crate) fn copy_of(error: &Error) -> Error {
    let again = |source: &io::Error| io::Error::new(source.kind(), source.to_string());
    match error {
        Error::Connect { addr, source } => Error::Connect { addr: addr.clone(), source: again(source) },
        Error::Handshake { addr, problem } => {
            Error::Handshake { addr: addr.clone(), problem: problem.clone() }
        }
        _ => Error::Lost,
    }
}
