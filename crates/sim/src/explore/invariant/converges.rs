//! When there are no more faults, all nodes soon have the same view of the cluster.
//!
//! After everything is healed, each running member and each observer sees exactly the running members, with
//! the card of each. This may take [`WITHIN`]. A node that could not reach its seeds calls them again after
//! `seek_interval_max`. A node that lacks a card asks for it again after `sync_interval_max`. Both are 10 s,
//! varied. Two halves that hold each other for dead find each other when a node calls a member of the other
//! half that it holds for dead (`announce_down_interval`, 3 s) and that member is alive. [`WITHIN`] is the
//! sum of two of the longest intervals, plus half of it.

use super::Finding;
use crate::world::World;
use std::collections::BTreeSet;
use treefold_core::id::NodeId;
use treefold_core::time::Duration;

/// Longest time until the views agree.
pub const WITHIN: Duration = Duration::from_secs(30);

/// Checks the view of every place of `members` and `observers`.
pub fn sees_all(world: &World, members: &BTreeSet<usize>, observers: &BTreeSet<usize>) -> Finding {
    if members.is_empty() {
        // Only running members can tell an observer which members are gone.
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
            return Err(format!("place {at} does not see {lacks:?}, and sees {ghosts:?}, which do not run"));
        }
        if let Some(node) = there.iter().find(|node| view.card(node).is_none()) {
            return Err(format!("place {at} lacks the card of {node:?}"));
        }
    }
    Ok(())
}
