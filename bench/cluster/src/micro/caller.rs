//! Makes the calls of MICRO and checks the answers: a sum shows which partitions it has.

use super::slowing::Slowing;
use super::stopping::Stops;
use crate::load::pace::Arrival;
use crate::load::trial::{Calls, Ended, Times};
use std::time::{Duration, Instant};
use treefold::{Client, ReplicaPolicy, Reply, Shape, Status, Waiting};
use treefold_cli::commands::call::missing_line;
use treefold_cli::commands::failure_of;
use treefold_cli::exit::Failure;
use treefold_micro::{Emulation, Timed};

/// Aggregation that every call names.
pub(crate) const KIND: &str = "micro/emulated";

/// Limit on the time until a front's answers are exact: the front must first meet all nodes.
const EXACT_TIMEOUT: Duration = Duration::from_secs(30);

/// Number of exact answers in a row after which a front counts as exact.
const EXACT_IN_A_ROW: u32 = 3;

/// Pause between two attempts to get an exact answer.
const EXACT_INTERVAL: Duration = Duration::from_millis(20);

/// Settings of every call, beside the work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asks {
    pub(crate) deadline: Duration,
    pub(crate) min_coverage: f64,
    pub(crate) waiting: Option<Waiting>,
    pub(crate) policy: Option<ReplicaPolicy>,
}

/// Makes calls at one front and checks the answers.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    client: Client,
    partitions: u32,
    asks: Asks,
}

/// The calls of a run: the same work at each of several fronts in turn.
pub(super) struct MicroCalls<'a> {
    pub(super) callers: &'a [Caller],
    pub(super) emulation: Emulation,
    pub(super) slow: &'a [Slowing],
    pub(super) stops: Stops<'a>,
}

impl Calls for MicroCalls<'_> {
    fn call(
        &self,
        arrival: Arrival,
        shape: Shape,
        planned_s: f64,
    ) -> impl Future<Output = Result<Ended, Failure>> + 'static {
        let caller = self.callers[arrival.turn(self.callers.len())].clone();
        let slow = Slowing::at(self.slow, planned_s);
        let work = Emulation { seed: arrival.seed, slow, ..self.emulation.clone() };
        let followed = self.stops.follow(planned_s);
        async move {
            followed?;
            caller.call(shape, &work).await
        }
    }
}

impl Caller {
    /// Makes a caller of a service of this many partitions.
    pub(crate) fn new(client: Client, partitions: u32, asks: Asks) -> Self {
        Self { client, partitions, asks }
    }

    async fn call(&self, shape: Shape, work: &Emulation) -> Result<Ended, Failure> {
        let Asks { deadline, min_coverage, waiting, policy } = self.asks;
        let mut call = self.client.call::<Timed>(KIND, work).shape(shape).deadline(deadline);
        call = call.min_coverage(min_coverage);
        if let Some(waiting) = waiting {
            call = call.waiting(waiting);
        }
        if let Some(policy) = policy {
            call = call.policy(policy);
        }
        Ended::of(call.await, |reply| fault_of(reply, self.partitions), times_of)
    }

    /// Returns once the front's answers are exact, which means that it has met all nodes.
    pub(crate) async fn await_exactness(&self, work: Emulation) -> Result<(), Failure> {
        let give_up_at = Instant::now() + EXACT_TIMEOUT;
        let mut in_a_row = 0;
        while in_a_row < EXACT_IN_A_ROW {
            let call = self.client.call::<Timed>(KIND, &work).deadline(EXACT_TIMEOUT);
            let reply = call.await.map_err(failure_of)?;
            if reply.status == Status::Full && fault_of(&reply, self.partitions).is_none() {
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

/// The times of the jobs behind an answer.
pub(crate) fn times_of(timed: &Timed) -> Times {
    Times { jobs: timed.jobs(), asked_ns: timed.asked_ns, late_ns: timed.late_ns }
}

/// Describes the error in an answer to a call that asked for this many partitions, whose numbers are their ids;
/// `None` if it is right.
///
/// An answer may lack partitions, but it must report them.
pub(crate) fn fault_of(reply: &Reply<Timed>, partitions: u32) -> Option<String> {
    let contributed = &reply.contributed;
    if reply.status == Status::Full && contributed.len() as u64 != u64::from(partitions) {
        return Some(format!("its status is full with {contributed} of {partitions} partitions"));
    }
    let sum: i64 = contributed.iter().map(i64::from).sum();
    match &reply.value {
        Some(value) if value.sum != sum || u64::from(value.partitions) != contributed.len() as u64 => {
            Some(format!("{value:?} from {contributed}, whose sum is {sum}"))
        }
        _ => None,
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
