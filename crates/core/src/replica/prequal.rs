//! Prequal: probing for requests in flight and latency (Wydrowski and others, NSDI'24; DESIGN 4.3).
//!
//! What a request will wait for is other requests, and Prequal looks at two signs of them. *Requests in flight*
//! tell at once that a node is about to be slow, before anything has been slow there; *latency* tells machines
//! apart that are not equally fast. The rule puts the first before the second, as a threshold (*hot and cold*):
//!
//! * a node is **hot** when it has more in flight than the 2^−0.25 ≈ 0.84 quantile of what was seen lately;
//! * of the cold ones the one of least latency is taken; if all are hot, the one with least in flight;
//! * with fewer than two answers to compare, any replica by lot.
//!
//! Two ways to come by the signs:
//! * `prequal` keeps a [`pool`] of answers. Each call *probes* three nodes at random, chooses by the answers of
//!   earlier probes, and waits for none: no time is lost. Answers are some calls old, which the pool's rules
//!   are there to make up for.
//! * `prequal_inline` asks three replicas of each partition and waits for all but one, as `polled:3` would.
//!   Answers are fresh, and each call pays a round trip for them.
//!
//! # Partitions
//! The paper's clients choose among all servers of a job; a call here chooses for each partition among its two
//! to five replicas. A pool per partition would be starved. There is **one pool per front, filtered per
//! partition**, and a call that chooses for k partitions counts as k of the paper's: it may use k entries, so the
//! pool has room for k times [`PLACES`], and k times [`PROBES`] nodes are probed, as far as there are so many.
//!
//! # How often an answer is used
//! The paper lets an answer be used `b` times where the pool would else run dry, as it does when most probes meet
//! nodes that it already holds. That is for pools that are small beside the cluster. A pool with room for all
//! nodes does not run dry: it settles where as many answers come in as go, at about a third of the nodes. And there
//! using an answer often is harmful: until the node is probed again, the front that found it quick keeps sending it
//! work. In the simulator (`treefold sim run replica-policies`; 16 equal servers at 90 %, 6 fronts), 16 uses of an
//! answer give a mean response time of 264 ms and one use 140 ms; two polls that a call waits for give 147 ms. Hence
//! [`USES_MAX`].
//!
//! # When to prefer it in line
//! The pool is refilled by calls, so its answers are about as old as a front's last few calls. A front that calls
//! several times while a server works off its queue decides as well as with polls, and waits for none. One that calls
//! more rarely decides by figures from another time: with 8 partitions of 3 replicas and some ten calls per second,
//! `prequal` takes 462 ms where `prequal_inline` takes 276 ms and `polled:2` 294 ms.

use super::choice::{Choice, Wanted};
use crate::id::NodeId;
use crate::load::figure::LoadFigure;
use crate::random::Random;
use crate::replica::polled::POLLS_PER_CALL_MAX;
use crate::time::{Duration, Instant};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

pub mod pool;
pub mod seen;

use pool::Pool;
use seen::Seen;

/// Places of the pool for each partition that a call chooses for (`m` of the paper).
pub const PLACES: usize = 16;

/// Places of the pool at most, however many partitions there are.
pub const PLACES_MAX: usize = 1_024;

/// Probes for each partition that a call chooses for (`r_probe`).
pub const PROBES: usize = 3;

/// Entries that are removed for each [`PROBES`] (`r_remove`).
pub const REMOVALS: usize = 1;

/// An answer is used for so long.
pub const AGE_MAX: Duration = Duration::from_secs(1);

/// How many answers above those that leave are wanted to come in, per call (`δ`).
const DELTA: f64 = 1.0;

/// An answer is not used more often than this, whatever the formula says.
pub const USES_MAX: u32 = 2;

/// Replicas of each partition that `prequal_inline` asks.
pub const INLINE_POLLS: u32 = 3;

/// Marks the sequence number of a probe. The rest of it says when the probe went out, which the answer brings
/// back: nothing is kept of probes that are under way. 2^63 ns are 292 years.
const PROBE: u64 = 1 << 63;

/// The sequence number of a probe sent now.
pub fn probe_sequence(now: Instant) -> u64 {
    PROBE | now.as_nanos()
}

/// When a probe of that sequence number was sent; `None` when it is none of a probe.
pub fn probed_at(sequence: u64) -> Option<Instant> {
    (sequence & PROBE != 0).then(|| Instant::from_nanos(sequence & !PROBE))
}

/// What a front keeps for `prequal`.
#[derive(Clone, Debug)]
pub struct Prequal {
    pool: Pool,
    seen: Seen,
    /// For how many partitions a call has had to choose: the most so far, [`PLACES_MAX`] at most.
    choices: usize,
    /// From how many nodes: the most so far.
    nodes: usize,
}

