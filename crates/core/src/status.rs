//! A node's report about itself and about the cluster as it sees it.

use crate::id::NodeId;
use crate::load::figure::LoadFigure;
use crate::membership::card::MemberCard;
use crate::membership::service::AgreedTotal;
use crate::stream::traffic::StreamTraffic;
use crate::time::Duration;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Most streams in a report: the oldest ones, by the front-end's name and number.
pub const STREAMS_SHOWN_MAX: usize = 64;

/// Most slow nodes in a report: the first ones by aggregation and name.
pub const SLOW_SHOWN_MAX: usize = 64;

/// A node's view at one moment.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct NodeStatus {
    /// The node's card.
    pub card: Arc<MemberCard>,
    /// The node's load.
    pub load: LoadFigure,
    /// Counts since the node started.
    pub counters: Counters,
    /// Work that is open now.
    pub open: OpenWork,
    /// The other members in sight.
    pub members: Vec<MemberStatus>,
    /// The services that members provide, by name, with the total that the members agree on.
    #[cfg_attr(feature = "serde", serde(default))]
    pub totals: Vec<TotalStatus>,
    /// True if members reach the node over connections, and none by UDP.
    #[cfg_attr(feature = "serde", serde(default))]
    pub unreached_by_udp: bool,
    /// Streams that the node takes part in, at most [`STREAMS_SHOWN_MAX`].
    #[cfg_attr(feature = "serde", serde(default))]
    pub streams: Vec<StreamStatus>,
    /// Nodes that this node passes over because they take longer than others, at most [`SLOW_SHOWN_MAX`].
    #[cfg_attr(feature = "serde", serde(default))]
    pub slow: Vec<SlowNode>,
    /// Facts about the node's process. Core leaves them empty, and the driver fills them in.
    #[cfg_attr(feature = "serde", serde(default))]
    pub process: ProcessFacts,
}

/// Facts about a node's process that core cannot know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ProcessFacts {
    /// Version of the build; empty if the node does not report it.
    pub build: String,
    /// The node's wall clock, in milliseconds of Unix time; 0 if the node does not report it.
    pub unix_ms: u64,
}

/// A node that takes longer than others, as a front sees it ([`crate::load::speed`]).
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SlowNode {
    /// The node.
    pub node: NodeId,
    /// The aggregation; empty for a relay that is slow beside the others of its place.
    pub aggregation: Arc<str>,
    /// The mean of its recent times.
    pub time: Duration,
    /// The usual time of the nodes that it is compared with.
    pub usual: Duration,
    /// For how long it has been slow.
    pub lasts: Duration,
}

/// A stream that a node takes part in, as the node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct StreamStatus {
    /// The service whose partitions are the endpoints.
    pub service: Arc<str>,
    /// Name of the filter on the way up; empty if packets go up unchanged.
    pub up_filter: Arc<str>,
    /// True if the node is the front-end.
    pub is_front: bool,
    /// The node's children that take part.
    pub children: u32,
    /// Endpoints on this node and below it.
    pub endpoints: u32,
    /// Endpoints among them that this node has given up.
    pub away: u32,
    /// Bytes of packets that wait for the rest of their wave, or that were sent up and are not settled.
    pub held_bytes: u64,
    /// Packets, bytes and filter runs since the node joined the stream.
    #[cfg_attr(feature = "serde", serde(default))]
    pub traffic: StreamTraffic,
}

/// How many partitions a service has, as a node sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TotalStatus {
    /// The service.
    pub service: String,
    /// The total that the members agree on.
    pub agreed: AgreedTotal,
    /// The members whose partitions of the service are not used because their total differs.
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
    /// The member's load as last received.
    pub load: LoadFigure,
    /// The age of that figure in milliseconds; `None` if none was ever received.
    pub load_age_ms: Option<u64>,
}

/// The present sizes of a node's tables.
///
/// Eleven fields, because the report has one figure for each table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OpenWork {
    /// Calls of which the node is the front.
    pub calls: usize,
    /// Waves it takes part in.
    pub waves: usize,
    /// Answered waves kept for repair.
    pub waves_kept: usize,
    /// Bytes of the partials of kept waves.
    pub kept_bytes: usize,
    /// Bytes of partials and pushes waiting to be folded.
    pub held_bytes: usize,
    /// Jobs waiting for a processor.
    pub jobs_queued: usize,
    /// Jobs running.
    pub jobs_running: usize,
    /// Abandoned jobs that may still hold a thread.
    pub jobs_stuck: usize,
    /// Streams that the node takes part in, as the front-end or below it.
    pub streams: usize,
    /// Bytes of the streams' packets that wait for the rest of their wave, or that were sent up and that the
    /// front-end's user has not taken.
    pub stream_bytes: usize,
    /// Attached workers of applications.
    pub workers: usize,
}

