//! Everything a node can want done. Together with [`crate::input::Input`], the whole boundary of core.

use crate::call::Outcome;
use crate::error::Reason;
use crate::id::{JobId, NodeId, PartitionId, RequestId};
use crate::membership::card::MemberCard;
use crate::membership::service::AgreedTotal;
use crate::message::Message;
use crate::schedule::share::SharesReport;
use crate::status::NodeStatus;
use crate::stream::spec::{EndpointEvent, FilterRun, Source, StreamEvent};
use crate::stream::{OperatorId, StreamId, StreamSpec};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// One thing to do.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Effect<P> {
    /// Send a message; connect first if need be. When that fails, [`crate::input::Input::Lost`].
    Send {
        /// To whom.
        to: NodeId,
        /// What.
        message: Message<P>,
    },
    /// Send a datagram; it may be lost.
    Datagram {
        /// Where to.
        to: SocketAddr,
        /// What, without the driver's envelope.
        bytes: Vec<u8>,
    },
    /// Open a connection to an address whose generation is not known yet (a seed).
    Connect {
        /// Where to.
        addr: SocketAddr,
    },
    /// The peer is gone for good; its connection can be closed.
    Disconnect {
        /// Who.
        peer: NodeId,
    },
    /// Run an operator and answer with [`crate::input::Input::JobDone`].
    Run(Job<P>),
    /// The job will never be waited for again. If it is still running, its worker is to be replaced.
    Abandon {
        /// Which.
        job: JobId,
        /// True when the job held a processor past all patience: start another worker in its place.
        replace_worker: bool,
    },
    /// Something about a stream's filter.
    Filter(FilterEffect<P>),
    /// Tell the driver's user.
    Deliver(Event<P>),
    /// Something worth a line in the log.
    Trace(TracePoint),
}

/// What is to be done with a stream's filter at this node. In this order: what is said of one stream's filter is
/// done before what is said of it next.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum FilterEffect<P> {
    /// Make it, in place of one that there may be, and answer with [`crate::input::Input::FilterOpened`]; or with
    /// [`crate::input::Input::Operator`] when an operator is lacking for it.
    Open {
        /// The stream.
        stream: StreamId,
        /// The filters' names and parameters.
        spec: Arc<StreamSpec<P>>,
    },
    /// Run it and answer with [`crate::input::Input::Filtered`].
    Run(FilterRun<P>),
    /// A source is there, from the next wave on or a later one. Said before the first run that may have something of
    /// it, and before it is named as an heir; again when the filter is made anew.
    Joined {
        /// The stream.
        stream: StreamId,
        /// Who comes.
        source: Source,
    },
    /// One source gives nothing more, and others come in its place.
    Replaced {
        /// The stream.
        stream: StreamId,
        /// Who is lost.
        lost: Source,
        /// Who comes.
        heirs: Vec<Source>,
    },
    /// The run will not be waited for, and the filter is lost with it. Once it is over all the same, or will never
    /// begin, core is to hear of it by [`crate::input::Input::Filtered`] like of any other, unless it ran on the
    /// driver's loop.
    Abandon {
        /// The stream.
        stream: StreamId,
        /// Which run.
        run: u64,
        /// True when another worker is to be started in the place of one that is at it.
        replace_worker: bool,
    },
    /// Drop it.
    Close {
        /// The stream.
        stream: StreamId,
    },
    /// Give this operator to others in the stream: answer with [`OperatorNews::Lent`].
    ///
    /// [`OperatorNews::Lent`]: crate::stream::operator::OperatorNews::Lent
    Lend {
        /// The stream.
        stream: StreamId,
        /// The operator.
        id: OperatorId,
    },
    /// An operator has come that was lacking: look whether it is what its name says, keep it, and answer with
    /// [`OperatorNews::Kept`].
    ///
    /// [`OperatorNews::Kept`]: crate::stream::operator::OperatorNews::Kept
    Keep {
        /// The operator.
        id: OperatorId,
        /// What it is said to be.
        payload: P,
    },
}

/// Operator work for the driver.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Job<P> {
    /// Its number.
    pub id: JobId,
    /// Which of the registered aggregations: its place in [`crate::config::NodeConfig::kinds`].
    pub kind: u32,
    /// What to do.
    pub work: Work<P>,
    /// Where to do it.
    pub place: Place,
}

/// What a job does.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Work<P> {
    /// One partition's partial.
    Local {
        /// The partition.
        partition: PartitionId,
        /// The aggregation's parameters.
        params: P,
    },
    /// One partition's partial, cut into slices; answered with [`crate::input::Input::SlicesDone`].
    Slices {
        /// The partition.
        partition: PartitionId,
        /// How many slices.
        of: u32,
        /// The aggregation's parameters.
        params: P,
    },
    /// The slices of a value, joined.
    Join {
        /// All of them, in order.
        parts: Vec<P>,
        /// The aggregation's parameters.
        params: P,
    },
    /// Two partials into one.
    Reduce {
        /// One.
        a: P,
        /// The other.
        b: P,
        /// The aggregation's parameters.
        params: P,
    },
}

/// Where a job runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Place {
    /// At once, on the driver's loop: it takes microseconds.
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
    /// A call is over.
    CallDone {
        /// The driver's name for it.
        request: RequestId,
        /// How it went.
        outcome: Box<Outcome<P>>,
    },
    /// The answer to a status command.
    Status {
        /// The driver's name for it.
        request: RequestId,
        /// What the node sees.
        status: Box<NodeStatus>,
    },
    /// The answer to a command about shares.
    Shares {
        /// The driver's name for it.
        request: RequestId,
        /// What each application is to have, and has had; or why shares are as they were.
        result: Result<Box<SharesReport>, Arc<str>>,
    },
    /// News of a stream that this node's user opened.
    Stream {
        /// The driver's name for it.
        request: RequestId,
        /// What is new.
        event: Box<StreamEvent<P>>,
    },
    /// News for an endpoint that lives here.
    Endpoint {
        /// The stream.
        stream: StreamId,
        /// The endpoint.
        endpoint: u32,
        /// What is new.
        event: EndpointEvent<P>,
    },
    /// A member is there, or its card has changed.
    MemberUp(Arc<MemberCard>),
    /// A member is gone.
    MemberDown(NodeId),
    /// After [`crate::input::Command::Leave`]: nothing is open any more.
    Drained,
}

/// A point worth a line in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum TracePoint {
    /// A peer sent what makes no sense; it was dropped.
    BadMessage {
        /// Who.
        from: NodeId,
        /// What about it.
        problem: Arc<str>,
    },
    /// A datagram made no sense; it was dropped.
    BadDatagram {
        /// From where.
        from: SocketAddr,
        /// What about it.
        problem: Arc<str>,
    },
    /// A child was lost or late, and its subtree was taken over.
    Repaired {
        /// The wave.
        tag: crate::id::Tag,
        /// The child.
        child: NodeId,
        /// Why.
        reason: Reason,
    },
    /// A child of a stream was given up, and its children were found new parents.
    Orphans {
        /// The stream.
        stream: StreamId,
        /// The child.
        child: NodeId,
        /// How many children it had.
        orphans: usize,
        /// Why it was given up.
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
    /// A member's total of a service differs from the agreed one: its partitions of the service are not used.
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
    /// A job outlived all patience.
    Stuck {
        /// Which.
        job: JobId,
    },
}
