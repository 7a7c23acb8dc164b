//! Breaks nodes at random, and mends them.
//!
//! Two faults, for they look different from outside. A killed node (`kill -9`) breaks its connections at once and
//! comes back under its old address as another life of itself that knows nothing. A stopped node (`kill -STOP`)
//! keeps its connections and says nothing, and when it goes on it says what it had to say before, late.
//!
//! Invariants: the front is never broken, since who asks a dead front has no answer to check; a node has at most one
//! fault at a time; more than half of the others are never broken at once; [`Breaker::mend_all`] leaves no fault
//! behind, whenever [`Breaker::run`] was dropped. Which nodes, which faults and which durations is a function of the
//! seed; what the calls in flight were doing at that moment is not.

use crate::commands::bench::fleet::Fleet;
use crate::exit::Failure;
use std::time::Duration;
use tokio::time::Instant;
use treefold::core::random::Random;

/// From one fault to the next, in ms.
const GAP_MS: (f64, f64) = (50.0, 400.0);

/// How long a killed node stays away, in ms.
const AWAY_MS: (f64, f64) = (0.0, 400.0);

/// How long a stopped node stands still, in ms.
const STILL_MS: (f64, f64) = (100.0, 800.0);

/// The share of faults that are kills.
const KILLS_SHARE: f64 = 0.4;

/// The front's place in the fleet.
const FRONT: usize = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Killed,
    Stopped,
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
    random: Random,
    broken: Vec<Broken>,
    pub(super) kills: u64,
    pub(super) stops: u64,
}

impl Breaker {
    /// A breaker of the `nodes` nodes of a fleet.
    pub(super) fn new(fleet: Fleet, nodes: u32, seed: u64) -> Self {
        let random = Random::new(seed);
        Self { fleet, nodes: nodes as usize, random, broken: Vec::new(), kills: 0, stops: 0 }
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
        let break_at = Instant::now() + drawn(&mut self.random, GAP_MS);
        while let Some(at) = self.next_due().filter(|&at| self.broken[at].mend_at <= break_at) {
            tokio::time::sleep_until(self.broken[at].mend_at).await;
            self.mend(at).await?;
        }
        tokio::time::sleep_until(break_at).await;
        let whole: Vec<usize> =
            (0..self.nodes).filter(|&node| node != FRONT && self.is_whole(node)).collect();
        if whole.is_empty() || self.broken.len() >= self.broken_max() {
            return Ok(());
        }
        let node = whole[self.random.below(whole.len())];
        let fault = if self.random.unit() < KILLS_SHARE { Fault::Killed } else { Fault::Stopped };
        let lasts = drawn(&mut self.random, if fault == Fault::Killed { AWAY_MS } else { STILL_MS });
        // Noted before it happens: what is noted is mended, whatever happens in between.
        self.broken.push(Broken { node, fault, mend_at: Instant::now() + lasts });
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
        Ok(())
    }

    fn next_due(&self) -> Option<usize> {
        (0..self.broken.len()).min_by_key(|&at| self.broken[at].mend_at)
    }

    fn is_whole(&self, node: usize) -> bool {
        self.broken.iter().all(|broken| broken.node != node)
    }

    fn broken_max(&self) -> usize {
        ((self.nodes - 1) / 2).max(1)
    }
}

fn drawn(random: &mut Random, (least, most): (f64, f64)) -> Duration {
    Duration::from_secs_f64(random.between(least, most) / 1e3)
}
