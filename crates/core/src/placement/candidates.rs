//! The candidates of placement: living members that take part, and those that were lost a short while ago.

use super::rule::{Candidate, key_of};
use crate::id::NodeId;
use crate::membership::card::{MemberCard, Placed};
use crate::membership::view::View;
use crate::time::{Duration, Instant};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// Most lost candidates that are remembered, over all services.
const LOST_MAX: usize = 4_096;

/// The candidates of one service.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Candidates {
    pub(super) living: Vec<Candidate>,
    pub(super) lost: Vec<Candidate>,
}

/// The living candidates of each service as they were last seen, and the lost ones.
#[derive(Default)]
pub(super) struct Memory {
    living: BTreeMap<String, Vec<Candidate>>,
    /// By service and lasting name.
    lost: BTreeMap<(String, u64), (Candidate, Instant)>,
}

impl Memory {
    /// Looks who is there. Returns true if the candidates of the service differ from those seen before.
    pub(super) fn look(&mut self, now: Instant, service: &str, view: &View) -> bool {
        let living: Vec<Candidate> = view
            .cards()
            .filter_map(|card| candidate(card, card.services.get(service)?.placed.as_ref()?))
            .collect();
        let before = self.living.insert(service.into(), living.clone()).unwrap_or_default();
        for candidate in &living {
            self.lost.remove(&(service.into(), candidate.key));
        }
        let is_there = |node: &NodeId| view.card(node).is_some();
        for gone in before.iter().filter(|before| living.iter().all(|now| now.key != before.key)) {
            // A member that is still there takes no part any more, and is not waited for.
            if !is_there(&gone.node) && self.lost.len() < LOST_MAX {
                self.lost.insert((service.into(), gone.key), (gone.clone(), now));
            }
        }
        before != living
    }

    /// Forgets candidates that were lost for longer than `replace_after`. Returns true if there were any.
    pub(super) fn expire(&mut self, now: Instant, replace_after: Duration) -> bool {
        let before = self.lost.len();
        self.lost.retain(|_, (_, since)| since.until(now) < replace_after);
        self.lost.len() != before
    }

    /// The first time at which a lost candidate is forgotten.
    pub(super) fn next_at(&self, replace_after: Duration) -> Option<Instant> {
        self.lost.values().map(|&(_, since)| since + replace_after).min()
    }

    /// The candidates of a service as last seen.
    pub(super) fn of(&self, service: &str) -> Candidates {
        let lost = self.lost.iter().filter(|((of, _), _)| of == service);
        Candidates {
            living: self.living.get(service).cloned().unwrap_or_default(),
            lost: lost.map(|(_, (candidate, _))| candidate.clone()).collect(),
        }
    }
}

/// A member as a candidate; `None` while it is drained.
fn candidate(card: &MemberCard, placed: &Placed) -> Option<Candidate> {
    (!card.roles.draining).then(|| Candidate {
        node: card.node,
        key: key_of(&card.name, card.node),
        zone: card.zone.clone(),
        rack: card.rack.clone(),
        weight: card.processors,
        pinned: placed.pinned.clone(),
        refused: placed.refused.clone(),
    })
}
