//! The least loaded of a few that were asked (random polling paper §2.2, §3.2; DESIGN 4.3).
//!
//! Before a call sets out, d random replicas of each partition are asked how busy they are: two choices take
//! most of what there is to gain over none, and each further poll costs more than it brings. One answer
//! serves every partition that the node holds, so the polls of a call are shared, and bounded. An answer that
//! is not there after 10 ms is not waited for: it would be stale, and it comes from a node that is busy, or
//! it would have come.
//!
//! ```text
//! begin ──► targets asked ──► handle_answer … ──► is_complete, or now past give_up_at ──► choose
//! ```
//!
//! [`choose`] is the policy's second half and serves other sources of load figures too. Of each partition's
//! replicas with a known figure the least loaded is taken, of equals any by lot; with no figure known, any of
//! all by lot. Each choice raises that node's load by the partition's local cost, beginning with the
//! partitions that leave no choice, so that one call does not pile all of its own work on the node that
//! happened to be idle.
//!
//! A call whose partitions have one replica each polls nobody and is complete as it begins.

use super::choice::{Choice, Placing, Wanted};
use crate::id::NodeId;
use crate::load::figure::LoadFigure;
use crate::random::Random;
use crate::time::{Duration, Instant};
use alloc::collections::BTreeMap;

/// How long answers are waited for; later ones are dropped.
pub const POLL_TIMEOUT: Duration = Duration::from_millis(10);

/// How many nodes one call polls at most.
pub const POLLS_PER_CALL_MAX: usize = 64;

/// The polls of one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Poll {
    /// Whom was asked, and what was answered.
    answers: BTreeMap<NodeId, Asked>,
    /// How many are still waited for.
    waiting: usize,
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
    /// drawn for another partition.
    pub fn begin<'a>(wanted: impl Wanted<'a>, polls: u32, now: Instant, random: &mut Random) -> Self {
        let mut answers = BTreeMap::new();
        let several = wanted.filter(|(_, replicas)| replicas.len() > 1);
        let count = several.clone().count();
        // Beginning anywhere: should the bound bite, it is not always the same partitions that go unpolled.
        let first = if count > 0 { random.below(count) } else { 0 };
        let around = several.clone().skip(first).chain(several.take(first));
        for (_, replicas) in around {
            if answers.len() >= POLLS_PER_CALL_MAX {
                break;
            }
            draw_targets(replicas, polls as usize, &mut answers, random);
        }
        let waiting = answers.len();
        Self { answers, waiting, give_up_at: now + POLL_TIMEOUT, late: 0 }
    }

    /// Whom to ask: each node once, [`POLLS_PER_CALL_MAX`] at most.
    pub fn targets(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.answers.keys().copied()
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
        self.waiting == 0
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

    /// [`choose`] by the answers that are in.
    pub fn choose<'a>(&self, wanted: impl Wanted<'a>, local_ms: f64, random: &mut Random) -> Choice {
        choose(wanted, |node| self.answer_of(node), local_ms, random)
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

/// For each partition its replica of least load by `load`, which is asked once per node. `local_ms` is what
/// the local of one partition takes one processor.
pub fn choose<'a>(
    wanted: impl Wanted<'a>,
    load: impl FnMut(NodeId) -> Option<LoadFigure>,
    local_ms: f64,
    random: &mut Random,
) -> Choice {
    if wanted.clone().all(|(_, replicas)| replicas.len() < 2) {
        return super::choice::choose_each(wanted, |_, replicas| replicas[0]);
    }
    let mut loads = Loads { load, local_ms, by_node: BTreeMap::new() };
    for (_, replicas) in wanted.clone() {
        if let [only] = replicas {
            loads.raise(*only);
        }
    }
    let mut placing = Placing::default();
    for (partition, replicas) in wanted {
        let node = match replicas {
            [] => None,
            [only] => Some(*only),
            several => {
                let node = loads.least_of(several, random);
                loads.raise(node);
                Some(node)
            }
        };
        placing.place(partition, node);
    }
    placing.finish()
}

/// The load of each node that has come up, with what this call has laid on it.
struct Loads<F> {
    load: F,
    local_ms: f64,
    /// `None` for who is not known.
    by_node: BTreeMap<NodeId, Option<Laden>>,
}

#[derive(Clone, Copy)]
struct Laden {
    load_ms: f64,
    /// By how much one more partition raises it.
    step_ms: f64,
}

impl<F: FnMut(NodeId) -> Option<LoadFigure>> Loads<F> {
    fn of(&mut self, node: NodeId) -> &mut Option<Laden> {
        self.by_node.entry(node).or_insert_with(|| {
            (self.load)(node).map(|figure| Laden {
                load_ms: figure.load_ms(),
                step_ms: self.local_ms / f64::from(figure.processors.max(1)),
            })
        })
    }

    fn raise(&mut self, node: NodeId) {
        if let Some(laden) = self.of(node) {
            laden.load_ms += laden.step_ms;
        }
    }

    fn least_of(&mut self, replicas: &[NodeId], random: &mut Random) -> NodeId {
        let mut least: Option<(f64, NodeId)> = None;
        let mut equals = 0;
        for &node in replicas {
            let Some(Laden { load_ms, .. }) = *self.of(node) else { continue };
            match least {
                Some((least_ms, _)) if load_ms > least_ms => {}
                Some((least_ms, _)) if load_ms >= least_ms => {
                    // The k-th of k equals takes the place with probability 1/k: each is equally likely in
                    // the end.
                    equals += 1;
                    if random.below(equals) == 0 {
                        least = Some((load_ms, node));
                    }
                }
                _ => (least, equals) = (Some((load_ms, node)), 1),
            }
        }
        least.map_or_else(|| replicas[random.below(replicas.len())], |(_, node)| node)
    }
}

#[cfg(test)]
mod tests;
