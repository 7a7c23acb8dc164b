//! Prequal: probing for requests in flight and latency (Wydrowski and others, NSDI'24; DESIGN 4.3).
//!
//! A request waits for other requests, and Prequal uses two signs of them. The number of *requests in flight*
//! shows at once that a node is about to become slow, before any request has been slow. *Latency* tells fast
//! machines from slow ones. The rule puts the first sign before the second, as a threshold (*hot and cold*):
//!
//! * A node is **hot** if it has more in flight than the 2^−0.25 ≈ 0.84 quantile of recent answers.
//! * Among cold nodes, the one with the least latency is chosen. If all are hot, the one with the fewest in
//!   flight is chosen.
//! * With fewer than two answers to compare, the choice is random, among nodes that are not [slow](crate::load::speed).
//!
//! There are two ways to obtain the signs:
//! * `prequal` keeps a [`pool`] of answers. Each call *probes* three random nodes, chooses by the answers to
//!   earlier probes, and waits for none, so no time is lost. The answers are some calls old; the pool's rules
//!   make up for that.
//! * `prequal_inline` polls three replicas of each partition and waits for all but one, like `polled:3`. The
//!   answers are fresh, and each call pays a round trip for them.
//!
//! # Partitions
//! The paper's clients choose among all servers of a job. A call here chooses for each partition among its
//! two to five replicas. A pool per partition would be starved. So there is **one pool per front, filtered
//! per partition**, and a call that chooses for k partitions counts as k calls of the paper: it may use k
//! entries, the pool has room for k times [`PLACES`], and k times [`PROBES`] nodes are probed, if there are
//! that many.
//!
//! # How often an answer is used
//! The paper lets an answer be used `b` times if the pool would otherwise run dry, which happens if most
//! probes hit nodes that it already contains. This is meant for pools that are small compared with the
//! cluster. A pool with room for all nodes does not run dry: it settles at about a third of the nodes, where
//! as many answers arrive as leave. In such a pool, repeated use of an answer is harmful: until a node is
//! probed again, the front that found it fast keeps sending it work. In the simulator
//! (`treefold sim run replica-policies`; 16 equal servers at 90 %, 6 fronts), 16 uses of an answer give a
//! mean response time of 264 ms and one use gives 140 ms. Two polls that a call waits for give 147 ms. Hence
//! [`USES_MAX`].
//!
//! # When to prefer it inline
//! Calls refill the pool, so its answers are about as old as a front's last few calls. If a front calls
//! several times while a server works off its queue, it decides as well as with polls, without waiting. If it
//! calls less often, it decides by outdated figures: with 8 partitions of 3 replicas and about ten calls per
//! second, `prequal` takes 462 ms, `prequal_inline` 276 ms and `polled:2` 294 ms.

use super::choice::{Choice, Wanted};
use crate::id::NodeId;
use crate::load::figure::LoadFigure;
use crate::load::speed::Excess;
use crate::random::Random;
use crate::replica::polled::POLLS_PER_CALL_MAX;
use crate::time::{Duration, Instant};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

pub mod pool;
pub mod seen;

use pool::Pool;
use seen::Seen;

/// Places in the pool for each partition that a call chooses for (`m` of the paper).
pub const PLACES: usize = 16;

/// The greatest number of places in the pool, for any number of partitions.
pub const PLACES_MAX: usize = 1_024;

/// Probes for each partition that a call chooses for (`r_probe`).
pub const PROBES: usize = 3;

/// Entries removed for each [`PROBES`] probes (`r_remove`).
pub const REMOVALS: usize = 1;

/// The greatest age of an answer that is used.
pub const AGE_MAX: Duration = Duration::from_secs(1);

/// How many more answers must arrive than leave, per call (`δ`).
const DELTA: f64 = 1.0;

/// The greatest number of uses of an answer; caps the formula.
pub const USES_MAX: u32 = 2;

/// Replicas of each partition that `prequal_inline` polls.
pub const INLINE_POLLS: u32 = 3;

/// Marks the sequence number of a probe. The other bits are the time at which the probe was sent, which the
/// answer returns, so no state is kept for open probes. 2^63 ns are 292 years.
const PROBE: u64 = 1 << 63;

/// The sequence number of a probe sent now.
pub fn probe_sequence(now: Instant) -> u64 {
    PROBE | now.as_nanos()
}

