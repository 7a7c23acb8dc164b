//! What nodes say to each other over a connection. The wire's form of each is the driver's business.

use crate::call::{CallOptions, Outcome};
use crate::error::Missing;
use crate::id::{NodeId, Tag};
use crate::load::figure::{CostFigure, LoadFigure, LoadNews};
use crate::membership::card::MemberCard;
use crate::partitions::PartitionSet;
use crate::push::PushRequest;
use crate::push::message::PushMessage;
use crate::schedule::share::{ShareSetting, SharesReport};
use crate::stream::OperatorId;
use crate::time::Duration;
use crate::tree::Tree;
use crate::wave::slice::Slice;
use crate::wave::wait::Waiting;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What core needs to know of a payload: nothing but its size. Cloning must be cheap (a handle).
pub trait Payload: Clone + core::fmt::Debug {
    /// Its size in bytes.
    fn len(&self) -> usize;

    /// True for a payload of no bytes.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What drivers that really send have in hand: a counted slice of a buffer.
impl Payload for bytes::Bytes {
    fn len(&self) -> usize {
        Self::len(self)
    }
}

/// A message between two nodes, or between a client and its front.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Message<P> {
    /// Parent to child: take part in this wave.
    Call(Box<Call<P>>),
    /// Child to parent: what my subtree has.
    Partial(Box<Partial<P>>),
    /// Child to parent: I hold a partial of so many bytes; may I send it?
    Offer {
        /// The child's part in the wave.
        tag: Tag,
        /// The size of the payload offered.
        bytes: u64,
    },
    /// Parent to child: send what you offered.
    Grant {
        /// The child's part in the wave.
        tag: Tag,
    },
    /// Parent to child: nobody waits for your part any more; drop whatever you have of it.
    Cancel {
        /// The child's part in the wave.
        tag: Tag,
    },
    /// Client to front: make this call for me.
    Request(Box<Request<P>>),
    /// Front to client: here is how it went.
    Reply {
        /// The client's number of the request.
        id: u64,
        /// How it went.
        outcome: Box<Outcome<P>>,
    },
    /// Client to front: I no longer want it.
    CancelRequest {
        /// The client's number of the request.
        id: u64,
    },
    /// Every card the sender has of living members: for observers, and for cards that gossip can't bring.
    Cards(Vec<Arc<MemberCard>>),
    /// Asks for the cards.
    WantCards,
    /// About a stream.
    Stream(Box<crate::stream::message::StreamMessage<P>>),
    /// Between an application's worker and the node that it is attached to.
    Push(Box<PushMessage<P>>),
    /// Client to a node's driver, which answers it itself: keep this operator; or, without a payload, which have you?
    OperatorRequest {
        /// The client's number of the request.
        id: u64,
        /// An operator to keep.
        payload: Option<P>,
    },
    /// The answer.
    OperatorReply {
        /// The client's number of the request.
        id: u64,
        /// The operator kept, or all there are; or why it was not kept.
        result: Result<Vec<OperatorStatus>, Arc<str>>,
    },
    /// Client to a node: set these shares, and tell me what there are then; or, without any, only tell me.
    SharesRequest {
        /// The client's number of the request.
        id: u64,
        /// The shares; all hold from now on, or, when one of them can't be, none.
        settings: Vec<ShareSetting>,
    },
    /// The answer.
    SharesReply {
        /// The client's number of the request.
        id: u64,
        /// What each application is to have, and has had; or why shares are as they were.
        result: Result<Box<SharesReport>, Arc<str>>,
    },
    /// Anyone to a node: how are you?
    StatusRequest {
        /// The asker's number of the request.
        id: u64,
    },
    /// The answer.
    Status {
        /// The asker's number of the request.
        id: u64,
        /// What the node sees of itself and the cluster.
        status: Box<crate::status::NodeStatus>,
    },
}

/// An operator that a node's driver keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OperatorStatus {
    /// What it is called.
    pub id: OperatorId,
    /// What it is, in the words of whoever made something of its bytes.
    pub kind: Arc<str>,
    /// Its bytes.
    pub bytes: u64,
    /// How often a stream's filter was opened with it.
    pub uses: u64,
    /// Streams that use it now.
    pub streams: u32,
}

/// Asks a node to take part in a wave. For a tag it already knows, it changes parent and subtree only.
///
/// Fourteen fields, because the receiver knows nothing of the call but this message.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Call<P> {
    /// The receiver's part in the wave.
    pub tag: Tag,
    /// `service/aggregation`.
    pub name: Arc<str>,
    /// The aggregation's parameters; `None` when the receiver has them already.
    pub params: Option<P>,
    /// What is left until the caller must have its answer.
    pub deadline_left: Duration,
    /// What is left until the receiver must have answered its parent.
    pub answer_left: Duration,
    /// How the receiver sets its children's time.
    pub waiting: Waiting,
    /// How many partitions the call may lose before its answer is worth nothing.
    pub losses_max: u32,
    /// How many of the receiver's partitions its waiting rule may give up.
    pub spare: u32,
    /// True when replicas of what is late shall be asked as well.
    pub hedge: bool,
    /// The receiver's subtree, itself at the root.
    pub tree: Tree,
    /// True when the answer shall say how the time was spent at each node.
    pub explain: bool,
    /// True when the answer shall bear the load of each node that it comes from.
    pub loads_wanted: bool,
    /// Which part of the partials the wave carries.
    pub slice: Slice,
    /// Set when locals are not run but pushed.
    #[cfg_attr(feature = "serde", serde(default))]
    pub push: Option<PushRequest>,
}

/// What a child's subtree has to give. A child may send several for one wave, disjoint; the last says so.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Partial<P> {
    /// The sender's part in the wave.
    pub tag: Tag,
    /// The folded partial; `None` when there are no contributors.
    pub payload: Option<P>,
    /// Whose partials are folded into the payload.
    pub contributors: PartitionSet,
    /// What the subtree lost.
    pub missing: Vec<Missing>,
    /// True when nothing more of this subtree will come.
    pub last: bool,
    /// The sender's load now.
    pub load: LoadFigure,
    /// The loads of those below the sender, when they are wanted; on the last partial.
    pub loads: Vec<LoadNews>,
    /// What the aggregation has been costing the sender.
    pub cost: CostFigure,
    /// Relays below the sender that were given up in this wave; on the last partial.
    pub given_up: Vec<NodeId>,
    /// How the time was spent, when the call asked.
    pub report: Option<Box<Report>>,
}

/// How one node spent its time on a wave, and its children theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Report {
    /// The node.
    pub node: NodeId,
    /// Its rack, empty when unknown.
    pub rack: String,
    /// The partitions it was given.
    pub partitions: PartitionSet,
    /// From the call's arrival until its first job ran; nothing where it has no partitions.
    pub queue: Duration,
    /// Time in its locals, summed over partitions.
    pub local: Duration,
    /// Time in its reductions, summed.
    pub reduce: Duration,
    /// From its last own local's end until it answered.
    pub wait: Duration,
    /// From the call's arrival until it answered.
    pub total: Duration,
    /// Its children's reports, as far as they came.
    pub children: Vec<Report>,
}

/// A client's call, for its front to carry out.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Request<P> {
    /// The client's number of the request.
    pub id: u64,
    /// `service/aggregation`.
    pub name: Arc<str>,
    /// The aggregation's parameters.
    pub params: P,
    /// Deadline, coverage, shape and the rest.
    pub options: CallOptions,
}
