//! Networks: the processes of a topology, started in parallel level by level, and streamed over exactly as they stand.
//!
//! ```text
//!   front-end ── starts ──▶ child ── starts ──▶ grandchild           by fork and exec, or by ssh
//!       ◀── attach ── child    ◀── attach ── grandchild              a connection with the cluster's token
//!       ── assign ──▶ child    ── assign ──▶ grandchild              what is below it, and how to start that
//!       ◀──────────── report ─────────────────────────                who has come, with its card; who has not, and why
//! ```
//!
//! A process is told who its parent is, connects to it, and says who it is and what it serves. The parent answers with
//! its part of the topology, and the process starts its own children: levels come up in parallel, and no host starts
//! more than its fan-out (MRNet §2.6 starts its processes so too). Cards climb with the reports, so the front-end knows
//! everyone one round trip after the last has come. There is no gossip in such a network; streams find out by
//! themselves who is lost.
//!
//! Whoever loses its parent attaches to the front-end instead, and whoever can't reach that within a patience ends: a
//! dead inner process costs itself alone, and a dead front-end takes the network with it.
//!
//! [`options`] is what can be asked for, [`command`] makes command lines and processes, `child` watches one process,
//! `foreman` looks after all children of one, `front` does so for the front-end, whose user `events` tells,
//! [`post`] is a child's side.

mod child;
pub mod command;
mod events;
mod foreman;
mod front_end;
pub mod options;
pub mod post;

pub use events::EVENTS_MAX;
pub use options::{Progress, UpError, UpOptions};
pub use post::{Ending, Post};
pub use treefold::parts::PostError;
pub use treefold::parts::wire::{Failed, Launcher, Token};

use crate::topology::{Role, Topology};
use events::Events;
use front_end::{Front, Roster};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use treefold::Client;
use treefold::Node;
use treefold_core::membership::MembershipConfig;
use treefold_core::membership::card::MemberCard;
use treefold_core::partitions::PartitionSet;
use treefold_core::tree::{Seat, Tree};

/// What happens to a network that is up.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NetworkEvent {
    /// A process has ended, has left, or can't be reached.
    Lost(Failed),
    /// A process that had lost its parent, or had not been there before, has come.
    Came {
        /// Its name in the topology; a guest's address.
        place: String,
    },
    /// Somebody connected and was turned away.
    TurnedAway {
        /// From where.
        from: SocketAddr,
        /// Why.
        why: String,
    },
    /// More happened than waits to be told ([`EVENTS_MAX`]).
    Missed {
        /// How many events were left out here.
        events: u64,
    },
}

/// A running network; this process is its front-end. Dropping it ends all its processes.
#[derive(Debug)]
pub struct Network {
    node: Node,
    topology: Topology,
    roster: Arc<Mutex<Roster>>,
    failures: Vec<Failed>,
    children: Vec<(String, u32)>,
    took: Duration,
    events: mpsc::Receiver<NetworkEvent>,
    stop: Option<oneshot::Sender<Duration>>,
    task: Option<JoinHandle<()>>,
}

impl Network {
    /// Starts a topology's processes and returns when all have come.
    ///
    /// The front-end's node listens where `options` say. On Linux, a local child of this process is tied to the thread
    /// that polled this when it was started: it ends with it.
    ///
    /// # Errors
    /// When the front-end can't start, or, unless failures are allowed, some process does not come: then those who
    /// did are ended.
    pub async fn up(topology: Topology, mut options: UpOptions) -> Result<Self, UpError> {
        let started_at = Instant::now();
        let tuning =
            treefold::Tuning { membership: MembershipConfig::still(), ..treefold::Tuning::default() };
        let builder = std::mem::replace(&mut options.node, Node::builder());
        let cluster = builder.cluster_options().token(options.token.clone());
        let mut builder = builder.tuning(tuning).cluster(cluster).listen(options.listens_at(&topology));
        if let Some(addr) = &options.advertise {
            builder = builder.advertise(addr);
        }
        let node = builder.start().await.map_err(UpError::FrontEnd)?;
        let (sender, events) = Events::bounded(EVENTS_MAX);
        let mut front = Front::new(&node, topology.clone(), &options, sender)?;
        if let Some(ready) = options.on_ready.take() {
            ready(node.addr());
        }
        let failures = front.come_up(&mut options).await?;
        let (roster, children, (stop, stopped)) =
            (front.shared_roster(), front.children(), oneshot::channel());
        let took = started_at.elapsed();
        let task = tokio::spawn(front.look_after(stopped));
        Ok(Self {
            node,
            topology,
            roster,
            failures,
            children,
            took,
            events,
            stop: Some(stop),
            task: Some(task),
        })
    }

