//! Makes the calls, and checks the answers.

use super::balancer::{Answer, Answering, Balancer};
use super::load_index::IndexClient;
use super::series::{Chooser, LoadIndex};
use crate::load::pace::Arrival;
use crate::load::trial::{Calls, Ended};
use crate::micro::caller::{KIND, fault_of, times_of};
use std::cell::RefCell;
use std::iter::once;
use std::rc::Rc;
use std::time::{Duration, Instant};
use treefold::operators::Body;
use treefold::{CallBuilder, Client, Reply, Report, Shape};
use treefold_cli::exit::Failure;
use treefold_core::id::PartitionId;
use treefold_micro::{Distribution, Emulation, Folded, Timed, Work};
use treefold_sim::world::distribution::Distribution as ServiceTimes;

/// The aggregation of servers that spin.
const SPIN_KIND: &str = "micro/spin";

/// The partition that every server holds.
pub(super) const SHARED: PartitionId = 0;

/// Returns the partition that only this server holds.
pub(super) fn own_of(server: u32) -> PartitionId {
    server + 1
}

/// The purpose of the only draw of a call's seed.
const SERVICE: u64 = 0;

/// The calls of one trial: each asks one partition, at the fronts in turn.
pub(super) struct PollingCalls<'a> {
    pub(super) fronts: &'a [Client],
    pub(super) chooser: Chooser,
    pub(super) service: ServiceTimes,
    /// The share of a processor that a server has and spins; without one, its processor is emulated.
    pub(super) spin: Option<f64>,
    pub(super) deadline: Duration,
    pub(super) index: Rc<LoadIndex>,
    /// The connections to the load index manager, if it is the chooser.
    pub(super) manager: Option<Rc<IndexClient>>,
    /// Tower's balancer of each front, if it is the chooser.
    pub(super) balancers: Vec<Rc<Balancer>>,
    /// Calls that are planned before this second of the measurement and after its beginning are measured.
    pub(super) until_s: f64,
    pub(super) notes: Rc<RefCell<Notes>>,
}

/// Times of the measured calls, in the order of their ends.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes {
    /// At the front and on the way.
    pub(super) outside: Vec<Duration>,
    /// In the local.
    pub(super) local: Vec<Duration>,
    /// Until the load index manager had named a server.
    pub(super) inquiries: Vec<Duration>,
}

impl Notes {
    fn take_of<T>(&mut self, reply: &Reply<T>) {
        let Some(Report { total, local, .. }) = reply.explain() else { return };
        self.outside.push(reply.elapsed.saturating_sub(*total));
        self.local.push(*local);
    }
}

impl Calls for PollingCalls<'_> {
    fn call(
        &self,
        arrival: Arrival,
        shape: Shape,
        planned_s: f64,
    ) -> impl Future<Output = Result<Ended, Failure>> + 'static {
        let turn = arrival.turn(self.fronts.len());
        let (front, balancer) = (self.fronts[turn].clone(), self.balancers.get(turn).cloned());
        let ms = self.service.draw_for_ms(arrival.seed, SERVICE);
        let spun = self.spin.map(|share| Work { local_ms: ms * share, ..Work::default() });
        let options = Options { chooser: self.chooser, shape, deadline: self.deadline };
        let placed = (self.chooser == Chooser::Ideal).then(|| self.index.place(arrival.seed));
        let manager = self.manager.clone();
        let is_measured = (0.0..self.until_s).contains(&planned_s);
        let notes = is_measured.then(|| Rc::clone(&self.notes));
        async move {
            let ask = move |partition: PartitionId| -> Answering {
                let Some(work) = spun else {
                    return options.of(front.call(KIND, &work(ms)), partition).into_future();
                };
                let answering = options.of(front.call(SPIN_KIND, &work), partition).into_future();
                Box::pin(async { answering.await.map(timed) })
            };
            let result: Answer = match (balancer, manager) {
                (Some(balancer), _) => balancer.call(Box::new(ask)).await,
                (None, Some(manager)) => {
                    let asked_at = Instant::now();
                    let server = manager.place(turn, arrival.seed).await?;
                    if let Some(notes) = &notes {
                        notes.borrow_mut().inquiries.push(asked_at.elapsed());
                    }
                    let result = ask(own_of(server)).await;
                    manager.end(turn, server);
                    result
                }
                (None, None) => ask(placed.as_ref().map_or(SHARED, |placed| own_of(placed.server()))).await,
            };
            drop(placed);
            if let (Some(notes), Ok(reply)) = (notes, &result) {
                notes.borrow_mut().take_of(reply);
            }
            Ended::of(result, |reply| fault_of(reply, 1), times_of)
        }
    }
}

/// Options of every call of a trial.
#[derive(Clone, Copy)]
struct Options {
    chooser: Chooser,
    shape: Shape,
    deadline: Duration,
}

impl Options {
    fn of<T: Body>(self, call: CallBuilder<'static, T>, partition: PartitionId) -> CallBuilder<'static, T> {
        let call = call.shape(self.shape).deadline(self.deadline).explain(true);
        let call = call.partitions(once(partition).collect());
        match self.chooser {
            Chooser::Policy(policy) => call.policy(policy),
            _ => call,
        }
    }
}

/// Returns the answer of a server that spins in the form of one whose processor is emulated. Its times are unknown.
fn timed(reply: Reply<Folded>) -> Reply<Timed> {
    let timed = |Folded { sum, partitions, .. }| Timed { sum, partitions, ..Timed::default() };
    Reply {
        status: reply.status,
        value: reply.value.map(timed),
        asked: reply.asked,
        contributed: reply.contributed,
        missing: reply.missing,
        total_is_guess: reply.total_is_guess,
        elapsed: reply.elapsed,
        report: reply.report,
    }
}

/// Returns the work of a call whose only local takes `ms`.
pub(super) fn work(ms: f64) -> Emulation {
    Emulation {
        local_ms: ms,
        reduce_ms: 0.0,
        distribution: Distribution::Fixed,
        processors: 1,
        ..Emulation::default()
    }
}
