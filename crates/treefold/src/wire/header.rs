//! Every frame's header as a protobuf message, as in `docs/protocol.proto`. Change both, and only by adding fields.
//!
//! Trees, reports and services are *columns*: one packed row per property instead of one message per seat. A
//! seat then costs no tag, no length and no allocation, and a subtree of 64 seats is read in about a
//! microsecond. The code derived here treats columns of `uint32` as bytes, as [`super::columns`] explains.
//! Enumerations are plain numbers here and are interpreted where they are read, so that an unknown value is a
//! typed error instead of a default.

mod status;
mod waves;

pub(super) use status::{OpenStreamHeader, SlowHeader, StatusHeader};
pub(super) use waves::{CallHeader, OwnParamsHeader, PartialHeader};

/// `Hello`. Its form is the same in every version.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct HelloHeader {
    #[prost(uint32, tag = "1")]
    pub(super) version: u32,
    #[prost(uint32, tag = "2")]
    pub(super) version_least: u32,
    #[prost(string, tag = "3")]
    pub(super) cluster: String,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) node: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) seal: Vec<u8>,
    #[prost(bool, tag = "6")]
    pub(super) by_launcher: bool,
    #[prost(fixed64, tag = "7")]
    pub(super) dial: u64,
    #[prost(fixed64, tag = "8")]
    pub(super) asks: u64,
    #[prost(uint32, tag = "9")]
    pub(super) trees: u32,
    #[prost(bool, tag = "10")]
    pub(super) reduce_params: bool,
}

/// `Fault`. Its form is the same in every version.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FaultHeader {
    #[prost(uint32, tag = "1")]
    pub(super) code: u32,
    #[prost(string, tag = "2")]
    pub(super) field: String,
    #[prost(uint64, tag = "3")]
    pub(super) limit: u64,
}

/// `Keys`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct KeysHeader {
    #[prost(message, repeated, tag = "1")]
    pub(super) keys: Vec<KeyHeader>,
}

/// `Renewal`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RenewalHeader {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(super) chain: Vec<Vec<u8>>,
    #[prost(uint32, tag = "2")]
    pub(super) scheme: u32,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) signature: Vec<u8>,
}

/// A key of datagrams, in `Keys`. Its `Debug` shows the secret: do not log it.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct KeyHeader {
    #[prost(uint64, tag = "1")]
    pub(super) epoch: u64,
    #[prost(fixed64, tag = "2")]
    pub(super) id: u64,
    #[prost(bool, tag = "3")]
    pub(super) polls_only: bool,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) secret: Vec<u8>,
}

/// `Launch`. The value of `what` decides which other fields have a meaning.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct LaunchHeader {
    #[prost(uint32, tag = "1")]
    pub(super) what: u32,
    #[prost(message, repeated, tag = "2")]
    pub(super) started: Vec<StartedHeader>,
    #[prost(message, repeated, tag = "3")]
    pub(super) failed: Vec<FailedHeader>,
    #[prost(message, optional, tag = "4")]
    pub(super) assignment: Option<AssignmentHeader>,
    #[prost(string, tag = "5")]
    pub(super) text: String,
}

/// A process that is up, in `Launch`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct StartedHeader {
    #[prost(string, tag = "1")]
    pub(super) place: String,
    #[prost(message, optional, tag = "2")]
    pub(super) card: Option<CardHeader>,
}

/// A process that could not be started or has ended, in `Launch`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct FailedHeader {
    #[prost(string, tag = "1")]
    pub(super) place: String,
    #[prost(string, tag = "2")]
    pub(super) what: String,
    #[prost(string, repeated, tag = "3")]
    pub(super) last_words: Vec<String>,
}

/// The processes that the receiver must start, in `Launch`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct AssignmentHeader {
    #[prost(string, tag = "1")]
    pub(super) part: String,
    #[prost(uint32, tag = "2")]
    pub(super) first: u32,
    #[prost(uint32, tag = "3")]
    pub(super) total: u32,
    #[prost(string, tag = "4")]
    pub(super) root: String,
    #[prost(uint32, tag = "5")]
    pub(super) launcher: u32,
    #[prost(string, repeated, tag = "6")]
    pub(super) ssh: Vec<String>,
    #[prost(string, repeated, tag = "7")]
    pub(super) inner: Vec<String>,
    #[prost(string, repeated, tag = "8")]
    pub(super) back_end: Vec<String>,
    #[prost(string, tag = "9")]
    pub(super) remote_program: String,
    #[prost(uint64, tag = "10")]
    pub(super) time_left_us: u64,
}

/// The payload field of a frame with [`super::frame::FLAG_CHUNKED`].
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Announcement {
    #[prost(uint32, tag = "1")]
    pub(super) stream: u32,
    #[prost(uint64, tag = "2")]
    pub(super) bytes: u64,
}

