//! Checks answers and counts verdicts.
//!
//! An answer is right if it accounts for its parts exactly. The asked partitions must be the disjoint union
//! of the contributed and the missing partitions; the verdict must follow from them; and the value must be
//! the sum over the contributed partitions. `micro/sum` adds up the partitions' ids, so the value shows a
//! partition that was counted twice, or that was counted and reported missing. An answer may lack partitions,
//! but it must report them.

use super::times::Times;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;
use treefold::operators::merge::Sum;
use treefold::{Missing, PartitionSet, Reply, Shape, Status};

/// How far past its deadline a call may end: the time that a busy machine needs to wake up the answering
/// process.
pub(super) const OVERRUN_MAX: Duration = Duration::from_millis(100);

/// Number of misbehaving calls that are described.
///
/// The others are only counted.
const CASES_MAX: usize = 32;

/// How a call was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) number: u32,
    pub(super) direct: bool,
    pub(super) shape: Shape,
    pub(super) deadline: Duration,
}

/// A call whose answer was wrong, late, or empty.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Case {
    call: u32,
    at_ms: u64,
    way: &'static str,
    shape: String,
    problem: String,
    elapsed_ms: u64,
    /// The same as measured at the front that formed the tree; null if it gave no answer.
    front_elapsed_ms: Option<u64>,
    missing: String,
}

impl Case {
    /// The case on one line.
    pub(super) fn line(&self) -> String {
        let Self { call, at_ms, way, shape, problem, missing, .. } = self;
        format!("call {call} at {at_ms} ms, {way}, {shape}: {problem}; missing {missing}")
    }
}

/// Counts of verdicts, missing partitions and misbehaving calls.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    pub(super) calls: u32,
    pub(super) full: u32,
    pub(super) partial: u32,
    pub(super) empty: u32,
    pub(super) wrong: u32,
    pub(super) late: u32,
    pub(super) worst_overrun: Duration,
    pub(super) missing_by_reason: BTreeMap<&'static str, u64>,
    pub(super) cases: Vec<Case>,
    pub(super) times: Times,
    coverage_sum: f64,
}

impl Tally {
    /// Records how one call ended.
    ///
    /// `at` is its start, counted from the first call's. An error means no answer.
    pub(super) fn take(
        &mut self,
        asked: Asked,
        at: Duration,
        elapsed: Duration,
        ended: &Result<Reply<Sum>, String>,
        partitions: &PartitionSet,
    ) {
        self.calls += 1;
        let overrun = elapsed.saturating_sub(asked.deadline);
        self.worst_overrun = self.worst_overrun.max(overrun);
        let mut problems = Vec::new();
        if overrun > OVERRUN_MAX {
            self.late += 1;
            problems.push(format!("late by {} ms", overrun.as_millis()));
        }
        match ended {
            Ok(reply) => self.count(reply),
            Err(_) => self.empty += 1,
        }
        if ended.as_ref().is_ok_and(|reply| reply.contributed.is_empty()) {
            problems.push("empty".to_owned());
        }
        let fault = match ended {
            Ok(reply) => fault_of(reply, partitions),
            Err(error) => Some(format!("no answer: {error}")),
        };
        if let Some(fault) = fault {
            self.wrong += 1;
            problems.push(fault);
        }
        if !problems.is_empty() && self.cases.len() < CASES_MAX {
            let reply = ended.as_ref().ok();
            self.cases.push(Case {
                call: asked.number,
                at_ms: millis(at),
                way: if asked.direct { "direct" } else { "front" },
                shape: asked.shape.to_string(),
                problem: problems.join("; "),
                elapsed_ms: millis(elapsed),
                front_elapsed_ms: reply.map(|reply| millis(reply.elapsed)),
                missing: reply.map_or_else(String::new, |reply| listed(&reply.missing)),
            });
        }
    }

    fn count(&mut self, reply: &Reply<Sum>) {
        self.coverage_sum += reply.coverage();
        match reply.status {
            Status::Full => self.full += 1,
            _ if reply.contributed.is_empty() => self.empty += 1,
            _ => self.partial += 1,
        }
        for missing in &reply.missing {
            *self.missing_by_reason.entry(missing.reason.name()).or_default() +=
                missing.partitions.len() as u64;
        }
    }

    /// Returns the mean coverage over all calls.
    ///
    /// A call without an answer has coverage 0.
    pub(super) fn coverage_mean(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.coverage_sum / f64::from(self.calls) }
    }
}

