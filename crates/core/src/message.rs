//! Messages between nodes over a connection. Drivers define their wire format.

use crate::call::{CallOptions, Outcome};
use crate::error::Missing;
use crate::id::{NodeId, Tag};
use crate::load::figure::{CostFigure, LoadFigure, LoadNews, Took};
use crate::membership::card::MemberCard;
use crate::params::Params;
use crate::partitions::PartitionSet;
use crate::placement::{PlacementAsk, PlacementReport};
use crate::push::PushRequest;
use crate::push::message::PushMessage;
use crate::schedule::share::{ShareSetting, SharesReport};
use crate::stream::OperatorId;
use crate::time::Duration;
use crate::tree::Tree;
use crate::wave::slice::Slice;
use crate::wave::wait::Waiting;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A payload as core sees it: it has a size and nothing else. Cloning must be cheap (a handle).
pub trait Payload: Clone + core::fmt::Debug {
    /// The size in bytes.
    fn len(&self) -> usize;

    /// True if the payload has no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The payload of drivers that use sockets: a counted slice of a buffer.
impl Payload for bytes::Bytes {
    fn len(&self) -> usize {
        Self::len(self)
    }
}

/// A ready-made reduce that folds an aggregation's partials at any node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DeclaredReduce {
    /// `service/aggregation`.
    pub name: String,
    /// The reduce, by the name under which every node's driver has it.
    pub reduce: String,
    /// The reduce's parameters, if they are the same in every call.
    pub params: Vec<u8>,
    /// The field of each call's parameters that has the reduce's parameters; empty if none has.
    pub field: String,
}

/// A message between two nodes, or between a client and its front.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Message<P> {
    /// Parent to child: take part in this wave.
    Call(Box<Call<P>>),
    /// Child to parent: a partial of the child's subtree.
    Partial(Box<Partial<P>>),
    /// Child to parent: the child holds a partial of this size and asks whether to send it.
    Offer {
        /// The child's part in the wave.
        tag: Tag,
        /// The size of the payload offered.
        bytes: u64,
    },
    /// Parent to child: send the partial that was offered.
    Grant {
        /// The child's part in the wave.
        tag: Tag,
    },
    /// Parent to child: nothing waits for the child's part any longer; drop it.
    Cancel {
        /// The child's part in the wave.
        tag: Tag,
    },
    /// Client to front: make this call.
    Request(Box<Request<P>>),
    /// FrontEnd to client: the outcome of a call.
    Reply {
        /// The client's id of the request.
        id: u64,
        /// The outcome.
        outcome: Box<Outcome<P>>,
    },
    /// Client to front: cancel this call.
    CancelRequest {
        /// The client's id of the request.
        id: u64,
    },
    /// The cards of all living members that the sender knows: for observers, and for cards that gossip cannot
    /// carry.
    Cards(Cards),
    /// Asks for the cards.
    WantCards,
    /// A message of a stream.
    Stream(Box<crate::stream::message::StreamMessage<P>>),
    /// A message between an application's worker and the node that it is attached to.
    Push(Box<PushMessage<P>>),
    /// Client to a node's driver, which answers it itself: keep this operator, or list the operators if there
    /// is no payload.
    OperatorRequest {
        /// The client's id of the request.
        id: u64,
        /// The operator to keep.
        payload: Option<P>,
    },
    /// The answer to [`Message::OperatorRequest`].
    OperatorReply {
        /// The client's id of the request.
        id: u64,
        /// The operator kept, or all operators; or why it was not kept.
        result: Result<Vec<OperatorStatus>, Arc<str>>,
    },
    /// Node to a node whose call it has taken part in, between their drivers: send this operator, by which the call's wave is
    /// folded.
    OperatorWant {
        /// The operator.
        id: OperatorId,
    },
    /// The answer to [`Message::OperatorWant`].
    OperatorLent {
        /// The operator.
        id: OperatorId,
        /// The operator itself, not yet checked against the id; `None` if the sender does not have it.
        payload: Option<P>,
    },
    /// Node to a member with services, between their drivers: how are their partials folded?
    ReducesWant,
    /// The answer to [`Message::ReducesWant`].
    Reduces {
        /// The aggregations whose reduces are ready-made.
        reduces: Vec<DeclaredReduce>,
    },
    /// Client to a node: set these shares and report all shares; if the list is empty, only report them.
    SharesRequest {
        /// The client's id of the request.
        id: u64,
        /// The new shares. All of them take effect, or none if one of them is invalid.
        settings: Vec<ShareSetting>,
    },
    /// The answer to [`Message::SharesRequest`].
    SharesReply {
        /// The client's id of the request.
        id: u64,
        /// Each application's share and usage; or why the shares did not change.
        result: Result<Box<SharesReport>, Arc<str>>,
    },
    /// Asks a node for its status.
    StatusRequest {
        /// The sender's id of the request.
        id: u64,
    },
    /// The answer to [`Message::StatusRequest`].
    Status {
        /// The sender's id of the request.
        id: u64,
        /// The node's view of itself and the cluster.
        status: Box<crate::status::NodeStatus>,
    },
    /// Member to member: a datagram of gossip, because none gets through by UDP.
    Gossip {
        /// The datagram, as membership has written it.
        datagram: Vec<u8>,
    },
    /// Client to a node: do what an operator asks for, and report the placement of partitions there.
    PlacementRequest {
        /// The client's id of the request.
        id: u64,
        /// The operator's request.
        ask: PlacementAsk,
    },
    /// The answer to [`Message::PlacementRequest`].
    PlacementReply {
        /// The client's id of the request.
        id: u64,
        /// The placement at the node; or why nothing has changed.
        result: Result<Box<PlacementReport>, Arc<str>>,
    },
}

