//! The two ways of a datagram: UDP, and a connection to its receiver.
//!
//! Some networks block UDP and let TCP pass. A member that answers neither a probe nor the probes that others send in this
//! node's place is suspected, and from then on every datagram to it goes both ways, the accusation first: a member that
//! lives refutes it. Because UDP is still tried, nothing has to be retried: when a member's acknowledgement comes by UDP,
//! UDP works in both directions, and the connection is used no more. This holds because a datagram that came over a
//! connection is answered over connections only. (memberlist has the idea: it probes over TCP when UDP fails.)
//!
//! A node to which datagrams come over connections, and none by UDP for a while, is *unreached*: it informs its operator.

use crate::time::{Duration, Instant};
use alloc::collections::BTreeSet;
use bytes::Bytes;
use core::net::SocketAddr;

/// Largest number of addresses to which datagrams go both ways. A further one takes the place of another, which is added
/// again when it is suspected again.
const DEAF_MAX: usize = 1_024;
/// A node is unreached when datagrams have come over connections, and none by UDP, for this many periods of probing.
const UNREACHED_PERIODS: u64 = 20;

/// A datagram to be sent, and the ways that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The receiver's address.
    pub to: SocketAddr,
    /// The datagram.
    pub bytes: Bytes,
    /// True if it goes by UDP.
    pub by_udp: bool,
    /// True if it goes over a connection to the receiver.
    pub by_connection: bool,
}

/// The ways by which others are reached and this node is reached.
pub(super) struct Carriers {
    /// Addresses whose probes by UDP remain unanswered.
    deaf: BTreeSet<SocketAddr>,
    /// The sender of the datagram that is being handled, if it came over a connection.
    answering: Option<SocketAddr>,
    /// When the first datagram came over a connection, since the last one by UDP.
    relayed_since: Option<Instant>,
    unreached_after: Duration,
    is_unreached: bool,
}

impl Carriers {
    pub(super) fn new(probe_period: Duration) -> Self {
        Self {
            deaf: BTreeSet::new(),
            answering: None,
            relayed_since: None,
            unreached_after: Duration::from_nanos(probe_period.as_nanos().saturating_mul(UNREACHED_PERIODS)),
            is_unreached: false,
        }
    }

    /// A datagram to `to`, on its ways.
    pub(super) fn transmit(&self, to: SocketAddr, bytes: Bytes) -> Transmit {
        let answers = self.answering == Some(to);
        Transmit { to, bytes, by_udp: !answers, by_connection: answers || self.deaf.contains(&to) }
    }

    /// No answer comes from `addr` by UDP.
    pub(super) fn add_deaf(&mut self, addr: SocketAddr) {
        if self.deaf.len() >= DEAF_MAX && !self.deaf.contains(&addr) {
            self.deaf.pop_first();
        }
        self.deaf.insert(addr);
    }

    /// True if a connection to `addr` is worth dialling for.
    pub(super) fn wants_connection(&self, addr: SocketAddr) -> bool {
        self.answering != Some(addr) && self.deaf.contains(&addr)
    }

    /// True if datagrams to `addr` go over a connection too.
    pub(super) fn is_deaf(&self, addr: SocketAddr) -> bool {
        self.deaf.contains(&addr)
    }

    /// An acknowledgement has come from `addr` by UDP: UDP works both ways.
    pub(super) fn acknowledged(&mut self, addr: SocketAddr) {
        self.deaf.remove(&addr);
    }

    /// Answers to `peer` go over its connection until [`Carriers::answered`].
    pub(super) fn answer(&mut self, peer: SocketAddr) {
        self.answering = Some(peer);
    }

    pub(super) fn answered(&mut self) {
        self.answering = None;
    }

    /// A member's datagram has come by UDP. Returns true if this node was unreached.
    pub(super) fn heard_by_udp(&mut self) -> bool {
        self.relayed_since = None;
        core::mem::take(&mut self.is_unreached)
    }

    /// A member's datagram has come over a connection. Returns true if this shows that this node is unreached.
    pub(super) fn heard_by_connection(&mut self, now: Instant) -> bool {
        let since = *self.relayed_since.get_or_insert(now);
        let is_unreached = since.until(now) >= self.unreached_after;
        is_unreached && !core::mem::replace(&mut self.is_unreached, true)
    }

    pub(super) fn is_unreached(&self) -> bool {
        self.is_unreached
    }
}
