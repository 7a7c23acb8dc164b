//! The keys of datagrams: who gets them from this process, and when.

use super::Loop;
use super::link::{End, Link, Route};
use crate::group_keys::{GroupKey, GroupKeys, KEY_LIFE};
use lru::LruCache;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use treefold_core::id::NodeId;

/// The most addresses that a process remembers having sent datagrams to.
const CONTACTS_MAX: NonZeroUsize = NonZeroUsize::new(16_384).expect("not zero");
/// Time between two connections to a process that lacks the key.
const HAND_EVERY: Duration = Duration::from_secs(1);
/// The most datagrams under unknown keys that wait for their keys, and the longest of them. A key may come later than what is sealed
/// with it.
const WAITING_MAX: usize = 64;
const WAITING_BYTES_MAX: usize = 1_500;
/// Time between two answers about unknown keys. Anybody can ask for one.
const ANSWER_EVERY: Duration = Duration::from_millis(10);

/// The keys of this process, and the addresses that it seals datagrams for.
pub(super) struct Keyring {
    pub(super) keys: GroupKeys,
    /// With the time of the last attempt to hand the key to that address.
    contacts: LruCache<SocketAddr, Option<Instant>>,
    answered: Option<Instant>,
    /// Datagrams under unknown keys, the oldest first, with the numbers of the keys.
    waiting: VecDeque<(u64, SocketAddr, Vec<u8>)>,
    /// Notified when a peer has sent its keys.
    came: Rc<Notify>,
}

impl Keyring {
    pub(super) fn new(keys: GroupKeys) -> Self {
        Self {
            keys,
            contacts: LruCache::new(CONTACTS_MAX),
            answered: None,
            waiting: VecDeque::new(),
            came: Rc::default(),
        }
    }

    /// Seals a datagram, and remembers its receiver.
    pub(super) fn seal_for(&mut self, to: SocketAddr, bytes: &[u8]) -> Option<Vec<u8>> {
        let datagram = self.keys.seal(bytes)?;
        self.contacts.get_or_insert(to, || None);
        Some(datagram)
    }

    /// True if the key may be handed to an address now: this process has sent a datagram there, and has not tried recently.
    /// An invented answer can therefore make it connect to nobody else.
    fn may_hand(&mut self, to: SocketAddr, now: Instant) -> bool {
        let Some(tried) = self.contacts.get_mut(&to) else { return false };
        let is_due = tried.is_none_or(|tried| now.duration_since(tried) >= HAND_EVERY);
        if is_due {
            *tried = Some(now);
        }
        is_due
    }

    /// Keeps a datagram until its key comes, or until there are too many others.
    pub(super) fn await_key(&mut self, key: u64, from: SocketAddr, datagram: &[u8]) {
        if datagram.len() <= WAITING_BYTES_MAX {
            if self.waiting.len() == WAITING_MAX {
                self.waiting.pop_front();
            }
            self.waiting.push_back((key, from, datagram.to_vec()));
        }
    }

    /// Takes the datagrams that waited for one of these keys.
    fn arrived(&mut self, keys: &[GroupKey]) -> Vec<(SocketAddr, Vec<u8>)> {
        let has_come = |id: u64| keys.iter().any(|key| key.id == id);
        let (came, waiting) = self.waiting.drain(..).partition::<Vec<_>, _>(|(id, ..)| has_come(*id));
        self.waiting = waiting.into();
        came.into_iter().map(|(_, from, datagram)| (from, datagram)).collect()
    }

    /// True if a datagram under an unknown key may be answered now.
    pub(super) fn may_answer(&mut self, now: Instant) -> bool {
        let is_due = self.answered.is_none_or(|answered| now.duration_since(answered) >= ANSWER_EVERY);
        if is_due {
            self.answered = Some(now);
        }
        is_due
    }
}

impl Loop {
    /// Sends a key over a new link. A node that has connected sends its own or none, and the other answers. A client only
    /// takes.
    pub(super) fn begin_with_key(&self, link: &Rc<Link>) {
        if self.identity.node.is_client() {
            return;
        }
        match link.end {
            End::Dialled => {
                let newest = self.keyring.borrow().keys.newest();
                self.send_keys(link, newest.as_slice());
            }
            End::Welcomed if link.peer.is_client() => {
                let first = self.keyring.borrow_mut().keys.first_key(Instant::now());
                self.send_keys(link, first.as_slice());
            }
            End::Welcomed => {}
        }
    }

