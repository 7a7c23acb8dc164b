//! Links: connections after their greeting, and the peers that they lead to.
//!
//! Two nodes that dial each other at the same moment have two links, one dialled by each. Both links are
//! read, but each side sends only over the link that it knew first, so that messages keep their order. The
//! two are closed together: a broken link may have lost messages, so the other is closed with it, and core
//! sees one loss. A node never dials a peer to which it has a link. A *second* link dialled by the same side
//! therefore means that this side has given up the first.

use super::eviction::Held;
use super::holding::{Holding, Progress};
use crate::channel::WriteEnd;
use crate::transport::Session;
use crate::wire::Outbox;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::task::AbortHandle;
use treefold_core::id::NodeId;
use treefold_core::time::Instant;

/// One connection as the loop writes to it. Its reader is a separate task.
pub(crate) struct Link {
    pub(crate) peer: NodeId,
    /// The side that dialled.
    pub(crate) end: End,
    /// The session, with the peer's certificate in a cluster with certificates.
    pub(crate) session: RefCell<Session>,
    pub(crate) write: WriteEnd,
    pub(crate) outbox: RefCell<Outbox>,
    /// True if the link waits for the next flush.
    pub(crate) dirty: Cell<bool>,
    /// True if the socket accepts no more bytes for now. A writer task waits until it does.
    pub(crate) blocked: Cell<bool>,
    /// False after the link was closed. A reader in the middle of its input then stops.
    pub(crate) open: Cell<bool>,
    /// Bytes that have arrived of incomplete frames.
    pub(crate) arriving: Holding,
    /// Bytes that wait for a client to read them.
    pub(crate) waiting: Holding,
    /// When a client's bytes arrived last.
    pub(crate) heard_at: Cell<Instant>,
    tasks: RefCell<Vec<AbortHandle>>,
}

impl Link {
    pub(crate) fn new(
        peer: NodeId,
        end: End,
        session: Session,
        write: WriteEnd,
        outbox: Outbox,
        held: &Held,
    ) -> Rc<Self> {
        Rc::new(Self {
            peer,
            end,
            session: RefCell::new(session),
            write,
            outbox: RefCell::new(outbox),
            dirty: Cell::new(false),
            blocked: Cell::new(false),
            open: Cell::new(true),
            arriving: Holding::new(&held.arriving, Progress::Grows),
            waiting: Holding::new(&held.waiting, Progress::Shrinks),
            heard_at: Cell::default(),
            tasks: RefCell::default(),
        })
    }

    /// Adds a task that ends with the link.
    pub(crate) fn own_task(&self, task: AbortHandle) {
        let mut tasks = self.tasks.borrow_mut();
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
    }

    /// Ends the link's tasks. The socket closes when the last of them drops it.
    pub(crate) fn close(&self) {
        self.open.set(false);
        self.arriving.clear();
        self.waiting.clear();
        self.tasks.borrow_mut().drain(..).for_each(|task| task.abort());
    }
}

/// This node's end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// This node dialled.
    Dialled,
    /// This node accepted the connection.
    Welcomed,
}

/// The way to a peer.
pub(crate) enum Route {
    /// A dial is under way; messages wait in the outbox.
    Dialing(Box<Outbox>),
    /// One link, or one of each end. Messages are sent over the first.
    Up(Vec<Rc<Link>>),
}

/// All peers with a link or a dial under way.
#[derive(Default)]
pub(crate) struct Peers {
    pub(crate) routes: HashMap<NodeId, Route>,
    /// Addresses being dialled, each once, with the lives of the process there for which messages wait.
    pub(crate) dialing: HashMap<SocketAddr, Vec<NodeId>>,
    pub(crate) links: usize,
}

impl Peers {
    /// All links.
    pub(crate) fn links(&self) -> Vec<Rc<Link>> {
        let up = |route: &Route| match route {
            Route::Up(links) => links.clone(),
            Route::Dialing(_) => Vec::new(),
        };
        self.routes.values().flat_map(up).collect()
    }

    /// Number of links and of dials that will become links.
    pub(crate) fn count(&self) -> usize {
        self.links + self.dialing.len()
    }

    /// Ends the dial to `addr`. Returns the peers whose messages waited for it in vain, without `reached`.
    /// Does not search the other routes, because a root may dial thousands of children at once.
    pub(crate) fn end_dial(&mut self, addr: SocketAddr, reached: Option<NodeId>) -> Vec<NodeId> {
        let mut missed = self.dialing.remove(&addr).unwrap_or_default();
        missed.retain(|peer| {
            Some(*peer) != reached && matches!(self.routes.get(peer), Some(Route::Dialing(_)))
        });
        missed
    }

    /// Removes and closes a peer's links. Returns true if there was a link or a dial.
    pub(crate) fn close(&mut self, peer: NodeId) -> bool {
        match self.routes.remove(&peer) {
            Some(Route::Up(links)) => {
                self.links -= links.len();
                links.iter().for_each(|link| link.close());
                true
            }
            Some(Route::Dialing(_)) => true,
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold_core::limits::Limits;

    #[test]
    fn end_dial_returns_peers_that_were_not_reached() {
        let addr = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let [dead, alive, elsewhere] =
            [(1, 1), (1, 2), (2, 1)].map(|(port, life)| NodeId::new(addr(port), life));
        let mut peers = Peers::default();
        for peer in [dead, alive, elsewhere] {
            peers.routes.insert(peer, Route::Dialing(Box::new(Outbox::new(Limits::DEFAULT))));
            peers.dialing.entry(peer.addr).or_default().push(peer);
        }
        assert_eq!((peers.count(), peers.end_dial(addr(1), Some(alive))), (2, vec![dead]));
        assert_eq!((peers.count(), peers.end_dial(addr(1), None)), (1, vec![]), "each dial ends once");
        peers.close(elsewhere);
        assert_eq!(peers.end_dial(addr(2), None), [], "no peer waits any more");
    }
}
