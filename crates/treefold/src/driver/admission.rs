//! Which connections are accepted: clients leave room for members, and idle clients make room for new ones.
//!
//! Clients leave `peers_reserved` of a node's `peers_max` connections, so that members always find room. When the clients'
//! part is full, the client that has been idle longest is closed for a new one. A client is idle if it has sent nothing for
//! [`IDLE_AFTER`], and has no open call, stream, push or request about operators. A client in this project's library
//! connects again when it is used next.

use super::Loop;
use super::link::{Link, Route};
use crate::transport::GreetError;
use std::collections::BTreeSet;
use std::rc::Rc;
use treefold_core::id::NodeId;
use treefold_core::limits::Limits;
use treefold_core::time::Duration;

/// A client that has sent nothing for so long, and for which nothing is open, is idle.
const IDLE_AFTER: Duration = Duration::from_millis(500);

/// The most connections of clients.
fn clients_max(limits: &Limits) -> usize {
    limits.peers_max - limits.peers_reserved.min(limits.peers_max / 4)
}

impl Loop {
    /// Checks that there is room for a connection of `peer`, and closes an idle client's connection for it if necessary.
    pub(super) fn admit(self: &Rc<Self>, peer: NodeId) -> Result<(), GreetError> {
        let limits = &self.identity.limits;
        let clients_max = clients_max(limits);
        let refusal = if self.is_full() {
            GreetError::Full { name: "peers_max", limit: limits.peers_max }
        } else if peer.is_client() && self.clients() >= clients_max {
            GreetError::Full { name: "peers_reserved", limit: clients_max }
        } else {
            return Ok(());
        };
        let Some(idle) = self.longest_idle() else { return Err(refusal) };
        if let Some(fault) = refusal.as_fault() {
            self.dismiss(&idle, fault);
        }
        Ok(())
    }

    /// Number of connections of clients.
    fn clients(&self) -> usize {
        let peers = self.peers.borrow();
        let of_clients = peers.routes.iter().filter(|(peer, _)| peer.is_client());
        of_clients.map(|(_, route)| if let Route::Up(links) = route { links.len() } else { 0 }).sum()
    }

    fn longest_idle(&self) -> Option<Rc<Link>> {
        // Processes that a launcher keeps may have nothing to say for long.
        if self.launcher.borrow().is_some() {
            return None;
        }
        let now = self.now();
        let peers = self.peers.borrow();
        let links = peers.routes.values().filter_map(|route| match route {
            Route::Up(links) => Some(&links[0]),
            Route::Dialing(_) => None,
        });
        let is_silent = |link: &&Rc<Link>| {
            link.peer.is_client()
                && link.heard_at.get() + IDLE_AFTER <= now
                && link.outbox.borrow().is_empty()
        };
        let mut silent: Vec<&Rc<Link>> = links.filter(is_silent).collect();
        if silent.is_empty() {
            return None;
        }
        let mut busy: BTreeSet<NodeId> = self.machine.borrow().node.busy_peers();
        busy.extend(self.operators.borrow().askers());
        silent.retain(|link| !busy.contains(&link.peer));
        silent.into_iter().min_by_key(|link| link.heard_at.get()).map(Rc::clone)
    }
}