/// The time at which the probe with this sequence number was sent; `None` if the number is not a probe's.
pub fn probed_at(sequence: u64) -> Option<Instant> {
    (sequence & PROBE != 0).then(|| Instant::from_nanos(sequence & !PROBE))
}

/// The state that a front keeps for `prequal`.
#[derive(Clone, Debug)]
pub struct Prequal {
    pool: Pool,
    seen: Seen,
    /// The most partitions that a call has had to choose for so far, at most [`PLACES_MAX`].
    choices: usize,
    /// The most nodes that a call has had to choose from so far.
    nodes: usize,
}

impl Default for Prequal {
    fn default() -> Self {
        Self::new()
    }
}

impl Prequal {
    /// No answers yet.
    pub const fn new() -> Self {
        Self { pool: Pool::new(), seen: Seen::new(), choices: 0, nodes: 0 }
    }

    /// Chooses by the pool.
    pub fn choose<'a>(
        &mut self,
        wanted: impl Wanted<'a>,
        slow: Option<&Excess>,
        now: Instant,
        random: &mut Random,
    ) -> Choice {
        self.pool.expire(now);
        self.pool.choose(wanted, self.seen.hot_above(), slow, random)
    }

    /// Chooses by answers that the call has waited for.
    pub fn choose_inline<'a>(
        &mut self,
        wanted: impl Wanted<'a>,
        answers: impl Iterator<Item = (NodeId, LoadFigure)>,
        slow: Option<&Excess>,
        now: Instant,
        random: &mut Random,
    ) -> Choice {
        let mut fresh = Pool::new();
        for (node, figure) in answers {
            self.seen.note(figure.in_flight);
            fresh.put(node, figure, u32::MAX, POLLS_PER_CALL_MAX, now);
        }
        fresh.choose(wanted, self.seen.hot_above(), slow, random)
    }

    /// Called after a call was launched: removes old and bad entries, and returns the nodes to probe, all
    /// different.
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

    /// Handles the answer to a probe.
    pub fn handle_answer(&mut self, node: NodeId, figure: LoadFigure, now: Instant, random: &mut Random) {
        self.seen.note(figure.in_flight);
        let places = self.places();
        let uses = rounded(uses(places, self.nodes), random);
        self.pool.put(node, figure, uses, places, now);
    }

    /// Drops the answers of `node`, which failed or is gone.
    pub fn drop_answers(&mut self, node: NodeId) {
        self.pool.remove(node);
    }

    /// The number of answers that the pool may hold.
    pub fn places(&self) -> usize {
        (self.choices.max(1) * PLACES).min(PLACES_MAX)
    }

    /// The pool, read-only.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }
}

/// How often an answer may be used, `b = max(1, (1+δ) / ((1 − m/n)·r_probe − r_remove))` (§4 of the paper),
/// with `m` places and `n` nodes.
///
/// The denominator is the number of answers from new nodes that a full pool gains per call. If it is not
/// positive, the pool has room for nearly all nodes and is never full, and an answer is used once; see the
/// module's essay. With 100 nodes and a pool of 16, the paper lets an answer be used 1.3 times.
pub fn uses(places: usize, nodes: usize) -> f64 {
    let strangers = 1.0 - places as f64 / nodes.max(1) as f64;
    let gained = strangers * PROBES as f64 - REMOVALS as f64;
    let most = f64::from(USES_MAX);
    if gained > 0.0 { ((1.0 + DELTA) / gained).clamp(1.0, most) } else { 1.0 }
}

/// A whole number next to `exact`, drawn so that its mean is `exact`.
fn rounded(exact: f64, random: &mut Random) -> u32 {
    let whole = libm::floor(exact);
    whole as u32 + u32::from(random.unit() < exact - whole)
}

/// The number of partitions that leave a choice, and their replicas, each once.
fn choices_and_nodes<'a>(wanted: impl Wanted<'a>) -> (usize, Vec<NodeId>) {
    let (mut choices, mut nodes) = (0, BTreeSet::new());
    let mut last: &[NodeId] = &[];
    for (_, replicas) in wanted {
        choices += usize::from(replicas.len() > 1);
        // Neighbouring partitions are often on the same nodes.
        if replicas.len() > 1 && replicas != last {
            nodes.extend(replicas);
            last = replicas;
        }
    }
    (choices, nodes.into_iter().collect())
}

/// `count` random nodes of `nodes`, every subset equally likely.
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
