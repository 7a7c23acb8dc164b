//! Links: connections that are past their greeting, and who they lead to.
//!
//! Two nodes that dial each other at the same moment end up with two links, one dialled by each. Both are read;
//! what is sent goes over the first each side knew, so that nothing ever overtakes anything. They live and die
//! together: a link that breaks may have swallowed messages, so the other is closed with it, and core hears of
//! one loss. Nobody dials a peer to whom it has a link, so a *second* link dialled by the same side says that it
//! has given up the first.

use crate::wire::Outbox;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
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
    /// Addresses being dialled, each once, however many lives of whoever is there are wanted.
    pub(crate) dialing: HashSet<SocketAddr>,
    pub(crate) links: usize,
}

impl Peers {
    /// Links, and dials that will become links.
    pub(crate) fn count(&self) -> usize {
        self.links + self.dialing.len()
    }

    /// Those whose messages wait for a dial to `addr`, but for `reached`.
    pub(crate) fn missed(&self, addr: SocketAddr, reached: Option<NodeId>) -> Vec<NodeId> {
        let waits = |(peer, route): &(&NodeId, &Route)| {
            matches!(route, Route::Dialing(_)) && peer.addr == addr && Some(**peer) != reached
        };
        self.routes.iter().filter(waits).map(|(&peer, _)| peer).collect()
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
