//! The pool of answers, and the choice by hot and cold.
//!
//! An answer is the more useful the fresher it is and the less it was used. A pool that keeps answers for too
//! long is stale. If every call used the best entry, its node would become the worst. So rules remove
//! entries: entries that are too old or used up, the oldest entry if a place is needed, and one more entry
//! with each call, in turn the oldest and the *worst*. If only good entries were used, the bad ones would
//! stay and fill the pool.
//!
//! A node has at most one entry; a newer answer replaces the older one. A call for which a node is chosen counts as one more in
//! flight there, so that this front's requests show before the node can report them. A call uses an entry once, for any
//! number of partitions; each of them makes the node's latency longer by one local, for this call.

use super::super::choice::{Choice, Wanted, choose_each, least_by_lot};
use super::AGE_MAX;
use crate::id::NodeId;
use crate::load::figure::LoadFigure;
use crate::load::speed::Excess;
use crate::random::Random;
use crate::time::{Duration, Instant};
use alloc::collections::BTreeMap;
use smallvec::SmallVec;

/// The answers by which nodes are chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    entries: BTreeMap<NodeId, Entry>,
    /// The rule that removes the next entry: the oldest if false, the worst if true.
    is_worst_next: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    in_flight: u32,
    latency: Duration,
    processors: u32,
    heard_at: Instant,
    uses_left: u32,
}

/// The order of entries, lower is better: cold before hot, then by latency among the cold and by number in
/// flight among the hot.
type Weight = (bool, u64);

impl Entry {
    /// The weight for one more partition of a call that has given the node so many.
    fn weight(&self, hot_above: u32, given: u32) -> Weight {
        if self.in_flight > hot_above {
            (true, self.in_flight.into())
        } else {
            let longer = 1.0 + f64::from(given) / f64::from(self.processors.max(1));
            (false, self.latency.mul_f64(longer).as_nanos())
        }
    }
}

/// A random replica that is not slow, if there is one.
fn one_of(replicas: &[NodeId], slow: Option<&Excess>, random: &mut Random) -> NodeId {
    if let Some(slow) = slow {
        let is_quick = |node: &&NodeId| slow.get(*node).is_none_or(|&excess_ms| excess_ms <= 0.0);
        let quick: SmallVec<[NodeId; 8]> = replicas.iter().filter(is_quick).copied().collect();
        if !quick.is_empty() {
            return quick[random.below(quick.len())];
        }
    }
    replicas[random.below(replicas.len())]
}

impl Pool {
    /// No answers yet.
    pub const fn new() -> Self {
        Self { entries: BTreeMap::new(), is_worst_next: false }
    }

    /// Adds an answer. If all `places` are taken, the oldest is dropped.
    pub fn put(&mut self, node: NodeId, figure: LoadFigure, uses: u32, places: usize, now: Instant) {
        let LoadFigure { in_flight, latency, processors, .. } = figure;
        self.entries.remove(&node);
        while !self.entries.is_empty() && self.entries.len() >= places {
            self.remove_oldest();
        }
        self.entries
            .insert(node, Entry { in_flight, latency, processors, heard_at: now, uses_left: uses.max(1) });
    }

    /// Drops answers that are too old.
    pub fn expire(&mut self, now: Instant) {
        self.entries.retain(|_, entry| entry.heard_at.until(now) <= AGE_MAX);
    }

    /// Drops the answer of `node`.
    pub fn remove(&mut self, node: NodeId) {
        self.entries.remove(&node);
    }

    /// Drops one entry: in turn the oldest and the worst.
    pub fn remove_one(&mut self, hot_above: u32) {
        if self.is_worst_next {
            let worst = self.entries.iter().max_by_key(|(_, entry)| entry.weight(hot_above, 0));
            let worst = worst.map(|(&node, _)| node);
            worst.map(|node| self.entries.remove(&node));
        } else {
            self.remove_oldest();
        }
        self.is_worst_next = !self.is_worst_next;
    }

    fn remove_oldest(&mut self) {
        let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.heard_at).map(|(&node, _)| node);
        oldest.map(|node| self.entries.remove(&node));
    }

    /// Chooses for each partition, and updates the entries that were used.
    pub fn choose<'a>(
        &mut self,
        wanted: impl Wanted<'a>,
        hot_above: u32,
        slow: Option<&Excess>,
        random: &mut Random,
    ) -> Choice {
        let mut given = BTreeMap::new();
        let choice = choose_each(wanted, |_, replicas| {
            let Some(node) = self.best_of(replicas, &given, hot_above, random) else {
                return one_of(replicas, slow, random);
            };
            *given.entry(node).or_insert(0) += 1;
            node
        });
        for node in given.into_keys() {
            let entry =
                self.entries.get_mut(&node).expect("invariant: a used entry stays until the choice is made");
            entry.in_flight = entry.in_flight.saturating_add(1);
            entry.uses_left -= 1;
            if entry.uses_left == 0 {
                self.entries.remove(&node);
            }
        }
        choice
    }

    /// The best replica that has an entry; `None` if fewer than two replicas have one.
    fn best_of(
        &self,
        replicas: &[NodeId],
        given: &BTreeMap<NodeId, u32>,
        hot_above: u32,
        random: &mut Random,
    ) -> Option<NodeId> {
        let given = |node| given.get(node).copied().unwrap_or(0);
        let weight = |node| Some(self.entries.get(node)?.weight(hot_above, given(node)));
        let entries = replicas.iter().filter_map(|node| Some((weight(node)?, *node)));
        entries.clone().nth(1)?;
        least_by_lot(entries, random)
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if the pool is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests;
