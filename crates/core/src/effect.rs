//! Everything that a node can ask its driver to do. With [`crate::input::Input`], this is the whole boundary
//! of core.

use crate::call::Outcome;
use crate::error::Reason;
use crate::id::{JobId, NodeId, PartitionId, RequestId};
use crate::membership::card::MemberCard;
use crate::membership::service::AgreedTotal;
use crate::message::Message;
use crate::placement::PlacementReport;
use crate::schedule::share::SharesReport;
use crate::status::NodeStatus;
use crate::stream::spec::{EndpointEvent, FilterRun, Source, StreamEvent};
use crate::stream::{OperatorId, StreamId, StreamSpec};
use crate::wave::slice::Slice;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use smallvec::SmallVec;

/// One action for the driver.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Effect<P> {
    /// Send a message; connect first if necessary. If that fails, report [`crate::input::Input::Lost`].
    Send {
        /// The receiver.
        to: NodeId,
        /// The message.
        message: Message<P>,
    },
    /// Send a datagram. It may be lost.
    Datagram {
        /// The receiver's address.
        to: SocketAddr,
        /// The datagram, without the driver's envelope.
        bytes: Vec<u8>,
    },
    /// Open a connection to an address without a known generation (a seed).
    Connect {
        /// The address.
        addr: SocketAddr,
    },
    /// Close the connection to this peer, which may be broken; a new one is opened when it is needed.
    Disconnect {
        /// The peer.
        peer: NodeId,
    },
    /// Run an operator and answer with [`crate::input::Input::JobDone`].
    Run(Job<P>),
    /// Core no longer waits for this job.
    Abandon {
        /// The job.
        job: JobId,
        /// True if the job held a processor for too long: start another worker in place of the one that runs
        /// it.
        replace_worker: bool,
    },
    /// An action on a stream's filter.
    Filter(FilterEffect<P>),
    /// News for the driver's user.
    Deliver(Event<P>),
    /// An entry for the log.
    Trace(TracePoint),
    /// Nothing waits for this job's result, but it still holds a processor. End it as soon as possible: take it out of a
    /// queue, drop its future, tell its operator. As soon as it has ended, answer with
    /// [`crate::input::Input::JobDone`] or [`crate::input::Input::SlicesDone`], as without this effect.
    Cancel {
        /// The job.
        job: JobId,
    },
    /// Load a partition's data, and answer with [`crate::input::Input::Loaded`].
    Load {
        /// The service.
        service: Arc<str>,
        /// The partition.
        partition: PartitionId,
    },
    /// Drop a partition's data. Jobs that run on it may finish.
    Unload {
        /// The service.
        service: Arc<str>,
        /// The partition.
        partition: PartitionId,
    },
}

/// An action on a stream's filter at this node. The driver must perform the actions on one stream's filter in
/// the order in which they are emitted.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum FilterEffect<P> {
    /// Create the filter, replace an existing one, and answer with [`crate::input::Input::FilterOpened`]. If
    /// an operator is missing for it, answer with [`crate::input::Input::Operator`].
    Open {
        /// The stream.
        stream: StreamId,
        /// The filters' names and parameters.
        spec: Arc<StreamSpec<P>>,
    },
    /// Run it and answer with [`crate::input::Input::Filtered`].
    Run(FilterRun<P>),
    /// A source joins, from the next wave on or a later one. This effect comes before the first run that may
    /// contain the source's packets, and before the source is named as an heir. It is repeated when the
    /// filter is created again.
    Joined {
        /// The stream.
        stream: StreamId,
        /// The source that joins.
        source: Source,
    },
    /// One source gives nothing more, and other sources take its place.
    Replaced {
        /// The stream.
        stream: StreamId,
        /// The source that is lost.
        lost: Source,
        /// The sources that take its place.
        heirs: Vec<Source>,
    },
    /// Core no longer waits for the run; its filter is lost with it. When the run ends, or will never begin,
    /// the driver must still report [`crate::input::Input::Filtered`], unless the run was on the driver's
    /// loop.
    Abandon {
        /// The stream.
        stream: StreamId,
        /// The number of the run.
        run: u64,
        /// True if the driver must start another worker in place of the one that is running it.
        replace_worker: bool,
    },
    /// Drop the filter.
    Close {
        /// The stream.
        stream: StreamId,
    },
    /// Pass this operator on to other nodes of the stream: answer with [`OperatorNews::Lent`].
    ///
    /// [`OperatorNews::Lent`]: crate::stream::operator::OperatorNews::Lent
    Lend {
        /// The stream.
        stream: StreamId,
        /// The operator.
        id: OperatorId,
    },
    /// An operator has arrived that was missing. Check that its content matches its id, keep it, and answer
    /// with [`OperatorNews::Kept`].
    ///
    /// [`OperatorNews::Kept`]: crate::stream::operator::OperatorNews::Kept
    Keep {
        /// The operator.
        id: OperatorId,
        /// Its content, not yet checked against the id.
        payload: P,
    },
}