impl Default for Prequal {
    fn default() -> Self {
        Self::new()
    }
}

impl Prequal {
    /// Nothing probed yet.
    pub const fn new() -> Self {
        Self { pool: Pool::new(), seen: Seen::new(), choices: 0, nodes: 0 }
    }

    /// Chooses by the pool.
    pub fn choose<'a>(&mut self, wanted: impl Wanted<'a>, now: Instant, random: &mut Random) -> Choice {
        self.pool.expire(now);
        self.pool.choose(wanted, self.seen.hot_above(), random)
    }

    /// Chooses by answers that were waited for.
    pub fn choose_inline<'a>(
        &mut self,
        wanted: impl Wanted<'a>,
        answers: impl Iterator<Item = (NodeId, LoadFigure)>,
        now: Instant,
        random: &mut Random,
    ) -> Choice {
        let mut fresh = Pool::new();
        for (node, figure) in answers {
            self.seen.note(figure.in_flight);
            fresh.put(node, figure, u32::MAX, POLLS_PER_CALL_MAX, now);
        }
        fresh.choose(wanted, self.seen.hot_above(), random)
    }

    /// After a call was launched: removes what is old or bad, and says whom to probe, all different.
    pub fn probe<'a>(&mut self, wanted: impl Wanted<'a>, random: &mut Random) -> Vec<NodeId> {
        let (choices, nodes) = choices_and_nodes(wanted);
        self.choices = self.choices.max(choices).min(PLACES_MAX);
        self.nodes = self.nodes.max(nodes.len());
        let targets = draw(nodes, (PROBES * choices).min(POLLS_PER_CALL_MAX), random);
        for _ in 0..REMOVALS * targets.len().div_ceil(PROBES) {
            self.pool.remove_one(self.seen.hot_above());
        }
        targets
    }

    /// A probe was answered.
    pub fn handle_answer(&mut self, node: NodeId, figure: LoadFigure, now: Instant, random: &mut Random) {
        self.seen.note(figure.in_flight);
        let places = self.places();
        let uses = rounded(uses(places, self.nodes), random);
        self.pool.put(node, figure, uses, places, now);
    }

    /// What `node` said must not be believed any more: it failed, or is gone.
    pub fn drop_answers(&mut self, node: NodeId) {
        self.pool.remove(node);
    }

    /// How many answers the pool may hold.
    pub fn places(&self) -> usize {
        (self.choices.max(1) * PLACES).min(PLACES_MAX)
    }

    /// The pool, to be looked at.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }
}

/// How often an answer may be used, `b = max(1, (1+δ) / ((1 − m/n)·r_probe − r_remove))` (§4 of the paper), with
/// `m` places and `n` nodes.
///
/// The denominator is what a full pool gains per call by answers of nodes that it does not yet hold. Where it is not
/// positive the pool has room for nearly all nodes, is never full, and an answer is used once: see the module's
/// essay. Of its 100 nodes the paper's pool of 16 lets an answer be used 1.3 times.
pub fn uses(places: usize, nodes: usize) -> f64 {
    let strangers = 1.0 - places as f64 / nodes.max(1) as f64;
    let gained = strangers * PROBES as f64 - REMOVALS as f64;
    let most = f64::from(USES_MAX);
    if gained > 0.0 { ((1.0 + DELTA) / gained).clamp(1.0, most) } else { 1.0 }
}

/// A whole number next to `exact`, at random so that its mean is `exact`.
fn rounded(exact: f64, random: &mut Random) -> u32 {
    let whole = libm::floor(exact);
    whole as u32 + u32::from(random.unit() < exact - whole)
}

/// How many partitions leave a choice, and their replicas, each once.
fn choices_and_nodes<'a>(wanted: impl Wanted<'a>) -> (usize, Vec<NodeId>) {
    let (mut choices, mut nodes) = (0, BTreeSet::new());
    let mut last: &[NodeId] = &[];
    for (_, replicas) in wanted {
        choices += usize::from(replicas.len() > 1);
        // Neighbours often lie on the same nodes.
        if replicas.len() > 1 && replicas != last {
            nodes.extend(replicas);
            last = replicas;
        }
    }
    (choices, nodes.into_iter().collect())
}

/// So many of `nodes`, every subset equally likely.
fn draw(mut nodes: Vec<NodeId>, count: usize, random: &mut Random) -> Vec<NodeId> {
    let count = count.min(nodes.len());
    for at in 0..count {
        let from = at + random.below(nodes.len() - at);
        nodes.swap(at, from);
    }
    nodes.truncate(count);
    nodes
}

#[cfg(test)]
mod tests;
