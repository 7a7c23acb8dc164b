//! Checks waves against the sums that their contributors must have sent.
//!
//! A wave is right under these conditions. Its one packet holds the sums over exactly its contributors: of
//! their numbers, of its own round, and of the marks of both. No endpoint is both in it and missing from it.
//! Its tag was asked for and had not come before. If waves do not wait, a round comes as one wave for each
//! endpoint, and then no endpoint may come twice. A wave may lack back-ends, but it must report them
//! correctly.

use bytes::Bytes;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use treefold::operators::Packet;
use treefold::{PartitionSet, StreamWave};
use treefold_cli::serve::pulse::mark;

/// How many wrong waves are described.
///
/// The others are only counted.
const CASES_MAX: usize = 32;

/// Results of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Findings {
    /// Rounds that were asked for.
    pub(super) waves: u64,
    /// Rounds with all back-ends.
    pub(super) full: u64,
    /// Rounds with some back-ends.
    pub(super) partial: u64,
    pub(super) wrong: u64,
    /// Rounds without any answer.
    pub(super) unanswered: u64,
    /// Absences, one for each round and back-end.
    ///
    /// Only back-ends count that were in the stream when the round began and were not broken until it came.
    pub(super) survivors_missed: u64,
    pub(super) cases: Vec<String>,
    #[serde(skip)]
    pub(super) answers: Vec<Duration>,
}

/// A round in flight.
#[derive(Debug)]
struct Round {
    asked_at: Instant,
    expected: PartitionSet,
    came: PartitionSet,
}

/// The judge of one run.
#[derive(Debug)]
pub(super) struct Judge {
    all: PartitionSet,
    gathers: bool,
    asked: u64,
    under_way: BTreeMap<u64, Round>,
    /// Contributors of closed rounds; later waves of these rounds are checked against them.
    closed: BTreeMap<u64, PartitionSet>,
    findings: Findings,
}

impl Judge {
    /// Makes the judge of a stream over `backends` back-ends.
    ///
    /// `gathers` says whether its waves wait for them.
    pub(super) fn of(backends: u32, gathers: bool) -> Self {
        Self {
            all: PartitionSet::first(backends),
            gathers,
            asked: 0,
            under_way: BTreeMap::new(),
            closed: BTreeMap::new(),
            findings: Findings::default(),
        }
    }

    /// Returns the latest round that was asked for.
    pub(super) fn asked(&self) -> u64 {
        self.asked
    }

    /// Returns the number of rounds in flight.
    pub(super) fn unanswered(&self) -> usize {
        self.under_way.len()
    }

    /// Records a round that will be broadcast to a stream with the endpoints `expected`.
    pub(super) fn ask(&mut self, now: Instant, round: u64, expected: PartitionSet) {
        self.asked = round;
        self.findings.waves += 1;
        self.under_way.insert(round, Round { asked_at: now, expected, came: PartitionSet::new() });
    }

    /// Records that a back-end was broken: rounds in flight may come without it.
    pub(super) fn broke(&mut self, endpoint: u32) {
        let broken = PartitionSet::from_range(endpoint..endpoint + 1);
        for round in self.under_way.values_mut() {
            round.expected = round.expected.difference(&broken);
        }
    }

    /// Checks a wave.
    ///
    /// Returns all endpoints whose packets for its round have come.
    pub(super) fn take(&mut self, now: Instant, wave: &StreamWave<Bytes>) -> PartitionSet {
        if let Err(problem) = self.check(wave) {
            self.condemn(wave, &problem);
        }
        let Some(round) = self.under_way.get_mut(&wave.tag) else {
            let Some(came) = self.closed.get_mut(&wave.tag) else { return PartitionSet::new() };
            came.union_with(&wave.contributors);
            return came.clone();
        };
        round.came.union_with(&wave.contributors);
        let came = round.came.clone();
        if self.gathers || round.expected.is_subset(&came) {
            self.close(wave.tag, Some(now));
        }
        came
    }

    /// Closes rounds older than `patience` with the answers that have come.
    pub(super) fn give_up(&mut self, now: Instant, patience: Duration) {
        while let Some((&tag, round)) = self.under_way.first_key_value() {
            if now.saturating_duration_since(round.asked_at) <= patience {
                return;
            }
            self.close(tag, None);
        }
    }

    fn close(&mut self, tag: u64, answered_at: Option<Instant>) {
        let Some(round) = self.under_way.remove(&tag) else { return };
        let findings = &mut self.findings;
        findings.survivors_missed += round.expected.difference(&round.came).len() as u64;
        if let Some(at) = answered_at {
            findings.answers.push(at - round.asked_at);
        }
        match round.came.len() {
            0 => {
                findings.unanswered += 1;
                note_case(findings, || format!("round {tag}: no answer came"));
            }
            _ if round.came == self.all => findings.full += 1,
            _ => findings.partial += 1,
        }
        self.closed.insert(tag, round.came);
    }

    fn check(&self, wave: &StreamWave<Bytes>) -> Result<(), String> {
        if wave.tag == 0 || wave.tag > self.asked {
            return Err(format!("its round was not asked for; the last was {}", self.asked));
        }
        let came = self.under_way.get(&wave.tag).map(|round| &round.came).or(self.closed.get(&wave.tag));
        if let Some(came) = came {
            let is_again = if self.gathers { self.closed.contains_key(&wave.tag) } else { false };
            if is_again || came.intersects(&wave.contributors) {
                return Err(format!("it has come before, from {came}"));
            }
        }
        let mut accounted = wave.contributors.clone();
        for loss in &wave.missing {
            if accounted.intersects(&loss.partitions) {
                return Err(format!(
                    "{} is missing, but also in it or reported missing twice",
                    loss.partitions
                ));
            }
            accounted.union_with(&loss.partitions);
        }
        if !accounted.is_subset(&self.all) {
            return Err(format!("it accounts for {accounted}, some of which are not back-ends"));
        }
        check_sums(wave)
    }