/// The members that a node knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Cards {
    /// The cards of living members.
    pub cards: Vec<Arc<MemberCard>>,
    /// Numbers of partitions of services of which no living member has one any more, by name.
    #[cfg_attr(feature = "serde", serde(default))]
    pub totals: BTreeMap<String, u32>,
}

impl From<Vec<Arc<MemberCard>>> for Cards {
    fn from(cards: Vec<Arc<MemberCard>>) -> Self {
        Self { cards, ..Self::default() }
    }
}

/// An operator that a node's driver keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OperatorStatus {
    /// Its id.
    pub id: OperatorId,
    /// Its kind, in the words of the code that loaded it.
    pub kind: Arc<str>,
    /// Its size in bytes.
    pub bytes: u64,
    /// How often a stream's filter was opened with it.
    pub uses: u64,
    /// Streams that use it now.
    pub streams: u32,
}

/// Asks a node to take part in a wave. For a known tag, it changes only the parent and the subtree.
///
/// Fourteen fields, because the receiver knows nothing about the call except this message.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Call<P> {
    /// The receiver's part in the wave.
    pub tag: Tag,
    /// `service/aggregation`.
    pub name: Arc<str>,
    /// The aggregation's parameters; `None` if the receiver has them already.
    pub params: Option<Params<P>>,
    /// When answers are due.
    pub times: CallTimes,
    /// The rule by which the receiver sets its children's time.
    pub waiting: Waiting,
    /// How many partitions the call may lose before its answer is worth nothing.
    pub losses_max: u32,
    /// How many of the receiver's partitions its waiting rule may abandon.
    pub spare: u32,
    /// True if the receiver must also ask replicas of nodes that take longer than the 95th percentile.
    pub hedge: bool,
    /// The receiver's subtree, with the receiver at the root.
    pub tree: Tree,
    /// True if the answer must report how the time was spent at each node.
    pub explain: bool,
    /// True if the answer must carry the load of each node that contributed to it.
    pub loads_wanted: bool,
    /// The part of the partials that the wave carries.
    pub slice: Slice,
    /// Set if workers push the locals' results, instead of this node running locals.
    #[cfg_attr(feature = "serde", serde(default))]
    pub push: Option<PushRequest>,
    /// Of the origin's waves, this many may be open, up to this one: all earlier ones have ended. 0 if it is not known.
    #[cfg_attr(feature = "serde", serde(default))]
    pub in_flight: u32,
    /// True if the sender cannot fold. It then needs one partial of the whole subtree, and the receiver does what a parent
    /// would: it asks replicas for partitions of its own that it loses.
    #[cfg_attr(feature = "serde", serde(default))]
    pub whole: bool,
}

