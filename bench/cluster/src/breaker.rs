//! Breaks nodes at random and mends them.
//!
//! There are two faults, because they look different to other nodes. A killed node (`kill -9`) breaks its
//! connections at once. It comes back at its old address as a new process without any state. A stopped node
//! (`kill -STOP`) keeps its connections and is silent. When it resumes, it sends its pending messages late.
//!
//! Invariants: the nodes that the [`Plan`] spares are never broken; a node has at most one fault at a time;
//! at most half of the other nodes are broken at once; [`Breaker::mend_all`] leaves no fault behind, even if
//! [`Breaker::run`] was dropped at any point. The seed determines the nodes, the faults and their durations.
//! It does not determine which messages are in flight at that moment. The callback `tell` receives every
//! fault and its end as a [`Happening`].

use std::time::Duration;
use tokio::time::Instant;
use treefold_cli::exit::Failure;
use treefold_cli::fleet::Fleet;
use treefold_core::random::Random;

/// Which nodes are spared, and the rate and duration of faults.
///
/// Pairs are (minimum, maximum) in ms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// Number of nodes at the start of the fleet that are never broken.
    pub(super) spared: usize,
    /// Time from one fault to the next.
    pub(super) gap_ms: (f64, f64),
    /// Time that a killed node stays away.
    pub(super) away_ms: (f64, f64),
    /// Time that a stopped node stays stopped.
    pub(super) still_ms: (f64, f64),
}

/// Share of faults that are kills.
const KILLS_SHARE: f64 = 0.4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Killed,
    Stopped,
}

/// An event of a node, as reported to `tell`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happening {
    /// The node was broken.
    Broke(usize, Fault),
    /// A killed node listens again, or a stopped node has resumed.
    Mended(usize),
}

/// A fault under way.
#[derive(Debug)]
struct Broken {
    node: usize,
    fault: Fault,
    mend_at: Instant,
}

/// Breaks and mends the nodes of one fleet.
pub(super) struct Breaker {
    fleet: Fleet,
    nodes: usize,
    plan: Plan,
    random: Random,
    broken: Vec<Broken>,
    tell: Box<dyn FnMut(Happening)>,
    pub(super) kills: u64,
    pub(super) stops: u64,
}

impl Breaker {
    /// Makes a breaker of a fleet that reports each fault and its end to `tell`.
    pub(super) fn new(fleet: Fleet, plan: Plan, seed: u64, tell: impl FnMut(Happening) + 'static) -> Self {
        let (nodes, random, tell) = (fleet.size(), Random::new(seed), Box::new(tell));
        Self { fleet, nodes, plan, random, broken: Vec::new(), tell, kills: 0, stops: 0 }
    }

    /// Breaks and mends until dropped.
    ///
    /// Returns only if it fails.
    pub(super) async fn run(&mut self) -> Failure {
        loop {
            if let Err(failure) = self.break_one_later().await {
                return failure;
            }
        }
    }

    /// Ends all processes of the fleet.
    pub(super) async fn end(self) {
        self.fleet.end().await;
    }

    /// Mends every fault that is due during one gap, then breaks a node.
    async fn break_one_later(&mut self) -> Result<(), Failure> {
        let break_at = Instant::now() + drawn(&mut self.random, self.plan.gap_ms);
        while let Some(at) = self.next_due().filter(|&at| self.broken[at].mend_at <= break_at) {
            tokio::time::sleep_until(self.broken[at].mend_at).await;
            self.mend(at).await?;
        }
        tokio::time::sleep_until(break_at).await;
        let whole: Vec<usize> = (self.plan.spared..self.nodes).filter(|&node| self.is_whole(node)).collect();
        if whole.is_empty() || self.broken.len() >= self.broken_max() {
            return Ok(());
        }
        let node = whole[self.random.below(whole.len())];
        let fault = if self.random.unit() < KILLS_SHARE { Fault::Killed } else { Fault::Stopped };
        let Plan { away_ms, still_ms, .. } = self.plan;
        let lasts = drawn(&mut self.random, if fault == Fault::Killed { away_ms } else { still_ms });
        // Recorded before it happens: every recorded fault is mended, even if this future is dropped in
        // between.
        self.broken.push(Broken { node, fault, mend_at: Instant::now() + lasts });
        (self.tell)(Happening::Broke(node, fault));
        match fault {
            Fault::Killed => {
                self.kills += 1;
                self.fleet.kill(node).await
            }
            Fault::Stopped => {
                self.stops += 1;
                self.fleet.stop(node)
            }
        }
    }

    /// Mends everything at once.
    pub(super) async fn mend_all(&mut self) -> Result<(), Failure> {
        while let Some(last) = self.broken.len().checked_sub(1) {
            self.mend(last).await?;
        }
        Ok(())
    }

    /// Mends the fault at index `at`.
    ///
    /// The fault is removed only after that has succeeded.
    async fn mend(&mut self, at: usize) -> Result<(), Failure> {
        let Broken { node, fault, .. } = self.broken[at];
        match fault {
            Fault::Killed => {
                // Kill again, in case the first attempt was dropped half-way. Killing a dead process is
                // harmless.
                self.fleet.kill(node).await?;
                self.fleet.restart(node).await?;
            }
            Fault::Stopped => self.fleet.resume(node)?,
        }
        self.broken.swap_remove(at);
        (self.tell)(Happening::Mended(node));
        Ok(())
    }

    fn next_due(&self) -> Option<usize> {
        (0..self.broken.len()).min_by_key(|&at| self.broken[at].mend_at)
    }

    fn is_whole(&self, node: usize) -> bool {
        self.broken.iter().all(|broken| broken.node != node)
    }

    fn broken_max(&self) -> usize {
        ((self.nodes - self.plan.spared) / 2).max(1)
    }
}

fn drawn(random: &mut Random, (least, most): (f64, f64)) -> Duration {
    Duration::from_secs_f64(random.between(least, most) / 1e3)
}
