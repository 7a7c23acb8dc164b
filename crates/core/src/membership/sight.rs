//! Two ways to know the members: as a member, or as an observer.
//!
//! A client that forms its own trees must know the members without being one: no member probes it, and
//! nothing is lost when it leaves. It takes the view of a member now and then
//! ([`crate::message::Message::WantCards`]), and corrects it by its own findings: a node that it can't reach
//! is out of sight until the next exchange.
//!
//! Members learn of each other at different times. So a member that a view lacks is gone only when all views
//! have lacked it for some time, no matter how many came in that time: a client that connects to many members
//! receives many views at once.
//!
//! In a network that was started from a topology only the front-end knows all processes; a process below another one
//! knows those that it was told of. Its view tells who is there, and never who is gone. No node probes the processes,
//! so a node that waits for one finds out whether it has stopped, and then does not see it until it speaks again.

use super::Membership;
use super::card::MemberCard;
use super::carriers::Transmit;
use super::event::{MembershipError, MembershipEvent};
use super::service::TotalNews;
use super::view::View;
use crate::config::NodeConfig;
use crate::id::NodeId;
use crate::load::figure::LoadFigure;
use crate::message::Cards;
use crate::random::Random;
use crate::time::{Duration, Instant};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use rand_core::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// How often an observer asks for a view.
pub(crate) const EXCHANGE_EVERY: Duration = Duration::from_secs(1);
/// A member that all views have lacked for this long is gone: about three exchanges in a row.
const ABSENT_FOR: Duration = Duration::from_millis(1_500);

/// How a node sees the cluster.
pub(crate) enum Sight {
    Member(Box<Membership>),
    Observer(Box<Observer>),
}

/// The state of an observer.
pub(crate) struct Observer {
    me: NodeId,
    view: View,
    /// Member → the time since which all views have lacked it.
    absent: BTreeMap<NodeId, Instant>,
    /// Processes of a network that have stopped.
    stopped: BTreeSet<NodeId>,
    events: VecDeque<MembershipEvent>,
}

impl Sight {
    /// Creates a member for a node with an address, unless it is configured not to gossip; otherwise an
    /// observer.
    ///
    /// # Panics
    /// If the card breaks a limit of [`MemberCard::check`]; the driver checks it before.
    pub(crate) fn new(config: &NodeConfig, now: Instant, random: &mut Random) -> Self {
        let card = config.card.clone();
        if card.node.is_client() || !config.tuning.membership.gossips {
            let (me, view) = (card.node, View::new(now, Arc::new(card), Duration::ZERO));
            let observer = Observer::new(me, view);
            return Self::Observer(Box::new(observer));
        }
        let generator = Xoshiro256PlusPlus::seed_from_u64(random.next_u64());
        let membership = Membership::new(card, config.tuning.membership, generator, now);
        Self::Member(Box::new(membership.expect("the driver has checked the node's card")))
    }

    pub(crate) fn view(&self) -> &View {
        match self {
            Self::Member(membership) => membership.view(),
            Self::Observer(observer) => &observer.view,
        }
    }

    /// The next news of a service's total.
    pub(crate) fn poll_total_news(&mut self) -> Option<TotalNews> {
        match self {
            Self::Member(membership) => membership.view.poll_total_news(),
            Self::Observer(observer) => observer.view.poll_total_news(),
        }
    }

    /// The cards for a peer. A client that has just come knows as much as the node that it asks.
    pub(crate) fn cards_for(&self, peer: NodeId) -> Cards {
        let cards = match self {
            Self::Member(membership) if peer.is_client() => membership.cards_for_client(),
            Self::Member(membership) => membership.cards(),
            // A client is no source of cards. A node that does not gossip still knows the cards it was given,
            // and its own.
            Self::Observer(observer) if observer.me.is_client() => Vec::new(),
            Self::Observer(observer) => observer.view.cards().cloned().collect(),
        };
        let totals = if peer.is_client() { self.view().remembered() } else { BTreeMap::new() };
        Cards { cards, totals }
    }

    /// Replaces this node's own card.
    pub(crate) fn update_card(&mut self, now: Instant, mut card: MemberCard) -> Result<(), MembershipError> {
        match self {
            Self::Member(membership) => membership.update_card(now, card),
            Self::Observer(observer) => {
                card.check()?;
                card.version = observer.view.card(&card.node).map_or(0, |own| own.version) + 1;
                observer.view.absorb(now, Arc::new(card));
                Ok(())
            }
        }
    }