/// `Chunk`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct ChunkHeader {
    #[prost(uint32, tag = "1")]
    pub(super) stream: u32,
}

/// `OperatorReply`: either a problem or a list of operators.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OperatorReplyHeader {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(string, optional, tag = "2")]
    pub(super) problem: Option<String>,
    #[prost(message, repeated, tag = "3")]
    pub(super) operators: Vec<OperatorHeader>,
}

/// `OperatorWant` and `OperatorLent`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OperatorWantHeader {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) operator: Vec<u8>,
}

/// `Reduces`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ReducesHeader {
    #[prost(message, repeated, tag = "1")]
    pub(super) reduces: Vec<DeclaredReduceHeader>,
}

/// A ready-made reduce of an aggregation, in `Reduces`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct DeclaredReduceHeader {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(string, tag = "2")]
    pub(super) reduce: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) params: Vec<u8>,
    #[prost(string, tag = "4")]
    pub(super) field: String,
}

/// An operator that a node has received.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct OperatorHeader {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) id: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(super) kind: String,
    #[prost(uint64, tag = "3")]
    pub(super) bytes: u64,
    #[prost(uint64, tag = "4")]
    pub(super) uses: u64,
    #[prost(uint32, tag = "5")]
    pub(super) streams: u32,
}

/// `SharesRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SharesRequestHeader {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(message, repeated, tag = "2")]
    pub(super) settings: Vec<ShareHeader>,
}

/// A share to set, in `SharesRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ShareHeader {
    #[prost(string, tag = "1")]
    pub(super) service: String,
    #[prost(double, tag = "2")]
    pub(super) share: f64,
    #[prost(uint32, tag = "3")]
    pub(super) class: u32,
}

/// `SharesReply`: either a problem or the accounts.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SharesReplyHeader {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(string, optional, tag = "2")]
    pub(super) problem: Option<String>,
    #[prost(uint32, tag = "3")]
    pub(super) processors: u32,
    #[prost(uint64, tag = "4")]
    pub(super) uptime_ns: u64,
    #[prost(uint64, tag = "5")]
    pub(super) window_ns: u64,
    #[prost(message, repeated, tag = "6")]
    pub(super) services: Vec<ServiceAccountHeader>,
}

/// The share and the consumption of one application, in `SharesReply`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ServiceAccountHeader {
    #[prost(string, tag = "1")]
    pub(super) service: String,
    #[prost(double, tag = "2")]
    pub(super) share: f64,
    #[prost(uint32, tag = "3")]
    pub(super) class: u32,
    #[prost(uint64, tag = "4")]
    pub(super) used_ns: u64,
    #[prost(uint64, tag = "5")]
    pub(super) recent_ns: u64,
    #[prost(uint64, tag = "6")]
    pub(super) jobs_done: u64,
    #[prost(uint64, tag = "7")]
    pub(super) jobs_queued: u64,
    #[prost(uint64, tag = "8")]
    pub(super) queued_ns: u64,
    #[prost(uint64, tag = "9")]
    pub(super) refused: u64,
    #[prost(uint64, tag = "10")]
    pub(super) held_bytes: u64,
    #[prost(uint64, tag = "11")]
    pub(super) held_bytes_max: u64,
}

/// `PlacementRequest`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PlacementRequestHeader {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(uint32, tag = "2")]
    pub(super) ask: u32,
    #[prost(string, tag = "3")]
    pub(super) service: String,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) partitions: Vec<u8>,
}

/// `PlacementReply`: either a problem or a report.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PlacementReplyHeader {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(string, optional, tag = "2")]
    pub(super) problem: Option<String>,
    #[prost(bool, tag = "3")]
    pub(super) draining: bool,
    #[prost(bool, tag = "4")]
    pub(super) is_calm: bool,
    #[prost(message, repeated, tag = "5")]
    pub(super) services: Vec<ServicePlacementHeader>,
}

/// The placement of one service, in `PlacementReply`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ServicePlacementHeader {
    #[prost(string, tag = "1")]
    pub(super) service: String,
    #[prost(uint32, tag = "2")]
    pub(super) total: u32,
    #[prost(uint32, tag = "3")]
    pub(super) replicas: u32,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) run_counts: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) runs: Vec<u8>,
    #[prost(message, repeated, tag = "6")]
    pub(super) failures: Vec<LoadFailureHeader>,
}

/// A partition that a node could not load, in `PlacementReply`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct LoadFailureHeader {
    #[prost(uint32, tag = "1")]
    pub(super) partition: u32,
    #[prost(uint32, tag = "2")]
    pub(super) tries: u32,
    #[prost(string, tag = "3")]
    pub(super) reason: String,
}