    /// Puts keys into a link's outbox: whole ones for a node, those of polls for a client.
    fn send_keys(&self, link: &Rc<Link>, keys: &[GroupKey]) {
        let is_client = link.peer.is_client();
        let keys: Vec<GroupKey> =
            keys.iter().map(|key| if is_client { key.for_client() } else { *key }).collect();
        match link.outbox.borrow_mut().push_keys(&keys) {
            Ok(()) => self.mark_dirty(link),
            Err(error) => self.complaints.about(link.peer, error),
        }
    }

    /// Takes keys of a peer. Tells a newer one to the others, and answers with the newest if the peer lacks it.
    pub(super) fn take_keys(self: &Rc<Self>, link: &Rc<Link>, keys: &[GroupKey]) {
        let (from, now, is_client) = (link.peer, Instant::now(), self.identity.node.is_client());
        if from.is_client() || keys.iter().any(|key| key.polls_only != is_client) {
            return self.complaints.about(from, "it sends a key that it should not have");
        }
        let is_newer = {
            let known = &mut self.keyring.borrow_mut().keys;
            keys.iter().filter(|&&key| known.learn(key, now)).count() > 0
        };
        if is_newer {
            self.tell_newest(Some(from));
        }
        let arrived = self.keyring.borrow_mut().arrived(keys);
        arrived.iter().for_each(|(from, datagram)| self.take_datagram(*from, datagram));
        self.keyring.borrow().came.notify_waiters();
        if !is_client {
            let newest = self.keyring.borrow_mut().keys.first_key(now);
            if newest.is_some_and(|newest| !keys.contains(&newest)) {
                self.send_keys(link, newest.as_slice());
            }
            self.end_first_key();
        }
    }

    /// Tells the newest key to all peers with a link, except one. A client tells nobody.
    fn tell_newest(&self, except: Option<NodeId>) {
        if self.identity.node.is_client() {
            return;
        }
        let Some(newest) = self.keyring.borrow().keys.newest() else { return };
        let links: Vec<Rc<Link>> = {
            let peers = self.peers.borrow();
            let up = peers.routes.iter().filter(|&(&peer, _)| Some(peer) != except);
            let first = |route: &Route| match route {
                Route::Up(links) => links.first().cloned(),
                Route::Dialing(_) => None,
            };
            up.filter_map(|(_, route)| first(route)).collect()
        };
        links.iter().for_each(|link| self.send_keys(link, &[newest]));
    }

    /// Connects to a process that lacks the key of this one's datagrams. With the greeting, each gets the other's.
    pub(super) fn hand_key_to(self: &Rc<Self>, to: SocketAddr, now: Instant) {
        if self.keyring.borrow_mut().may_hand(to, now) {
            self.dial_seed(to);
        }
    }

    /// Connects to the seeds and waits until one has sent its keys, but not longer than `within`: before that, no member
    /// takes a datagram of this node. A client needs none for that.
    pub(super) async fn fetch_key(self: &Rc<Self>, seeds: &[SocketAddr], within: Duration) {
        if self.identity.node.is_client() {
            return;
        }
        let came = Rc::clone(&self.keyring.borrow().came);
        let has_come = came.notified();
        let dials = seeds.iter().filter(|&&seed| self.dial_seed(seed)).count();
        if dials > 0 {
            // Without a key, core's datagrams are lost, and it sends them again later.
            let _ = tokio::time::timeout(within, has_come).await;
        }
    }

    /// Replaces a first key now that this node knows a member.
    pub(super) fn end_first_key(&self) {
        let is_first = self.keyring.borrow().keys.newest().is_some_and(|key| key.epoch == 0);
        if is_first && !self.members.borrow().is_empty() && self.renews_keys() {
            self.renew_key();
        }
    }

    /// The task that replaces the key when it has served its time.
    pub(super) async fn renew_keys(self: Rc<Self>) {
        loop {
            tokio::time::sleep(KEY_LIFE).await;
            if self.renews_keys() {
                self.renew_key();
            }
        }
    }

    /// True if this node makes the cluster's new keys: it has the least name among the members.
    pub(super) fn renews_keys(&self) -> bool {
        let own = self.identity.node;
        !own.is_client() && self.members.borrow().first().is_none_or(|least| own < *least)
    }

    /// Makes a new key, and tells it to all peers with a link. The others say that they lack it.
    pub(super) fn renew_key(&self) {
        let renewed = self.keyring.borrow_mut().keys.renew(Instant::now());
        match renewed {
            Some(key) => tracing::info!(node = %self.identity.node, ?key, "datagrams have a new key"),
            None => tracing::warn!("the system gave no random bytes for a key of datagrams"),
        }
        self.tell_newest(None);
    }
}