    pub(crate) fn absorb_cards(
        &mut self,
        now: Instant,
        from: NodeId,
        cards: Cards,
    ) -> Result<(), MembershipError> {
        match self {
            Self::Member(membership) => membership.absorb_cards(now, cards.cards),
            Self::Observer(observer) => observer.take_view(now, from, cards),
        }
    }

    pub(crate) fn report_lost(&mut self, now: Instant, node: NodeId) {
        match self {
            Self::Member(membership) => membership.report_lost(now, node),
            Self::Observer(observer) => {
                observer.stopped.remove(&node);
                observer.lose(node);
            }
        }
    }

    pub(crate) fn is_member(&self) -> bool {
        matches!(self, Self::Member(_))
    }

    /// True if this node itself has to find out whether a node has stopped: processes of a network do not gossip. A process
    /// below another one may have to wait for some that it does not know.
    pub(crate) fn is_unprobed(&self, node: &NodeId) -> bool {
        let Self::Observer(observer) = self else { return false };
        let mut cards = [&observer.me, node].into_iter().filter_map(|node| observer.view.card(node));
        cards.any(|card| card.parent.is_some())
    }

    /// A process of a network says nothing any more, although it is connected.
    pub(crate) fn report_stopped(&mut self, node: NodeId) {
        if let Self::Observer(observer) = self
            && observer.stopped.insert(node)
        {
            observer.lose(node);
        }
    }

    /// True if a process of a network has stopped.
    pub(crate) fn has_stopped(&self, node: &NodeId) -> bool {
        matches!(self, Self::Observer(observer) if observer.stopped.contains(node))
    }

    pub(crate) fn report_connected(&mut self, now: Instant, node: NodeId) {
        match self {
            Self::Member(membership) => membership.report_connected(now, node),
            Self::Observer(observer) => drop(observer.stopped.remove(&node)),
        }
    }

    pub(crate) fn is_unreached_by_udp(&self) -> bool {
        matches!(self, Self::Member(membership) if membership.is_unreached_by_udp())
    }

    /// Believes the claims about totals that have stood for long enough. An observer believes every claim.
    pub(crate) fn settle_claims(&mut self, now: Instant) {
        if let Self::Member(membership) = self {
            membership.settle_claims(now);
        }
    }

    pub(crate) fn join(&mut self, now: Instant, addr: SocketAddr) {
        if let Self::Member(membership) = self {
            membership.join(now, addr);
        }
    }

    pub(crate) fn leave(&mut self, now: Instant) {
        if let Self::Member(membership) = self {
            membership.leave(now);
        }
    }

    pub(crate) fn announce_load(&mut self, now: Instant, figure: LoadFigure) {
        if let Self::Member(membership) = self {
            membership.announce_load(now, figure);
        }
    }

    /// Takes a datagram. An observer takes part in no gossip: it ignores every such datagram.
    pub(crate) fn handle_datagram(&mut self, now: Instant, bytes: &[u8]) -> Result<(), MembershipError> {
        match self {
            Self::Member(membership) => membership.handle_datagram(now, bytes),
            Self::Observer(_) => Ok(()),
        }
    }

    /// Takes a datagram that came over a connection to `peer`.
    pub(crate) fn handle_relayed(
        &mut self,
        now: Instant,
        peer: NodeId,
        bytes: &[u8],
    ) -> Result<(), MembershipError> {
        match self {
            Self::Member(membership) => membership.handle_relayed(now, peer, bytes),
            Self::Observer(_) => Ok(()),
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if let Self::Member(membership) = self
            && membership.poll_timeout().is_some_and(|at| at <= now)
        {
            membership.handle_timeout(now);
        }
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        match self {
            Self::Member(membership) => membership.poll_timeout(),
            Self::Observer(_) => None,
        }
    }

    pub(crate) fn poll_transmit(&mut self) -> Option<Transmit> {
        match self {
            Self::Member(membership) => membership.poll_transmit(),
            Self::Observer(_) => None,
        }
    }

    pub(crate) fn poll_event(&mut self) -> Option<MembershipEvent> {
        match self {
            Self::Member(membership) => membership.poll_event(),
            Self::Observer(observer) => observer.events.pop_front(),
        }
    }
}

impl Observer {
    fn new(me: NodeId, view: View) -> Self {
        Self { me, view, absent: BTreeMap::new(), stopped: BTreeSet::new(), events: VecDeque::new() }
    }

