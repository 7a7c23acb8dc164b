//! The compared ways to choose a server.

use super::balancer::{Balancer, TowerLoad};
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use treefold::ReplicaPolicy;

/// The way in which a server is chosen for a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chooser {
    /// By a policy of production.
    Policy(ReplicaPolicy),
    /// By tower's balancer.
    Tower(TowerLoad),
    /// By the numbers of open calls, which the caller knows.
    Ideal,
    /// By the same numbers, which a load index manager knows: a process that is asked before each call.
    Manager,
}

impl Chooser {
    /// True if a call waits for answers to polls.
    pub(super) fn polls(self) -> bool {
        matches!(self, Self::Policy(ReplicaPolicy::Polled { .. } | ReplicaPolicy::PrequalInline))
    }

    /// True if the simulator has it too.
    pub(super) fn is_simulated(self) -> bool {
        !matches!(self, Self::Tower(_) | Self::Manager)
    }
}

impl fmt::Display for Chooser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Policy(policy) => fmt::Display::fmt(policy, f),
            Self::Tower(load) => f.pad(load.name()),
            Self::Ideal => f.pad("ideal"),
            Self::Manager => f.pad("manager"),
        }
    }
}

/// A chooser, and the fronts at which its calls are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Series {
    pub(super) chooser: Chooser,
    /// Index of the poll timeout that these fronts have.
    pub(super) crew: usize,
}

impl Series {
    /// Returns tower's balancers, one for each front, if they choose the servers.
    pub(super) fn balancers(self, servers: u32, fronts: usize) -> Vec<Rc<Balancer>> {
        let Chooser::Tower(load) = self.chooser else { return Vec::new() };
        (0..fronts).map(|_| Rc::new(Balancer::new(load, servers))).collect()
    }
}

/// The number of open calls of each server, as the paper's ideal scenario needs it (§4).
///
/// The paper's clients ask a manager over the network, as the calls of [`Chooser::Manager`] do. For [`Chooser::Ideal`] the index is
/// in the process that makes all calls, and costs nothing.
#[derive(Debug)]
pub(super) struct LoadIndex(RefCell<Vec<u32>>);

impl LoadIndex {
    pub(super) fn new(servers: u32) -> Rc<Self> {
        Rc::new(Self(RefCell::new(vec![0; servers as usize])))
    }

    /// Gives a call to the server with the fewest open calls. `lot` decides between several of them.
    pub(super) fn place(self: &Rc<Self>, lot: u64) -> Placed {
        let mut open = self.0.borrow_mut();
        let fewest = open.iter().copied().min().unwrap_or_default();
        let least: Vec<usize> = (0..open.len()).filter(|&server| open[server] == fewest).collect();
        let server = least[(lot % least.len() as u64) as usize];
        open[server] += 1;
        Placed { index: Rc::clone(self), server }
    }
}

/// A call that counts as open at its server until this is dropped.
#[derive(Debug)]
pub(super) struct Placed {
    index: Rc<LoadIndex>,
    server: usize,
}

impl Placed {
    /// Returns the index of the chosen server.
    pub(super) fn server(&self) -> u32 {
        self.server as u32
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        self.index.0.borrow_mut()[self.server] -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ideal_spreads_open_calls_evenly() {
        let index = LoadIndex::new(4);
        let placed: Vec<Placed> = (0..8).map(|lot| index.place(lot * 7)).collect();
        assert_eq!(*index.0.borrow(), [2, 2, 2, 2]);
        drop(placed);
        assert_eq!(*index.0.borrow(), [0, 0, 0, 0]);
    }

    #[test]
    fn ideal_chooses_the_server_whose_call_has_ended() {
        let index = LoadIndex::new(3);
        let mut placed: Vec<Placed> = (0..3).map(|_| index.place(0)).collect();
        let ended = placed.remove(1).server();
        assert_eq!(index.place(5).server(), ended);
    }
}
