//! One service at one node: which of its partitions the node holds, loads, gives up.
//!
//! ```text
//!              assigned here            loaded
//!    (absent) ───────────────▶ loading ───────▶ held, on the card ◀─┐ assigned here again, or a successor is lost
//!                    ▲          │ failed              │ assigned to others, and all of them hold it
//!                    └──────────┘ later               ▼             │
//!                                            leaving, off the card ─┘
//!                                                     │ leave_after
//!                                                     ▼
//!                                                  (absent)
//! ```
//!
//! Invariant: a node takes a partition off its card only while all nodes that are assigned to it are alive and have it on
//! their cards. So the cluster never gives up the last copy of a partition. While the node's own card still travels, calls
//! that were placed by the earlier one are answered.

use super::candidates::Candidates;
use super::rule::{Assignment, Candidate};
use super::{FAILURES_SHOWN_MAX, LOAD_TRIES_MAX, LOADS_MAX, LoadFailure, PlacementTuning, ServicePlacement};
use crate::id::{NodeId, PartitionId};
use crate::membership::card::Placed;
use crate::membership::service::ServiceIndex;
use crate::membership::view::View;
use crate::partitions::PartitionSet;
use crate::time::{Duration, Instant};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

/// How long a node waits after it failed to load a partition for the first time. Each further failure doubles it.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// The longest wait between two loads of a partition.
const RETRY_MAX: Duration = Duration::from_secs(60);

/// A partition that could not be loaded.
#[derive(Clone, Debug)]
struct Failing {
    tries: u32,
    retry_at: Instant,
    /// True if the card leaves the partition to other nodes, until the next try.
    is_left_to_others: bool,
    reason: Arc<str>,
}

/// Placement of one service at this node.
///
/// Twelve fields, because every review compares the states of all partitions with the assignment.
pub(crate) struct ServicePlaces {
    pub(super) total: u32,
    /// Copies of each partition that the cluster shall hold. 0 if the service is placed by hand.
    pub(super) replicas: u32,
    /// The partitions that are here, also those that leave.
    held: PartitionSet,
    leaving: BTreeMap<PartitionId, Instant>,
    loading: BTreeSet<PartitionId>,
    failing: BTreeMap<PartitionId, Failing>,
    /// Set by an operator.
    pub(super) pinned: PartitionSet,
    pub(super) refused: PartitionSet,
    /// The assignment to the candidates.
    usual: Cached,
    /// The assignment to the living candidates, for partitions that do not wait for a lost one.
    urgent: Cached,
    /// Partitions that do not wait for a lost candidate.
    hasty: PartitionSet,
    /// The partitions that the last review assigned to this node.
    assigned: PartitionSet,
}

/// An assignment, and the candidates that it was computed for.
#[derive(Default)]
struct Cached {
    candidates: Vec<Candidate>,
    assignment: Assignment,
}

impl Cached {
    fn update(&mut self, service: &str, total: u32, replicas: u32, candidates: Vec<Candidate>) {
        if self.candidates != candidates {
            self.assignment = Assignment::new(service, total, replicas, &candidates);
            self.candidates = candidates;
        }
    }

    /// The nodes that are assigned to a partition.
    fn of(&self, partition: PartitionId) -> impl Iterator<Item = NodeId> + '_ {
        self.assignment.of(partition).iter().map(|&at| self.candidates[usize::from(at)].node)
    }

    fn held_by(&self, node: NodeId) -> PartitionSet {
        let at = self.candidates.iter().position(|candidate| candidate.node == node);
        at.map(|at| self.assignment.held_by(at)).unwrap_or_default()
    }
}

/// Decisions of a review.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Decisions {
    /// Load these.
    pub(super) load: Vec<PartitionId>,
    /// These have left: drop their data.
    pub(super) drop: Vec<PartitionId>,
    /// The card must say something else than before.
    pub(super) card_changed: bool,
}

/// Facts on which a review decides.
pub(super) struct Sights<'a> {
    pub(super) me: NodeId,
    pub(super) name: &'a str,
    pub(super) view: &'a View,
    pub(super) tuning: &'a PlacementTuning,
    /// The living candidates, and those that were lost a short while ago and may come back.
    pub(super) candidates: Candidates,
    /// False while the candidates may still change: then nothing new is loaded or given up.
    pub(super) is_settled: bool,
}