    /// Takes a member's view, or the cards given to a node that does not gossip.
    fn take_view(
        &mut self,
        now: Instant,
        from: NodeId,
        Cards { cards, totals }: Cards,
    ) -> Result<(), MembershipError> {
        cards.iter().try_for_each(|card| card.check())?;
        self.stopped.remove(&from);
        let is_part = cards.iter().any(|card| card.node == from && card.parent.is_some());
        if self.me.is_client() && !is_part {
            self.remove_lacking(now, &cards);
        }
        let is_there = |node: &NodeId| *node != self.me && !self.stopped.contains(node);
        for card in cards.into_iter().filter(|card| is_there(&card.node)) {
            let node = card.node;
            if self.view.join(node) {
                self.events.push_back(MembershipEvent::Joined(node));
            }
            if self.view.absorb(now, card) {
                self.events.push_back(MembershipEvent::Card(node));
            }
        }
        self.view.remember(totals);
        Ok(())
    }

    /// Removes the members that all views have lacked for some time.
    ///
    /// A node that does not gossip is given some cards, not all, so it removes none.
    fn remove_lacking(&mut self, now: Instant, cards: &[Arc<MemberCard>]) {
        let there: BTreeSet<NodeId> = cards.iter().map(|card| card.node).chain([self.me]).collect();
        self.absent.retain(|node, _| !there.contains(node));
        for node in self.view.alive().filter(|node| !there.contains(node)) {
            self.absent.entry(*node).or_insert(now);
        }
        let is_gone = |(node, since): (&NodeId, &Instant)| (since.until(now) >= ABSENT_FOR).then_some(*node);
        let gone: Vec<NodeId> = self.absent.iter().filter_map(is_gone).collect();
        gone.into_iter().for_each(|node| self.lose(node));
    }

