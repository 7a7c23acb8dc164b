//! After everything is healed, every feed recovers within a bounded time, or goes on at least: an origin runs and has sent everything, all
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
/// Time within which a feed that has not recovered must go on at least. Events climb slowly over links that lose
/// packets, through windows of a few packets.
pub const GOES_ON_WITHIN: Duration = Duration::from_secs(30);

/// A number that grows whenever an origin sends an event, or a mirror or a reader takes one.
pub fn progress(feed: &Feed) -> u64 {
    let mirrors = feed.mirrors().map(|(_, at, _)| at.position);
    let readers = feed.readers().filter_map(|(_, has)| has).map(|has| has.position);
    mirrors.chain(readers).fold(feed.history().last(), u64::saturating_add)
}

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
    let runs = |at: usize| world.place(at).life() == Life::Running;
    let late =
        feed.readers().find(|&(at, has)| runs(at) && has.is_none_or(|has| has.position != cut.position));
    match late.filter(|_| !mirrors.is_empty()) {
        Some((at, has)) => Err(format!("the reader at place {at} is at {has:?}, the feed at {cut}")),
        None => Ok(()),
    }
}