impl ServicePlaces {
    pub(super) fn new(total: u32, replicas: u32, held: PartitionSet) -> Self {
        Self {
            total,
            replicas,
            held,
            leaving: BTreeMap::new(),
            loading: BTreeSet::new(),
            failing: BTreeMap::new(),
            pinned: PartitionSet::default(),
            refused: PartitionSet::default(),
            usual: Cached::default(),
            urgent: Cached::default(),
            hasty: PartitionSet::default(),
            assigned: PartitionSet::default(),
        }
    }

    /// The partitions that belong on the card.
    pub(super) fn announced(&self) -> PartitionSet {
        self.held.difference(&self.leaving())
    }

    /// The partitions that are here and no longer on the card.
    pub(super) fn leaving(&self) -> PartitionSet {
        self.leaving.keys().copied().collect()
    }

    /// The node's part in placement, for its card; `None` if the service is placed by hand.
    pub(super) fn on_card(&self) -> Option<Placed> {
        let hopeless = self.failing.iter().filter(|(_, failing)| failing.is_left_to_others);
        let mut refused: PartitionSet = hopeless.map(|(&partition, _)| partition).collect();
        refused.union_with(&self.refused);
        let pinned = self.pinned.clone();
        (self.replicas > 0).then_some(Placed { replicas: self.replicas, pinned, refused })
    }

    /// Compares what is here with what is assigned, and decides the next steps.
    pub(super) fn review(&mut self, now: Instant, mut sights: Sights<'_>) -> Decisions {
        let mut decisions = Decisions::default();
        if self.replicas > 0 {
            self.assign(&mut sights);
            self.give_up(now, &sights, &mut decisions);
            if sights.is_settled {
                self.load(now, &sights, &mut decisions);
            }
        }
        self.drop_left(now, sights.tuning, &mut decisions);
        decisions
    }

    /// Finds out what is assigned to this node. A lost candidate keeps its partitions for a while, so that nothing moves when
    /// a node restarts; but some partitions go to living candidates at once.
    fn assign(&mut self, sights: &mut Sights<'_>) {
        let Candidates { living, lost } = mem::take(&mut sights.candidates);
        let urgent = (!lost.is_empty()).then(|| living.clone());
        let all = living.into_iter().chain(lost).collect();
        self.usual.update(sights.name, self.total, self.replicas, all);
        self.assigned = self.usual.held_by(sights.me);
        self.hasty = PartitionSet::default();
        let Some(living) = urgent else { return };
        self.hasty = self.cannot_wait(sights);
        if !self.hasty.is_empty() {
            self.urgent.update(sights.name, self.total, self.replicas, living);
            self.assigned.union_with(&self.urgent.held_by(sights.me).intersection(&self.hasty));
        }
    }

    /// The partitions that no living node holds, and those that a drained node hands over: it is about to be stopped, and must
    /// not wait for a lost one.
    fn cannot_wait(&self, sights: &Sights<'_>) -> PartitionSet {
        let held = sights.view.service(sights.name).map(ServiceIndex::held).unwrap_or_default();
        let mut hasty = PartitionSet::first(self.total).difference(&held);
        for card in sights.view.cards().filter(|card| card.roles.draining) {
            if card.node == sights.me {
                // Also those that it has taken off its card.
                return PartitionSet::first(self.total);
            }
            let handed_over = card.services.get(sights.name).map(|service| &service.partitions);
            handed_over.into_iter().for_each(|handed_over| hasty.union_with(handed_over));
        }
        hasty
    }

    /// Takes partitions off the card that others hold now, and puts those back that others have lost.
    fn give_up(&mut self, now: Instant, sights: &Sights<'_>, decisions: &mut Decisions) {
        for partition in self.held.difference(&self.assigned).iter() {
            let holders = sights.view.providers(sights.name, partition);
            let heirs = if self.hasty.contains(partition) { &self.urgent } else { &self.usual };
            let mut others = heirs.of(partition).peekable();
            let is_held = others.peek().is_some() && others.all(|node| holders.contains(&node));
            let was_leaving = self.leaving.contains_key(&partition);
            if is_held && !was_leaving && sights.is_settled {
                self.leaving.insert(partition, now);
            } else if !is_held && was_leaving {
                self.leaving.remove(&partition);
            }
            decisions.card_changed |= was_leaving != self.leaving.contains_key(&partition);
        }
        let before = self.leaving.len();
        self.leaving.retain(|&partition, _| !self.assigned.contains(partition));
        decisions.card_changed |= self.leaving.len() != before;
    }

