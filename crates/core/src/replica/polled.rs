//! The least loaded of a few polled replicas (random polling paper §2.2, §3.2; DESIGN 4.3).
//!
//! Before a call starts, it polls d random replicas of each partition. Two choices bring most of the possible
//! gain over none. One answer serves every partition that
//! the node holds, so a call's polls are shared, and their number is bounded. A call does not wait for an
//! answer longer than `Tuning::poll_timeout` (10 ms): it would be stale, and it comes from a busy node,
//! because an idle one would have answered.
//!
//! ```text
//! begin ──► targets asked ──► handle_answer … ──► is_complete, or now past give_up_at ──► choose
//! ```
//!
//! [`least_loaded`](super::least_loaded) makes the choice. If a call has so many partitions that the bound on
//! polls leaves some of their replicas unpolled, their announced figures are used. Otherwise a polled node
//! would be preferred to an idle neighbour that was not polled. Within the bound, a replica that was not
//! polled is not chosen: comparing d random ones is the policy.
//!
//! A call whose partitions have one replica each sends no polls and is complete from the start.

use super::choice::{Choice, Wanted};
use super::least_loaded::{Among, Cost, Pace, choose as choose_least};
use crate::id::NodeId;
use crate::load::figure::LoadFigure;
use crate::load::speed::Excess;
use crate::random::Random;
use crate::time::{Duration, Instant};
use alloc::collections::BTreeMap;

/// The greatest number of nodes that one call polls.
pub const POLLS_PER_CALL_MAX: usize = 64;

/// The polls of one call.
#[derive(Clone, Debug, PartialEq)]
pub struct Poll {
    /// The polled nodes, and their answers.
    answers: BTreeMap<NodeId, Asked>,
    /// The number of nodes that have neither answered nor been lost.
    waiting: usize,
    /// The number of these answers that the call need not wait for.
    waived: usize,
    /// The index of the node that is polled first; the others follow in the order of their ids.
    first: usize,
    /// True if the bound left replicas unpolled that would have been polled.
    is_cut: bool,
    give_up_at: Instant,
    late: u32,
    /// The nodes that are slow, for this call.
    slow: Option<Excess>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Waiting,
    Answered(LoadFigure),
    Lost,
}

/// The treatment of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The answer counts.
    Taken,
    /// It came after [`Poll::give_up_at`] and was dropped.
    Late,
    /// The answer was not asked for, or came a second time, and was dropped.
    Unasked,
}

