//! Streams' frames: a tree that stays, packets down it and waves up it.
//!
//! Not to be taken for the streams of *chunks* that a large payload travels in ([`super::chunks`]). A frame's prefix
//! names the stream where it names a wave otherwise, and all of a stream's frames are in one lane, so that they keep
//! their order.
//!
//! `StreamUp` and `StreamDown` come by the hundred thousand a second, `StreamSettled` often: their header structures
//! are kept from one to the next, and reading one allocates nothing but the message. The others come when a tree
//! changes.
//!
//! Rooms: [`header`], what the frames' headers are; [`encode`] and [`decode`]; `end`, why a stream is over; `tags`,
//! sets of tags as columns.

pub(in crate::wire) mod decode;
pub(in crate::wire) mod encode;
mod end;
pub(in crate::wire) mod header;
mod tags;

use crate::wire::error::{WireError, within};
use treefold_core::limits::Limits;
use treefold_core::membership::card::NAME_BYTES_MAX;

/// Refuses a lane that no endpoint can have: they are 0, and each endpoint plus one.
fn lane_within(lane: u32, limits: &Limits) -> Result<(), WireError> {
    within("lane", limits.partitions_max as usize, lane as usize)
}

/// Lanes that one settlement tells of, at most.
fn lanes_max(limits: &Limits) -> usize {
    (limits.partitions_max as usize).saturating_add(1)
}

/// Refuses names longer than those on cards.
fn names_within(service: &str, up_filter: &str, down_filter: &str) -> Result<(), WireError> {
    within("service", NAME_BYTES_MAX, service.len())?;
    within("up_filter", NAME_BYTES_MAX, up_filter.len())?;
    within("down_filter", NAME_BYTES_MAX, down_filter.len())
}