    /// Begins to load what is assigned and not here: first the partitions that the fewest others hold.
    fn load(&mut self, now: Instant, sights: &Sights<'_>, decisions: &mut Decisions) {
        self.failing.retain(|&partition, failing| {
            let is_due = failing.retry_at <= now;
            decisions.card_changed |= is_due && failing.is_left_to_others;
            failing.is_left_to_others &= !is_due;
            // A partition that comes back to this node is not tried as if it had never failed.
            self.assigned.contains(partition) || failing.retry_at + RETRY_MAX > now
        });
        let room = LOADS_MAX.saturating_sub(self.loading.len());
        let mut missing: Vec<(usize, PartitionId)> = Vec::new();
        for partition in self.assigned.difference(&self.held).iter() {
            let is_due = self.failing.get(&partition).is_none_or(|failing| failing.retry_at <= now);
            if is_due && !self.loading.contains(&partition) {
                missing.push((sights.view.providers(sights.name, partition).len(), partition));
            }
        }
        missing.sort_unstable();
        decisions.load.extend(missing.into_iter().take(room).map(|(_, partition)| partition));
        self.loading.extend(&decisions.load);
    }

    fn drop_left(&mut self, now: Instant, tuning: &PlacementTuning, decisions: &mut Decisions) {
        let leave_after = tuning.leave_after.into();
        let gone = |since: &Instant| since.until(now) >= leave_after;
        decisions.drop =
            self.leaving.iter().filter(|(_, since)| gone(since)).map(|(&partition, _)| partition).collect();
        for &partition in &decisions.drop {
            self.leaving.remove(&partition);
            self.held.subtract(&PartitionSet::alone(partition));
        }
    }

    /// When the next review is due even if nothing changes.
    pub(super) fn next_at(&self, now: Instant, tuning: &PlacementTuning) -> Option<Instant> {
        let leave_after = tuning.leave_after.into();
        let drops = self.leaving.values().map(|&since| since + leave_after);
        let retries = self.failing.values().map(|failing| failing.retry_at).filter(|&at| at > now);
        drops.chain(retries).min()
    }

    /// A load has ended. Returns true if the card must change.
    pub(super) fn loaded(
        &mut self,
        now: Instant,
        partition: PartitionId,
        result: Result<(), Arc<str>>,
    ) -> bool {
        if !self.loading.remove(&partition) {
            return false;
        }
        match result {
            Ok(()) => {
                self.failing.remove(&partition);
                self.hold(partition);
                true
            }
            Err(reason) => {
                let tries = self.failing.get(&partition).map_or(0, |failing| failing.tries) + 1;
                let doubled = RETRY_FIRST.as_micros() << (tries - 1).min(16);
                let wait = Duration::from_micros(doubled).min(RETRY_MAX);
                let is_left_to_others = tries >= LOAD_TRIES_MAX;
                let failing = Failing { tries, retry_at: now + wait, is_left_to_others, reason };
                self.failing.insert(partition, failing);
                is_left_to_others
            }
        }
    }

    /// The data of a partition is here.
    pub(super) fn hold(&mut self, partition: PartitionId) {
        self.held.insert(partition);
        self.leaving.remove(&partition);
    }

    /// Takes a partition off the card, and drops its data later. False if it is not on the card.
    pub(super) fn let_go(&mut self, now: Instant, partition: PartitionId) -> bool {
        let is_announced = self.held.contains(partition) && !self.leaving.contains_key(&partition);
        is_announced && self.leaving.insert(partition, now).is_none()
    }

    /// True if nothing of the service's placement is under way here, and nothing waits for other nodes.
    pub(super) fn is_calm(&self) -> bool {
        let has_heirs = |partition: PartitionId| !self.usual.assignment.of(partition).is_empty();
        self.loading.is_empty()
            && self.leaving.is_empty()
            && self.assigned.is_subset(&self.held)
            && (self.replicas == 0 || !self.held.difference(&self.assigned).iter().any(has_heirs))
    }

    pub(super) fn report(&self, name: &str, me: NodeId, view: &View) -> ServicePlacement {
        let alone = view.service(name).map(|index| index.held_only_by(me)).unwrap_or_default();
        let shown = |(&partition, failing): (&PartitionId, &Failing)| LoadFailure {
            partition,
            tries: failing.tries,
            reason: Arc::clone(&failing.reason),
        };
        ServicePlacement {
            service: String::from(name),
            total: self.total,
            replicas: self.replicas,
            held: self.announced(),
            assigned: self.assigned.clone(),
            loading: self.loading.iter().copied().collect(),
            leaving: self.leaving(),
            pinned: self.pinned.clone(),
            refused: self.refused.clone(),
            alone,
            failures: self.failing.iter().map(shown).take(FAILURES_SHOWN_MAX).collect(),
        }
    }
}
