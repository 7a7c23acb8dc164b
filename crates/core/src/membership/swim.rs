//! One node's share of membership: what it holds, and what its owner may ask of it.
//!
//! The rest of the machine is in three files: [`inbound`](super::inbound) takes datagrams,
//! [`pace`](super::pace) does what is due, [`outbox`](super::outbox) turns what foca asks for into alarms, events
//! and datagrams. Every input ends in `settle`, so the view, the alarms and the queues agree whenever the owner
//! looks.

use super::alarms::{Alarm, Alarms};
use super::card::MemberCard;
use super::codec::encode_card;
use super::config::{MembershipConfig, SEEDS_MAX};
use super::event::{MembershipError, MembershipEvent};
use super::health::Health;
use super::identity::{SwimCodec, SwimId};
use super::outbox::Outbox;
use super::pace::Pace;
use super::rumour::Rumours;
use super::view::View;
use crate::id::NodeId;
use crate::load::figure::LoadFigure;
use crate::time::{Duration, Instant};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::SocketAddr;
use foca::{Foca, Member, NoCustomBroadcast, State};
use rand_core::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A card larger than this does not travel in datagrams; word of its version does.
const CARD_GOSSIP_BYTES_MAX: usize = 1_200;

/// What is passed on of a card.
pub(super) enum CardRumour {
    /// The card, encoded once.
    Whole(Bytes),
    /// That this version exists.
    Notice(u64),
}

/// What is passed on of a load.
pub(super) struct LoadRumour {
    pub(super) sequence: u64,
    pub(super) figure: LoadFigure,
    pub(super) as_of: Instant,
}

/// One node's share of membership. See the [module](super) for how it is driven.
pub struct Membership {
    pub(super) config: MembershipConfig,
    pub(super) foca: Foca<SwimId, SwimCodec, Xoshiro256PlusPlus, NoCustomBroadcast>,
    pub(super) outbox: Outbox,
    pub(super) rng: Xoshiro256PlusPlus,
    pub(super) own: Arc<MemberCard>,
    pub(super) view: View,
    pub(super) alarms: Alarms,
    pub(super) pace: Pace,
    pub(super) health: Health,
    pub(super) cards: Rumours<CardRumour>,
    pub(super) loads: Rumours<LoadRumour>,
    pub(super) load_sequences: BTreeMap<NodeId, u64>,
    pub(super) own_load: Option<LoadRumour>,
    pub(super) seeds: Vec<SocketAddr>,
    /// Where members were that are gone, the last at the end.
    pub(super) departed: Vec<SocketAddr>,
    pub(super) transmits: VecDeque<(SocketAddr, Bytes)>,
    pub(super) events: VecDeque<MembershipEvent>,
    pub(super) transmissions: u8,
    pub(super) has_left: bool,
}

impl Membership {
    /// A node that knows of nobody yet. `card.version` below 1 is taken as 1. The generation in `card.node` must
    /// differ from that of any process before it at the same address, and had better be higher.
    ///
    /// # Errors
    /// The limit that the card breaks.
    pub fn new(
        mut card: MemberCard,
        config: MembershipConfig,
        mut rng: Xoshiro256PlusPlus,
        now: Instant,
    ) -> Result<Self, MembershipError> {
        card.check()?;
        card.version = card.version.max(1);
        let own = Arc::new(card);
        let foca_config = config.for_foca(1);
        let transmissions = foca_config.max_transmissions.get();
        // foca draws from the seed's own stream and this wrapper from the next, 2¹²⁸ steps on.
        let foca_rng = rng.clone();
        rng.jump();
        let mut membership = Self {
            foca: Foca::new(SwimId::first_life(own.node), foca_config, foca_rng, SwimCodec),
            outbox: Outbox::default(),
            rng,
            view: View::new(own.clone()),
            alarms: Alarms::default(),
            pace: Pace::new(&config, now),
            health: Health::default(),
            cards: Rumours::new(),
            loads: Rumours::new(),
            load_sequences: BTreeMap::new(),
            own_load: None,
            seeds: Vec::new(),
            departed: Vec::new(),
            transmits: VecDeque::new(),
            events: VecDeque::new(),
            transmissions,
            has_left: false,
            own,
            config,
        };
        membership.spread_card(&membership.own.clone());
        Ok(membership)
    }

    /// This node.
    pub fn node(&self) -> NodeId {
        self.own.node
    }

    /// Who is alive and what each holds; this node included.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Calls on whoever lives at `addr` until somebody there is a member, and again should it ever vanish.
    /// Beyond [`SEEDS_MAX`] addresses the call is made once and not remembered.
    pub fn join(&mut self, now: Instant, addr: SocketAddr) {
        if addr == self.own.node.addr || self.has_left {
            return;
        }
        if !self.seeds.contains(&addr) && self.seeds.len() < SEEDS_MAX {
            self.seeds.push(addr);
        }
        self.call_on(addr);
        self.seek_soon(now);
        self.settle(now);
    }

    /// Tells a few members that this node is gone; they tell the rest. Afterwards nothing that comes in has any
    /// effect. The owner should still send what [`Membership::poll_transmit`] has.
    pub fn leave(&mut self, now: Instant) {
        if self.has_left {
            return;
        }
        let left = self.foca.leave_cluster(&mut self.outbox);
        debug_assert!(left.is_ok(), "foca can always encode its own identity: {left:?}");
        self.settle(now);
        self.has_left = true;
        self.alarms = Alarms::default();
        self.pace = Pace::new(&self.config, now);
    }

