//! The pool of answers, and the choice by hot and cold.
//!
//! An answer is the better the fresher and the less often it was used: a pool that is kept too long is stale,
//! and one whose best entry is used by every call makes that node the worst. Hence, besides the choice, rules to
//! get rid of entries: too old, used up, the oldest when a place is wanted, and with each call one more,
//! alternately the oldest and the *worst*: were only good entries used, the bad ones would stay and fill the
//! pool.
//!
//! A node has one entry at most; its newer answer takes the older one's place. Each partition that a node is
//! chosen for counts as one more in flight there, so that what this front does shows before the node can say
//! it. A call uses an entry once, for however many partitions.

use super::super::choice::{Choice, Wanted, choose_each, least_by_lot};
use super::AGE_MAX;
use crate::id::NodeId;
use crate::load::figure::LoadFigure;
use crate::random::Random;
use crate::time::{Duration, Instant};
use alloc::collections::{BTreeMap, BTreeSet};

/// The answers that a choice is made by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    entries: BTreeMap<NodeId, Entry>,
    /// Which rule removes the next entry: the oldest goes when false, the worst when true.
    is_worst_next: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    in_flight: u32,
    latency: Duration,
    heard_at: Instant,
    uses_left: u32,
}

/// Lower is better: cold before hot, then latency among the cold and numbers in flight among the hot.
type Weight = (bool, u64);

impl Entry {
    fn weight(&self, hot_above: u32) -> Weight {
        if self.in_flight > hot_above {
            (true, self.in_flight.into())
        } else {
            (false, self.latency.as_nanos())
        }
    }
}

impl Pool {
    /// No answers yet.
    pub const fn new() -> Self {
        Self { entries: BTreeMap::new(), is_worst_next: false }
    }

    /// Takes an answer in. When all `places` are taken, the oldest goes.
    pub fn put(&mut self, node: NodeId, figure: LoadFigure, uses: u32, places: usize, now: Instant) {
        let LoadFigure { in_flight, latency, .. } = figure;
        self.entries.remove(&node);
        while !self.entries.is_empty() && self.entries.len() >= places {
            self.remove_oldest();
        }
        self.entries.insert(node, Entry { in_flight, latency, heard_at: now, uses_left: uses.max(1) });
    }

    /// Drops what is too old.
    pub fn expire(&mut self, now: Instant) {
        self.entries.retain(|_, entry| entry.heard_at.until(now) <= AGE_MAX);
    }

    /// Drops what `node` said.
    pub fn remove(&mut self, node: NodeId) {
        self.entries.remove(&node);
    }

    /// Drops one entry: the oldest, next time the worst, and so on in turn.
    pub fn remove_one(&mut self, hot_above: u32) {
        if self.is_worst_next {
            let worst = self.entries.iter().max_by_key(|(_, entry)| entry.weight(hot_above));
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

    /// Chooses for each partition, and notes what that does to the entries used.
    pub fn choose<'a>(&mut self, wanted: impl Wanted<'a>, hot_above: u32, random: &mut Random) -> Choice {
        let mut used = BTreeSet::new();
        let choice = choose_each(wanted, |_, replicas| {
            let Some(node) = self.best_of(replicas, hot_above, random) else {
                return replicas[random.below(replicas.len())];
            };
            let entry = self.entries.get_mut(&node).expect("the best of the entries is one of them");
            entry.in_flight = entry.in_flight.saturating_add(1);
            used.insert(node);
            node
        });
        for node in used {
            let entry = self.entries.get_mut(&node).expect("what was used is still there");
            entry.uses_left -= 1;
            if entry.uses_left == 0 {
                self.entries.remove(&node);
            }
        }
        choice
    }

    /// The best of the replicas that have an entry; `None` when there are not two of them to compare.
    fn best_of(&self, replicas: &[NodeId], hot_above: u32, random: &mut Random) -> Option<NodeId> {
        let entries =
            replicas.iter().filter_map(|node| Some((self.entries.get(node)?.weight(hot_above), *node)));
        entries.clone().nth(1)?;
        least_by_lot(entries, random)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

#[cfg(test)]
mod tests;
