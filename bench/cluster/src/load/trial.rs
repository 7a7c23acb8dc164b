//! One cluster under one load: makes the calls, and records every result.
//!
//! Calls continue until all measured calls have ended, so that the last of them meet the same load as the
//! first. Calls that are open then are dropped, which cancels them throughout their trees.

use super::pace::{Arrival, Pacing, arrivals};
use indicatif::ProgressBar;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use treefold::{CallError, Error, Reply, Shape};
use treefold_cli::commands::failure_of;
use treefold_cli::exit::Failure;
use treefold_cli::fleet::Fleet;
use treefold_cli::fleet::cost::{Ticks, cpu_time, machine_ticks};

/// The calls of a load.
pub(crate) trait Calls {
    /// Makes one call and checks its answer. `planned_s` counts from the beginning of the measurement.
    ///
    /// # Errors
    /// If the answer is wrong, which ends the experiment.
    fn call(
        &self,
        arrival: Arrival,
        shape: Shape,
        planned_s: f64,
    ) -> impl Future<Output = Result<Ended, Failure>> + 'static;
}

/// A call that has ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) coverage: f64,
    pub(crate) ending: Ending,
}

impl Ended {
    /// Judges the result of a call. `fault` describes the error in an answer; `times` reads the times behind it.
    ///
    /// # Errors
    /// If the answer is wrong, or the call failed otherwise than by overload.
    pub(crate) fn of<T>(
        result: Result<Reply<T>, Error>,
        fault: impl FnOnce(&Reply<T>) -> Option<String>,
        times: impl FnOnce(&T) -> Times,
    ) -> Result<Self, Failure> {
        let lost = |ending| Ok(Self { coverage: 0.0, ending });
        match result {
            Ok(reply) => {
                if let Some(fault) = fault(&reply) {
                    return Err(Failure::failed(format!("an answer was wrong: {fault}")));
                }
                let ending =
                    reply.value.as_ref().map_or(Ending::Insufficient, |value| Ending::Answered(times(value)));
                Ok(Self { coverage: reply.coverage(), ending })
            }
            Err(Error::Rejected(CallError::TooManyCalls { .. } | CallError::TooManyCallsOfClient { .. })) => {
                lost(Ending::Refused)
            }
            Err(Error::FrontSilent { .. }) => lost(Ending::Silent),
            Err(error) => Err(failure_of(error)),
        }
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The coverage was sufficient.
    Answered(Times),
    /// The coverage was too low.
    Insufficient,
    /// The call was rejected because too many calls are open.
    Refused,
    /// The front had sent no answer long after the deadline.
    Silent,
}

/// The times of the emulated jobs behind an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Times {
    pub(crate) jobs: u64,
    /// Requested duration of all jobs together.
    pub(crate) asked_ns: u64,
    /// Excess of the observed duration of all jobs together.
    pub(crate) late_ns: u64,
}

/// One call that has ended, and when.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// Planned instant, in seconds since measuring began; negative in the warm-up.
    pub(crate) planned_s: f64,
    /// Time from the planned instant until the call was made.
    pub(crate) sent_late: Duration,
    /// Time from the planned instant until the call ended.
    pub(crate) response: Duration,
    pub(crate) coverage: f64,
    pub(crate) ending: Ending,
}

/// Results of one trial.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    /// All calls that have ended, including the warm-up.
    pub(crate) samples: Vec<Sample>,
    /// Processor time of the machine during the measurement, and the benchmark's own part of it.
    pub(crate) machine: Ticks,
    pub(crate) own_s: f64,
}

/// One load on a cluster.
pub(crate) struct Trial<'a, C> {
    pub(crate) calls: &'a C,
    pub(crate) shape: Shape,
    pub(crate) pacing: Pacing,
    pub(crate) rate_per_s: f64,
    pub(crate) seed: u64,
    pub(crate) warm_up: Duration,
    pub(crate) measured: Duration,
}

impl<C: Calls> Trial<'_, C> {
    /// Runs the trial.
    ///
    /// Must be awaited on a `LocalSet`.
    pub(crate) async fn run(&self, fleet: &Fleet, bar: &ProgressBar) -> Result<Record, Failure> {
        let (began_at, bar_from) = (Instant::now(), bar.position());
        let until = self.warm_up + self.measured;
        let mut arrivals = arrivals(self.pacing, self.seed, self.rate_per_s, began_at);
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
        let call = self.calls.call(arrival, self.shape, planned_s);
        async move {
            let sent_late = planned_at.elapsed();
            let Ended { coverage, ending } = call.await?;
            let response = planned_at.elapsed();
            Ok((arrival.planned, Sample { planned_s, sent_late, response, coverage, ending }))
        }
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
