//! Locals in processes of their own, so that a crash, an endless loop or a full memory costs a partition and not the node.
//!
//! ```text
//!            node                                        process of the service
//!  core ──▶ worker ──▶ idle process, or a new one
//!                      │  Ask: aggregation, partition, parameters      local
//!                      ├──────────────── socket ───────────────────▶   (and split)
//!                      ◀───────────────────────────────────────────┤
//!                      Answer: the partial, an error or a panic
//! ```
//!
//! - **The same program is started again**, with the same arguments, and `TREEFOLD_ISOLATED` in its environment. Where it would start
//!   its node, it serves the locals of one service instead, until its end. So it has the partitions' data, and no protocol but these
//!   two messages.
//! - **A process runs one local at a time.** If nobody waits for it any longer, the process is killed. A process that ends
//!   is reaped at once by the thread that reads from it, and the next local starts another.
//! - **It ends with the node.** A thread of the process reads from the socket, and ends the process when the node's end is closed, however
//!   the node ended, and even if the local loops. (A signal at the death of the parent would come when the *thread* ends that started
//!   the process.)
//! - **It inherits nothing**: sockets and files of the node are closed at the start of another program. Its standard input is the
//!   socket, and its standard output is the node's standard error.
//!
//! Only locals are isolated; a reduce runs in the node, because it folds partials of other nodes, and a crash of it would end every
//! process that folds.

mod frame;
mod process;
mod serving;

pub(crate) use serving::{requested, serve};

use crate::error::StartError;
use bytes::Bytes;
use frame::{Answer, Ask, Wanted};
use process::{Ended, Pool};
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use treefold_operators::{
    Codec, Declared, Operator, OperatorError, Outcome, Partition, Placement, Result, Slice,
};

/// Names the service whose locals a process serves.
const VARIABLE: &str = "TREEFOLD_ISOLATED";

/// The most processes of one service.
const PROCESSES_MAX: usize = 256;

