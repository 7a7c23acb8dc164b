//! After everything is healed, every feed recovers within a bounded time: an origin runs and has sent everything, all
//! mirrors are current and have everything, all events are acknowledged, and readers have everything.

use super::Finding;
use crate::world::World;
use crate::world::feeds::Feed;
use crate::world::place::Life;
use std::collections::BTreeSet;
use treefold_core::partitions::PartitionSet;
use treefold_core::time::Duration;

/// Time within which a feed must recover, besides the time that its work takes.
pub const WITHIN: Duration = Duration::from_secs(90);

/// Checks a feed. `living` are the endpoints on live nodes.
pub fn all_current(world: &World, feed: &Feed, living: &PartitionSet) -> Finding {
    let Some((_, cut, is_idle)) = feed.present() else { return Err("no origin runs".into()) };
    if !is_idle || cut.position > feed.history().last() {
        return Err(format!("the origin has not sent everything: it is at {cut}"));
    }
    let mirrors = feed.plan().mirrors.intersection(living);
    let is_current = |&(key, at, is_current): &(_, treefold_mirror::Cut, bool)| {
        let (node, _): (treefold_core::id::NodeId, u32) = key;
        is_current && at == cut && world.is_there(node)
    };
    let current: BTreeSet<u32> = feed.mirrors().filter(is_current).map(|((_, number), ..)| number).collect();
    if let Some(late) = mirrors.iter().find(|mirror| !current.contains(mirror)) {
        return Err(format!("mirror {late} is not current at {cut}"));
    }
    if feed.plan().copies as usize <= mirrors.len()
        && let Some((stream, all, known)) = feed.sources().find(|(_, all, known)| known < all)
    {
        return Err(format!("source {stream} knows {known} of its {all} events to be acknowledged"));
    }
    // If two processes have one mirror, the origin feeds one of them, and readers may follow the other one.
    let mut seen = BTreeSet::new();
    let mut is_twin =
        |((node, number), ..): &((_, u32), _, _)| world.is_there(*node) && !seen.insert(*number);
    if feed.mirrors().any(|mirror| is_twin(&mirror)) {
        return Ok(());
    }
    let runs = |at: usize| world.place(at).life() == Life::Running;
    let late = feed.readers().find(|&(at, has)| runs(at) && has != Some(cut));
    match late.filter(|_| !mirrors.is_empty()) {
        Some((at, has)) => Err(format!("the reader at place {at} is at {has:?}, the feed at {cut}")),
        None => Ok(()),
    }
}