/// When the receiver of a [`Call`] must answer.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CallTimes {
    /// Time left until the caller must have its answer.
    pub deadline_left: Duration,
    /// Time left until the receiver must have answered its parent.
    pub answer_left: Duration,
    /// When the receiver must send its first sign of life, if it has no answer yet. `None` if it is not known how long such
    /// answers take; then after a share of its time.
    #[cfg_attr(feature = "serde", serde(default))]
    pub sign_after: Option<Duration>,
}

/// A partial of a child's subtree. A child may send several disjoint ones for one wave; the last is marked.
///
/// Twelve fields, because a message is flat: each field is one of the header's.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Partial<P> {
    /// The sender's part in the wave.
    pub tag: Tag,
    /// The folded partial; `None` if there are no contributors.
    pub payload: Option<P>,
    /// The partitions whose partials are folded into the payload.
    pub contributors: PartitionSet,
    /// Partitions that the subtree lost.
    pub missing: Vec<Missing>,
    /// True if nothing more will come from this subtree.
    pub last: bool,
    /// The sender's load now.
    pub load: LoadFigure,
    /// The elapsed time of one of the sender's locals in this wave, if the call wants loads; on the last partial.
    pub own: Option<Took>,
    /// The time from the sender's receipt of the call to this partial, without that in which it knows it was not served, if
    /// the call wants loads; on the last partial.
    pub served: Option<Duration>,
    /// The loads of the nodes below the sender, if the call wants them; on the last partial.
    pub loads: Vec<LoadNews>,
    /// The measured costs of the aggregation at the sender.
    pub cost: CostFigure,
    /// Relays below the sender that were abandoned in this wave; on the last partial.
    pub given_up: Vec<NodeId>,
    /// How the time was spent, if the call asked for it.
    pub report: Option<Box<Report>>,
}

/// The most replaced nodes that a report names.
pub const REPLACED_MAX: usize = 16;

/// How one node, and each of its children, spent its time on a wave.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Report {
    /// The node.
    pub node: NodeId,
    /// The node's rack; empty if unknown.
    pub rack: String,
    /// The partitions that the node was given.
    pub partitions: PartitionSet,
    /// From the call's arrival until the node's first job ran; zero if it has no partitions.
    #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
    pub queue: core::time::Duration,
    /// Time in the node's locals, summed over partitions.
    #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
    pub local: core::time::Duration,
    /// Time in the node's reductions, summed.
    #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
    pub reduce: core::time::Duration,
    /// From the end of the node's last local until it answered.
    #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
    pub wait: core::time::Duration,
    /// From the call's arrival until the node answered.
    #[cfg_attr(feature = "serde", serde(with = "crate::time::nanos"))]
    pub total: core::time::Duration,
    /// Nodes in whose place the node asked others, because they were slow, late or lost; up to [`REPLACED_MAX`].
    #[cfg_attr(feature = "serde", serde(default))]
    pub replaced: Vec<NodeId>,
    /// The reports of the node's children that arrived.
    pub children: Vec<Report>,
}

/// A client's call, which its front makes.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Request<P> {
    /// The client's id of the request.
    pub id: u64,
    /// `service/aggregation`.
    pub name: Arc<str>,
    /// The aggregation's parameters.
    pub params: Params<P>,
    /// Deadline, coverage, shape and the rest.
    pub options: CallOptions,
}