/// Sizes of tables that [`OpenWork`] sums up or leaves out, for checks of a node's limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSizes {
    /// Locals waiting for a processor.
    pub locals_queued: usize,
    /// Waves of this node's calls: one for each call, or one for each slice of a sliced call.
    pub call_waves: usize,
    /// Locals that make slices: queued, running, or with slices that no wave has fetched.
    pub sliced_locals: usize,
    /// Folds waiting for a processor, including folds of ended waves.
    pub folds_queued: usize,
    /// Requests of applications for which workers push here, announced or not.
    pub push_requests: usize,
    /// Bytes that were pushed for requests that are not announced yet.
    pub early_bytes: usize,
    /// Entries of the largest table that remembers data about other nodes: loads, latencies, failures.
    pub peers_remembered: usize,
}

/// Counts since the node started. They never decrease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Counters {
    /// Calls, at their front.
    pub calls: CallCounters,
    /// Waves, at a node of their trees.
    pub waves: WaveCounters,
    /// Poll answers dropped because they were late.
    pub polls_late: u64,
    /// Messages and datagrams dropped because they made no sense.
    pub bad_messages: u64,
    /// Waves of streams sent up, or given to the user of a front-end on this node.
    pub stream_waves: u64,
    /// Pieces of streams dropped because their wave had been sent, or had them already.
    pub stream_pieces_late: u64,
    /// Abandoned children of streams.
    pub stream_repairs: u64,
    /// Pushes of applications' workers.
    pub pushes: PushCounters,
}

/// Calls that this node accepted as their front, by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CallCounters {
    /// Calls accepted.
    pub started: u64,
    /// Calls answered in full.
    pub full: u64,
    /// Calls answered in part, at or above their minimum coverage.
    pub partial: u64,
    /// Calls that ended below their minimum coverage.
    pub insufficient: u64,
    /// Calls rejected.
    pub rejected: u64,
    /// Calls cancelled by the caller.
    pub cancelled: u64,
}

/// This node's work for waves of calls and pushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WaveCounters {
    /// Waves answered.
    pub answered: u64,
    /// Waves refused because the queue was too long for the deadline, or a table was full.
    pub refused: u64,
    /// Locals run.
    pub locals_run: u64,
    /// Reductions run.
    pub reductions_run: u64,
    /// Locals that failed or panicked.
    pub locals_failed: u64,
    /// Partials dropped because they overlapped partials that were folded, or contained partitions that were
    /// not asked for.
    pub partials_overlapping: u64,
    /// Partials dropped because their wave was answered or unknown.
    pub partials_late: u64,
    /// Lost or late children whose subtrees were taken over.
    pub repairs: u64,
    /// Retries on a replica.
    pub retries: u64,
    /// Replicas asked for a late partial while the first node was still at work.
    pub hedges: u64,
}

/// Pushes of applications' workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PushCounters {
    /// Pushes accepted.
    pub taken: u64,
    /// Pushes that were already here.
    pub repeated: u64,
    /// Pushes dropped because there was no room, and requested again.
    pub dropped: u64,
}

impl Counters {
    /// Every counter with its name in reports.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        // Every field is named, so that code that leaves out a counter does not compile.
        let Self {
            calls,
            waves,
            polls_late,
            bad_messages,
            stream_waves,
            stream_pieces_late,
            stream_repairs,
            pushes,
        } = *self;
        let CallCounters { started, full, partial, insufficient, rejected, cancelled } = calls;
        let WaveCounters {
            answered,
            refused,
            locals_run,
            reductions_run,
            locals_failed,
            partials_overlapping,
            partials_late,
            repairs,
            retries,
            hedges,
        } = waves;
        let PushCounters { taken, repeated, dropped } = pushes;
        [
            ("calls_started", started),
            ("calls_full", full),
            ("calls_partial", partial),
            ("calls_insufficient", insufficient),
            ("calls_rejected", rejected),
            ("calls_cancelled", cancelled),
            ("waves_answered", answered),
            ("waves_refused", refused),
            ("locals_run", locals_run),
            ("reductions_run", reductions_run),
            ("locals_failed", locals_failed),
            ("partials_overlapping", partials_overlapping),
            ("partials_late", partials_late),
            ("repairs", repairs),
            ("retries", retries),
            ("polls_late", polls_late),
            ("bad_messages", bad_messages),
            ("hedges", hedges),
            ("stream_waves", stream_waves),
            ("stream_pieces_late", stream_pieces_late),
            ("stream_repairs", stream_repairs),
            ("pushes", taken),
            ("pushes_repeated", repeated),
            ("pushes_dropped", dropped),
        ]
        .into_iter()
    }
}
