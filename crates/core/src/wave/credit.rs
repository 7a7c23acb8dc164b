//! Credit: how many bytes of partials may be on their way to this node.
//!
//! A node folds as partials come, so a wave holds about two of them. When partials are large and come faster
//! than they are folded, children must wait, and it is bytes that count, not partials. Small ones are sent
//! unasked; a large one is offered first (a rendezvous, as message-passing libraries have it) and sent when the
//! parent grants it. What is held and what is granted together stay within `Limits::held_bytes_max`, save that a
//! wave with nothing to fold is always granted one partial, or waves could wait for each other's room for ever.

use crate::id::{NodeId, Tag};
use alloc::collections::{BTreeMap, VecDeque};

/// This node's part in a wave, the child that offers, and the child's branch.
pub(crate) type OfferKey = (Tag, NodeId, u32);

/// Offers that wait and grants that are out.
#[derive(Debug)]
pub(crate) struct Credit {
    held_bytes_max: usize,
    waiting: VecDeque<(OfferKey, usize)>,
    granted: BTreeMap<OfferKey, usize>,
    granted_bytes: usize,
}

impl Credit {
    pub(crate) const fn new(held_bytes_max: usize) -> Self {
        Self { held_bytes_max, waiting: VecDeque::new(), granted: BTreeMap::new(), granted_bytes: 0 }
    }

    /// A child offers `bytes`; true when they may come at once.
    pub(crate) fn offered(
        &mut self,
        key: OfferKey,
        bytes: usize,
        held_bytes: usize,
        is_starved: bool,
    ) -> bool {
        self.forget(key);
        let fits = self.granted_bytes + held_bytes + bytes <= self.held_bytes_max;
        if fits || (is_starved && !self.has_grant_out(key.0)) {
            self.grant(key, bytes);
            return true;
        }
        self.waiting.push_back((key, bytes));
        false
    }

    /// The oldest waiting offer, if there is room for it now.
    pub(crate) fn grant_next(&mut self, held_bytes: usize) -> Option<OfferKey> {
        let &(key, bytes) = self.waiting.front()?;
        if self.granted_bytes + held_bytes + bytes > self.held_bytes_max
            && self.granted_bytes + held_bytes > 0
        {
            return None;
        }
        self.waiting.pop_front();
        self.grant(key, bytes);
        Some(key)
    }

    /// The oldest waiting offer to a wave that has no grant out.
    pub(crate) fn grant_one_of(&mut self, tag: Tag) -> Option<OfferKey> {
        if self.waiting.is_empty() || self.has_grant_out(tag) {
            return None;
        }
        let at = self.waiting.iter().position(|(key, _)| key.0 == tag)?;
        let (key, bytes) = self.waiting.remove(at)?;
        self.grant(key, bytes);
        Some(key)
    }

    fn has_grant_out(&self, tag: Tag) -> bool {
        self.granted.range((tag, NodeId::LEAST, 0)..).next().is_some_and(|(key, _)| key.0 == tag)
    }

    fn grant(&mut self, key: OfferKey, bytes: usize) {
        self.granted_bytes += bytes;
        self.granted.insert(key, bytes);
    }

    /// Some of what was granted is here.
    pub(crate) fn arrived(&mut self, key: OfferKey, bytes: usize) {
        if let Some(left) = self.granted.get_mut(&key) {
            let arrived = bytes.min(*left);
            *left -= arrived;
            self.granted_bytes -= arrived;
        }
    }

    /// Nothing more will come of an offer.
    pub(crate) fn forget(&mut self, key: OfferKey) {
        if let Some(bytes) = self.granted.remove(&key) {
            self.granted_bytes -= bytes;
        } else if !self.waiting.is_empty() {
            self.waiting.retain(|(waiting, _)| *waiting != key);
        }
    }

    /// The wave is over.
    pub(crate) fn forget_wave(&mut self, tag: Tag) {
        if self.granted.is_empty() && self.waiting.is_empty() {
            return;
        }
        self.waiting.retain(|(key, _)| key.0 != tag);
        let of_wave = |(key, bytes): (&OfferKey, &usize)| (key.0 == tag).then_some((*key, *bytes));
        for (key, bytes) in self.granted.iter().filter_map(of_wave).collect::<alloc::vec::Vec<_>>() {
            self.granted.remove(&key);
            self.granted_bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::WaveId;

    fn key(sequence: u64, branch: u32) -> OfferKey {
        (Tag { wave: WaveId { origin: 1, sequence }, branch: 0 }, NodeId::LEAST, branch)
    }

    #[test]
    fn bytes_are_granted_within_the_limit_and_in_order() {
        let mut credit = Credit::new(100);
        assert!(credit.offered(key(1, 0), 60, 0, true));
        assert!(!credit.offered(key(1, 1), 60, 0, true), "its wave has one on the way already");
        assert!(!credit.offered(key(1, 2), 70, 0, false));
        credit.arrived(key(1, 0), 60);
        credit.forget(key(1, 0));
        assert_eq!(credit.grant_next(60), None, "what has arrived is held now");
        assert_eq!(credit.grant_next(40), Some(key(1, 1)));
        credit.forget_wave(key(1, 0).0);
        assert_eq!(credit.grant_next(0), None, "the wave is over and its offers with it");
        assert_eq!(credit.granted_bytes, 0);
    }

    #[test]
    fn a_wave_with_nothing_is_always_granted_one() {
        let mut credit = Credit::new(100);
        assert!(credit.offered(key(1, 0), 500, 100, true));
        assert!(!credit.offered(key(1, 1), 1, 100, true));
    }
}
