//! Requests for the cards that a node lacks, and their answers.
//!
//! Two members whose digests differ know that one of them lacks something, but not what. The request lists *marks* of the
//! cards that the asking member holds, two bytes each, and the answer has the cards without a mark. So a member that lacks
//! one card of a thousand gets one. Two cards may have the same mark; then the answer leaves one out. Marks depend on a number that each
//! request draws anew, so the next request finds it.

use super::card::MemberCard;
use super::codec::encode_card;
use super::config::{SYNC_DATAGRAMS_MAX, SYNC_GONE_MAX, SYNC_MARKS_MAX, SYNC_REQUESTS_MAX};
use super::datagram::{Draft, ITEM_BYTES_MAX, Item, card_tag, put_item};
use super::swim::Membership;
use super::wire::{CodecError, CodecProblem, Decoded, Reader};
use crate::encoding::node::put_marked;
use crate::encoding::numbers::put_number;
use crate::id::NodeId;
use crate::random::hashed;
use crate::time::Instant;
use alloc::vec::Vec;
use core::net::SocketAddr;

/// The byte that stands for no node.
const NO_NODE: u8 = 0;

/// A request for the cards of a range of nodes that the asking member does not hold.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(super) struct Request {
    /// The range begins after this node.
    pub(super) after: Option<NodeId>,
    /// The range ends with this node.
    pub(super) until: Option<NodeId>,
    salt: u8,
    /// Marks of the cards held in the range, ascending.
    marks: Vec<u16>,
}

impl Request {
    fn new(
        after: Option<NodeId>,
        until: Option<NodeId>,
        salt: u8,
        fingerprints: impl Iterator<Item = u64>,
    ) -> Self {
        let mut marks: Vec<u16> = fingerprints.map(|fingerprint| mark(fingerprint, salt)).collect();
        marks.sort_unstable();
        marks.dedup();
        Self { after, until, salt, marks }
    }

    fn holds(&self, fingerprint: u64) -> bool {
        self.marks.binary_search(&mark(fingerprint, self.salt)).is_ok()
    }

    pub(super) fn put(&self, out: &mut Vec<u8>) {
        for end in [self.after, self.until] {
            match end {
                Some(node) => put_marked(out, node),
                None => out.push(NO_NODE),
            }
        }
        out.push(self.salt);
        put_number(out, self.marks.len() as u64);
        self.marks.iter().for_each(|mark| out.extend_from_slice(&mark.to_le_bytes()));
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Decoded<Self> {
        let mut end = || match reader.rest().first() {
            Some(&NO_NODE) => reader.u8("sync.node").map(|_| None),
            _ => reader.node().map(Some),
        };
        let (after, until) = (end()?, end()?);
        let salt = reader.u8("sync.salt")?;
        let count = reader.varint("sync.marks", SYNC_MARKS_MAX as u64)?;
        let marks: Vec<u16> = (0..count).map(|_| reader.u16("sync.mark")).collect::<Decoded<_>>()?;
        if !marks.is_sorted_by(|a, b| a < b) {
            return Err(CodecError::new("sync.marks", CodecProblem::NotCanonical));
        }
        Ok(Self { after, until, salt, marks })
    }
}

fn mark(fingerprint: u64, salt: u8) -> u16 {
    (hashed([fingerprint, salt.into()]) >> 48) as u16
}

impl Membership {
    /// Asks a peer whose digest differs for the cards that this node lacks, unless it has just asked.
    pub(super) fn ask_for_cards(&mut self, now: Instant, peer: SocketAddr) {
        if self.pace.may_ask(now, &self.config, &self.health) {
            self.request_cards(peer, None);
        }
    }

    /// Asks a peer for the cards after a node that this node lacks.
    ///
    /// At most [`SYNC_REQUESTS_MAX`] datagrams are sent at a time. In a larger cluster they ask about a range that is drawn.
    pub(super) fn request_cards(&mut self, peer: SocketAddr, after: Option<NodeId>) {
        let salt = self.draws.below(256) as u8;
        let held: Vec<(NodeId, u64)> = self.view.held_after(after).collect();
        let count = held.len().div_ceil(SYNC_MARKS_MAX).max(1);
        let first =
            if count > SYNC_REQUESTS_MAX { self.draws.below(count - SYNC_REQUESTS_MAX + 1) } else { 0 };
        for at in first..count.min(first + SYNC_REQUESTS_MAX) {
            let (start, end) = (at * SYNC_MARKS_MAX, held.len().min((at + 1) * SYNC_MARKS_MAX));
            let begins_after = start.checked_sub(1).map_or(after, |last| Some(held[last].0));
            let until = (at + 1 < count).then(|| held[end - 1].0);
            let fingerprints = held[start..end].iter().map(|&(_, fingerprint)| fingerprint);
            let request = Request::new(begins_after, until, salt, fingerprints);
            self.send_item(peer, &Item::Sync(request));
        }
    }

    /// Answers a request with the cards that its sender lacks, by node, in a bounded number of datagrams.
    pub(super) fn send_cards(&mut self, to: SocketAddr, request: &Request) {
        let mut drafts = alloc::vec![self.bare_draft()];
        if request.after.is_none() {
            for id in self.protocol.gone().take(SYNC_GONE_MAX) {
                drafts[0].add(|out| put_item(out, &Item::Gone(id)));
            }
        }
        let mut sent_to = request.after;
        let mut is_cut = false;
        for (card, _) in
            self.view.cards_within(request.after, request.until).filter(|&(_, print)| !request.holds(print))
        {
            let item = card_as_item(card);
            let last = drafts.last_mut().expect("starts with one");
            if !last.add(|out| out.extend_from_slice(&item)) {
                if drafts.len() == SYNC_DATAGRAMS_MAX {
                    is_cut = true;
                    break;
                }
                let mut next = self.bare_draft();
                next.add(|out| out.extend_from_slice(&item));
                drafts.push(next);
            }
            sent_to = Some(card.node);
        }
        // An answer without an item tells its receiver nothing but a digest that it has.
        for draft in drafts.into_iter().filter(Draft::has_items) {
            self.push_transmit(to, draft.finish());
        }
        if let (true, Some(after)) = (is_cut, sent_to) {
            self.send_item(to, &Item::More { after });
        }
    }

    fn bare_draft(&self) -> Draft {
        Draft::bare(&self.own.node, self.view.digest())
    }
}

/// A copy of a card, or a notice if it is too large for a datagram.
fn card_as_item(card: &MemberCard) -> Vec<u8> {
    let mut item = alloc::vec![card_tag(false)];
    encode_card(card, &mut item).expect("a card in a view has passed its check");
    if item.len() > ITEM_BYTES_MAX {
        item.clear();
        put_item(&mut item, &Item::CardNotice { node: card.node, version: card.version, news: false });
    }
    item
}