/// Partitions that are missing, in `Partial` and `Reply`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MissingHeader {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) partitions: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) node: Vec<u8>,
    #[prost(uint32, tag = "3")]
    pub(super) reason: u32,
    #[prost(string, tag = "4")]
    pub(super) detail: String,
}

/// Time spent at each node, in preorder, in `Partial` and `Reply`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ReportColumns {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) sizes: Vec<u8>,
    #[prost(uint32, tag = "2")]
    pub(super) family: u32,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) nodes: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) run_counts: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) runs: Vec<u8>,
    #[prost(string, repeated, tag = "6")]
    pub(super) racks: Vec<String>,
    #[prost(uint64, repeated, tag = "7")]
    pub(super) times_ns: Vec<u64>,
    #[prost(bytes = "vec", tag = "8")]
    pub(super) replaced_counts: Vec<u8>,
    #[prost(uint32, tag = "9")]
    pub(super) replaced_family: u32,
    #[prost(bytes = "vec", tag = "10")]
    pub(super) replaced: Vec<u8>,
}

/// `Offer`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct OfferHeader {
    #[prost(uint64, tag = "1")]
    pub(super) bytes: u64,
}

/// `CancelRequest` and `StatusRequest`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct NumberHeader {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
}

/// `Request`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RequestHeader {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(string, tag = "2")]
    pub(super) name: String,
    #[prost(uint64, tag = "3")]
    pub(super) deadline_us: u64,
    #[prost(double, tag = "4")]
    pub(super) min_coverage: f64,
    #[prost(string, tag = "5")]
    pub(super) shape: String,
    #[prost(string, tag = "6")]
    pub(super) policy: String,
    #[prost(uint32, tag = "7")]
    pub(super) waiting: u32,
    #[prost(bool, tag = "8")]
    pub(super) explain: bool,
    #[prost(bool, tag = "9")]
    pub(super) chosen: bool,
    #[prost(bytes = "vec", tag = "10")]
    pub(super) partitions: Vec<u8>,
    #[prost(double, tag = "11")]
    pub(super) slope_min: f64,
    #[prost(double, tag = "12")]
    pub(super) slope_max: f64,
    #[prost(bool, tag = "13")]
    pub(super) hedge: bool,
    #[prost(uint32, tag = "14")]
    pub(super) slices: u32,
    #[prost(message, optional, tag = "15")]
    pub(super) alone: Option<SliceAloneHeader>,
    #[prost(message, optional, tag = "20")]
    pub(super) push: Option<PushRequestHeader>,
    #[prost(message, optional, tag = "21")]
    pub(super) own: Option<OwnParamsHeader>,
}

/// `SliceAlone`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SliceAloneHeader {
    #[prost(uint32, tag = "1")]
    pub(super) slice: u32,
    #[prost(uint32, tag = "2")]
    pub(super) slices: u32,
}

/// `Reply`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ReplyHeader {
    #[prost(uint64, tag = "1")]
    pub(super) id: u64,
    #[prost(uint32, tag = "2")]
    pub(super) status: u32,
    #[prost(message, optional, tag = "3")]
    pub(super) rejection: Option<Rejection>,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) asked: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    pub(super) contributed: Vec<u8>,
    #[prost(message, repeated, tag = "6")]
    pub(super) missing: Vec<MissingHeader>,
    #[prost(uint64, tag = "7")]
    pub(super) elapsed_ns: u64,
    #[prost(message, optional, tag = "8")]
    pub(super) report: Option<ReportColumns>,
    #[prost(bool, tag = "9")]
    pub(super) total_is_guess: bool,
}

/// Why a call was rejected.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Rejection {
    #[prost(uint32, tag = "1")]
    pub(super) error: u32,
    #[prost(string, tag = "2")]
    pub(super) field: String,
    #[prost(string, tag = "3")]
    pub(super) given: String,
    #[prost(string, tag = "4")]
    pub(super) limit: String,
    #[prost(string, tag = "5")]
    pub(super) service: String,
    #[prost(uint64, tag = "6")]
    pub(super) calls_max: u64,
    #[prost(string, tag = "7")]
    pub(super) right: String,
    #[prost(bool, tag = "8")]
    pub(super) of_client: bool,
}

