//! Real work on emulated processors: another aggregation, whose cost is stretched.
//!
//! [`Emulated`](crate::Emulated) computes a sum and takes a drawn time. [`Stretched`] runs another aggregation's
//! real local or reduce, and then holds one of the node's emulated processors for the processor time that this
//! took, times a factor. So a machine of two processors can represent twenty-four nodes that search large
//! partitions: the answers, their sizes and the ratios of the costs are real, and only the unit of time is
//! larger. Each answer tells the times and the emulation's error ([`Answer`]).
//!
//! Measured processor time is noisy: a run on cold caches takes up to several times as long as the next one,
//! and a busy machine has colder caches. Shapes of trees would then be compared on different costs. So a cost is
//! the *least* of [`RUNS`] runs in a row. A reduce runs that often each time. A local is the larger work; its
//! cost is measured when a partition sees the parameters for the first time, and is kept ([`Costs`]). A caller
//! that makes each call once before it measures gets the same costs of locals in all later calls.

use crate::costs::Costs;
use crate::cpu::spent;
use crate::processors::{Line, Processors};
use crate::stretch::Stretch;
use crate::work::DURATION_MS_MAX;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::{Duration, Instant};
use treefold_operators::{
    Body, Codec, MergeError, Operator, OperatorError, Outcome, Partition, Placement, Result,
};

/// Runs of which a cost is the least.
pub const RUNS: u32 = 3;

/// The name of the stretched form of an aggregation.
pub fn stretched_name(aggregation: &str) -> String {
    format!("stretched-{aggregation}")
}

/// The partial and the result of a stretched aggregation: those of the other one, and the times behind it.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The encoded partial, or result, of the aggregation that was stretched.
    pub body: Bytes,
    /// Number of locals.
    pub locals: u32,
    /// Number of reduces.
    pub reduces: u32,
    /// Emulated duration of all locals together.
    pub local_ns: u64,
    /// Emulated duration of all reduces together.
    pub reduce_ns: u64,
    /// Excess of the observed duration of all jobs together: the real runs come before the emulated time, and a
    /// job's end is reported after the end itself.
    pub late_ns: u64,
}

impl Answer {
    /// The figures of both, with the body of neither.
    fn merged(&self, other: &Self) -> Result<Self, MergeError> {
        let overflow = |figure| MergeError::Overflow { figure };
        let add = |a: u64, b: u64| a.checked_add(b).ok_or_else(|| overflow("times"));
        Ok(Self {
            body: Bytes::new(),
            locals: self.locals.checked_add(other.locals).ok_or_else(|| overflow("number of locals"))?,
            reduces: self.reduces.checked_add(other.reduces).ok_or_else(|| overflow("number of reduces"))?,
            local_ns: add(self.local_ns, other.local_ns)?,
            reduce_ns: add(self.reduce_ns, other.reduce_ns)?,
            late_ns: add(self.late_ns, other.late_ns)?,
        })
    }
}

/// Runs another aggregation on a node's emulated processors.
pub struct Stretched {
    operator: Arc<dyn Operator>,
    processors: Arc<Processors>,
    count: u32,
    costs: Costs,
}

impl std::fmt::Debug for Stretched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stretched").field("count", &self.count).finish_non_exhaustive()
    }
}

/// The stretched forms of a node's aggregations, which take turns on its `processors` emulated processors.
pub fn stretched<'a>(
    aggregations: impl IntoIterator<Item = (&'a str, Arc<dyn Operator>)>,
    processors: u32,
) -> Vec<(String, Arc<dyn Operator>)> {
    let shared = Arc::new(Processors::new());
    let one = |(name, operator)| {
        let stretched = Stretched {
            operator,
            processors: Arc::clone(&shared),
            count: processors,
            costs: Costs::default(),
        };
        (stretched_name(name), Arc::new(stretched) as Arc<dyn Operator>)
    };
    aggregations.into_iter().map(one).collect()
}

/// A real run: its result, and the processor time that it took.
struct Run {
    body: Bytes,
    cost: Duration,
}

/// Runs an operator once on this thread.
fn run_once(operator: impl FnOnce() -> Outcome) -> Result<Run> {
    let from = spent();
    let outcome = operator();
    let cost = spent().saturating_sub(from);
    match outcome.now() {
        Some(body) => Ok(Run { body: body?, cost }),
        None => Err(OperatorError::new(
            "an aggregation that waits can't be stretched: its cost is not the processor time of one thread",
        )),
    }
}

