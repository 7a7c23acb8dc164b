//! Checkpoints, at the origin: the events that all mirrors have applied (mirroring §3.2.1, figure 3), and those
//! that enough of them have applied.
//!
//! After every `f` events the origin asks all mirrors how far they are. The minimum of the answers is
//! committed, and everyone trims its backup queue. There are no aborts and no time-outs: an answer that is
//! late or lost is covered by the next checkpoint. The paper assumes that mirrors never die; here a mirror that
//! does not answer holds up commits until its *lease* runs out, and is then evicted. It returns with a
//! snapshot.
//!
//! The answers also name how far each mirror is, so the origin knows which events are at `k` of them, although
//! others are slower. **Nothing is committed that fewer than `k` mirrors have**: an origin that has lost the others
//! stops committing, because a new origin may have taken them over.
//!
//! An answer counts only for mirrors that have a seat in the origin's stream, and only if it is not older than the last
//! one of that mirror.

use crate::packet::{Checkpoint, Holding, Vote};
use std::collections::{BTreeMap, BTreeSet};
use treefold_core::time::{Duration, Instant};

/// The checkpoints of one origin.
#[derive(Debug)]
pub struct Checkpoints {
    /// The last checkpoint.
    last: Checkpoint,
    asked_at: Instant,
    /// Number of the newest checkpoint that any mirror has answered.
    answered: u64,
    sent_since: u64,
    committed: u64,
    /// Mirrors that must have an event before it is committed.
    copies: u32,
    lease: Duration,
    mirrors: BTreeMap<u32, Standing>,
}

/// A mirror that has a seat in the origin's stream.
#[derive(Clone, Copy, Debug)]
struct Standing {
    /// Its last answer. `None` if it has not answered yet.
    holding: Option<Holding>,
    /// Number of the checkpoint that it answered last.
    answered: u64,
    /// The time since which it has not answered.
    silent_since: Option<Instant>,
    /// Its lease has run out, so it holds up nothing until it answers again.
    is_evicted: bool,
}

/// The reason why an origin commits and acknowledges nothing: too few mirrors have its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{has} of the {needs} mirrors that must have an event take part and have a state")]
pub struct Shortage {
    /// Mirrors that take part and do not wait for a snapshot.
    pub has: u32,
    /// Mirrors that must have an event.
    pub needs: u32,
}

impl Checkpoints {
    /// Starts after a committed position. `lease` is the time that a silent mirror may hold up commits.
    pub fn new(committed: u64, lease: Duration) -> Self {
        Self {
            last: Checkpoint { number: 0, position: committed },
            asked_at: Instant::START,
            answered: 0,
            sent_since: 0,
            committed,
            copies: 0,
            lease,
            mirrors: BTreeMap::new(),
        }
    }

    /// Sets the number of mirrors that must have an event before it is committed. Default: 0, with which the mirrors
    /// that take part are enough, however few they are.
    pub fn set_copies(&mut self, copies: u32) {
        self.copies = copies;
    }

    /// Counts events that were sent.
    pub fn count(&mut self, events: u64) {
        self.sent_since += events;
    }

    /// Begins a checkpoint if `every` events were sent since the last one. `position` is the last one sent.
    pub fn begin(&mut self, now: Instant, every: u64, position: u64) -> Option<Checkpoint> {
        if self.sent_since < every {
            return None;
        }
        self.sent_since = 0;
        self.asked_at = now;
        self.last = Checkpoint { number: self.last.number + 1, position };
        Some(self.last)
    }

    /// The last checkpoint, and the time at which it began.
    pub fn last(&self) -> (Checkpoint, Instant) {
        (self.last, self.asked_at)
    }

    /// True if no mirror has answered the last checkpoint.
    pub fn is_unanswered(&self) -> bool {
        self.answered < self.last.number
    }

    /// Notes the mirrors that take part now. A new one holds up commits until it answers or its lease ends.
    pub fn seat(&mut self, now: Instant, mirrors: impl IntoIterator<Item = u32>) {
        let mut gone: BTreeSet<u32> = self.mirrors.keys().copied().collect();
        for mirror in mirrors {
            gone.remove(&mirror);
            self.mirrors.entry(mirror).or_insert(Standing {
                holding: None,
                answered: 0,
                silent_since: Some(now),
                is_evicted: false,
            });
        }
        // A mirror that has left may still return within its lease.
        self.mirrors.retain(|mirror, standing| !standing.is_evicted || !gone.contains(mirror));
    }

    /// Takes the answers to a checkpoint, and the mirrors that did not answer. Returns the position to commit, if
    /// it is greater than before.
    pub fn take_votes(&mut self, now: Instant, vote: &Vote, missing: &[u32]) -> Option<u64> {
        if vote.number == 0 || vote.number > self.last.number {
            return None;
        }
        self.answered = self.answered.max(vote.number);
        for (mirror, holding) in vote.holdings() {
            // Answers to different checkpoints may overtake each other, and a mirror may name others.
            if let Some(standing) = self.mirrors.get_mut(&mirror).filter(|one| one.answered <= vote.number) {
                *standing = Standing {
                    holding: Some(holding),
                    answered: vote.number,
                    silent_since: None,
                    is_evicted: false,
                };
            }
        }
        self.take_silence(now, missing)
    }

