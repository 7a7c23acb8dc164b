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
///
/// Eleven fields, because a report has one figure for each table.
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

/// Counts since the node started; each only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Counters {
    /// Calls, as their front.
    pub calls: CallCounters,
    /// Waves, as a node of their trees.
    pub waves: WaveCounters,
    /// Poll answers dropped because they came too late.
    pub polls_late: u64,
    /// Messages and datagrams dropped as senseless.
    pub bad_messages: u64,
    /// Waves of streams sent up, or given to the user of a front-end here.
    pub stream_waves: u64,
    /// Pieces of streams dropped because their wave was sent, or had them already.
    pub stream_pieces_late: u64,
    /// Children of streams given up.
    pub stream_repairs: u64,
    /// Pushes of applications' workers.
    pub pushes: PushCounters,
}

/// Calls that this node has taken as their front, by their end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CallCounters {
    /// Calls taken.
    pub started: u64,
    /// Calls answered in full.
    pub full: u64,
    /// Calls answered in part, at or above their minimum coverage.
    pub partial: u64,
    /// Calls that ended below their minimum coverage.
    pub insufficient: u64,
    /// Calls turned away.
    pub rejected: u64,
    /// Calls cancelled by the caller.
    pub cancelled: u64,
}

/// Work of this node for waves of calls and pushes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WaveCounters {
    /// Waves answered.
    pub answered: u64,
    /// Waves refused: queue too long for the deadline, or a table full.
    pub refused: u64,
    /// Locals run.
    pub locals_run: u64,
    /// Reductions run.
    pub reductions_run: u64,
    /// Locals that failed or panicked.
    pub locals_failed: u64,
    /// Partials dropped because they overlap others that were folded, or hold more than was asked for.
    pub partials_overlapping: u64,
    /// Partials dropped because their wave was answered or unknown.
    pub partials_late: u64,
    /// Children taken over because they were lost or late.
    pub repairs: u64,
    /// Retries on a replica.
    pub retries: u64,
    /// Replicas asked for a late partial while the node that was asked first was still at work.
    pub hedges: u64,
}

/// Pushes of applications' workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PushCounters {
    /// Pushes taken.
    pub taken: u64,
    /// Pushes that were here already.
    pub repeated: u64,
    /// Pushes dropped for want of room, and asked for again.
    pub dropped: u64,
}

impl Counters {
    /// Every counter with its name in reports.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        // every field is named, so that a counter left out does not compile
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