    fn lose(&mut self, node: NodeId) {
        self.absent.remove(&node);
        if node != self.me && self.view.leave(&node) {
            self.events.push_back(MembershipEvent::Left(node));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::membership::card::ServiceCard;
    use crate::partitions::PartitionSet;
    use alloc::vec;

    fn card(port: u16) -> Arc<MemberCard> {
        let node = NodeId { addr: ([10, 0, 0, 1], port).into(), generation: 1 };
        Arc::new(MemberCard::new(node))
    }

    #[test]
    fn a_member_is_gone_only_after_all_views_lack_it_for_some_time() {
        let me = NodeId { addr: ([0, 0, 0, 0], 0).into(), generation: 9 };
        let view = View::new(Instant::START, Arc::new(MemberCard::new(me)), Duration::ZERO);
        let mut observer = Observer::new(me, view);
        let (old, newcomer) = (card(1), card(2));
        let at = |ms: u64| Instant::START + Duration::from_millis(ms);
        observer.take_view(at(0), old.node, vec![old.clone(), newcomer.clone()].into()).unwrap();
        for _ in 0..16 {
            observer.take_view(at(1), old.node, vec![old.clone()].into()).unwrap();
        }
        assert!(observer.view.contains(&newcomer.node));
        observer.take_view(at(1_000), old.node, vec![old.clone(), newcomer.clone()].into()).unwrap();
        observer.take_view(at(2_000), old.node, vec![old.clone()].into()).unwrap();
        observer.take_view(at(3_000), old.node, vec![old.clone()].into()).unwrap();
        assert!(observer.view.contains(&newcomer.node), "one view had it in between");
        observer.take_view(at(4_000), old.node, vec![old.clone()].into()).unwrap();
        assert!(!observer.view.contains(&newcomer.node));
        assert!(observer.view.contains(&old.node));
    }
    #[test]
    fn a_stopped_process_is_out_of_sight_until_it_speaks() {
        let me = NodeId { addr: ([0, 0, 0, 0], 0).into(), generation: 9 };
        let view = View::new(Instant::START, Arc::new(MemberCard::new(me)), Duration::ZERO);
        let mut sight = Sight::Observer(Box::new(Observer::new(me, view)));
        let front_end = card(1);
        let process = Arc::new(MemberCard { parent: Some(front_end.node), ..(*card(2)).clone() });
        let take = |sight: &mut Sight, from: &MemberCard| {
            let cards = vec![front_end.clone(), process.clone()];
            sight.absorb_cards(Instant::START, from.node, cards.into()).unwrap();
        };
        take(&mut sight, &front_end);
        assert!(sight.is_unprobed(&process.node) && !sight.is_unprobed(&front_end.node));
        sight.report_stopped(process.node);
        take(&mut sight, &front_end);
        assert!(!sight.view().contains(&process.node), "the front-end does not know it");
        take(&mut sight, &process);
        assert!(sight.view().contains(&process.node) && !sight.has_stopped(&process.node));
        sight.report_stopped(process.node);
        sight.report_lost(Instant::START, process.node);
        take(&mut sight, &front_end);
        assert!(sight.view().contains(&process.node), "it has come by a new connection");
    }

    #[test]
    fn a_client_that_comes_late_knows_what_the_cluster_remembers() {
        let front_end = card(1).node;
        let view = View::new(Instant::START, card(1), Duration::ZERO);
        let mut sight = Sight::Observer(Box::new(Observer::new(front_end, view)));
        let provider = |total: u32| {
            let mut card = (*card(2)).clone();
            let partitions = PartitionSet::first(total);
            let service = ServiceCard { partitions, total, declared: true, placed: None };
            card.services.insert("s".into(), service);
            Arc::new(card)
        };
        sight.absorb_cards(Instant::START, front_end, vec![provider(4)].into()).unwrap();
        sight.report_lost(Instant::START, card(2).node);
        let client = NodeId { addr: ([0, 0, 0, 0], 0).into(), generation: 10 };
        let known = sight.cards_for(client);
        assert_eq!(known.totals, [("s".into(), 4)].into());
        let view = View::new(Instant::START, Arc::new(MemberCard::new(client)), Duration::ZERO);
        let mut late = Sight::Observer(Box::new(Observer::new(client, view)));
        late.absorb_cards(Instant::START, front_end, known.clone()).unwrap();
        assert_eq!((late.view().partitions_total("s"), late.view().providers("s", 0)), (4, &[][..]));
        late.absorb_cards(Instant::START, front_end, vec![card(1), provider(6)].into()).unwrap();
        late.absorb_cards(Instant::START, front_end, known).unwrap();
        assert_eq!(late.view().partitions_total("s"), 6, "a member knows better");

        // A node that only folds for the service does not hide it.
        let folding = || {
            let mut card = (*card(3)).clone();
            card.services.insert("s".into(), ServiceCard::default());
            Arc::new(card)
        };
        sight.absorb_cards(Instant::START, front_end, vec![folding()].into()).unwrap();
        let view = View::new(Instant::START, Arc::new(MemberCard::new(client)), Duration::ZERO);
        let mut late = Sight::Observer(Box::new(Observer::new(client, view)));
        late.absorb_cards(Instant::START, front_end, sight.cards_for(client)).unwrap();
        assert_eq!(late.view().partitions_total("s"), 4);
    }

    #[test]
    fn a_process_below_another_says_nothing_about_members_that_it_does_not_know() {
        let me = NodeId { addr: ([0, 0, 0, 0], 0).into(), generation: 9 };
        let view = View::new(Instant::START, Arc::new(MemberCard::new(me)), Duration::ZERO);
        let mut observer = Observer::new(me, view);
        let front_end = card(1);
        let below = |port| Arc::new(MemberCard { parent: Some(front_end.node), ..(*card(port)).clone() });
        let (one, other) = (below(2), below(3));
        let at = |ms: u64| Instant::START + Duration::from_millis(ms);
        let all = vec![front_end.clone(), one.clone(), other.clone()];
        observer.take_view(at(0), front_end.node, all.into()).unwrap();
        for second in 1..10 {
            observer.take_view(at(1_000 * second), one.node, vec![one.clone()].into()).unwrap();
        }
        assert!(observer.view.contains(&other.node) && observer.view.contains(&front_end.node));
        for second in 10..13 {
            let rest = vec![front_end.clone(), one.clone()];
            observer.take_view(at(1_000 * second), front_end.node, rest.into()).unwrap();
        }
        assert!(!observer.view.contains(&other.node) && observer.view.contains(&one.node));
    }
}