thread_local! {
    /// Time that processes have used for the job that runs on this thread.
    static SPENT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// True in a process that serves the locals of an [isolated](crate::Service::isolated) service, which will not start a node.
///
/// A program that does more than to load data before it starts its node should ask: a second process must not open the same
/// journal or listen at the same port.
pub fn is_isolated() -> bool {
    requested().is_some()
}

/// Takes the time that processes have used for this thread's job.
pub(crate) fn take_spent() -> Duration {
    SPENT.take()
}

/// The processes of a service.
pub(crate) struct Isolation(Arc<Pool>);

impl Isolation {
    /// No process is started before the first local.
    pub(crate) fn new(service: &str, processes: usize, answer_bytes_max: usize) -> Self {
        Self(Arc::new(Pool::new(service, processes, answer_bytes_max)))
    }

    /// The operator, with its locals in these processes.
    pub(crate) fn wrap(&self, aggregation: &str, operator: Arc<dyn Operator>) -> Arc<dyn Operator> {
        Arc::new(Isolated { operator, aggregation: aggregation.to_owned(), pool: Arc::clone(&self.0) })
    }
}

/// Why a service's locals can't be isolated.
pub(crate) fn refusal(processes: usize, waits: bool, is_placed: bool, is_pushed: bool) -> Option<String> {
    if !(1..=PROCESSES_MAX).contains(&processes) {
        return Some(format!("isolated is {processes}; allowed: 1 to {PROCESSES_MAX} processes"));
    }
    let problem = match (waits, is_placed, is_pushed) {
        (true, ..) => "an aggregation that waits can't be isolated",
        (_, true, _) => "its partitions are placed automatically, and its processes would not have them",
        (.., true) => "workers push its partials, so it has no locals to isolate",
        _ => return None,
    };
    Some(problem.to_owned())
}

/// The refusal of a program whose process of one service would start a node of others.
pub(crate) fn other_service(service: &str) -> StartError {
    let problem = "this process serves its locals, and the program starts a node without it first; start the node with it \
                   first, or ask treefold::is_isolated()";
    StartError::Service { service: service.to_owned(), problem: problem.to_owned() }
}

/// An operator whose locals run in processes of their own.
struct Isolated {
    operator: Arc<dyn Operator>,
    aggregation: String,
    pool: Arc<Pool>,
}

impl Isolated {
    /// Runs a local. It gives one slice, or all of them.
    fn run(
        &self,
        partition: &Partition,
        wanted: Wanted,
        params: &Bytes,
        reduce: Option<&Bytes>,
    ) -> Result<Vec<Bytes>> {
        let ask = Ask {
            aggregation: self.aggregation.clone(),
            partition: partition.id,
            wanted,
            params: params.clone(),
            reduce: reduce.cloned(),
        };
        let began = Instant::now();
        match self.pool.run(&ask) {
            Ok(Answer::Done { parts, cost }) => {
                SPENT.set(cost);
                Ok(parts)
            }
            Ok(Answer::Failed { text, is_of_params: true }) => Err(OperatorError::invalid_params(text)),
            Ok(Answer::Failed { text, .. }) => Err(OperatorError::new(text)),
            // The hook for panics has run in the process, and does not run here.
            Ok(Answer::Panicked { text }) => std::panic::resume_unwind(Box::new(text)),
            Ok(Answer::Ready) => Err(OperatorError::new("the isolated process broke the protocol")),
            Err(Ended::Unwanted) => {
                SPENT.set(began.elapsed());
                Err(OperatorError::cancelled())
            }
            Err(Ended::Process(how)) => {
                SPENT.set(began.elapsed());
                std::panic::resume_unwind(Box::new(format!("the process of the local {how}")))
            }
            Err(Ended::Start(error)) => {
                Err(OperatorError::caused_by("can't start a process for the local", error))
            }
        }
    }

    fn run_one(
        &self,
        partition: &Partition,
        slice: Slice,
        params: &Bytes,
        reduce: Option<&Bytes>,
    ) -> Outcome {
        let parts = self.run(partition, Wanted::Slice(slice), params, reduce);
        Outcome::Now(parts.and_then(|mut parts| match (parts.pop(), parts.is_empty()) {
            (Some(partial), true) => Ok(partial),
            _ => Err(OperatorError::new("the isolated process broke the protocol")),
        }))
    }
}

impl Operator for Isolated {
    fn local(&self, partition: &Partition, params: &Bytes) -> Outcome {
        self.run_one(partition, Slice::WHOLE, params, None)
    }

    fn gives_slices(&self) -> bool {
        self.operator.gives_slices()
    }

    fn local_slice(&self, partition: &Partition, slice: Slice, params: &Bytes, reduce: &Bytes) -> Outcome {
        self.run_one(partition, slice, params, Some(reduce))
    }

    fn local_sliced(&self, partition: &Partition, slices: u32, params: &Bytes) -> Result<Vec<Bytes>> {
        self.run(partition, Wanted::All(slices), params, None)
    }

    fn reduce(&self, a: Bytes, b: Bytes, params: &Bytes) -> Outcome {
        self.operator.reduce(a, b, params)
    }

    fn reduce_all(&self, parts: Vec<Bytes>, params: &Bytes) -> Outcome {
        self.operator.reduce_all(parts, params)
    }

    fn reduces_in_pairs(&self) -> bool {
        self.operator.reduces_in_pairs()
    }

    fn finish(&self, partial: Bytes, params: &Bytes) -> Result<Bytes> {
        self.operator.finish(partial, params)
    }

    /// Locals wait for a process, so they never run on the loop.
    fn placement(&self) -> Placement {
        match self.operator.placement() {
            Placement::Inline => Placement::Measured,
            other => other,
        }
    }

    fn holds_processor(&self) -> bool {
        true
    }

    fn is_sliceable(&self) -> bool {
        self.operator.is_sliceable()
    }

    fn join(&self, parts: Vec<Bytes>, params: &Bytes) -> Result<Bytes> {
        self.operator.join(parts, params)
    }

    fn declared(&self) -> Option<Declared> {
        self.operator.declared()
    }

    fn codecs(&self) -> (Codec, Codec) {
        self.operator.codecs()
    }

    fn types(&self) -> Option<[(std::any::TypeId, &'static str); 2]> {
        self.operator.types()
    }
}
