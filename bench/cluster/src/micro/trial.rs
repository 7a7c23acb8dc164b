//! One cluster under one load: makes the calls, checks every answer, and records every result.
//!
//! Calls continue until all measured calls have ended, so that the last of them meet the same load as the
//! first. Calls that are open then are dropped, which cancels them throughout their trees.

use super::pace::{Arrival, arrivals};
use super::slowing::Slowing;
use indicatif::ProgressBar;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use treefold::{CallError, Client, Error, ReplicaPolicy, Reply, Shape, Status, Waiting};
use treefold_cli::commands::bench::cost::{Ticks, cpu_time, machine_ticks};
use treefold_cli::commands::bench::fleet::Fleet;
use treefold_cli::commands::call::missing_line;
use treefold_cli::commands::failure_of;
use treefold_cli::exit::Failure;
use treefold_micro::{Emulation, Timed};

/// Aggregation that every call names.
const KIND: &str = "micro/emulated";

/// Limit on the time until a front's answers are exact: the front must first meet all nodes.
const EXACT_TIMEOUT: Duration = Duration::from_secs(30);

/// Number of exact answers in a row after which a front counts as exact.
const EXACT_IN_A_ROW: u32 = 3;

/// Pause between two attempts to get an exact answer.
const EXACT_INTERVAL: Duration = Duration::from_millis(20);

/// Settings of every call, beside the work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asks {
    pub(super) deadline: Duration,
    pub(super) min_coverage: f64,
    pub(super) waiting: Option<Waiting>,
    pub(super) policy: Option<ReplicaPolicy>,
}

/// Makes calls at one front and checks the answers.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    client: Client,
    nodes: u32,
    asks: Asks,
}

/// One call that has ended.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// Planned instant, in seconds since measuring began; negative in the warm-up.
    pub(super) planned_s: f64,
    /// Time from the planned instant until the call was made.
    pub(super) sent_late: Duration,
    /// Time from the planned instant until the call ended.
    pub(super) response: Duration,
    pub(super) coverage: f64,
    pub(super) ending: Ending,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// The coverage was sufficient.
    Answered(Timed),
    /// The coverage was too low.
    Insufficient,
    /// The call was rejected because too many calls are open.
    Refused,
    /// The front had sent no answer long after the deadline.
    Silent,
}

/// Results of one trial.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    /// All calls that have ended, including the warm-up.
    pub(super) samples: Vec<Sample>,
    /// Processor time of the machine during the measurement, and the benchmark's own part of it.
    pub(super) machine: Ticks,
    pub(super) own_s: f64,
}

/// One load on a cluster.
pub(super) struct Trial<'a> {
    pub(super) callers: &'a [Caller],
    pub(super) shape: Shape,
    pub(super) emulation: Emulation,
    pub(super) slow: &'a [Slowing],
    pub(super) rate_per_s: f64,
    pub(super) seed: u64,
    pub(super) warm_up: Duration,
    pub(super) measured: Duration,
}

impl Trial<'_> {
    /// Runs the trial.
    ///
    /// Must be awaited on a `LocalSet`.
    pub(super) async fn run(&self, fleet: &Fleet, bar: &ProgressBar) -> Result<Record, Failure> {
        let (began_at, bar_from) = (Instant::now(), bar.position());
        let until = self.warm_up + self.measured;
        let mut arrivals = arrivals(self.seed, self.rate_per_s, began_at);
        let (mut calls, mut measured_open) = (JoinSet::new(), 0u32);
        let (mut record, mut before, mut after) = (Record::default(), None, None);
        while after.is_none() || measured_open > 0 {
            tokio::select! {
                Some(arrival) = arrivals.recv() => {
                    bar.set_position(bar_from + arrival.planned.min(until).as_millis() as u64);
                    if arrival.planned >= self.warm_up && before.is_none() {
                        before = Some(Moment::of(fleet)?);
                    }
                    if arrival.planned >= until && after.is_none() {
                        after = Some(Moment::of(fleet)?);
                    }
                    measured_open += u32::from(self.is_measured(arrival.planned));
                    calls.spawn_local(self.call(arrival, began_at));
                }
                Some(ended) = calls.join_next() => {
                    let ended = ended.map_err(|error| Failure::failed(format!("a caller died: {error}")))?;
                    let (planned, sample) = ended?;
                    measured_open -= u32::from(self.is_measured(planned));
                    record.samples.push(sample);
                }
            }
        }
        if let (Some(before), Some(after)) = (before, after) {
            record.machine = after.machine - before.machine;
            record.own_s = after.own_s - before.own_s;
        }
        Ok(record)
    }

    fn is_measured(&self, planned: Duration) -> bool {
        (self.warm_up..self.warm_up + self.measured).contains(&planned)
    }

    /// Returns one call, from now to its end.
    fn call(
        &self,
        arrival: Arrival,
        began_at: Instant,
    ) -> impl Future<Output = Result<(Duration, Sample), Failure>> + 'static {
        let planned_at = began_at + arrival.planned;
        let planned_s = arrival.planned.as_secs_f64() - self.warm_up.as_secs_f64();
        let caller = self.callers[(arrival.number % self.callers.len() as u64) as usize].clone();
        let (shape, slow) = (self.shape, Slowing::at(self.slow, planned_s));
        let work = Emulation { seed: arrival.seed, slow, ..self.emulation.clone() };
        async move {
            let sent_late = planned_at.elapsed();
            let (ending, coverage) = caller.call(shape, &work).await?;
            let response = planned_at.elapsed();
            Ok((arrival.planned, Sample { planned_s, sent_late, response, coverage, ending }))
        }
    }
}