    fn condemn(&mut self, wave: &StreamWave<Bytes>, problem: &str) {
        self.findings.wrong += 1;
        note_case(&mut self.findings, || {
            let missing: Vec<String> =
                wave.missing.iter().map(|loss| format!("{}: {}", loss.partitions, loss.reason)).collect();
            format!("wave {} from {}: {problem}; missing {}", wave.tag, wave.contributors, missing.join("; "))
        });
    }

    pub(super) fn findings(&self) -> Findings {
        self.findings.clone()
    }
}

fn note_case(findings: &mut Findings, case: impl FnOnce() -> String) {
    if findings.cases.len() < CASES_MAX {
        findings.cases.push(case());
    }
}

/// Checks that a wave's packet holds the sums of its contributors for its round.
fn check_sums(wave: &StreamWave<Bytes>) -> Result<(), String> {
    let packet = match &wave.packets[..] {
        [] if wave.contributors.is_empty() => return Ok(()),
        [packet] => packet,
        packets => return Err(format!("it has {} packets", packets.len())),
    };
    let sworn = Packet::read(packet).and_then(|packet| Ok([packet.i64(0)?, packet.i64(1)?, packet.i64(2)?]));
    let sworn = sworn.map_err(|error| error.to_string())?;
    let round = i64::try_from(wave.tag).map_err(|_| "its tag is no round".to_owned())?;
    let numbers = wave.contributors.iter().map(i64::from);
    let count = wave.contributors.len() as i64;
    let due = [numbers.clone().sum(), round * count, numbers.map(|number| mark(number, round)).sum()];
    if sworn == due {
        return Ok(());
    }
    Err(format!("its sums of numbers, rounds and marks are {sworn:?}, expected {due:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold::operators::packet::Row;
    use treefold::{Missing, Reason};

    /// Makes a wave with this tag from the answers of these endpoints for their rounds.
    fn wave(tag: u64, sworn: &[(u32, i64)], missing: &[u32]) -> StreamWave<Bytes> {
        let each = sworn.iter().map(|&(number, round)| (i64::from(number), round));
        let sums = each.fold([0; 3], |[numbers, rounds, marks], (number, round)| {
            [numbers + number, rounds + round, marks + mark(number, round)]
        });
        let packet = Row::new().i64(sums[0]).i64(sums[1]).i64(sums[2]).packet().into_bytes();
        let partitions: PartitionSet = missing.iter().copied().collect();
        let missing = Missing { partitions, node: None, reason: Reason::Late };
        StreamWave {
            tag,
            packets: vec![packet],
            contributors: sworn.iter().map(|&(number, _)| number).collect(),
            missing: if missing.partitions.is_empty() { Vec::new() } else { vec![missing] },
        }
    }

    fn judge(gathers: bool, rounds: u64) -> Judge {
        let mut judge = Judge::of(4, gathers);
        (1..=rounds).for_each(|round| judge.ask(Instant::now(), round, PartitionSet::first(4)));
        judge
    }

    fn all_four(round: i64) -> [(u32, i64); 4] {
        [(0, round), (1, round), (2, round), (3, round)]
    }

    #[test]
    fn a_wave_is_right_when_it_is_the_sum_over_its_own_contributors() {
        let mut judge = judge(true, 2);
        judge.take(Instant::now(), &wave(1, &all_four(1), &[]));
        judge.broke(3);
        judge.take(Instant::now(), &wave(2, &all_four(2)[..3], &[3]));
        let findings = judge.findings();
        assert_eq!((findings.full, findings.partial, findings.wrong), (1, 1, 0), "{:?}", findings.cases);
        assert_eq!((findings.survivors_missed, judge.unanswered()), (0, 0));
    }

    #[test]
    fn mixed_late_doubled_and_unasked_waves_are_wrong() {
        let wrong = |gathers, waves: &[StreamWave<Bytes>]| {
            let mut judge = judge(gathers, 3);
            waves.iter().for_each(|wave| drop(judge.take(Instant::now(), wave)));
            judge.findings().wrong
        };
        assert_eq!(wrong(true, &[wave(2, &all_four(1), &[])]), 1, "late by one");
        let mixed = [(0, 1), (1, 3), (2, 2), (3, 2)];
        assert_eq!(wrong(true, &[wave(2, &mixed, &[])]), 1, "mixed, though the rounds add up");
        assert_eq!(wrong(true, &[wave(1, &all_four(1), &[]), wave(1, &[(0, 1)], &[])]), 1, "twice");
        assert_eq!(wrong(true, &[wave(4, &all_four(4), &[])]), 1, "never asked for");
        assert_eq!(wrong(true, &[wave(1, &all_four(1), &[2])]), 1, "in it and missing");
        assert_eq!(wrong(false, &[wave(1, &[(0, 1)], &[]), wave(1, &[(1, 1)], &[])]), 0, "one by one");
        assert_eq!(wrong(false, &[wave(1, &[(0, 1)], &[]), wave(1, &[(0, 1)], &[])]), 1, "the same twice");
    }

    #[test]
    fn missed_survivors_and_unanswered_rounds_are_counted() {
        let mut judge = judge(true, 2);
        judge.take(Instant::now(), &wave(1, &all_four(1)[1..], &[0]));
        judge.give_up(Instant::now() + Duration::from_secs(2), Duration::from_secs(1));
        let findings = judge.findings();
        assert_eq!((findings.unanswered, findings.survivors_missed), (1, 5));
    }
}
