//! Dials, accepted connections and lost peers.
//!
//! If core sends to a node without a link, the loop dials the node and keeps its messages until the greeting.
//! If another life of the process answers, the messages are dropped, and core receives two inputs: the wanted
//! node is lost, and the answering node is connected. Core receives `Lost` exactly when no link and no dial
//! to a peer is left.

use super::Loop;
use super::launching::LaunchNews;
use super::link::{End, Link, Route};
use crate::transport::{self, GreetError, Greeted};
use crate::wire::Outbox;
use bytes::Bytes;
use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use treefold_core::id::NodeId;
use treefold_core::input::Input;
use treefold_core::message::Message;

/// The most connections that have not greeted. For a further one, the oldest of them is closed, because a process that keeps to
/// the protocol greets within milliseconds.
const GREETINGS_OPEN_MAX: usize = 1_024;
/// Pause after the system failed to accept a connection, for example for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl Loop {
    /// Dials a node to send its first message.
    pub(super) fn dial_peer(self: &Rc<Self>, to: NodeId, message: &Message<Bytes>) {
        if to.is_client() || self.is_full() {
            return self.feed(Input::Lost { peer: to });
        }
        let mut outbox = Box::new(self.empty_outbox());
        let pushed = self.push(&mut outbox, message);
        self.peers.borrow_mut().routes.insert(to, Route::Dialing(outbox));
        self.dial(to.addr, Some(to));
        self.account(to, pushed);
    }

    /// Dials an address whose node is unknown, unless there is a link or dial to that address. Returns true if it dials.
    pub(super) fn dial_seed(self: &Rc<Self>, addr: SocketAddr) -> bool {
        let is_known = self.peers.borrow().routes.keys().any(|peer| peer.addr == addr);
        let dials = addr != self.identity.node.addr && !is_known && !self.is_full();
        if dials {
            self.dial(addr, None);
        }
        dials
    }

    /// Dials an address. The messages of `wanted` wait for the result.
    fn dial(self: &Rc<Self>, addr: SocketAddr, wanted: Option<NodeId>) {
        match self.peers.borrow_mut().dialing.entry(addr) {
            // A dial to this address is under way.
            Entry::Occupied(mut dial) => {
                let waiting = dial.get_mut();
                return waiting.extend(wanted.filter(|peer| !waiting.contains(peer)));
            }
            Entry::Vacant(dial) => dial.insert(Vec::from_iter(wanted)),
        };
        let this = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let greeted = transport::dial(addr, &this.identity).await;
            this.dialed(addr, greeted);
        });
    }

    fn dialed(self: &Rc<Self>, addr: SocketAddr, greeted: Result<Greeted, GreetError>) {
        let reached = greeted.as_ref().ok().map(|greeted| greeted.peer);
        let missed = self.peers.borrow_mut().end_dial(addr, reached);
        missed.into_iter().for_each(|peer| self.lose(peer));
        match greeted {
            Ok(greeted) => self.adopt(greeted, End::Dialled),
            Err(GreetError::Io(error)) => {
                tracing::debug!(node = %self.identity.node, %addr, %error, "can't connect");
            }
            Err(error) => self.complaints.about(addr, error),
        }
    }

    /// Turns a greeted connection into a link.
    pub(super) fn adopt(self: &Rc<Self>, greeted: Greeted, end: End) {
        let Greeted { peer, session, read, write, inbox, .. } = greeted;
        if peer == self.identity.node {
            return; // the seed's address is this node's own
        }
        let replaces = matches!(
            self.peers.borrow().routes.get(&peer),
            Some(Route::Up(links)) if links.iter().any(|link| link.end == end)
        );
        if replaces {
            self.lose(peer); // the peer has closed the previous link on its side
        }
        let mut peers = self.peers.borrow_mut();
        let waiting = match peers.routes.get_mut(&peer) {
            Some(Route::Dialing(outbox)) => Some(std::mem::replace(&mut **outbox, self.empty_outbox())),
            Some(Route::Up(_)) | None => None,
        };
        let mut outbox = waiting.unwrap_or_else(|| self.empty_outbox());
        if let Err(error) = outbox.heed(&inbox) {
            drop(peers);
            self.complaints.about(peer, error);
            return self.lose(peer);
        }
        let link = Link::new(peer, end, session, write, outbox, &self.held);
        link.heard_at.set(self.now());
        peers.links += 1;
        let is_first = match peers.routes.get_mut(&peer) {
            Some(Route::Up(links)) => {
                links.push(Rc::clone(&link));
                false
            }
            Some(Route::Dialing(_)) | None => {
                peers.routes.insert(peer, Route::Up(vec![Rc::clone(&link)]));
                true
            }
        };
        drop(peers);
        self.begin_with_key(&link);
        if !link.outbox.borrow().is_empty() {
            self.mark_dirty(&link);
        }
        let reader = tokio::task::spawn_local(Rc::clone(self).read(Rc::clone(&link), read, inbox));
        link.own_task(reader.abort_handle());
        if is_first {
            self.feed(Input::Connected { peer });
        }
    }

    /// Closes all links to a peer, and informs core if there were any.
    pub(super) fn lose(self: &Rc<Self>, peer: NodeId) {
        if self.close(peer) {
            self.lender_lost(peer);
            self.hear(LaunchNews::Lost { peer });
            self.feed(Input::Lost { peer });
        }
    }

    /// Closes all links to a peer that core no longer needs.
    pub(super) fn disconnect(self: &Rc<Self>, peer: NodeId) {
        self.close(peer);
        self.lender_lost(peer);
    }

    fn close(&self, peer: NodeId) -> bool {
        let mut peers = self.peers.borrow_mut();
        let was_there = peers.close(peer);
        if peers.links == 0 {
            self.links_gone.notify_one();
        }
        was_there
    }

    fn empty_outbox(&self) -> Outbox {
        Outbox::new(self.identity.limits.clone())
    }

    pub(super) fn is_full(&self) -> bool {
        self.peers.borrow().count() >= self.identity.limits.peers_max
    }

    /// The task that accepts connections.
    pub(super) async fn accept(self: Rc<Self>, listener: TcpListener) {
        let mut greetings = VecDeque::new();
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    make_room(&mut greetings);
                    let this = Rc::clone(&self);
                    let greeting = tokio::task::spawn_local(async move { this.welcome(stream, from).await });
                    greetings.push_back(greeting.abort_handle());
                }
                Err(error) => {
                    self.complaints.about("a connection", error);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    async fn welcome(self: &Rc<Self>, stream: TcpStream, from: SocketAddr) {
        match transport::welcome(stream, &self.identity, |peer| self.admit(peer)).await {
            Ok(greeted) => self.adopt(greeted, End::Welcomed),
            // Connections that close without a greeting, such as health checks and port scans, are not worth
            // a warning.
            Err(GreetError::Io(error)) => tracing::debug!(%from, %error, "no greeting"),
            Err(error) => {
                self.hear(LaunchNews::TurnedAway { from, why: error.to_string() });
                self.complaints.about(from, error);
            }
        }
    }
}

/// Ends the oldest greeting if there are too many.
fn make_room(greetings: &mut VecDeque<AbortHandle>) {
    if greetings.len() >= GREETINGS_OPEN_MAX {
        greetings.retain(|greeting| !greeting.is_finished());
    }
    if greetings.len() >= GREETINGS_OPEN_MAX
        && let Some(oldest) = greetings.pop_front()
    {
        oldest.abort();
    }
}
