//! The headers of calls and partials, which waves consist of.

use super::{MissingHeader, PushRequestHeader, ReportColumns};
use crate::wire::fields::fields;

/// `Call`. Fields 8 to 12 are the tree. They are fields of the header itself, so that calls reuse their
/// memory. Field 22 is the number of a kept tree ([`crate::wire::kept`]).
#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::wire) struct CallHeader {
    #[prost(string, tag = "1")]
    pub(in crate::wire) name: String,
    #[prost(uint64, tag = "2")]
    pub(in crate::wire) deadline_left_us: u64,
    #[prost(uint64, tag = "3")]
    pub(in crate::wire) answer_left_us: u64,
    #[prost(uint32, tag = "4")]
    pub(in crate::wire) waiting: u32,
    #[prost(uint32, tag = "5")]
    pub(in crate::wire) losses_max: u32,
    #[prost(bool, tag = "6")]
    pub(in crate::wire) explain: bool,
    #[prost(bool, tag = "7")]
    pub(in crate::wire) loads_wanted: bool,
    #[prost(bytes = "vec", tag = "8")]
    pub(in crate::wire) sizes: Vec<u8>,
    #[prost(uint32, tag = "9")]
    pub(in crate::wire) family: u32,
    #[prost(bytes = "vec", tag = "10")]
    pub(in crate::wire) nodes: Vec<u8>,
    #[prost(bytes = "vec", tag = "11")]
    pub(in crate::wire) run_counts: Vec<u8>,
    #[prost(bytes = "vec", tag = "12")]
    pub(in crate::wire) runs: Vec<u8>,
    #[prost(uint32, tag = "13")]
    pub(in crate::wire) spare: u32,
    #[prost(double, tag = "14")]
    pub(in crate::wire) slope_min: f64,
    #[prost(double, tag = "15")]
    pub(in crate::wire) slope_max: f64,
    #[prost(bool, tag = "16")]
    pub(in crate::wire) hedge: bool,
    #[prost(uint32, tag = "17")]
    pub(in crate::wire) slice: u32,
    #[prost(uint32, tag = "18")]
    pub(in crate::wire) slices: u32,
    #[prost(message, optional, tag = "20")]
    pub(in crate::wire) push: Option<PushRequestHeader>,
    #[prost(message, optional, tag = "21")]
    pub(in crate::wire) own: Option<OwnParamsHeader>,
    #[prost(uint32, tag = "22")]
    pub(in crate::wire) tree: u32,
    #[prost(uint32, tag = "23")]
    pub(in crate::wire) in_flight: u32,
    #[prost(bool, tag = "24")]
    pub(in crate::wire) alone: bool,
    #[prost(uint64, tag = "25")]
    pub(in crate::wire) sign_after_us: u64,
    #[prost(bool, tag = "26")]
    pub(in crate::wire) whole: bool,
}

fields!(CallHeader {
    1 string name,
    2 uint64 deadline_left_us,
    3 uint64 answer_left_us,
    4 uint32 waiting,
    5 uint32 losses_max,
    6 bool explain,
    7 bool loads_wanted,
    8 bytes sizes,
    9 uint32 family,
    10 bytes nodes,
    11 bytes run_counts,
    12 bytes runs,
    13 uint32 spare,
    14 double slope_min,
    15 double slope_max,
    16 bool hedge,
    17 uint32 slice,
    18 uint32 slices,
    20 message push,
    21 message own,
    22 uint32 tree,
    23 uint32 in_flight,
    24 bool alone,
    25 uint64 sign_after_us,
    26 bool whole,
});

/// `OwnParams`, in `Call` and `Request`: the parameters of single partitions, one after another, and those of the reduce.
#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::wire) struct OwnParamsHeader {
    #[prost(bytes = "vec", tag = "1")]
    pub(in crate::wire) partitions: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(in crate::wire) lengths: Vec<u8>,
    #[prost(bytes = "bytes", tag = "3")]
    pub(in crate::wire) bytes: bytes::Bytes,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub(in crate::wire) reduce: Option<bytes::Bytes>,
}

/// `Partial`.
#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::wire) struct PartialHeader {
    #[prost(bool, tag = "1")]
    pub(in crate::wire) last: bool,
    #[prost(bytes = "vec", tag = "2")]
    pub(in crate::wire) contributors: Vec<u8>,
    #[prost(uint64, tag = "3")]
    pub(in crate::wire) load_queued_us: u64,
    #[prost(uint32, tag = "4")]
    pub(in crate::wire) load_in_flight: u32,
    #[prost(uint32, tag = "5")]
    pub(in crate::wire) load_processors: u32,
    #[prost(uint64, optional, tag = "6")]
    pub(in crate::wire) cost_local_ns: Option<u64>,
    #[prost(uint64, optional, tag = "7")]
    pub(in crate::wire) cost_reduce_ns: Option<u64>,
    #[prost(message, repeated, tag = "8")]
    pub(in crate::wire) missing: Vec<MissingHeader>,
    #[prost(message, optional, tag = "9")]
    pub(in crate::wire) report: Option<ReportColumns>,
    #[prost(uint64, tag = "10")]
    pub(in crate::wire) load_latency_us: u64,
    #[prost(uint32, tag = "11")]
    pub(in crate::wire) loads_family: u32,
    #[prost(bytes = "vec", tag = "12")]
    pub(in crate::wire) loads_nodes: Vec<u8>,
    #[prost(bytes = "vec", tag = "13")]
    pub(in crate::wire) loads: Vec<u8>,
    #[prost(bytes = "vec", repeated, tag = "14")]
    pub(in crate::wire) given_up: Vec<Vec<u8>>,
    #[prost(uint32, tag = "15")]
    pub(in crate::wire) own_us: u32,
    #[prost(uint64, tag = "17")]
    pub(in crate::wire) served_us: u64,
    #[prost(bytes = "vec", tag = "16")]
    pub(in crate::wire) loads_time: Vec<u8>,
}

fields!(PartialHeader {
    1 bool last,
    2 bytes contributors,
    3 uint64 load_queued_us,
    4 uint32 load_in_flight,
    5 uint32 load_processors,
    6 optional_uint64 cost_local_ns,
    7 optional_uint64 cost_reduce_ns,
    8 messages missing,
    9 message report,
    10 uint64 load_latency_us,
    11 uint32 loads_family,
    12 bytes loads_nodes,
    13 bytes loads,
    14 repeated_bytes given_up,
    15 uint32 own_us,
    16 bytes loads_time,
    17 uint64 served_us,
});
