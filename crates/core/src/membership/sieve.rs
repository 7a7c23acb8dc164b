//! The updates of SWIM that tell foca nothing new, which foca need not see.
//!
//! Each piece of news reaches a node several times, and foca searches all members for each copy. A cluster of n nodes that
//! start together brings each node several times n copies, so foca's searches would grow as n² at each node. The sieve remembers
//! what foca is known to know, and drops copies before foca sees them.
//!
//! It also keeps plain newcomers out of foca's news: a member in its first life that nothing has been said about yet. Its card
//! is news too, spreads to the same nodes, and says that the member lives. foca's news are left to suspicions, refutations,
//! deaths and later lives. (foca goes through all of its news whenever it sends a datagram, so a long list is dear.)
//!
//! Invariant: the sieve drops an update only if foca would not change by it. foca's record of an identity only rises, in the
//! order alive *i* < suspect *i* < alive *i* + 1, until the member is down. The sieve forgets an address when foca tells of a
//! change there.

use super::identity::{SwimCodec, SwimId};
use super::protocol::Protocol;
use super::wire::Reader;
use alloc::borrow::Cow;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::SocketAddr;
use foca::{Header, Incarnation, Member, Message, State};

/// The most addresses that the sieve remembers. Beyond, foca searches.
const KNOWN_MAX: usize = 65_536;

/// The order in which foca's record of a living identity rises.
type Rank = (Incarnation, bool);

/// A lower bound of foca's records of living members.
#[derive(Default)]
pub(super) struct Sieve {
    known: BTreeMap<SocketAddr, (SwimId, Rank)>,
}

impl Sieve {
    /// Forgets an address: foca's record of it has changed in another way than by rising.
    pub(super) fn forget(&mut self, addr: SocketAddr) {
        self.known.remove(&addr);
    }

    fn has(&self, update: &Member<SwimId>, rank: Rank) -> bool {
        self.known.get(&update.id().node.addr).is_some_and(|(id, known)| id == update.id() && *known >= rank)
    }

    fn learn(&mut self, record: &Member<SwimId>, rank: Rank) {
        let addr = record.id().node.addr;
        if self.known.len() < KNOWN_MAX || self.known.contains_key(&addr) {
            self.known.insert(addr, (*record.id(), rank));
        }
    }
}

/// The rank of a living member's record; `None` if the member is down.
fn rank_of(member: &Member<SwimId>) -> Option<Rank> {
    match member.state() {
        State::Alive => Some((member.incarnation(), false)),
        State::Suspect => Some((member.incarnation(), true)),
        State::Down => None,
    }
}

impl Protocol {
    /// Returns SWIM's message without the updates that foca does not need. The message has been validated.
    ///
    /// The updates of a sender that foca does not know as a living member stay: foca decides whether it believes them.
    pub(super) fn sift<'a>(&mut self, swim: &'a [u8], header: &Header<SwimId>) -> Cow<'a, [u8]> {
        let me = self.me();
        let is_for_me =
            header.dst == me || (header.message == Message::Announce && header.dst.node.addr == me.node.addr);
        let sender = Member::new(header.src, header.src_incarnation, State::Alive);
        if is_for_me && self.is_plain_newcomer(&sender) {
            self.tell(sender.clone(), false);
        }
        if matches!(header.message, Message::Announce | Message::TurnUndead)
            || !is_for_me
            || !self.is_living(&sender)
        {
            return swim.into();
        }
        let mut reader = Reader::new(swim);
        let (Ok(_), rest) = (SwimCodec::read_header(&mut reader), reader.rest()) else {
            return swim.into();
        };
        let mut sifted = Vec::with_capacity(swim.len());
        sifted.extend_from_slice(&swim[..swim.len() - rest.len()]);
        let count_at = sifted.len();
        sifted.extend_from_slice(&[0; 2]);
        let (Ok(count), mut kept) = (reader.u16_be("swim.updates"), 0_u16) else { return swim.into() };
        for _ in 0..count {
            let before = reader.rest();
            let Ok(update) = SwimCodec::read_member(&mut reader) else { return swim.into() };
            if !self.knows(&update) {
                sifted.extend_from_slice(&before[..before.len() - reader.rest().len()]);
                kept += 1;
            }
        }
        sifted[count_at..count_at + 2].copy_from_slice(&kept.to_be_bytes());
        sifted.into()
    }

    /// True if foca does not need the update, because it knows as much or has been told now.
    fn knows(&mut self, update: &Member<SwimId>) -> bool {
        let Some(rank) = rank_of(update).filter(|_| update.id().node.addr != self.me().node.addr) else {
            return false;
        };
        if self.sieve.has(update, rank) {
            return true;
        }
        let Some(record) = self.record_at(update.id().node.addr) else {
            let is_plain = self.is_plain_newcomer(update);
            if is_plain {
                self.tell(update.clone(), false);
            }
            return is_plain;
        };
        if record.id() != update.id() {
            return false;
        }
        // A member that is down stays down in this life.
        let Some(known) = rank_of(&record) else { return true };
        self.sieve.learn(&record, known);
        known >= rank
    }

    /// True if foca knows the sender as alive, so that it believes the sender's updates.
    fn is_living(&mut self, sender: &Member<SwimId>) -> bool {
        let is_known = self.sieve.known.get(&sender.id().node.addr).is_some_and(|(id, _)| id == sender.id());
        is_known || self.alive_at(sender.id().node.addr) == Some(sender.id().node)
    }

    /// True for a member in its first life about which foca knows nothing.
    fn is_plain_newcomer(&self, member: &Member<SwimId>) -> bool {
        let is_plain = member.id().life == 0 && rank_of(member) == Some((0, false));
        is_plain
            && member.id().node.addr != self.me().node.addr
            && self.record_at(member.id().node.addr).is_none()
    }
}
