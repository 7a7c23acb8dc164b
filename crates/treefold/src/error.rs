//! Errors of starting a node, making a call, and reading a recording.
//!
//! A call that ends below full coverage is not an error: its [`Reply`](crate::Reply) lists the missing
//! partitions with reasons. Errors are for calls without any outcome.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use treefold_core::bounds::OutOfBounds;
use treefold_core::error::{CallError, Missing};
use treefold_core::id::NodeId;
use treefold_core::membership::card::CardError;
use treefold_core::membership::service::AgreedTotal;
use treefold_core::stream::StreamError;
use treefold_operators::{BodyError, OperatorError};

/// Why a call or a query has no outcome.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No connection could be made. No node was asked.
    #[error("can't connect to {addr}: {source}")]
    Connect {
        /// The address tried.
        addr: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The process that answered refused the handshake. No node was asked.
    #[error("{addr} refused the handshake: {problem}")]
    Handshake {
        /// The address of that process.
        addr: String,
        /// The reason that it gave.
        problem: String,
    },
    /// The connection broke while the call was open. The call may or may not have been carried out.
    #[error("the connection to the front broke before the answer arrived")]
    Lost,
    /// The front gave no answer, long after the call's deadline. The call may or may not have been carried
    /// out.
    #[error("the front gave no answer within {waited:?}")]
    FrontSilent {
        /// The deadline, and the extra time allowed beyond it.
        waited: Duration,
    },
    /// The front turned the call away. No partition was asked.
    #[error(transparent)]
    Rejected(#[from] CallError),
    /// The call has no answer, because a node that provides the service does not have the aggregation.
    #[error("{node} has the service, but not the aggregation {kind:?}")]
    UnknownAggregation {
        /// The service and the aggregation.
        kind: Arc<str>,
        /// That node.
        node: NodeId,
    },
    /// The call has no answer, because the aggregation does not accept its parameters.
    #[error("the aggregation does not accept these parameters: {problem}")]
    InvalidParams {
        /// The reason that a node gave.
        problem: Arc<str>,
    },
    /// The reply has no value, because coverage is below the minimum.
    #[error("coverage is {coverage:.3}, below the minimum{}", first_of(missing))]
    NoValue {
        /// Contributed ÷ asked partitions.
        coverage: f64,
        /// The missing partitions, with reasons.
        missing: Vec<Missing>,
    },
    /// Two parts of the front's reply contradict each other, for instance a full status beside missing
    /// partitions. The call was carried out, but the reply cannot be trusted.
    #[error("the front's reply contradicts itself: {problem}")]
    Contradiction {
        /// The two statements that contradict each other.
        problem: String,
    },
    /// The parameters could not be encoded (then no node was asked), or the answer does not decode as the
    /// type asked for.
    #[error(transparent)]
    Body(#[from] BodyError),
    /// The aggregation's `finish` failed on the answer.
    #[error("finish: {0}")]
    Finish(OperatorError),
    /// No member of the cluster came into sight in time. No node was asked.
    #[error("no member of the cluster answered within {waited:?}")]
    NoMembers {
        /// How long the client waited.
        waited: Duration,
    },
    /// The stream could not be opened, or is over.
    #[error(transparent)]
    Stream(StreamError),
    /// A stream's front-end is the root of its tree, but this client has no node loop: it passes its
    /// requests on to a node.
    #[error("this client can't open streams; use one in direct mode, or the client of a node")]
    NoLoop,
    /// A packet is longer than `payload_bytes_max`. It was not sent.
    #[error("the packet has {bytes} bytes; allowed: at most {bytes_max} (payload_bytes_max)")]
    PacketTooLarge {
        /// Its length.
        bytes: usize,
        /// The most that is allowed.
        bytes_max: usize,
    },
    /// The node did not accept the operator.
    #[error("the node did not accept the operator: {problem}")]
    Operator {
        /// The reason that the node gave.
        problem: Arc<str>,
    },
    /// The placement of partitions was not changed.
    #[error("the placement was not changed: {problem}")]
    Placement {
        /// The reason that the node gave.
        problem: Arc<str>,
    },
    /// The shares were not set; all are unchanged.
    #[error("no shares were set: {problem}")]
    Shares {
        /// The reason that the node gave.
        problem: Arc<str>,
    },
    /// The node, the client or the stream has been shut down.
    #[error("the node has been shut down")]
    Closed,
    /// The node's loop could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// Why a node could not be started. Nothing of the attempt is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An address could not be resolved.
    #[error("can't resolve the address {given:?}: {source}")]
    Address {
        /// The address as given.
        given: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The address of a node to join can never be reached.
    #[error("can't join {given:?}: {problem}")]
    Seed {
        /// The address as given.
        given: String,
        /// Its problem.
        problem: &'static str,
    },
    /// A limit or a setting of the tuning is outside its bounds.
    #[error(transparent)]
    Setting(#[from] OutOfBounds),
    /// The node's certificate does not allow what the node would do.
    #[error(
        "the node's certificate does not allow it to {wanted}: issue it another one with `treefold keys issue`"
    )]
    Certificate {
        /// The forbidden deed.
        wanted: String,
    },
    /// The address is reachable from other machines, and the cluster has neither a token nor certificates.
    #[error(
        "a node at {addr} can be reached from other machines, and any program there could join the cluster and do everything: \
         give it a certificate or a token, listen on 127.0.0.1, or allow it as insecure"
    )]
    Exposed {
        /// The listening address.
        addr: SocketAddr,
    },
    /// The node cannot listen at the address, with TCP or with UDP.
    #[error("can't listen at {addr}: {source}")]
    Listen {
        /// The address.
        addr: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The cluster's name is too long.
    #[error("the cluster's name has {bytes} bytes; allowed: at most {bytes_max}")]
    Cluster {
        /// Its length.
        bytes: usize,
        /// The most that is allowed.
        bytes_max: usize,
    },
    /// A service is invalid.
    #[error("service {service:?}: {problem}")]
    Service {
        /// The service's name.
        service: String,
        /// Why it is invalid.
        problem: String,
    },
    /// The node declares another total for a service than the cluster.
    #[error(
        "service {service:?}: this node's total is {claim}, that of the cluster, as {seed} knows it, is {agreed}; \
         give this node the cluster's total, or stop the nodes that have another first"
    )]
    Total {
        /// The service.
        service: String,
        /// The total that this node declares.
        claim: AgreedTotal,
        /// The total that the members agree on.
        agreed: AgreedTotal,
        /// The member that was asked.
        seed: String,
    },
    /// The seed is a process of a network that a launcher keeps. Such processes do not gossip.
    #[error("{seed} is a process of a network, which no node joins: attach to it, or connect a client")]
    Network {
        /// The process that was asked.
        seed: String,
    },
    /// A relay was given partitions or endpoints. A relay must hold none, because callers would ask for
    /// them as they ask for its folds.
    #[error("a relay holds no partitions, but this one was given partitions of {service}")]
    RelayHolds {
        /// The service with partitions here.
        /// The service.
        service: String,
    },
    /// The node's card exceeds the limits of what other members accept.
    #[error("the node's card: {0}")]
    Card(#[source] CardError),
    /// The recording could not be started.
    #[error("can't record to {path}: {source}")]
    Record {
        /// The recording's path.
        path: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The node's thread or its event loop could not be created.
    #[error("can't start the node's loop: {0}")]
    Loop(#[source] io::Error),
    /// The nodes of an embedded cluster did not find each other in time.
    #[error("{known} of {wanted} nodes in sight after {waited:?}")]
    NotMet {
        /// Nodes in sight of the node that sees fewest, itself included.
        known: usize,
        /// Nodes in the cluster.
        wanted: usize,
        /// How long they had to find each other.
        waited: Duration,
    },
}

/// The first loss, as the end of a sentence.
fn first_of(missing: &[Missing]) -> String {
    let first = |Missing { partitions, reason, .. }: &Missing| {
        format!(": partitions {partitions} are missing ({reason})")
    };
    missing.first().map(first).unwrap_or_default()
}

/// Copies `error` for another caller that waits for it.
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