impl Poll {
    /// Draws the nodes to poll: for each partition with several replicas, `polls` of them, including nodes
    /// already drawn for another partition. Slow nodes are drawn only where there are not enough others. Answers count until
    /// `timeout` from now.
    pub fn begin<'a>(
        wanted: impl Wanted<'a>,
        polls: u32,
        (timeout, slow): (Duration, Option<Excess>),
        now: Instant,
        random: &mut Random,
    ) -> Self {
        let mut answers = BTreeMap::new();
        let several = wanted.filter(|(_, replicas)| replicas.len() > 1);
        let count = several.clone().count();
        // The start is random, so that the bound does not always leave the same partitions unpolled.
        let first = if count > 0 { random.below(count) } else { 0 };
        let around = several.clone().skip(first).chain(several.take(first));
        let mut is_cut = false;
        for (_, replicas) in around {
            if answers.len() >= POLLS_PER_CALL_MAX {
                is_cut = true;
                break;
            }
            let mut draw = |may_be: &dyn Fn(&NodeId) -> bool| {
                draw_targets(replicas, polls as usize, &mut answers, may_be, random);
            };
            let Some(slow) = &slow else {
                draw(&|_| true);
                continue;
            };
            let excess = |node: &NodeId| slow.get(node).copied().unwrap_or(0.0);
            draw(&|node| excess(node) < 0.0);
            draw(&|node| excess(node) <= 0.0);
            draw(&|_| true);
        }
        let waiting = answers.len();
        Self { answers, waiting, waived: 0, first: 0, is_cut, give_up_at: now + timeout, late: 0, slow }
    }

    /// Lets the call start without the last answer, as long as it waits for at least two.
    ///
    /// If all nodes are equally near, the last to answer is the last that was polled. In a fixed order the
    /// same few nodes would always be last and would get no work, so the order begins at a random node.
    #[must_use]
    pub fn without_the_last(mut self, random: &mut Random) -> Self {
        if self.answers.len() > 2 {
            self.waived = 1;
            self.first = random.below(self.answers.len());
        }
        self
    }

    /// The nodes to poll: each once, at most [`POLLS_PER_CALL_MAX`].
    pub fn targets(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.answers.keys().skip(self.first).chain(self.answers.keys().take(self.first)).copied()
    }

    /// Handles an answer.
    pub fn handle_answer(&mut self, node: NodeId, figure: LoadFigure, now: Instant) -> Verdict {
        match self.answers.get_mut(&node) {
            Some(asked @ Asked::Waiting) if now <= self.give_up_at => {
                *asked = Asked::Answered(figure);
                self.waiting -= 1;
                Verdict::Taken
            }
            Some(Asked::Waiting) => {
                self.late = self.late.saturating_add(1);
                Verdict::Late
            }
            _ => Verdict::Unasked,
        }
    }

    /// No answer will come from `node`: it is gone, or could not be reached.
    pub fn handle_lost(&mut self, node: NodeId) {
        if let Some(asked @ Asked::Waiting) = self.answers.get_mut(&node) {
            *asked = Asked::Lost;
            self.waiting -= 1;
        }
    }

    /// True if the call waits for no more answers.
    pub fn is_complete(&self) -> bool {
        self.waiting <= self.waived
    }

    /// The time until which the call waits for answers.
    pub fn give_up_at(&self) -> Instant {
        self.give_up_at
    }

    /// The number of answers that came too late.
    pub fn late(&self) -> u32 {
        self.late
    }

    /// The answer of `node`, if it came in time.
    pub fn answer_of(&self, node: NodeId) -> Option<LoadFigure> {
        match self.answers.get(&node) {
            Some(Asked::Answered(figure)) => Some(*figure),
            _ => None,
        }
    }

    /// All answers that came in time.
    pub fn answers(&self) -> impl Iterator<Item = (NodeId, LoadFigure)> + '_ {
        self.answers.iter().filter_map(|(&node, asked)| match asked {
            Asked::Answered(figure) => Some((node, *figure)),
            Asked::Waiting | Asked::Lost => None,
        })
    }

    /// The nodes that are slow, with their excess.
    pub fn excess(&self) -> Option<&Excess> {
        self.slow.as_ref()
    }

    /// Chooses for each partition the replica with the least load by the answers. `announced` gives the load
    /// of replicas that the bound left unpolled, and of all if no node has answered in time.
    pub fn choose<'a>(
        &self,
        wanted: impl Wanted<'a>,
        announced: impl Fn(NodeId, &mut Random) -> LoadFigure,
        local_ms: f64,
        random: &mut Random,
    ) -> Choice {
        let is_answered = self.answers().next().is_some();
        let figure = |node, random: &mut Random| match self.answers.get(&node) {
            Some(Asked::Answered(figure)) => Some(*figure),
            Some(Asked::Waiting | Asked::Lost) => (!is_answered).then(|| announced(node, random)),
            None => (self.is_cut || !is_answered).then(|| announced(node, random)),
        };
        let pace = Pace { local_ms, excess: self.excess() };
        let cost = |node, random: &mut Random| Some(Cost::of_load(node, figure(node, random)?, pace));
        choose_least(wanted, Among::All, cost, random)
    }
}

/// Adds random `replicas` that `may_be` drawn to `answers` until `polls` of all are included (Knuth's selection sampling: one
/// pass, no copy, every subset equally likely).
fn draw_targets(
    replicas: &[NodeId],
    polls: usize,
    answers: &mut BTreeMap<NodeId, Asked>,
    may_be: impl Fn(&NodeId) -> bool,
    random: &mut Random,
) {
    let asked = replicas.iter().filter(|node| answers.contains_key(*node)).count();
    let mut missing = polls.saturating_sub(asked).min(POLLS_PER_CALL_MAX - answers.len());
    let mut left = replicas.iter().filter(|node| !answers.contains_key(*node) && may_be(node)).count();
    for node in replicas {
        if missing == 0 {
            break;
        }
        if answers.contains_key(node) || !may_be(node) {
            continue;
        }
        if random.below(left) < missing {
            answers.insert(*node, Asked::Waiting);
            missing -= 1;
        }
        left -= 1;
    }
}

#[cfg(test)]
mod tests;