/// Operator work for the driver.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Job<P> {
    /// The job's id.
    pub id: JobId,
    /// The aggregation: its index in [`crate::config::NodeConfig::kinds`].
    pub kind: u32,
    /// The work to do.
    pub work: Work<P>,
    /// Where to run it.
    pub place: Place,
}

/// The work of a job.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Work<P> {
    /// Computes one partition's partial.
    Local {
        /// The partition.
        partition: PartitionId,
        /// The aggregation's parameters.
        params: P,
        /// The reduce's parameters, if it has others. A local needs them if it must bring a sample into the form of the reduce.
        reduce: Option<P>,
    },
    /// Computes one partition's partial, cut into slices; answered with [`crate::input::Input::SlicesDone`].
    Slices {
        /// The partition.
        partition: PartitionId,
        /// The number of slices.
        of: u32,
        /// The aggregation's parameters.
        params: P,
    },
    /// Computes one slice of one partition's partial, and no other.
    Slice {
        /// The partition.
        partition: PartitionId,
        /// The slice.
        slice: Slice,
        /// The local's parameters.
        params: P,
        /// The reduce's, if they differ.
        reduce: Option<P>,
    },
    /// Joins the slices of a value.
    Join {
        /// All slices, in order.
        parts: Vec<P>,
        /// The aggregation's parameters.
        params: P,
    },
    /// Folds partials into one, each with the result of those before it.
    Reduce {
        /// The partials, at least two. A future of [`Place::Async`] folds exactly two.
        parts: SmallVec<[P; 2]>,
        /// The aggregation's parameters.
        params: P,
    },
}

/// Where a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Place {
    /// At once, on the driver's loop. The job takes microseconds.
    Inline,
    /// On a worker thread.
    Worker,
    /// As a future.
    Async,
}

/// News for the driver's user.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Event<P> {
    /// A call has ended.
    CallDone {
        /// The driver's id for the request.
        request: RequestId,
        /// The call's outcome.
        outcome: Box<Outcome<P>>,
    },
    /// The answer to a status command.
    Status {
        /// The driver's id for the request.
        request: RequestId,
        /// The node's status.
        status: Box<NodeStatus>,
    },
    /// The answer to a command about shares.
    Shares {
        /// The driver's id for the request.
        request: RequestId,
        /// Each application's share and usage; or why the shares did not change.
        result: Result<Box<SharesReport>, Arc<str>>,
    },
    /// The answer to a command about placement.
    Placement {
        /// The driver's id for the request.
        request: RequestId,
        /// The placement at this node; or why nothing has changed.
        result: Result<Box<PlacementReport>, Arc<str>>,
    },
    /// News of a stream that this node's user opened.
    Stream {
        /// The driver's id for the stream.
        request: RequestId,
        /// The news.
        event: Box<StreamEvent<P>>,
    },
    /// News for an endpoint on this node.
    Endpoint {
        /// The stream.
        stream: StreamId,
        /// The endpoint.
        endpoint: u32,
        /// The news.
        event: EndpointEvent<P>,
    },
    /// A member has joined, or its card has changed.
    MemberUp(Arc<MemberCard>),
    /// A member has left or failed.
    MemberDown(NodeId),
    /// The node has finished all open work after [`crate::input::Command::Leave`].
    Drained,
}

/// An event to log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum TracePoint {
    /// A peer's message made no sense; it was dropped.
    BadMessage {
        /// The peer.
        from: NodeId,
        /// The problem with the message.
        problem: Arc<str>,
    },
    /// A datagram made no sense; it was dropped.
    BadDatagram {
        /// The sender's address.
        from: SocketAddr,
        /// The problem with the datagram.
        problem: Arc<str>,
    },
    /// A child was lost or late, and its parent took over its subtree.
    Repaired {
        /// The wave.
        tag: crate::id::Tag,
        /// The child.
        child: NodeId,
        /// Why.
        reason: Reason,
    },
    /// A node took too long, and replicas were asked for its partitions too.
    Hedged {
        /// The wave.
        tag: crate::id::Tag,
        /// The node.
        node: NodeId,
        /// The partitions.
        partitions: crate::partitions::PartitionSet,
    },
    /// A child of a stream was abandoned, and its children got new parents.
    Orphans {
        /// The stream.
        stream: StreamId,
        /// The child.
        child: NodeId,
        /// How many children it had.
        orphans: usize,
        /// Why the child was abandoned.
        reason: Reason,
    },
    /// The members agree on another total of a service than before.
    TotalChanged {
        /// The service.
        service: Arc<str>,
        /// The total before.
        before: AgreedTotal,
        /// The total now.
        now: AgreedTotal,
    },
    /// A member's total of a service differs from the agreed one. Its partitions of the service are not used.
    TotalRefused {
        /// The member.
        from: NodeId,
        /// The service.
        service: Arc<str>,
        /// The total on its card.
        claim: AgreedTotal,
        /// The total that the members agree on.
        agreed: AgreedTotal,
    },
    /// No member reaches this node by UDP; membership uses connections.
    UdpBlocked {
        /// The number of other members.
        members: usize,
    },
    /// Members reach this node by UDP again.
    UdpOpen,
    /// A job has run far past its deadline.
    Stuck {
        /// The job.
        job: JobId,
    },
}
