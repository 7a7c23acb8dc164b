//! Turns foca's requests into events and datagrams for the owner.
//!
//! foca calls back while it works; [`Outbox`] only records the calls. `reconcile` then brings everything into
//! agreement, in this order: changed members, the view and its events; timers; gossip; datagrams, which have
//! the digest of the view at that time.

use super::alarms::Alarm;
use super::datagram::{Draft, Item, put_item};
use super::event::MembershipEvent;
use super::identity::SwimId;
use super::swim::Membership;
use crate::id::NodeId;
use crate::time::{Duration, Instant};
use alloc::vec::Vec;
use core::mem;
use core::net::SocketAddr;
use foca::{Notification, Runtime, Timer};

/// Requests of foca that have not been carried out.
#[derive(Default)]
pub(super) struct Outbox {
    sends: Vec<(SocketAddr, Vec<u8>)>,
    timers: Vec<(Timer<SwimId>, Duration)>,
    touched: Vec<SocketAddr>,
    pub(super) took_next_life: bool,
}

impl Runtime<SwimId> for Outbox {
    fn notify(&mut self, notification: Notification<'_, SwimId>) {
        match notification {
            Notification::MemberUp(id) | Notification::MemberDown(id) | Notification::Rename(_, id) => {
                self.touched.push(id.node.addr);
            }
            Notification::Rejoin(_) => self.took_next_life = true,
            Notification::Active | Notification::Idle | Notification::Defunct => {}
        }
    }

    fn send_to(&mut self, to: SwimId, data: &[u8]) {
        self.sends.push((to.node.addr, data.to_vec()));
    }

    fn submit_after(&mut self, event: Timer<SwimId>, after: core::time::Duration) {
        self.timers.push((event, after.into()));
    }
}

impl Outbox {
    /// Takes the addresses at which a member has come, gone, or changed its identity.
    pub(super) fn take_touched(&mut self) -> Vec<SocketAddr> {
        mem::take(&mut self.touched)
    }
}

impl Membership {
    /// Brings view, alarms and queues into agreement after any input.
    pub(super) fn reconcile(&mut self, now: Instant) {
        if mem::take(&mut self.protocol.outbox.took_next_life) {
            // foca rests after a change of identity until it receives input. The others need the card again,
            // because to them a new member has joined.
            self.protocol.wake();
            self.news.spread_card(&self.own);
        }
        self.follow_members(now);
        self.set_timers(now);
        self.plan_gossip(now);
        self.plan_repair(now);
        for (to, swim) in mem::take(&mut self.protocol.outbox.sends) {
            self.send_around(now, to, &swim);
        }
    }

    /// Makes the view agree with foca about every address that foca has mentioned.
    pub(super) fn follow_members(&mut self, now: Instant) {
        let touched = self.protocol.outbox.take_touched();
        if touched.is_empty() {
            return;
        }
        let was_alone = self.view.alive_count() == 1;
        let own = self.own.node.addr;
        for addr in touched.into_iter().filter(|&addr| addr != own) {
            self.protocol.sieve.forget(addr);
            let alive = self.protocol.alive_at(addr);
            let seen = self.view.at(addr);
            if alive == seen {
                continue;
            }
            if let Some(old) = seen {
                self.forget(&old);
                self.contacts.depart(addr);
            }
            if let Some(new) = alive {
                self.view.join(new);
                self.events.push_back(MembershipEvent::Joined(new));
            }
            self.pace.learnt(now, &self.config, &self.health);
        }
        self.contacts.trim();
        let count = self.view.alive_count();
        if was_alone && count > 1 {
            // Earlier news went to addresses at which there may have been no member.
            self.news.spread_card(&self.own);
        } else if count == 1 {
            self.seek_soon(now);
        }
        self.protocol.fit_to(count, &self.config);
    }

    fn forget(&mut self, node: &NodeId) {
        self.view.leave(node);
        self.news.forget(node);
        self.events.push_back(MembershipEvent::Left(*node));
    }

    fn set_timers(&mut self, now: Instant) {
        for (timer, after) in mem::take(&mut self.protocol.outbox.timers) {
            let after = match &timer {
                Timer::ProbeRandomMember(_) => {
                    let period = self.health.stretch(after);
                    self.draws.vary(period, 10)
                }
                Timer::SendIndirectProbe { .. } => self.health.stretch(after),
                Timer::ChangeSuspectToDown { member_id, incarnation, .. } => {
                    let suspicion = self.health.stretch(after);
                    self.carriers.add_deaf(member_id.node.addr);
                    self.accuse(now, *member_id, *incarnation, suspicion);
                    suspicion
                }
                Timer::PeriodicAnnounceDown(_) => self.draws.vary(after, 25),
                _ => after,
            };
            self.alarms.push(now + after, Alarm::Swim(timer));
        }
    }

    /// Sends foca's message, with as much news as fits.
    fn send_around(&mut self, now: Instant, to: SocketAddr, swim: &[u8]) {
        if to == self.own.node.addr {
            // foca remembers earlier processes at this address as members that are down.
            return;
        }
        if self.view.at(to).is_none() && self.carriers.wants_connection(to) {
            self.events.push_back(MembershipEvent::ConnectionWanted(to));
        }
        self.protocol.sends(now, to, swim);
        let mut draft = Draft::around(swim, self.view.digest());
        self.news.fill(now, &mut draft, self.protocol.transmissions());
        self.push_transmit(to, draft.finish());
    }

    /// Sends one item to one node.
    pub(super) fn send_item(&mut self, to: SocketAddr, item: &Item) {
        let mut draft = Draft::bare(&self.own.node, self.view.digest());
        let added = draft.add(|out| put_item(out, item));
        debug_assert!(added, "a single item fits: {item:?}");
        self.push_transmit(to, draft.finish());
    }
}
