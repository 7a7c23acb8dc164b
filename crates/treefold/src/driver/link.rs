//! Links: connections that are past their greeting, and who they lead to.
//!
//! Two nodes that dial each other at the same moment end up with two links, one dialled by each. Both are read;
//! what is sent goes over the first each side knew, so that nothing ever overtakes anything. They live and die
//! together: a link that breaks may have swallowed messages, so the other is closed with it, and core hears of
//! one loss. Nobody dials a peer to whom it has a link, so a *second* link dialled by the same side says that it
//! has given up the first.

use crate::wire::Outbox;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::net::tcp::OwnedWriteHalf;
use tokio::task::AbortHandle;
use treefold_core::id::NodeId;

/// One connection, as the loop writes to it. Its reader is a task of its own.
pub(crate) struct Link {
    pub(crate) peer: NodeId,
    /// Who dialled.
    pub(crate) end: End,
    pub(crate) write: OwnedWriteHalf,
    pub(crate) outbox: RefCell<Outbox>,
    /// Waits for the next flush.
    pub(crate) dirty: Cell<bool>,
    /// The system takes no more for now; a writer task waits until it does.
    pub(crate) blocked: Cell<bool>,
    /// False once closed: a reader that is in the middle of what it has read then stops.
    pub(crate) open: Cell<bool>,
    tasks: RefCell<Vec<AbortHandle>>,
}

impl Link {
    pub(crate) fn new(peer: NodeId, end: End, write: OwnedWriteHalf, outbox: Outbox) -> Rc<Self> {
        Rc::new(Self {
            peer,
            end,
            write,
            outbox: RefCell::new(outbox),
            dirty: Cell::new(false),
            blocked: Cell::new(false),
            open: Cell::new(true),
            tasks: RefCell::default(),
        })
    }

    /// A task that is to end with the link.
    pub(crate) fn own_task(&self, task: AbortHandle) {
        let mut tasks = self.tasks.borrow_mut();
        tasks.retain(|task| !task.is_finished());
        tasks.push(task);
    }

    /// Ends the link's tasks; its socket closes when the last of them lets go of it.
    pub(crate) fn close(&self) {
        self.open.set(false);
        self.tasks.borrow_mut().drain(..).for_each(|task| task.abort());
    }
}

/// Which end of a connection a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The one that dialled.
    Dialled,
    /// The one that was connected to.
    Welcomed,
}

/// The way to a peer.
pub(crate) enum Route {
    /// A dial is under way; messages wait.
    Dialing(Box<Outbox>),
    /// One link, or one of each end; the first is sent over.
    Up(Vec<Rc<Link>>),
}

/// Everyone there is a link to, or one under way.
#[derive(Default)]
pub(crate) struct Peers {
    pub(crate) routes: HashMap<NodeId, Route>,
    /// Addresses being dialled, each once, however many lives of whoever is there are wanted: those lives.
    pub(crate) dialing: HashMap<SocketAddr, Vec<NodeId>>,
    pub(crate) links: usize,
}

impl Peers {
    /// Links, and dials that will become links.
    pub(crate) fn count(&self) -> usize {
        self.links + self.dialing.len()
    }

    /// A dial to `addr` is over: those whose messages waited for it in vain, but for `reached`. No other route is looked
    /// at, since a root may dial thousands of children at once.
    pub(crate) fn end_dial(&mut self, addr: SocketAddr, reached: Option<NodeId>) -> Vec<NodeId> {
        let mut missed = self.dialing.remove(&addr).unwrap_or_default();
        missed.retain(|peer| {
            Some(*peer) != reached && matches!(self.routes.get(peer), Some(Route::Dialing(_)))
        });
        missed
    }

    /// Takes a peer's links out, closing them; true when there were any.
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
    fn end_of_a_dial_tells_who_waited_for_it_in_vain() {
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
        assert_eq!(peers.end_dial(addr(2), None), [], "nobody waits any more");
    }
}
