//! Networks: the processes of a topology are started level by level in parallel, and streams use exactly
//! these trees.
//!
//! ```text
//!   front-end ── starts ──▶ child ── starts ──▶ grandchild           by fork and exec, or by ssh
//!       ◀── attach ── child    ◀── attach ── grandchild              a connection with the cluster's token
//!       ── assign ──▶ child    ── assign ──▶ grandchild              its subtree, and how to start it
//!       ◀──────────── report ─────────────────────────               cards of new processes, and failures
//! ```
//!
//! A process gets the address of its parent, connects to it, and sends its identity and its services. The
//! parent answers with the process's part of the topology, and the process starts its own children. Levels
//! therefore start in parallel, and no host starts more processes than its fan-out (MRNet §2.6 starts its
//! processes in the same way). Cards travel up with the reports, so the front-end knows all processes one
//! round trip after the last one has attached. Such a network has no gossip; streams detect lost nodes by
//! themselves.
//!
//! A process that loses its parent attaches to the front-end instead. A process that cannot reach the
//! front-end within its patience ends. The loss of an inner process therefore costs only that process, and
//! the loss of the front-end ends the network.
//!
//! [`options`] contains the options of a network's start, and [`command`] creates command lines and
//! processes. `child` watches one process, `foreman` looks after all children of one process, and `front`
//! does so for the front-end. `events` informs the front-end's user. [`post`] is a child's side.

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
use front_end::{FrontEnd, Roster};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use treefold::Client;
use treefold::Node;
use treefold_core::membership::MembershipConfig;
use treefold_core::partitions::PartitionSet;

/// An event of a running network.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NetworkEvent {
    /// A process has ended, has left, or cannot be reached.
    Lost(Failed),
    /// A process has attached that was lost or missing before.
    Came {
        /// Its name in the topology; for a guest, its address.
        place: String,
    },
    /// A connecting process was rejected.
    TurnedAway {
        /// Its address.
        from: SocketAddr,
        /// The reason.
        why: String,
    },
    /// The user read events too slowly: more than [`EVENTS_MAX`] were waiting.
    Missed {
        /// Number of events that were dropped at this point.
        events: u64,
    },
}

/// A running network whose front-end is this process. Dropping it ends all its processes.
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
    /// Starts a topology's processes, and returns when all have attached.
    ///
    /// The front-end's node listens at the address in `options`. On Linux, a local child of this process is
    /// tied to the thread that polled this future when the child was started: the child ends with that
    /// thread.
    ///
    /// # Errors
    /// If the front-end cannot start. Also if a process does not attach, unless failures are allowed; the
    /// processes that did attach are then ended.
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
        let mut front = FrontEnd::new(&node, topology.clone(), &options, sender)?;
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

    /// The front-end's client, which opens streams.
    pub fn client(&self) -> Client {
        self.node.client()
    }

    /// The front-end's node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The topology from which the network was started.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Processes that did not attach.
    pub fn failures(&self) -> &[Failed] {
        &self.failures
    }

    /// The processes that the front-end itself started on this host, by name and process id, including those
    /// that have ended since. For a process on another host, this is the id of its `ssh`.
    pub fn children(&self) -> &[(String, u32)] {
        &self.children
    }

    /// Time until all processes had attached.
    pub fn took(&self) -> Duration {
        self.took
    }

    /// The address of each process, in the topology's order; `None` for a missing process.
    pub fn addrs(&self) -> Vec<Option<SocketAddr>> {
        let roster = self.roster();
        let addr_of = |place: String| roster.card(&place).map(|card| card.node.addr);
        let others = self.topology.processes().iter().skip(1).map(|process| addr_of(process.name()));
        std::iter::once(Some(self.node.addr())).chain(others).collect()
    }

    /// Attached programs that have no place in the topology.
    pub fn guests(&self) -> Vec<SocketAddr> {
        self.roster().guests.keys().map(|guest| guest.addr).collect()
    }

    /// The numbers of the topology's back-ends that are present.
    pub fn back_ends(&self) -> PartitionSet {
        let roster = self.roster();
        let back_ends = self.topology.processes().iter().filter(|process| process.role == Role::BackEnd);
        let there = (0..).zip(back_ends).filter(|(_, process)| roster.card(&process.name()).is_some());
        there.map(|(number, _)| number).collect()
    }

    /// The next event; `None` after the last one. At most [`EVENTS_MAX`] events wait for this method.
    pub async fn event(&mut self) -> Option<NetworkEvent> {
        self.events.recv().await
    }

    /// Ends the network in order: informs all processes, and kills those that have not ended after `grace`.
    pub async fn down(mut self, grace: Duration) {
        if let (Some(stop), Some(task)) = (self.stop.take(), self.task.take()) {
            let _ = stop.send(grace);
            // Only the task's end matters.
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
