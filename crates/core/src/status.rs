//! What a node says of itself and of what it sees.

use crate::id::NodeId;
use crate::load::figure::LoadFigure;
use crate::membership::card::MemberCard;
use crate::membership::service::AgreedTotal;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A node's view at a moment.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NodeStatus {
    /// Its own card.
    pub card: Arc<MemberCard>,
    /// Its own load.
    pub load: LoadFigure,
    /// What it has counted since it started.
    pub counters: Counters,
    /// What is open now.
    pub open: OpenWork,
    /// The other members in sight.
    pub members: Vec<MemberStatus>,
    /// The services that members provide, by name, with the total that they agree on.
    #[cfg_attr(feature = "serde", serde(default))]
    pub totals: Vec<TotalStatus>,
}

/// How many partitions a service has, as a node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TotalStatus {
    /// The service.
    pub service: String,
    /// What the members agree on.
    pub agreed: AgreedTotal,
    /// The members whose partitions of the service are not used, because their total differs.
    pub refused: Vec<RefusedTotal>,
}

/// A member whose total of a service differs from the agreed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RefusedTotal {
    /// The member.
    pub node: NodeId,
    /// The total on its card.
    pub claim: AgreedTotal,
}

/// Another member, as a node sees it.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MemberStatus {
    /// Its card.
    pub card: Arc<MemberCard>,
    /// Its load as last heard.
    pub load: LoadFigure,
    /// How old that is in milliseconds; `None` when nothing was ever heard.
    pub load_age_ms: Option<u64>,
}

/// Sizes of a node's tables now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OpenWork {
    /// Calls it is the front of.
    pub calls: usize,
    /// Waves it takes part in.
    pub waves: usize,
    /// Answered waves it keeps for repair.
    pub waves_kept: usize,
    /// Bytes of their partials.
    pub kept_bytes: usize,
    /// Bytes of partials and pushes waiting to be folded.
    pub held_bytes: usize,
    /// Jobs waiting for a processor.
    pub jobs_queued: usize,
    /// Jobs running.
    pub jobs_running: usize,
    /// Jobs given up that may hold a thread.
    pub jobs_stuck: usize,
    /// Streams that it takes part in, as their front-end or below it.
    pub streams: usize,
    /// Bytes of their packets: waiting for the rest of their wave, or sent up and not yet taken by the front-end's
    /// user.
    pub stream_bytes: usize,
    /// Workers of applications that are attached.
    pub workers: usize,
}

/// Sizes of the tables that [`OpenWork`] does not tell apart or leaves out, for whoever holds a node to its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSizes {
    /// Locals waiting for a processor.
    pub locals_queued: usize,
    /// The front's own waves: one for each of its calls, or for each slice of one.
    pub call_waves: usize,
    /// Locals that make slices, queued, running, or with slices that nobody has fetched.
    pub sliced_locals: usize,
    /// Folds waiting for one, those of waves that have ended included.
    pub folds_queued: usize,
    /// Requests of applications that are pushed for here, announced or not.
    pub push_requests: usize,
    /// Bytes of what was pushed for them and not asked for yet.
    pub early_bytes: usize,
    /// Nodes in the largest of the tables that remember something of each: loads, latencies, failures.
    pub peers_remembered: usize,
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts since the node started; each only grows.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub struct Counters { $($(#[$doc])* pub $name: u64,)* }

        impl Counters {
            /// Every counter with its name.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

counters! {
    /// Calls taken as front.
    calls_started,
    /// Calls answered in full.
    calls_full,
    /// Calls answered in part, at or above their minimum coverage.
    calls_partial,
    /// Calls that ended below their minimum coverage.
    calls_insufficient,
    /// Calls turned away.
    calls_rejected,
    /// Calls cancelled by the caller.
    calls_cancelled,
    /// Waves answered as a node of a tree.
    waves_answered,
    /// Waves refused: queue too long for the deadline, or a table full.
    waves_refused,
    /// Locals run.
    locals_run,
    /// Reductions run.
    reductions_run,
    /// Locals that failed or panicked.
    locals_failed,
    /// Partials dropped because they overlap what was merged, or hold more than was asked for.
    partials_overlapping,
    /// Partials dropped because their wave was answered or unknown.
    partials_late,
    /// Children taken over because they were lost or late.
    repairs,
    /// Retries on a replica.
    retries,
    /// Poll answers dropped because they came too late.
    polls_late,
    /// Messages and datagrams dropped as senseless.
    bad_messages,
    /// Replicas asked for what was late, while the first asked was still at work.
    hedges,
    /// Waves of streams sent up, or given to the user of a front-end here.
    stream_waves,
    /// Pieces of streams dropped because their wave was sent, or had them already.
    stream_pieces_late,
    /// Children of streams given up.
    stream_repairs,
    /// Pushes of applications' workers.
    pushes,
    /// Pushes that were here already.
    pushes_repeated,
    /// Pushes dropped for want of room, and asked for again.
    pushes_dropped,
}