    /// Notes mirrors that did not answer a checkpoint, and evicts those whose lease has run out. Returns the position
    /// to commit, if it is greater than before.
    pub fn take_silence(&mut self, now: Instant, missing: &[u32]) -> Option<u64> {
        for mirror in missing {
            if let Some(standing) = self.mirrors.get_mut(mirror) {
                standing.silent_since.get_or_insert(now);
            }
        }
        for standing in self.mirrors.values_mut() {
            standing.is_evicted |= standing.silent_since.is_some_and(|since| now.since(since) >= self.lease);
        }
        let least = self.seated().filter_map(|(_, standing)| match standing.holding {
            Some(Holding::Has(position)) => Some(position),
            Some(Holding::Joins) => None,
            None => Some(self.committed),
        });
        let mut position = least.min()?.min(self.last.position);
        if self.copies > 0 {
            position = position.min(self.held_by(self.copies)?);
        }
        if position <= self.committed {
            return None;
        }
        self.committed = position;
        Some(position)
    }

    /// The time at which the next lease ends of a mirror that does not answer.
    pub fn lease_ends_at(&self) -> Option<Instant> {
        self.seated().filter_map(|(_, standing)| standing.silent_since).min().map(|since| since + self.lease)
    }

    /// The mirrors that have a seat and a lease.
    fn seated(&self) -> impl Iterator<Item = (u32, &Standing)> {
        self.mirrors
            .iter()
            .filter(|(_, standing)| !standing.is_evicted)
            .map(|(&mirror, standing)| (mirror, standing))
    }

    /// The greatest position that at least `copies` mirrors have; `None` if fewer have answered.
    pub fn held_by(&self, copies: u32) -> Option<u64> {
        let mut held: Vec<u64> = self.seated().filter_map(|(_, standing)| standing.position()).collect();
        held.sort_unstable_by(|a, b| b.cmp(a));
        held.get(copies.checked_sub(1)? as usize).map(|&position| position.min(self.last.position))
    }

    /// True if there are mirrors, and all of them wait for a snapshot.
    pub fn all_join(&self) -> bool {
        let mut seated = self.seated().peekable();
        seated.peek().is_some() && seated.all(|(_, standing)| standing.holding == Some(Holding::Joins))
    }

    /// The reason why nothing is committed any more; `None` if enough mirrors take part.
    pub fn shortage(&self) -> Option<Shortage> {
        let has = self.seated().filter(|(_, standing)| standing.position().is_some()).count() as u32;
        (has < self.copies).then_some(Shortage { has, needs: self.copies })
    }

    /// The mirrors that take part, each with the position that it has, if it has answered and does not join.
    pub fn mirrors(&self) -> impl Iterator<Item = (u32, Option<u64>)> + '_ {
        self.seated().map(|(mirror, standing)| (mirror, standing.position()))
    }
}