    /// The front-end's client, with which streams are opened.
    pub fn client(&self) -> Client {
        self.node.client()
    }

    /// The front-end's node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The topology it was started from.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Processes that were to come and did not.
    pub fn failures(&self) -> &[Failed] {
        &self.failures
    }

    /// The processes that the front-end itself started on this host, by name and process id, also those that have ended
    /// since: what is started by ssh is ssh.
    pub fn children(&self) -> &[(String, u32)] {
        &self.children
    }

    /// How long it took until all were there.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// Where each process is, in the topology's order; `None` for who is not there.
    pub fn addrs(&self) -> Vec<Option<SocketAddr>> {
        let roster = self.roster();
        let addr_of = |place: String| roster.card(&place).map(|card| card.node.addr);
        let others = self.topology.processes().iter().skip(1).map(|process| addr_of(process.name()));
        std::iter::once(Some(self.node.addr())).chain(others).collect()
    }

    /// The subtrees below the front-end as the topology has them, for [`StreamBuilder::trees`](treefold::StreamBuilder):
    /// who is not there is left out, and its children are its parent's. Guests are trees of their own.
    pub fn trees(&self, service: &str) -> Vec<Tree> {
        let roster = self.roster();
        let processes = self.topology.processes();
        let cards: Vec<_> = processes.iter().map(|process| roster.card(&process.name())).collect();
        let mut before = vec![0_u32];
        before.extend(cards.iter().skip(1).scan(0, |count, card| {
            *count += u32::from(card.is_some());
            Some(*count)
        }));
        let held = |card: &MemberCard| {
            let service = card.services.get(service);
            service.map(|service| service.partitions.clone()).unwrap_or_default()
        };
        // before[at] counts those there among the processes 1 to at.
        let (mut trees, mut row, mut end) = (Vec::new(), Vec::new(), 0);
        for (at, process) in processes.iter().enumerate().skip(1) {
            let Some(card) = &cards[at] else { continue };
            let last = at + process.size as usize - 1;
            let size = before[last] - before[at - 1];
            if row.is_empty() {
                end = size as usize;
            }
            row.push(Seat { node: card.node, partitions: held(card), size });
            if row.len() == end {
                trees.extend(Tree::from_preorder(std::mem::take(&mut row)));
            }
        }
        trees.extend(roster.guests.values().map(|card| Tree::leaf(card.node, held(card))));
        trees
    }

    /// Programs that have attached and that the topology does not know of.
    pub fn guests(&self) -> Vec<SocketAddr> {
        self.roster().guests.keys().map(|guest| guest.addr).collect()
    }

    /// The numbers of the topology's back-ends that are there.
    pub fn back_ends(&self) -> PartitionSet {
        let roster = self.roster();
        let back_ends = self.topology.processes().iter().filter(|process| process.role == Role::BackEnd);
        let there = (0..).zip(back_ends).filter(|(_, process)| roster.card(&process.name()).is_some());
        there.map(|(number, _)| number).collect()
    }

    /// What happens next; `None` when nothing can happen any more. [`EVENTS_MAX`] wait to be asked for.
    pub async fn event(&mut self) -> Option<NetworkEvent> {
        self.events.recv().await
    }

    /// Ends the network in order: everyone is told, and who is still there after `grace` is killed.
    pub async fn down(mut self, grace: Duration) {
        if let (Some(stop), Some(task)) = (self.stop.take(), self.task.take()) {
            let _ = stop.send(grace);
            // Its end is all that is waited for.
            let _ = task.await;
        }
    }

    fn roster(&self) -> MutexGuard<'_, Roster> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}
