//! The least loaded of a few that were asked (random polling paper §2.2, §3.2; DESIGN 4.3).
//!
//! Before a call sets out, d random replicas of each partition are asked how busy they are: two choices take most of
//! what there is to gain over none, and each further poll costs more than it brings. One answer serves every
//! partition that the node holds, so the polls of a call are shared, and bounded. An answer that is not there after
//! `Tuning::poll_timeout` (10 ms) is not waited for: it would be stale, and it comes from a node that is busy, or it
//! would have come.
//!
//! ```text
//! begin ──► targets asked ──► handle_answer … ──► is_complete, or now past give_up_at ──► choose
//! ```
//!
//! The choice is [`least_loaded`](super::least_loaded)'s. When a call has so many partitions that the bound on polls
//! leaves some of their replicas unasked, these are reckoned with by what they have announced: else whoever
//! happened to be asked would be preferred to an idle neighbour who was not. Within the bound, who was not asked
//! is not chosen: comparing d at random is the policy.
//!
//! A call whose partitions have one replica each polls nobody and is complete as it begins.

use super::choice::{Choice, Wanted};
use super::least_loaded::{Among, Cost, choose as choose_least};
use crate::id::NodeId;
use crate::load::figure::LoadFigure;
use crate::random::Random;
use crate::time::{Duration, Instant};
use alloc::collections::BTreeMap;

/// How many nodes one call polls at most.
pub const POLLS_PER_CALL_MAX: usize = 64;

/// The polls of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poll {
    /// Whom was asked, and what was answered.
    answers: BTreeMap<NodeId, Asked>,
    /// How many have neither answered nor been lost.
    waiting: usize,
    /// How many of them need not be waited for.
    waived: usize,
    /// Which of those to be asked, in the order of their names, is asked first.
    first: usize,
    /// True when the bound left replicas unasked that would have been asked.
    is_cut: bool,
    give_up_at: Instant,
    late: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Waiting,
    Answered(LoadFigure),
    Lost,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It counts.
    Taken,
    /// It came after [`Poll::give_up_at`] and was dropped.
    Late,
    /// It was not asked for, or came a second time, and was dropped.
    Unasked,
}

impl Poll {
    /// Draws whom to ask: of each partition with several replicas, `polls` of them, counting those already
    /// drawn for another partition. Answers count until `timeout` from now.
    pub fn begin<'a>(
        wanted: impl Wanted<'a>,
        polls: u32,
        timeout: Duration,
        now: Instant,
        random: &mut Random,
    ) -> Self {
        let mut answers = BTreeMap::new();
        let several = wanted.filter(|(_, replicas)| replicas.len() > 1);
        let count = several.clone().count();
        // Beginning anywhere: should the bound bite, it is not always the same partitions that go unpolled.
        let first = if count > 0 { random.below(count) } else { 0 };
        let around = several.clone().skip(first).chain(several.take(first));
        let mut is_cut = false;
        for (_, replicas) in around {
            if answers.len() >= POLLS_PER_CALL_MAX {
                is_cut = true;
                break;
            }
            draw_targets(replicas, polls as usize, &mut answers, random);
        }
        let waiting = answers.len();
        Self { answers, waiting, waived: 0, first: 0, is_cut, give_up_at: now + timeout, late: 0 }
    }

    /// Does not wait for the last answer, as long as two are waited for.
    ///
    /// Where all are equally near, the last to answer is the last that was asked, and in a fixed order that would be
    /// the same few nodes over and over, which then would get no work: it begins with any by lot.
    #[must_use]
    pub fn without_the_last(mut self, random: &mut Random) -> Self {
        if self.answers.len() > 2 {
            self.waived = 1;
            self.first = random.below(self.answers.len());
        }
        self
    }

    /// Whom to ask: each node once, [`POLLS_PER_CALL_MAX`] at most.
    pub fn targets(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.answers.keys().skip(self.first).chain(self.answers.keys().take(self.first)).copied()
    }

    /// Takes in an answer.
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

    /// No answer will come from `node`: it is known to be gone, or could not be asked.
    pub fn handle_lost(&mut self, node: NodeId) {
        if let Some(asked @ Asked::Waiting) = self.answers.get_mut(&node) {
            *asked = Asked::Lost;
            self.waiting -= 1;
        }
    }

    /// True when there is nobody left to wait for.
    pub fn is_complete(&self) -> bool {
        self.waiting <= self.waived
    }

    /// Until when answers are waited for.
    pub fn give_up_at(&self) -> Instant {
        self.give_up_at
    }

    /// How many answers came too late.
    pub fn late(&self) -> u32 {
        self.late
    }

    /// What `node` answered, in time.
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

    /// For each partition the replica of least load by the answers that are in. `announced` says what those are
    /// loaded with that the bound left unasked.
    pub fn choose<'a>(
        &self,
        wanted: impl Wanted<'a>,
        announced: impl Fn(NodeId, &mut Random) -> LoadFigure,
        local_ms: f64,
        random: &mut Random,
    ) -> Choice {
        let figure = |node, random: &mut Random| match self.answers.get(&node) {
            Some(Asked::Answered(figure)) => Some(*figure),
            Some(Asked::Waiting | Asked::Lost) => None,
            None => self.is_cut.then(|| announced(node, random)),
        };
        let cost = |node, random: &mut Random| Some(Cost::of_load(figure(node, random)?, local_ms));
        choose_least(wanted, Among::All, cost, random)
    }
}

/// Adds to `answers` as many random ones of `replicas` as are missing to `polls` (Knuth's selection sampling:
/// one pass, no copy, every subset equally likely).
fn draw_targets(
    replicas: &[NodeId],
    polls: usize,
    answers: &mut BTreeMap<NodeId, Asked>,
    random: &mut Random,
) {
    let asked = replicas.iter().filter(|node| answers.contains_key(*node)).count();
    let mut missing = polls.saturating_sub(asked).min(POLLS_PER_CALL_MAX - answers.len());
    let mut left = replicas.len() - asked;
    for node in replicas {
        if missing == 0 {
            break;
        }
        if answers.contains_key(node) {
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
