//! When nothing goes wrong any more, everyone soon sees everyone.
//!
//! Once all is healed, each running member sees exactly the running members, with the card of each; so does each
//! observer. It may take [`WITHIN`]: a node that could not reach its seeds calls them again after
//! `seek_interval_max`, one that lacks a card asks for it again after `sync_interval_max`, both 10 s and varied, and
//! two halves that hold each other for dead find together when somebody's call on one of the dead
//! (`announce_down_interval`, 3 s) meets one that lives. Two of the longest after each other, and half as much again.

use super::Finding;
use crate::world::World;
use std::collections::BTreeSet;
use treefold_core::id::NodeId;
use treefold_core::time::Duration;

/// How long it may take.
pub const WITHIN: Duration = Duration::from_secs(30);

/// Holds every place of `members` and `observers` to its view.
pub fn sees_all(world: &World, members: &BTreeSet<usize>, observers: &BTreeSet<usize>) -> Finding {
    if members.is_empty() {
        // An observer learns who is gone from those who are there.
        return Ok(());
    }
    let there: BTreeSet<NodeId> = members.iter().map(|&at| world.place(at).id()).collect();
    for &at in members.iter().chain(observers) {
        let place = world.place(at);
        let view = place.node().view();
        let seen: BTreeSet<NodeId> = view.alive().copied().filter(|node| !node.is_client()).collect();
        if seen != there {
            let lacks: Vec<&NodeId> = there.difference(&seen).collect();
            let ghosts: Vec<&NodeId> = seen.difference(&there).collect();
            return Err(format!("place {at} lacks {lacks:?} and sees {ghosts:?}, who are not there"));
        }
        if let Some(node) = there.iter().find(|node| view.card(node).is_none()) {
            return Err(format!("place {at} lacks the card of {node:?}"));
        }
    }
    Ok(())
}