/// Describes the error in an answer of a call of `partitions` with minimum coverage 0; `None` if it is right.
pub(super) fn fault_of(reply: &Reply<Sum>, partitions: &PartitionSet) -> Option<String> {
    if reply.asked != *partitions {
        return Some(format!("it was asked for {}, expected {partitions}", reply.asked));
    }
    let mut accounted = reply.contributed.clone();
    for Missing { partitions, .. } in &reply.missing {
        if partitions.intersects(&accounted) {
            return Some(format!("{partitions} is missing, but also contributed or reported missing twice"));
        }
        accounted.union_with(partitions);
    }
    if accounted != reply.asked {
        return Some(format!("it accounts for {accounted} of {}", reply.asked));
    }
    let status = if reply.missing.is_empty() { Status::Full } else { Status::Partial };
    if reply.status != status {
        return Some(format!("its status is {}, expected {}", reply.status.name(), status.name()));
    }
    let sum: i64 = reply.contributed.iter().map(i64::from).sum();
    match reply.value {
        None if reply.contributed.is_empty() => None,
        Some(Sum(value)) if value == sum => None,
        ref value => Some(format!("its value is {value:?}, but the sum of {} is {sum}", reply.contributed)),
    }
}

fn listed(missing: &[Missing]) -> String {
    let each = missing.iter().map(|lost| {
        let node = lost.node.map_or_else(|| "nobody".to_owned(), |node| node.to_string());
        format!("{} at {node}: {}", lost.partitions, lost.reason)
    });
    each.collect::<Vec<_>>().join("; ")
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold::Reason;

    /// An answer over partitions 0 to 3.
    fn reply(status: Status, value: Option<i64>, contributed: &[u32], missing: &[&[u32]]) -> Reply<Sum> {
        let missing = missing.iter().map(|ids| Missing {
            partitions: ids.iter().copied().collect(),
            node: None,
            reason: Reason::Late,
        });
        Reply {
            status,
            value: value.map(Sum),
            asked: PartitionSet::first(4),
            contributed: contributed.iter().copied().collect(),
            missing: missing.collect(),
            total_is_guess: false,
            elapsed: Duration::ZERO,
            report: None,
        }
    }

    fn fault(reply: &Reply<Sum>) -> Option<String> {
        fault_of(reply, &PartitionSet::first(4))
    }

    #[test]
    fn answers_that_account_for_every_partition_are_right() {
        assert_eq!(fault(&reply(Status::Full, Some(6), &[0, 1, 2, 3], &[])), None);
        assert_eq!(fault(&reply(Status::Partial, Some(3), &[0, 3], &[&[1], &[2]])), None);
        assert_eq!(fault(&reply(Status::Partial, None, &[], &[&[0, 1, 2, 3]])), None);
    }

    #[test]
    fn double_counts_and_omissions_are_wrong() {
        let problem = |reply| fault(&reply).expect("an error");
        let twice = reply(Status::Partial, Some(6), &[0, 3], &[&[1, 2]]);
        assert_eq!(problem(twice), "its value is Some(Sum(6)), but the sum of 0,3 is 3");
        let both = reply(Status::Partial, Some(3), &[0, 3], &[&[1, 2, 3]]);
        assert!(problem(both).contains("1-3 is missing, but also contributed"));
        let forgotten = reply(Status::Partial, Some(3), &[0, 3], &[&[1]]);
        assert_eq!(problem(forgotten), "it accounts for 0-1,3 of 0-3");
        let boast = reply(Status::Full, Some(3), &[0, 3], &[&[1, 2]]);
        assert_eq!(problem(boast), "its status is full, expected partial");
    }

    #[test]
    fn late_calls_and_losses_are_counted() {
        let (mut tally, asked) = (Tally::default(), PartitionSet::first(4));
        let deadline = Duration::from_millis(300);
        let call = Asked { number: 7, direct: true, shape: Shape::Flat, deadline };
        let partial = Ok(reply(Status::Partial, Some(3), &[0, 3], &[&[1, 2]]));
        tally.take(call, Duration::ZERO, deadline + OVERRUN_MAX, &partial, &asked);
        assert_eq!((tally.partial, tally.late, tally.wrong, tally.cases.len()), (1, 0, 0, 0));
        tally.take(call, Duration::ZERO, deadline + OVERRUN_MAX * 2, &partial, &asked);
        tally.take(call, Duration::ZERO, deadline, &Err("gone".to_owned()), &asked);
        assert_eq!((tally.calls, tally.late, tally.wrong, tally.cases.len()), (3, 1, 1, 2));
        assert_eq!(tally.missing_by_reason, BTreeMap::from([("late", 4)]));
        assert_eq!(tally.worst_overrun, OVERRUN_MAX * 2);
    }
}