/// A member's card, in `Cards` and `Status`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CardHeader {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) node: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub(super) version: u64,
    #[prost(string, tag = "3")]
    pub(super) rack: String,
    #[prost(string, tag = "4")]
    pub(super) zone: String,
    #[prost(bool, tag = "5")]
    pub(super) provider: bool,
    #[prost(bool, tag = "6")]
    pub(super) relay: bool,
    #[prost(uint32, tag = "7")]
    pub(super) processors: u32,
    #[prost(string, repeated, tag = "8")]
    pub(super) services: Vec<String>,
    #[prost(uint32, repeated, tag = "9")]
    pub(super) totals: Vec<u32>,
    #[prost(bytes = "vec", tag = "10")]
    pub(super) run_counts: Vec<u8>,
    #[prost(bytes = "vec", tag = "11")]
    pub(super) runs: Vec<u8>,
    #[prost(bool, repeated, tag = "12")]
    pub(super) declared: Vec<bool>,
    #[prost(string, tag = "13")]
    pub(super) name: String,
    #[prost(bool, tag = "14")]
    pub(super) draining: bool,
    #[prost(message, repeated, tag = "15")]
    pub(super) placed: Vec<PlacedHeader>,
    #[prost(bytes = "vec", tag = "16")]
    pub(super) parent: Vec<u8>,
}

/// A service of a card whose partitions are placed automatically: the number of the service on the card, and two sets, the
/// pinned and the refused partitions.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PlacedHeader {
    #[prost(uint32, tag = "1")]
    pub(super) service: u32,
    #[prost(uint32, tag = "2")]
    pub(super) replicas: u32,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) pinned: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(super) refused: Vec<u8>,
}

/// `Cards`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct CardsHeader {
    #[prost(message, repeated, tag = "1")]
    pub(super) cards: Vec<CardHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(super) totals: Vec<TotalHeader>,
}

/// `Gossip`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct GossipHeader {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) datagram: Vec<u8>,
}

/// A service's total as the sender of a `Status` sees it.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TotalHeader {
    #[prost(string, tag = "1")]
    pub(super) service: String,
    #[prost(uint32, tag = "2")]
    pub(super) total: u32,
    #[prost(bool, tag = "3")]
    pub(super) declared: bool,
    #[prost(message, repeated, tag = "4")]
    pub(super) refused: Vec<RefusedHeader>,
}

/// A member whose total for a service differs from the agreed total.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct RefusedHeader {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) node: Vec<u8>,
    #[prost(uint32, tag = "2")]
    pub(super) total: u32,
    #[prost(bool, tag = "3")]
    pub(super) declared: bool,
}

/// Another member as the sender of a `Status` sees it.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct MemberHeader {
    #[prost(message, optional, tag = "1")]
    pub(super) card: Option<CardHeader>,
    #[prost(message, optional, tag = "2")]
    pub(super) load: Option<LoadHeader>,
    #[prost(uint64, optional, tag = "3")]
    pub(super) load_age_ms: Option<u64>,
}

/// A load figure, in `Status`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct LoadHeader {
    #[prost(uint64, tag = "1")]
    pub(super) queued_us: u64,
    #[prost(uint32, tag = "2")]
    pub(super) in_flight: u32,
    #[prost(uint32, tag = "3")]
    pub(super) processors: u32,
    #[prost(uint64, tag = "4")]
    pub(super) latency_us: u64,
}

/// A request that workers push for, in `Request` and `Call`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct PushRequestHeader {
    #[prost(uint64, tag = "1")]
    pub(super) request: u64,
    #[prost(uint64, tag = "2")]
    pub(super) patience_us: u64,
}

/// `PushAttach`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PushAttachHeader {
    #[prost(string, tag = "1")]
    pub(super) application: String,
    #[prost(uint32, tag = "2")]
    pub(super) worker: u32,
}

/// `PushAttached`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PushAttachedHeader {
    #[prost(uint64, tag = "1")]
    pub(super) window_bytes: u64,
    #[prost(string, optional, tag = "2")]
    pub(super) problem: Option<String>,
}

/// `Push`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct PushHeader {
    #[prost(uint64, tag = "1")]
    pub(super) request: u64,
    #[prost(uint32, tag = "2")]
    pub(super) sequence: u32,
    #[prost(bool, tag = "3")]
    pub(super) last: bool,
}

/// `PushFailed`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PushFailedHeader {
    #[prost(uint64, tag = "1")]
    pub(super) request: u64,
    #[prost(string, tag = "2")]
    pub(super) problem: String,
}

/// `PushWanted`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct PushWantedHeader {
    #[prost(uint64, tag = "1")]
    pub(super) request: u64,
    #[prost(uint32, tag = "2")]
    pub(super) after: u32,
    #[prost(bool, tag = "3")]
    pub(super) again: bool,
}

/// `PushTaken`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct PushTakenHeader {
    #[prost(uint64, tag = "1")]
    pub(super) request: u64,
    #[prost(uint32, tag = "2")]
    pub(super) upto: u32,
}

/// `PushEnded`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct PushEndedHeader {
    #[prost(uint64, tag = "1")]
    pub(super) request: u64,
}
