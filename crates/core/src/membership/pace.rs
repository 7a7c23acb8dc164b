//! Periodic work: foca's timers, gossip while there is news, calls on absent seeds, repair.
//!
//! A node that was asleep (its process had no processor, its machine was suspended) wakes to overdue timers
//! and a socket full of answers. If it fired the timers first, it would suspect the members that it was
//! probing. So a late call only delays all alarms once, by the time slept and a little more; the driver reads
//! the socket in between.

use super::alarms::Alarm;
use super::config::{CARDS_WANTED_MAX, MembershipConfig};
use super::datagram::Item;
use super::event::MembershipEvent;
use super::health::Health;
use super::identity::SwimId;
use super::swim::Membership;
use crate::id::NodeId;
use crate::time::{Duration, Instant};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::SocketAddr;
use foca::{Member, State, Timer};

/// Rounds of gossip at the short interval from the first urgent news on. They bring it to all of ten thousand nodes.
const URGENT_ROUNDS: u32 = 12;
/// How often the accused is told again within its time to refute.
const REMINDERS: u8 = 3;

/// Points in time of which there is only one each. They are kept apart from the alarms.
pub(super) struct Pace {
    gossip_at: Option<Instant>,
    gossip_is_soon: bool,
    last_gossip_at: Instant,
    /// Since when there has been urgent news without a pause.
    urgent_since: Option<Instant>,
    sync_from: Instant,
    sync_wait: Duration,
    repair_at: Option<Instant>,
    missing_before: BTreeSet<NodeId>,
    is_late: bool,
    just_put_off: bool,
}

impl Pace {
    pub(super) fn new(config: &MembershipConfig, now: Instant) -> Self {
        Self {
            gossip_at: None,
            gossip_is_soon: false,
            last_gossip_at: now,
            urgent_since: None,
            sync_from: now,
            sync_wait: config.sync_interval.into(),
            repair_at: None,
            missing_before: BTreeSet::new(),
            is_late: false,
            just_put_off: false,
        }
    }

    pub(super) fn first_at(&self) -> Option<Instant> {
        [self.gossip_at, self.repair_at].into_iter().flatten().min()
    }

    /// True if it is time to ask for cards again. The next time is then after twice the wait.
    pub(super) fn may_ask(&mut self, now: Instant, config: &MembershipConfig, health: &Health) -> bool {
        let is_time = now >= self.sync_from;
        if is_time {
            self.sync_from = now + health.slow_down(self.sync_wait);
            self.sync_wait = (self.sync_wait + self.sync_wait).min(config.sync_interval_max.into());
        }
        is_time
    }

    /// Notes that something was learnt: if digests still differ, it is worth asking again.
    pub(super) fn learnt(&mut self, now: Instant, config: &MembershipConfig, health: &Health) {
        self.sync_wait = config.sync_interval.into();
        self.sync_from = self.sync_from.min(now + health.slow_down(config.sync_interval.into()));
    }
}

