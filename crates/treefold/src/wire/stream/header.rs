//! The headers of a stream's frames, by the rules of [`crate::wire::header`].
//!
//! `StreamBeat` has no header. A tree's columns have the same field numbers as in a `Call`.

use crate::wire::fields::fields;
use crate::wire::header::MissingHeader;

/// `StreamOpen`. The payload is the parameters for the endpoints.
#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::wire) struct OpenHeader {
    #[prost(string, tag = "1")]
    pub(in crate::wire) service: String,
    #[prost(string, tag = "2")]
    pub(in crate::wire) up_filter: String,
    #[prost(string, tag = "3")]
    pub(in crate::wire) down_filter: String,
    #[prost(bytes = "vec", tag = "4")]
    pub(in crate::wire) filter_params: Vec<u8>,
    #[prost(uint32, tag = "5")]
    pub(in crate::wire) synchronisation: u32,
    #[prost(uint64, tag = "6")]
    pub(in crate::wire) timeout_ns: u64,
    #[prost(uint32, tag = "7")]
    pub(in crate::wire) levels: u32,
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
    #[prost(uint64, tag = "13")]
    pub(in crate::wire) window_bytes: u64,
    #[prost(uint64, tag = "14")]
    pub(in crate::wire) first_tag: u64,
    #[prost(uint64, tag = "19")]
    pub(in crate::wire) packets_before: u64,
    #[prost(uint64, tag = "20")]
    pub(in crate::wire) epoch: u64,
    #[prost(uint64, repeated, tag = "21")]
    pub(in crate::wire) places: Vec<u64>,
    #[prost(uint64, repeated, tag = "22")]
    pub(in crate::wire) lives: Vec<u64>,
    #[prost(uint64, optional, tag = "23")]
    pub(in crate::wire) lag_bytes_max: Option<u64>,
    #[prost(uint32, tag = "24")]
    pub(in crate::wire) opener_lacks: u32,
    #[prost(bool, tag = "25")]
    pub(in crate::wire) takes_unfiltered: bool,
}

/// `StreamUp`.
#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::wire) struct UpHeader {
    #[prost(uint32, tag = "1")]
    pub(in crate::wire) lane: u32,
    #[prost(uint64, tag = "2")]
    pub(in crate::wire) tag: u64,
    #[prost(uint64, tag = "3")]
    pub(in crate::wire) serial: u64,
    #[prost(bool, tag = "4")]
    pub(in crate::wire) more: bool,
    #[prost(bool, tag = "5")]
    pub(in crate::wire) urgent: bool,
    #[prost(bytes = "vec", tag = "6")]
    pub(in crate::wire) contributors: Vec<u8>,
    #[prost(message, repeated, tag = "7")]
    pub(in crate::wire) missing: Vec<MissingHeader>,
    #[prost(uint64, optional, tag = "8")]
    pub(in crate::wire) holds_from: Option<u64>,
}

fields!(UpHeader {
    1 uint32 lane,
    2 uint64 tag,
    3 uint64 serial,
    4 bool more,
    5 bool urgent,
    6 bytes contributors,
    7 messages missing,
    8 optional_uint64 holds_from,
});

/// `StreamDown`.
#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::wire) struct DownHeader {
    #[prost(uint64, tag = "1")]
    pub(in crate::wire) number: u64,
    #[prost(uint64, tag = "2")]
    pub(in crate::wire) tag: u64,
    #[prost(bool, tag = "3")]
    pub(in crate::wire) more: bool,
    #[prost(bool, tag = "4")]
    pub(in crate::wire) chosen: bool,
    #[prost(bytes = "vec", tag = "5")]
    pub(in crate::wire) to: Vec<u8>,
}

fields!(DownHeader {
    1 uint64 number,
    2 uint64 tag,
    3 bool more,
    4 bool chosen,
    5 bytes to,
});

/// `StreamRun`.
#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::wire) struct RunHeader {
    #[prost(uint64, tag = "1")]
    pub(in crate::wire) number: u64,
    #[prost(uint32, tag = "2")]
    pub(in crate::wire) count: u32,
    #[prost(uint64, tag = "3")]
    pub(in crate::wire) tag: u64,
    #[prost(sint64, repeated, tag = "4")]
    pub(in crate::wire) tag_steps: Vec<i64>,
    #[prost(uint32, repeated, tag = "5")]
    pub(in crate::wire) lengths: Vec<u32>,
}

/// `StreamSettled`.
#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::wire) struct SettledHeader {
    #[prost(bytes = "vec", tag = "1")]
    pub(in crate::wire) lanes: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(in crate::wire) run_counts: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(in crate::wire) runs: Vec<u8>,
}

fields!(SettledHeader {
    1 bytes lanes,
    2 bytes run_counts,
    3 bytes runs,
});

/// `StreamTaken`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(in crate::wire) struct TakenHeader {
    #[prost(uint64, tag = "1")]
    pub(in crate::wire) upto: u64,
}

/// `StreamMissed`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(in crate::wire) struct MissedHeader {
    #[prost(uint64, tag = "1")]
    pub(in crate::wire) first: u64,
    #[prost(uint64, tag = "2")]
    pub(in crate::wire) last: u64,
}

/// `StreamAhead`.
#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(in crate::wire) struct AheadHeader {
    #[prost(uint64, tag = "1")]
    pub(in crate::wire) tag: u64,
}

/// `StreamWantOperator` and `StreamOperator`.
#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::wire) struct OperatorHeader {
    #[prost(bytes = "vec", tag = "1")]
    pub(in crate::wire) operator: Vec<u8>,
}

/// `StreamNews`.
#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::wire) struct NewsHeader {
    #[prost(uint64, tag = "1")]
    pub(in crate::wire) received: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub(in crate::wire) joined_run_counts: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub(in crate::wire) joined_runs: Vec<u8>,
    #[prost(uint64, repeated, tag = "4")]
    pub(in crate::wire) joined_tags: Vec<u64>,
    #[prost(message, repeated, tag = "5")]
    pub(in crate::wire) missing: Vec<MissingHeader>,
    #[prost(uint64, tag = "14")]
    pub(in crate::wire) place: u64,
    #[prost(uint64, tag = "15")]
    pub(in crate::wire) epoch: u64,
    #[prost(bool, tag = "16")]
    pub(in crate::wire) hears_missed: bool,
    #[prost(bool, tag = "17")]
    pub(in crate::wire) unfiltered: bool,
}

/// `StreamReport`.
#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::wire) struct ReportHeader {
    #[prost(uint32, tag = "1")]
    pub(in crate::wire) family: u32,
    #[prost(bytes = "vec", tag = "2")]
    pub(in crate::wire) node: Vec<u8>,
    #[prost(uint64, tag = "3")]
    pub(in crate::wire) place: u64,
    #[prost(bool, tag = "4")]
    pub(in crate::wire) at_once: bool,
}

/// `StreamClose`.
#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::wire) struct CloseHeader {
    #[prost(uint32, tag = "1")]
    pub(in crate::wire) error: u32,
    #[prost(string, tag = "2")]
    pub(in crate::wire) field: String,
    #[prost(string, tag = "3")]
    pub(in crate::wire) given: String,
    #[prost(string, tag = "4")]
    pub(in crate::wire) limit: String,
    #[prost(string, tag = "5")]
    pub(in crate::wire) service: String,
    #[prost(string, tag = "6")]
    pub(in crate::wire) problem: String,
    #[prost(string, tag = "7")]
    pub(in crate::wire) right: String,
}