impl Standing {
    fn position(&self) -> Option<u64> {
        match self.holding {
            Some(Holding::Has(position)) => Some(position),
            Some(Holding::Joins) | None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Monitored;

    /// The answers of mirrors, each with its position; 0 stands for a mirror that joins.
    fn votes(number: u64, positions: &[(u32, u64)]) -> Vote {
        let of = |&(mirror, position): &(u32, u64)| {
            let holding = if position == 0 { Holding::Joins } else { Holding::Has(position) };
            Vote::of(mirror, 9, number, holding, Monitored::default())
        };
        positions.iter().map(of).reduce(Vote::folded).unwrap()
    }

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    /// Checkpoints with these mirrors that have asked once at each of these positions.
    fn asked(mirrors: &[u32], positions: &[u64]) -> Checkpoints {
        let mut checkpoints = Checkpoints::new(0, Duration::from_secs(1));
        checkpoints.seat(at(0), mirrors.iter().copied());
        for &position in positions {
            checkpoints.begin(at(0), 0, position);
        }
        checkpoints
    }

    #[test]
    fn checkpoint_begins_after_every_f_events() {
        let mut checkpoints = asked(&[], &[]);
        checkpoints.count(49);
        assert_eq!(checkpoints.begin(at(0), 50, 49), None);
        checkpoints.count(1);
        assert_eq!(checkpoints.begin(at(0), 50, 50), Some(Checkpoint { number: 1, position: 50 }));
        assert_eq!(checkpoints.begin(at(0), 50, 50), None);
    }

    #[test]
    fn commits_only_grow() {
        let mut checkpoints = asked(&[0], &[100, 200]);
        assert_eq!(checkpoints.take_votes(at(0), &votes(2, &[(0, 150)]), &[]), Some(150));
        assert_eq!(
            checkpoints.take_votes(at(0), &votes(1, &[(0, 90)]), &[]),
            None,
            "a later commit covers it"
        );
        assert_eq!(checkpoints.take_votes(at(0), &votes(3, &[(0, 300)]), &[]), None, "nobody asked");
        assert_eq!(
            checkpoints.take_votes(at(0), &votes(2, &[(0, 300)]), &[]),
            Some(200),
            "nothing more was sent"
        );
    }

    #[test]
    fn silent_mirror_holds_up_commits_until_its_lease_ends() {
        let mut checkpoints = asked(&[0, 7], &[10, 10, 10, 10]);
        assert_eq!(checkpoints.take_votes(at(0), &votes(1, &[(0, 5)]), &[7]), None);
        assert_eq!(checkpoints.take_votes(at(900), &votes(2, &[(0, 6)]), &[7]), None);
        assert_eq!(checkpoints.mirrors().count(), 2);
        assert_eq!(checkpoints.take_votes(at(1000), &votes(3, &[(0, 7)]), &[7]), Some(7));
        assert_eq!(checkpoints.mirrors().collect::<Vec<_>>(), [(0, Some(7))], "it is evicted");
        assert_eq!(
            checkpoints.take_votes(at(1001), &votes(4, &[(0, 9), (7, 8)]), &[]),
            Some(8),
            "it is back"
        );
    }

    #[test]
    fn lease_ends_also_if_no_vote_can_be_read() {
        let mut checkpoints = asked(&[0, 7], &[10]);
        assert_eq!(checkpoints.take_votes(at(0), &votes(1, &[(0, 5)]), &[7]), None);
        assert_eq!(checkpoints.take_silence(at(500), &[7]), None);
        assert_eq!(checkpoints.take_silence(at(1000), &[7]), Some(5));
    }

    #[test]
    fn answers_for_mirrors_without_a_seat_and_old_answers_are_ignored() {
        let mut checkpoints = asked(&[0, 1], &[10, 20]);
        assert_eq!(
            checkpoints.take_votes(at(0), &votes(2, &[(0, 20), (1, 20), (5, 1)]), &[]),
            Some(20),
            "mirror 5 holds up nothing"
        );
        assert_eq!(checkpoints.mirrors().count(), 2);
        checkpoints.take_votes(at(1), &votes(1, &[(0, 0), (1, 9)]), &[]);
        assert_eq!(checkpoints.mirrors().collect::<Vec<_>>(), [(0, Some(20)), (1, Some(20))]);
    }

    #[test]
    fn evicted_mirror_that_has_left_is_forgotten() {
        let mut checkpoints = asked(&[0, 1], &[10, 20]);
        checkpoints.take_votes(at(0), &votes(1, &[(0, 10)]), &[1]);
        assert_eq!(checkpoints.take_votes(at(1000), &votes(1, &[(0, 10)]), &[1]), Some(10));
        checkpoints.seat(at(1001), [0]);
        let late = votes(2, &[(0, 20), (1, 3)]);
        assert_eq!(checkpoints.take_votes(at(1002), &late, &[]), Some(20), "it has no seat any more");
    }

    #[test]
    fn minority_commits_nothing() {
        let mut checkpoints = asked(&[0, 1, 2], &[10, 20, 30]);
        checkpoints.set_copies(2);
        assert_eq!(checkpoints.shortage(), Some(Shortage { has: 0, needs: 2 }));
        let all = votes(1, &[(0, 10), (1, 10), (2, 10)]);
        assert_eq!(checkpoints.take_votes(at(0), &all, &[]), Some(10));
        assert_eq!(checkpoints.shortage(), None);
        checkpoints.take_votes(at(0), &votes(2, &[(0, 20)]), &[1, 2]);
        assert_eq!(checkpoints.take_votes(at(5000), &votes(3, &[(0, 30)]), &[1, 2]), None);
        assert_eq!((checkpoints.held_by(1), checkpoints.held_by(2)), (Some(30), None));
        let shortage = checkpoints.shortage().unwrap();
        assert_eq!(
            shortage.to_string(),
            "1 of the 2 mirrors that must have an event take part and have a state"
        );
        let back = votes(3, &[(0, 30), (1, 30)]);
        assert_eq!(checkpoints.take_votes(at(5001), &back, &[2]), Some(30));
    }

    #[test]
    fn mirror_that_joins_holds_up_nothing_and_has_nothing() {
        let mut checkpoints = asked(&[0, 1], &[10]);
        assert_eq!(checkpoints.take_votes(at(0), &votes(1, &[(0, 10), (1, 0)]), &[]), Some(10));
        assert_eq!((checkpoints.held_by(1), checkpoints.held_by(2)), (Some(10), None));
    }

    #[test]
    fn position_that_some_mirrors_have_does_not_wait_for_the_others() {
        let mut checkpoints = asked(&[0, 1, 2], &[10, 20]);
        checkpoints.take_votes(at(0), &votes(1, &[(0, 10), (1, 10), (2, 10)]), &[]);
        assert_eq!(checkpoints.take_votes(at(1), &votes(2, &[(0, 20), (1, 18)]), &[2]), None);
        let held = |copies| checkpoints.held_by(copies);
        assert_eq!([1, 2, 3, 4].map(held), [Some(20), Some(18), Some(10), None]);
        assert_eq!(held(0), None);
        assert!(!checkpoints.is_unanswered());
    }
}
