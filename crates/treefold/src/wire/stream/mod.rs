//! Frames of streams: a tree that stays, packets down it and waves up it.
//!
//! These streams are unrelated to the streams of *chunks* that carry a large payload ([`super::chunks`]). A
//! frame's prefix contains the stream's id in the fields of a wave's id. All of a stream's frames are in one
//! lane, so that they keep their order, except signs of life and reports.
//!
//! `StreamUp`, `StreamDown` and `StreamRun` arrive at rates of 100,000 a second, and `StreamSettled` is frequent too.
//! Their header structures are reused, and reading one allocates only the message. The other kinds are sent
//! when a tree changes.
//!
//! Modules: [`header`] defines the frames' headers; [`encode`] and [`decode`] convert them; `end` encodes why
//! a stream has ended; `run` encodes packets that travel together; `tags` encodes sets of tags as columns.

pub(in crate::wire) mod decode;
pub(in crate::wire) mod encode;
mod end;
pub(in crate::wire) mod header;
pub(in crate::wire) mod run;
mod tags;

use crate::wire::error::{WireError, within};
use treefold_core::limits::Limits;
use treefold_core::membership::card::NAME_BYTES_MAX;

/// Refuses a lane that no endpoint can have. Valid lanes are 0 and each endpoint's number plus one.
fn lane_within(lane: u32, limits: &Limits) -> Result<(), WireError> {
    within("lane", limits.partitions_max as usize, lane as usize)
}

/// The most lanes that one settlement lists.
fn lanes_max(limits: &Limits) -> usize {
    (limits.partitions_max as usize).saturating_add(1)
}

/// Refuses names that are longer than names on cards may be.
fn names_within(service: &str, up_filter: &str, down_filter: &str) -> Result<(), WireError> {
    within("service", NAME_BYTES_MAX, service.len())?;
    within("up_filter", NAME_BYTES_MAX, up_filter.len())?;
    within("down_filter", NAME_BYTES_MAX, down_filter.len())
}