    /// Replaces this node's card; its version is set to the next.
    ///
    /// # Errors
    /// The card is another node's, or breaks a limit.
    pub fn update_card(&mut self, now: Instant, mut card: MemberCard) -> Result<(), MembershipError> {
        if card.node != self.own.node {
            return Err(MembershipError::NotOwnCard);
        }
        card.check()?;
        card.version = self.own.version + 1;
        self.own = Arc::new(card);
        self.view.absorb(self.own.clone());
        self.spread_card(&self.own.clone());
        self.settle(now);
        Ok(())
    }

    /// Announces this node's load; a later figure takes an earlier one's place on its way. One that has not
    /// changed is held back until [`MembershipConfig::load_repeat`] has passed.
    pub fn announce_load(&mut self, now: Instant, figure: LoadFigure) {
        let sequence = match &self.own_load {
            Some(last) if last.figure == figure && now.since(last.as_of) < self.config.load_repeat => return,
            Some(last) => last.sequence + 1,
            None => 1,
        };
        self.own_load = Some(LoadRumour { sequence, figure, as_of: now });
        self.loads.insert(self.own.node, LoadRumour { sequence, figure, as_of: now });
        self.settle(now);
    }

    /// The cards of all living members, this node's among them: what is exchanged over a new connection.
    pub fn cards(&self) -> Vec<Arc<MemberCard>> {
        self.view.cards().cloned().collect()
    }

    /// The living members whose card, or whose newest card, has not come.
    pub fn missing_cards(&self) -> impl ExactSizeIterator<Item = &NodeId> + '_ {
        self.view.missing_cards()
    }

    /// Takes the cards that a peer had. A card is a sign of life: whoever was not known becomes a member, unless
    /// it is known to be down. (If it is not alive after all, it is found out as any other.)
    ///
    /// # Errors
    /// The first card that breaks a limit; then none is taken.
    pub fn absorb_cards(&mut self, now: Instant, cards: Vec<Arc<MemberCard>>) -> Result<(), MembershipError> {
        if self.has_left {
            return Ok(());
        }
        cards.iter().try_for_each(|card| card.check())?;
        for card in cards {
            self.take_card(now, card, false);
        }
        self.settle(now);
        Ok(())
    }

    /// A connection to `node` broke. A hint: the member is suspected and told so, and has its time to refute.
    pub fn report_lost(&mut self, now: Instant, node: NodeId) {
        let Some(member) = self.foca.iter_members().find(|member| member.id().node == node).cloned() else {
            return;
        };
        if self.has_left || member.state() == State::Suspect {
            return;
        }
        let (id, incarnation) = (*member.id(), member.incarnation());
        self.tell_foca(Member::new(id, incarnation, State::Suspect), true);
        let suspicion = self.health.stretch(self.config.suspicion);
        self.alarms.push(now + suspicion, Alarm::Verdict { id, incarnation });
        self.accuse(now, id, incarnation, suspicion);
        self.settle(now);
    }

    /// The next datagram to send, and where to.
    pub fn poll_transmit(&mut self) -> Option<(SocketAddr, Bytes)> {
        self.transmits.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<MembershipEvent> {
        self.events.pop_front()
    }

    /// When [`Membership::handle_timeout`] is next due. Ask again after every input.
    pub fn poll_timeout(&self) -> Option<Instant> {
        [self.alarms.first_at(), self.pace.first_at()].into_iter().flatten().min()
    }

    /// Starts to pass on a card that has passed its check.
    pub(super) fn spread_card(&mut self, card: &MemberCard) {
        let mut bytes = Vec::new();
        encode_card(card, &mut bytes).expect("a card in a view has passed its check");
        let whole = bytes.len() <= CARD_GOSSIP_BYTES_MAX;
        let rumour = if whole { CardRumour::Whole(bytes.into()) } else { CardRumour::Notice(card.version) };
        self.cards.insert(card.node, rumour);
    }

    /// Feeds foca what this wrapper found out; `spread` if the others should hear of it from here.
    pub(super) fn tell_foca(&mut self, member: Member<SwimId>, spread: bool) {
        let told = self.foca.apply_many(core::iter::once(member), spread, &mut self.outbox);
        debug_assert!(told.is_ok(), "foca can always encode a member: {told:?}");
    }

    /// Announces this node to whoever lives at `addr`, and so who it is by now.
    pub(super) fn call_on(&mut self, addr: SocketAddr) {
        let called = self.foca.announce(SwimId::whoever_at(addr), &mut self.outbox);
        debug_assert!(called.is_ok(), "a header always fits a datagram: {called:?}");
    }

    /// `period` varied at random by up to ± `percent`: periods that are equal everywhere fall into step.
    pub(super) fn vary(&mut self, period: Duration, percent: u64) -> Duration {
        let unit = (self.rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        period.mul_f64(1.0 + (2.0 * unit - 1.0) * percent as f64 / 100.0)
    }

    /// A number below `count`, which must not be zero, each as likely.
    pub(super) fn draw(&mut self, count: usize) -> usize {
        ((u128::from(self.rng.next_u64()) * count as u128) >> 64) as usize
    }
}