/// Runs an operator [`RUNS`] times; the cost is the least.
fn run_often(operator: impl Fn() -> Outcome) -> Result<Run> {
    let first = run_once(&operator)?;
    (1..RUNS).try_fold(first, |least, _| {
        let next = run_once(&operator)?;
        Ok(Run { cost: least.cost.min(next.cost), ..next })
    })
}

/// The duration that stands for a cost.
fn stretched_by(factor: f64, cost: Duration) -> Duration {
    Duration::from_secs_f64((cost.as_secs_f64() * factor).min(DURATION_MS_MAX / 1e3))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Stretched {
    /// Blocks until an emulated processor is free. The outcome's future returns the answer when the time is over.
    ///
    /// `since` is when the real runs began.
    fn hold(&self, line: Line, duration: Duration, since: Instant, mut answer: Answer) -> Result<Outcome> {
        let ran = nanos(since.elapsed());
        let ended = self.processors.begin(line, duration, self.count);
        let ended = ended.map_err(|error| OperatorError::caused_by("no thread to keep the time", error))?;
        Ok(Outcome::Later(Box::pin(async move {
            let late = ended.await.map_err(|_| OperatorError::new("the node's processors are gone"))?;
            answer.late_ns = answer.late_ns.saturating_add(ran).saturating_add(nanos(late));
            Ok(answer.encode()?)
        })))
    }

    fn begin_local(&self, partition: &Partition, params: &Bytes) -> Result<Outcome> {
        let since = Instant::now();
        let asked = params_of(params)?;
        let run = || self.operator.local(partition, &asked.params);
        let known = self.costs.of(partition.id, &asked.params);
        let Run { body, cost } = match known {
            Some(cost) => Run { cost, ..run_once(run)? },
            None => {
                let measured = run_often(run)?;
                self.costs.keep(partition.id, &asked.params, measured.cost);
                measured
            }
        };
        let duration = stretched_by(asked.factor, cost);
        let answer = Answer { body, locals: 1, local_ns: nanos(duration), ..Answer::default() };
        self.hold(Line::Locals, duration, since, answer)
    }

    fn begin_reduce(&self, a: &Bytes, b: &Bytes, params: &Bytes) -> Result<Outcome> {
        let since = Instant::now();
        let asked = params_of(params)?;
        let a = answer_of(a).map_err(|error| error.in_partial(0))?;
        let b = answer_of(b).map_err(|error| error.in_partial(1))?;
        let mut answer = a.merged(&b)?;
        let reduced = || self.operator.reduce(a.body.clone(), b.body.clone(), &asked.params);
        let Run { body, cost } = run_often(reduced)?;
        let duration = stretched_by(asked.factor, cost);
        answer.body = body;
        answer.reduces = answer.reduces.saturating_add(1);
        answer.reduce_ns = answer.reduce_ns.saturating_add(nanos(duration));
        self.hold(Line::Reductions, duration, since, answer)
    }
}

impl Operator for Stretched {
    fn local(&self, partition: &Partition, params: &Bytes) -> Outcome {
        self.begin_local(partition, params).unwrap_or_else(|error| Outcome::Now(Err(error)))
    }

    fn reduce(&self, a: Bytes, b: Bytes, params: &Bytes) -> Outcome {
        self.begin_reduce(&a, &b, params).unwrap_or_else(|error| Outcome::Now(Err(error)))
    }

    /// Its reduces return futures, and the papers' nodes fold in pairs too.
    fn reduces_in_pairs(&self) -> bool {
        true
    }

    fn finish(&self, partial: Bytes, params: &Bytes) -> Result<Bytes> {
        let mut answer = answer_of(&partial)?;
        answer.body = self.operator.finish(answer.body, &params_of(params)?.params)?;
        Ok(answer.encode()?)
    }

    /// On a worker, since it blocks.
    fn placement(&self) -> Placement {
        Placement::Pool
    }

    fn holds_processor(&self) -> bool {
        true
    }

    fn codecs(&self) -> (Codec, Codec) {
        (Stretch::CODEC, Answer::CODEC)
    }
}

fn params_of(params: &Bytes) -> Result<Stretch> {
    Stretch::decode(params).map_err(OperatorError::invalid_params)
}

fn answer_of(partial: &Bytes) -> Result<Answer> {
    Answer::decode(partial).map_err(|error| OperatorError::caused_by("partial", error))
}

#[cfg(test)]
mod tests;
