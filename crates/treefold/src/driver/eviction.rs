//! Closes the slowest connections when all connections together make the node hold too many bytes.
//!
//! **Frames that have arrived in part.** Guests, which are clients and nodes that are no members, may hold
//! `unfinished_bytes_max` together. All connections together may hold `held_bytes_max` more, because members and attached
//! workers send large payloads only within the credit that core gives them, and `held_bytes_max` bounds that credit.
//!
//! **Messages that wait to be written.** All clients together may leave `clients_outbox_bytes_max` unread. Each peer also
//! has `outbox_bytes_max` ([`super::traffic`]).
//!
//! If a sum is above its limit, the connection that has made the least progress for the bytes that it holds is closed, with
//! a fault if it can still be told. Guests are closed before members, so a stranger cannot end a transfer between members.

use super::Loop;
use super::holding::{Holding, Sums};
use super::link::{Link, Route};
use crate::transport::say_last;
use crate::wire::{Fault, WireError};
use std::rc::Rc;
use treefold_core::id::NodeId;
use treefold_core::limits::Limits;
use treefold_core::time::Instant;

/// The sums of all connections of a node.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Bytes of frames that have arrived in part.
    pub(crate) arriving: Rc<Sums>,
    /// Bytes that wait for clients to read them.
    pub(crate) waiting: Rc<Sums>,
}

/// The most unfinished bytes of guests, and of all connections. One message at the limit always fits.
fn unfinished_max(limits: &Limits) -> (usize, usize) {
    let message = limits.payload_bytes_max.saturating_add(limits.header_bytes_max);
    let guests = limits.unfinished_bytes_max.max(message);
    (guests, guests.saturating_add(limits.held_bytes_max))
}

/// The most bytes that wait for all clients. One client at its own limit always fits.
fn waiting_max(limits: &Limits) -> usize {
    limits.clients_outbox_bytes_max.max(limits.outbox_bytes_max)
}

impl Loop {
    /// Notes the unfinished bytes of a connection after a read.
    pub(super) fn note_unfinished(self: &Rc<Self>, link: &Rc<Link>, held: usize) {
        if link.arriving.ignores(held) {
            return;
        }
        let now = self.now();
        link.arriving.note(now, held, || !self.is_trusted(link.peer));
        let (guests_max, all_max) = unfinished_max(&self.identity.limits);
        let Sums { all, guests } = &*self.held.arriving;
        while guests.get() > guests_max || all.get() > all_max {
            let limit = if guests.get() > guests_max { guests_max } else { all_max };
            let Some(slowest) = self.slowest(now, |link| &link.arriving) else { break };
            self.evict(&slowest, &WireError::Unfinished { limit: limit as u64 });
        }
    }

    /// Notes the bytes that wait for a client, after a message for it or a write.
    pub(super) fn note_waiting(self: &Rc<Self>, link: &Rc<Link>, held: usize) {
        if !link.peer.is_client() || !link.open.get() || link.waiting.ignores(held) {
            return;
        }
        let now = self.now();
        link.waiting.note(now, held, || true);
        let limit = waiting_max(&self.identity.limits);
        while self.held.waiting.all.get() > limit {
            let Some(slowest) = self.slowest(now, |link| &link.waiting) else { break };
            self.evict(&slowest, &WireError::Unread { limit: limit as u64 });
        }
    }

    /// True for members and attached workers.
    fn is_trusted(&self, peer: NodeId) -> bool {
        self.members.borrow().contains(&peer) || self.machine.borrow().node.has_worker(peer)
    }

    fn slowest(&self, now: Instant, holding: impl Fn(&Link) -> &Holding) -> Option<Rc<Link>> {
        let peers = self.peers.borrow();
        let links = peers.routes.values().flat_map(|route| match route {
            Route::Up(links) => links.as_slice(),
            Route::Dialing(_) => &[],
        });
        let holders = links.filter(|link| holding(link).held() > 0);
        holders.min_by(|a, b| holding(a).compare(holding(b), now)).map(Rc::clone)
    }

    fn evict(self: &Rc<Self>, link: &Rc<Link>, error: &WireError) {
        self.complaints.about(link.peer, error);
        self.dismiss(link, Fault::from(error));
    }

    /// Closes a connection that another task reads, and tells its peer why.
    pub(super) fn dismiss(self: &Rc<Self>, link: &Rc<Link>, fault: Fault) {
        // After a part of a frame, the peer could not decode a fault.
        let understood = !link.blocked.get();
        self.lose(link.peer);
        if understood {
            let (link, identity) = (Rc::clone(link), self.identity.clone());
            tokio::task::spawn_local(async move { say_last(&link.write, &fault, &identity).await });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_and_one_client_always_fit() {
        let limits = Limits {
            unfinished_bytes_max: 1,
            clients_outbox_bytes_max: 1,
            payload_bytes_max: 100,
            header_bytes_max: 10,
            outbox_bytes_max: 1_000,
            ..Limits::DEFAULT
        };
        assert_eq!(unfinished_max(&limits), (110, 110 + limits.held_bytes_max));
        assert_eq!(waiting_max(&limits), 1_000);
    }
}
