//! Checkpoints, at the origin: which events all mirrors have applied (mirroring §3.2.1, figure 3).
//!
//! After every `f` events the origin asks all mirrors how far they are. The minimum of the answers is
//! committed, and everyone trims its backup queue. There are no aborts and no time-outs: an answer that is
//! late or lost is covered by the next checkpoint. The paper assumes that mirrors never die; here a mirror that
//! does not answer holds up commits until its *lease* runs out, and is then evicted. It returns with a
//! snapshot.

use crate::packet::{Checkpoint, Vote};
use std::collections::BTreeMap;
use treefold_core::time::{Duration, Instant};

/// The checkpoints of one origin.
#[derive(Debug)]
pub struct Checkpoints {
    number: u64,
    sent_since: u64,
    committed: u64,
    lease: Duration,
    /// Mirrors that did not answer the last checkpoint, with the time at which this was first known.
    silent: BTreeMap<u32, Instant>,
}

impl Checkpoints {
    /// Starts after a committed position. `lease` is the time that a silent mirror may hold up commits.
    pub fn new(committed: u64, lease: Duration) -> Self {
        Self { number: 0, sent_since: 0, committed, lease, silent: BTreeMap::new() }
    }

    /// Counts events that were sent.
    pub fn count(&mut self, events: u64) {
        self.sent_since += events;
    }

    /// Begins a checkpoint if `every` events were sent since the last one. `position` is the last one sent.
    pub fn begin(&mut self, every: u64, position: u64) -> Option<Checkpoint> {
        if self.sent_since < every {
            return None;
        }
        self.sent_since = 0;
        self.number += 1;
        Some(Checkpoint { number: self.number, position })
    }

    /// Takes the folded vote of the mirrors that answered, and the mirrors that did not. Returns the position to
    /// commit, if it is greater than before.
    pub fn take_votes(&mut self, now: Instant, vote: Vote, silent: &[u32]) -> Option<u64> {
        self.silent.retain(|mirror, _| silent.contains(mirror));
        for &mirror in silent {
            self.silent.entry(mirror).or_insert(now);
        }
        let has_lease = |since: &Instant| now.since(*since) < self.lease;
        if vote.number > self.number || self.silent.values().any(has_lease) || vote.position <= self.committed
        {
            return None;
        }
        self.committed = vote.position;
        Some(vote.position)
    }

    /// The mirrors whose lease has run out.
    pub fn evicted(&self, now: Instant) -> impl Iterator<Item = u32> {
        let is_over = move |since: &Instant| now.since(*since) >= self.lease;
        self.silent.iter().filter(move |(_, since)| is_over(since)).map(|(&mirror, _)| mirror)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Monitored;

    fn vote(number: u64, position: u64) -> Vote {
        Vote { number, position, monitored: Monitored::default() }
    }

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn checkpoint_begins_after_every_f_events() {
        let mut checkpoints = Checkpoints::new(0, Duration::from_secs(1));
        checkpoints.count(49);
        assert_eq!(checkpoints.begin(50, 49), None);
        checkpoints.count(1);
        assert_eq!(checkpoints.begin(50, 50), Some(Checkpoint { number: 1, position: 50 }));
        assert_eq!(checkpoints.begin(50, 50), None);
    }

    #[test]
    fn commits_only_grow() {
        let mut checkpoints = Checkpoints::new(0, Duration::from_secs(1));
        checkpoints.count(1);
        checkpoints.begin(1, 100);
        checkpoints.count(1);
        checkpoints.begin(1, 200);
        assert_eq!(checkpoints.take_votes(at(0), vote(2, 150), &[]), Some(150));
        assert_eq!(checkpoints.take_votes(at(0), vote(1, 90), &[]), None, "a later commit covers it");
        assert_eq!(checkpoints.take_votes(at(0), vote(3, 300), &[]), None, "nobody asked");
    }

    #[test]
    fn silent_mirror_holds_up_commits_until_its_lease_ends() {
        let mut checkpoints = Checkpoints::new(0, Duration::from_millis(1000));
        for _ in 0..3 {
            checkpoints.count(1);
            checkpoints.begin(1, 10);
        }
        assert_eq!(checkpoints.take_votes(at(0), vote(1, 5), &[7]), None);
        assert_eq!(checkpoints.take_votes(at(900), vote(2, 6), &[7]), None);
        assert_eq!(checkpoints.evicted(at(999)).count(), 0);
        assert_eq!(checkpoints.take_votes(at(1000), vote(3, 7), &[7]), Some(7));
        assert_eq!(checkpoints.evicted(at(1000)).collect::<Vec<_>>(), [7]);
        assert_eq!(checkpoints.take_votes(at(1001), vote(3, 8), &[]), Some(8), "it has answered again");
        assert_eq!(checkpoints.evicted(at(9000)).count(), 0);
    }
}
