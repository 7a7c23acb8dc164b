//! News of cards and loads, of this node and of others, that this node passes on.

use super::card::MemberCard;
use super::codec::encode_card;
use super::config::{BULK_CARDS, BULK_TRANSMISSIONS, LOAD_TRANSMISSIONS};
use super::datagram::{Draft, Item, card_tag, put_item};
use super::rumour::Rumours;
use crate::id::NodeId;
use crate::load::figure::LoadFigure;
use crate::time::{Duration, Instant};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use bytes::Bytes;

/// A larger card does not travel in datagrams; a notice of its version does.
const CARD_GOSSIP_BYTES_MAX: usize = 1_200;

/// The part of a card that is passed on.
enum CardRumour {
    /// The card, encoded once.
    Whole(Bytes),
    /// Only the number of the version that exists.
    Notice(u64),
}

/// A node's load as it is passed on.
#[derive(Clone, Copy)]
pub(super) struct LoadRumour {
    pub(super) sequence: u64,
    pub(super) figure: LoadFigure,
    pub(super) as_of: Instant,
}

/// News of cards and loads in circulation.
pub(super) struct News {
    cards: Rumours<CardRumour>,
    loads: Rumours<LoadRumour>,
    /// Sequence number of the newest load of each other node.
    load_sequences: BTreeMap<NodeId, u64>,
    own_load: Option<LoadRumour>,
}

impl News {
    pub(super) const fn new() -> Self {
        Self { cards: Rumours::new(), loads: Rumours::new(), load_sequences: BTreeMap::new(), own_load: None }
    }

    /// Starts to pass on a card that has passed its check.
    pub(super) fn spread_card(&mut self, card: &MemberCard) {
        let mut bytes = Vec::new();
        encode_card(card, &mut bytes).expect("a card in a view has passed its check");
        let whole = bytes.len() <= CARD_GOSSIP_BYTES_MAX;
        let rumour = if whole { CardRumour::Whole(bytes.into()) } else { CardRumour::Notice(card.version) };
        self.cards.insert(card.node, rumour);
    }

    /// Starts to pass on that a version of a card exists.
    pub(super) fn spread_notice(&mut self, node: NodeId, version: u64) {
        self.cards.insert(node, CardRumour::Notice(version));
    }

    /// Starts to pass on this node's load.
    ///
    /// If the load has not changed, it is held back until `repeat` has passed since the last time; the result
    /// is then false.
    pub(super) fn announce_load(
        &mut self,
        now: Instant,
        own: NodeId,
        figure: LoadFigure,
        repeat: Duration,
    ) -> bool {
        let sequence = match &self.own_load {
            Some(last) if last.figure == figure && now.since(last.as_of) < repeat => return false,
            Some(last) => last.sequence + 1,
            None => 1,
        };
        let load = LoadRumour { sequence, figure, as_of: now };
        self.own_load = Some(load);
        self.loads.insert(own, load);
        true
    }

    /// Takes the load of another node and starts to pass it on. Returns false if a newer one is known.
    pub(super) fn take_load(&mut self, node: NodeId, load: LoadRumour) -> bool {
        let known = self.load_sequences.entry(node).or_insert(0);
        let is_newer = load.sequence > *known;
        if is_newer {
            *known = load.sequence;
            self.loads.insert(node, load);
        }
        is_newer
    }

    /// Forgets a lost member.
    pub(super) fn forget(&mut self, node: &NodeId) {
        self.cards.remove(node);
        self.loads.remove(node);
        self.load_sequences.remove(node);
    }

    /// True while a card is to be passed on, which is more urgent than a load.
    pub(super) fn is_urgent(&self) -> bool {
        !self.cards.is_empty()
    }

    /// True while more cards are to be passed on than fit into a datagram.
    pub(super) fn is_bulk(&self) -> bool {
        self.cards.len() > BULK_CARDS
    }

    pub(super) fn is_empty(&self) -> bool {
        self.cards.is_empty() && self.loads.is_empty()
    }

    /// Adds as much news to a datagram as fits, cards first.
    pub(super) fn fill(&mut self, now: Instant, draft: &mut Draft, card_transmissions: u8) {
        let transmissions =
            if self.is_bulk() { card_transmissions.min(BULK_TRANSMISSIONS) } else { card_transmissions };
        self.cards.fill(draft, transmissions, |out, node, rumour| match rumour {
            CardRumour::Whole(card) => {
                out.push(card_tag(true));
                out.extend_from_slice(card);
            }
            CardRumour::Notice(version) => {
                put_item(out, &Item::CardNotice { node: *node, version: *version, news: true });
            }
        });
        self.loads.fill(draft, LOAD_TRANSMISSIONS, |out, node, load| {
            let (age, figure) = (now.since(load.as_of), load.figure);
            put_item(out, &Item::Load { node: *node, sequence: load.sequence, age, figure });
        });
    }
}
