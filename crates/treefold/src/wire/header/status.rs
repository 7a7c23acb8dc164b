//! The header of a node's status.

use super::{CardHeader, LoadHeader, MemberHeader, TotalHeader};

/// `Status`.
#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::wire) struct StatusHeader {
    #[prost(uint64, tag = "1")]
    pub(in crate::wire) id: u64,
    #[prost(message, optional, tag = "2")]
    pub(in crate::wire) card: Option<CardHeader>,
    #[prost(message, optional, tag = "3")]
    pub(in crate::wire) load: Option<LoadHeader>,
    #[prost(uint64, repeated, tag = "4")]
    pub(in crate::wire) counters: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    pub(in crate::wire) open: Vec<u64>,
    #[prost(message, repeated, tag = "6")]
    pub(in crate::wire) members: Vec<MemberHeader>,
    #[prost(message, repeated, tag = "7")]
    pub(in crate::wire) totals: Vec<TotalHeader>,
    #[prost(bool, tag = "8")]
    pub(in crate::wire) unreached_by_udp: bool,
    #[prost(message, repeated, tag = "9")]
    pub(in crate::wire) streams: Vec<OpenStreamHeader>,
    #[prost(string, tag = "10")]
    pub(in crate::wire) build: String,
    #[prost(uint64, tag = "11")]
    pub(in crate::wire) unix_ms: u64,
    #[prost(message, repeated, tag = "12")]
    pub(in crate::wire) slow: Vec<SlowHeader>,
}

/// A node that takes longer than others.
#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::wire) struct SlowHeader {
    #[prost(bytes = "vec", tag = "1")]
    pub(in crate::wire) node: Vec<u8>,
    #[prost(string, tag = "2")]
    pub(in crate::wire) aggregation: String,
    #[prost(uint64, tag = "3")]
    pub(in crate::wire) time_us: u64,
    #[prost(uint64, tag = "4")]
    pub(in crate::wire) usual_us: u64,
    #[prost(uint64, tag = "5")]
    pub(in crate::wire) lasts_us: u64,
}

/// A stream as the sender of a `Status` sees it.
#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::wire) struct OpenStreamHeader {
    #[prost(string, tag = "1")]
    pub(in crate::wire) service: String,
    #[prost(string, tag = "2")]
    pub(in crate::wire) up_filter: String,
    #[prost(bool, tag = "3")]
    pub(in crate::wire) is_front: bool,
    #[prost(uint32, tag = "4")]
    pub(in crate::wire) children: u32,
    #[prost(uint32, tag = "5")]
    pub(in crate::wire) endpoints: u32,
    #[prost(uint32, tag = "6")]
    pub(in crate::wire) away: u32,
    #[prost(uint64, tag = "7")]
    pub(in crate::wire) held_bytes: u64,
    #[prost(uint64, repeated, tag = "8")]
    pub(in crate::wire) traffic: Vec<u64>,
}