impl Membership {
    /// Does the work whose time has come.
    ///
    /// Call it at [`Membership::poll_timeout`], after the datagrams that have arrived by then. An early call
    /// does nothing.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Some(due) = self.poll_timeout().filter(|&due| due <= now) {
            self.health.note_late(now.since(due));
        }
        if self.was_asleep(now) {
            return;
        }
        while let Some(alarm) = self.alarms.pop_due(now) {
            self.sound(now, alarm);
            self.reconcile(now);
        }
        if is_due(&mut self.pace.gossip_at, now) {
            self.pace.last_gossip_at = now;
            self.protocol.gossip();
        }
        if self.contacts.take_due(now) {
            self.seek(now);
        }
        if is_due(&mut self.pace.repair_at, now) {
            self.repair(now);
        }
        self.reconcile(now);
    }

    /// True if the alarms were delayed because this node did not run.
    ///
    /// It never happens twice in a row: a node that is always late must still do its share.
    fn was_asleep(&mut self, now: Instant) -> bool {
        let Some(due) = self.alarms.first_at().filter(|&due| due <= now) else { return false };
        let late = now.since(due);
        self.pace.is_late = late > self.config.asleep_after.into();
        if self.pace.is_late {
            self.health.worsen();
        }
        self.pace.just_put_off = self.pace.is_late && !self.pace.just_put_off;
        if self.pace.just_put_off {
            self.alarms.put_off(late + self.config.wake_grace.into());
        }
        self.pace.just_put_off
    }

    fn sound(&mut self, now: Instant, alarm: Alarm) {
        match alarm {
            Alarm::Swim(timer) => {
                if matches!(timer, Timer::ProbeRandomMember(_)) && !self.pace.is_late {
                    self.health.recover();
                }
                self.protocol.fire(timer);
            }
            Alarm::Verdict { id, incarnation } => {
                if self.protocol.is_suspect(&id, incarnation) {
                    self.protocol.tell(Member::new(id, incarnation, State::Down), true);
                }
            }
            Alarm::Remind { id, incarnation, again_after, left } => {
                if self.protocol.is_suspect(&id, incarnation) {
                    self.send_item(id.node.addr, &Item::Accused { target: id, incarnation });
                    if left > 1 {
                        let again = Alarm::Remind { id, incarnation, again_after, left: left - 1 };
                        self.alarms.push(now + again_after, again);
                    }
                }
            }
        }
    }

    /// Tells a member that it is suspected, now and several more times while it is.
    pub(super) fn accuse(&mut self, now: Instant, id: SwimId, incarnation: u16, suspicion: Duration) {
        self.send_item(id.node.addr, &Item::Accused { target: id, incarnation });
        let again_after = suspicion.div(u64::from(REMINDERS) + 1);
        let remind = Alarm::Remind { id, incarnation, again_after, left: REMINDERS };
        self.alarms.push(now + again_after, remind);
    }

    /// Sets the time of the next round of gossip: soon for members and cards, later for load figures.
    ///
    /// Urgent news that never ends is the false suspicions of a busy machine, or too much of it for short intervals. It is
    /// passed on at the long interval too, unless it fills the datagrams. Otherwise every node would gossip without a pause
    /// about every other's lateness, and cause it.
    ///
    /// Without news there is none.
    pub(super) fn plan_gossip(&mut self, now: Instant) {
        let is_urgent = self.protocol.has_news() || self.news.is_urgent();
        let has_news = is_urgent || !self.news.is_empty();
        let since = is_urgent.then(|| self.pace.urgent_since.unwrap_or(now));
        self.pace.urgent_since = since;
        if !has_news || self.view.alive_count() < 2 || self.has_left {
            self.pace.gossip_at = None;
            return;
        }
        let short = self.config.gossip_interval;
        let is_soon = since.is_some_and(|since| {
            self.news.is_bulk() || since.until(now) < Duration::from(short * URGENT_ROUNDS)
        });
        if self.pace.gossip_at.is_some() && (self.pace.gossip_is_soon || !is_soon) {
            return;
        }
        let interval = if is_soon { short } else { self.config.load_interval };
        let wait = self.draws.vary(self.health.slow_down(interval.into()), 25);
        // A single piece of news waits a moment for more.
        let soonest = now + Duration::from(short).div(5);
        self.pace.gossip_at = Some((self.pace.last_gossip_at + wait).max(soonest));
        self.pace.gossip_is_soon = is_soon;
    }

    /// Looks for absent seeds at the shortest wait from now on.
    pub(super) fn seek_soon(&mut self, now: Instant) {
        self.contacts.seek_soon(now, self.is_alone(), &self.config, &mut self.draws);
    }

    fn is_alone(&self) -> bool {
        self.view.alive_count() == 1
    }

    /// Calls on the contacts whose address has no member.
    fn seek(&mut self, now: Instant) {
        let is_alone = self.is_alone();
        let wanted = self.contacts.wanted(is_alone);
        let absent: Vec<SocketAddr> = wanted.filter(|&addr| self.view.at(addr).is_none()).collect();
        for addr in absent {
            self.carriers.add_deaf(addr);
            self.protocol.call_on(addr);
        }
        self.contacts.seek_later(now, is_alone, &self.config, &mut self.draws);
    }

    /// Sets the time at which missing cards are requested.
    pub(super) fn plan_repair(&mut self, now: Instant) {
        if self.view.missing_cards().len() == 0 || self.has_left {
            self.pace.repair_at = None;
            self.pace.missing_before.clear();
        } else if self.pace.repair_at.is_none() {
            self.pace.repair_at =
                Some(now + self.config.sync_interval.into() + self.config.sync_interval.into());
        }
    }

    /// Asks one member whose card is missing, which certainly has it.
    ///
    /// Cards that were already missing the last time are requested over a connection.
    fn repair(&mut self, now: Instant) {
        let missing: BTreeSet<NodeId> = self.view.missing_cards().copied().collect();
        if missing.is_empty() {
            return;
        }
        let chosen = self.draws.below(missing.len());
        if let Some(node) = missing.iter().nth(chosen) {
            self.pace.sync_from = now;
            self.ask_for_cards(now, node.addr);
        }
        let wanted = missing.intersection(&self.pace.missing_before).take(CARDS_WANTED_MAX);
        self.events.extend(wanted.copied().map(MembershipEvent::CardWanted));
        self.pace.missing_before = missing;
    }
}

/// True, and clears `at`, when its time has come.
pub(super) fn is_due(at: &mut Option<Instant>, now: Instant) -> bool {
    at.take_if(|at| *at <= now).is_some()
}
