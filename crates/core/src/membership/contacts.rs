//! Addresses that this node calls on while no member lives there.
//!
//! A node calls on its seeds until each is a member. A node that has lost every member also calls on the
//! members that it lost: foca rests while it knows of no member, and never calls on dead ones. If those
//! members hold this node for dead as well, and no seed is left, they would never meet again.

use super::config::{DEPARTED_MAX, MembershipConfig, SEEDS_MAX};
use super::draws::Draws;
use super::pace::is_due;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use core::net::SocketAddr;

/// Seeds and departed members, and when this node next looks for them.
pub(super) struct Contacts {
    seeds: Vec<SocketAddr>,
    /// Addresses of lost members, the latest at the end.
    departed: Vec<SocketAddr>,
    seek_at: Option<Instant>,
    seek_wait: Duration,
}

impl Contacts {
    pub(super) fn new(config: &MembershipConfig) -> Self {
        Self {
            seeds: Vec::new(),
            departed: Vec::new(),
            seek_at: None,
            seek_wait: config.seek_interval.into(),
        }
    }

    /// Remembers a seed. Beyond [`SEEDS_MAX`] it forgets the one that was given first: the addresses of a name change over
    /// the months, and the latest are those at which nodes live.
    pub(super) fn add_seed(&mut self, addr: SocketAddr) {
        self.seeds.retain(|&other| other != addr);
        if self.seeds.len() == SEEDS_MAX {
            self.seeds.remove(0);
        }
        self.seeds.push(addr);
    }

    /// Remembers the address of a lost member.
    pub(super) fn depart(&mut self, addr: SocketAddr) {
        self.departed.retain(|&other| other != addr);
        self.departed.push(addr);
    }

    /// Forgets the members that departed first, down to [`DEPARTED_MAX`].
    pub(super) fn trim(&mut self) {
        self.departed.drain(..self.departed.len().saturating_sub(DEPARTED_MAX));
    }

    /// The addresses to call on: the seeds, and for a node that `is_alone` the departed members.
    pub(super) fn wanted(&self, is_alone: bool) -> impl Iterator<Item = SocketAddr> + '_ {
        let departed = self.departed.iter().filter(move |addr| is_alone && !self.seeds.contains(addr));
        self.seeds.iter().chain(departed).copied()
    }

    /// When this node next looks for absent contacts.
    pub(super) fn seek_at(&self) -> Option<Instant> {
        self.seek_at
    }

    /// True once, when it is time to look for absent contacts.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        is_due(&mut self.seek_at, now)
    }

    /// Looks for absent contacts at the shortest wait from now on.
    pub(super) fn seek_soon(
        &mut self,
        now: Instant,
        is_alone: bool,
        config: &MembershipConfig,
        draws: &mut Draws,
    ) {
        self.seek_after(config.seek_interval.into(), now, is_alone, draws);
    }

    /// Looks again after twice the last wait.
    pub(super) fn seek_later(
        &mut self,
        now: Instant,
        is_alone: bool,
        config: &MembershipConfig,
        draws: &mut Draws,
    ) {
        let wait = (self.seek_wait + self.seek_wait).min(config.seek_interval_max.into());
        self.seek_after(wait, now, is_alone, draws);
    }

    fn seek_after(&mut self, wait: Duration, now: Instant, is_alone: bool, draws: &mut Draws) {
        if self.wanted(is_alone).next().is_some() {
            self.seek_wait = wait;
            self.seek_at = Some(now + draws.vary(wait, 25));
        }
    }

    /// Stops looking for contacts.
    pub(super) fn rest(&mut self) {
        self.seek_at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_that_were_given_last_are_remembered() {
        let addr = |at: usize| SocketAddr::from(([10, 0, (at >> 8) as u8, at as u8], 7700));
        let mut contacts = Contacts::new(&MembershipConfig::lan());
        (0..SEEDS_MAX + 10).for_each(|at| contacts.add_seed(addr(at)));
        // A seed that is given again counts as the latest.
        contacts.add_seed(addr(10));
        contacts.add_seed(addr(1_000));
        let wanted: Vec<SocketAddr> = contacts.wanted(false).collect();
        assert_eq!(wanted.len(), SEEDS_MAX);
        assert!(!wanted.contains(&addr(9)) && !wanted.contains(&addr(11)));
        assert!(wanted.contains(&addr(10)) && wanted.contains(&addr(1_000)));
    }
}