impl Caller {
    pub(super) fn new(client: Client, nodes: u32, asks: Asks) -> Self {
        Self { client, nodes, asks }
    }

    /// Makes a call; returns its ending and its coverage.
    async fn call(&self, shape: Shape, work: &Emulation) -> Result<(Ending, f64), Failure> {
        let Asks { deadline, min_coverage, waiting, policy } = self.asks;
        let mut call = self.client.call::<Timed>(KIND, work).shape(shape).deadline(deadline);
        call = call.min_coverage(min_coverage);
        if let Some(waiting) = waiting {
            call = call.waiting(waiting);
        }
        if let Some(policy) = policy {
            call = call.policy(policy);
        }
        match call.await {
            Ok(reply) => {
                if let Some(fault) = fault_of(&reply, self.nodes) {
                    return Err(Failure::failed(format!("an answer was wrong: {fault}")));
                }
                let coverage = reply.coverage();
                Ok((reply.value.map_or(Ending::Insufficient, Ending::Answered), coverage))
            }
            Err(Error::Rejected(CallError::TooManyCalls { .. } | CallError::TooManyCallsOfClient { .. })) => {
                Ok((Ending::Refused, 0.0))
            }
            Err(Error::FrontSilent { .. }) => Ok((Ending::Silent, 0.0)),
            Err(error) => Err(failure_of(error)),
        }
    }

    /// Returns once the front's answers are exact, which means that it has met all nodes.
    pub(super) async fn await_exactness(&self, work: Emulation) -> Result<(), Failure> {
        let give_up_at = Instant::now() + EXACT_TIMEOUT;
        let mut in_a_row = 0;
        while in_a_row < EXACT_IN_A_ROW {
            let call = self.client.call::<Timed>(KIND, &work).deadline(EXACT_TIMEOUT);
            let reply = call.await.map_err(failure_of)?;
            if reply.status == Status::Full && fault_of(&reply, self.nodes).is_none() {
                in_a_row += 1;
                continue;
            }
            if Instant::now() >= give_up_at {
                let missing: Vec<String> = reply.missing.iter().map(missing_line).collect();
                return Err(Failure::failed(format!("no exact answer: {}", missing.join("; "))));
            }
            in_a_row = 0;
            tokio::time::sleep(EXACT_INTERVAL).await;
        }
        Ok(())
    }
}

/// Describes the error in an answer of `nodes` partitions whose numbers are their ids; `None` if it is right.
///
/// An answer may lack partitions, but it must report them.
fn fault_of(reply: &Reply<Timed>, nodes: u32) -> Option<String> {
    let contributed = &reply.contributed;
    if reply.status == Status::Full && contributed.len() as u64 != u64::from(nodes) {
        return Some(format!("its status is full with {contributed} of {nodes} partitions"));
    }
    let sum: i64 = contributed.iter().map(i64::from).sum();
    match &reply.value {
        Some(value) if value.sum != sum || u64::from(value.partitions) != contributed.len() as u64 => {
            Some(format!("{value:?} from {contributed}, whose sum is {sum}"))
        }
        _ => None,
    }
}

/// Processor time used up to one moment.
struct Moment {
    machine: Ticks,
    own_s: f64,
}

impl Moment {
    fn of(fleet: &Fleet) -> Result<Self, Failure> {
        let unread =
            |error: std::io::Error| Failure::failed(format!("can't read the processor times: {error}"));
        let caller = cpu_time(std::process::id()).map_err(unread)?;
        let nodes: Duration = fleet.processes().cpu_times()?.iter().sum();
        Ok(Self { machine: machine_ticks().map_err(unread)?, own_s: (caller + nodes).as_secs_f64() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use treefold::PartitionSet;

    fn reply(status: Status, contributed: u32, sum: i64) -> Reply<Timed> {
        Reply {
            status,
            value: Some(Timed { sum, partitions: contributed, ..Timed::default() }),
            asked: PartitionSet::first(4),
            contributed: PartitionSet::first(contributed),
            missing: Vec::new(),
            total_is_guess: false,
            elapsed: Duration::ZERO,
            report: None,
        }
    }

    #[test]
    fn answers_are_checked_against_their_contributors() {
        assert_eq!(fault_of(&reply(Status::Full, 4, 6), 4), None);
        assert_eq!(fault_of(&reply(Status::Partial, 3, 3), 4), None);
        let twice = fault_of(&reply(Status::Full, 4, 9), 4).unwrap();
        assert!(twice.contains("from 0-3, whose sum is 6"), "{twice}");
        let boast = fault_of(&reply(Status::Full, 3, 3), 4).unwrap();
        assert!(boast.contains("full with 0-2 of 4"), "{boast}");
    }
}
