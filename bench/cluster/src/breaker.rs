//! Breaks nodes at random, and mends them.
//!
//! Two faults, for they look different from outside. A killed node (`kill -9`) breaks its connections at once and
//! comes back under its old address as another life of itself that knows nothing. A stopped node (`kill -STOP`)
//! keeps its connections and says nothing, and when it goes on it says what it had to say before, late.
//!
//! Invariants: whom the [`Plan`] spares is never broken; a node has at most one fault at a time; more than half of the
//! others are never broken at once; [`Breaker::mend_all`] leaves no fault behind, whenever [`Breaker::run`] was
//! dropped. Which nodes, which faults and which durations is a function of the seed; what was in flight at that moment
//! is not. Whoever wants to know hears of every fault and of its end ([`Happening`]).

use std::time::Duration;
use tokio::time::Instant;
use treefold_cli::commands::bench::fleet::Fleet;
use treefold_cli::exit::Failure;
use treefold_core::random::Random;

/// Who is broken, how often and for how long. Pairs are the least and the most, in ms.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    /// So many of the fleet's first nodes are never broken.
    pub(super) spared: usize,
    /// From one fault to the next.
    pub(super) gap_ms: (f64, f64),
    /// How long a killed node stays away.
    pub(super) away_ms: (f64, f64),
    /// How long a stopped node stands still.
    pub(super) still_ms: (f64, f64),
}

/// The share of faults that are kills.
const KILLS_SHARE: f64 = 0.4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Killed,
    Stopped,
}

/// What has just been done to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happening {
    /// It was broken.
    Broke(usize, Fault),
    /// A killed one listens again, or a stopped one goes on.
    Mended(usize),
}

/// A fault under way.
#[derive(Debug)]
struct Broken {
    node: usize,
    fault: Fault,
    mend_at: Instant,
}

/// Who breaks nodes, and what is broken.
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
    /// A breaker of a fleet, which tells what it does.
    pub(super) fn new(fleet: Fleet, plan: Plan, seed: u64, tell: impl FnMut(Happening) + 'static) -> Self {
        let (nodes, random, tell) = (fleet.len(), Random::new(seed), Box::new(tell));
        Self { fleet, nodes, plan, random, broken: Vec::new(), tell, kills: 0, stops: 0 }
    }

    /// Breaks and mends until dropped; returns only when it can't.
    pub(super) async fn run(&mut self) -> Failure {
        loop {
            if let Err(failure) = self.break_one_later().await {
                return failure;
            }
        }
    }

    /// Ends all processes.
    pub(super) async fn end(self) {
        self.fleet.end().await;
    }

    /// Mends whatever is due during one gap, then breaks a node.
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
        // Noted before it happens: what is noted is mended, whatever happens in between.
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

    /// Mends the fault at `at`, which counts as mended only when that has succeeded.
    async fn mend(&mut self, at: usize) -> Result<(), Failure> {
        let Broken { node, fault, .. } = self.broken[at];
        match fault {
            Fault::Killed => {
                // Once more, in case the first attempt was dropped half-way; dead already is as good.
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
