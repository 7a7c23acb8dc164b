//! Makes the calls, and checks the answers.

use super::balancer::Balancer;
use super::series::{Chooser, LoadIndex};
use crate::load::pace::Arrival;
use crate::load::trial::{Calls, Ended};
use crate::micro::caller::{KIND, fault_of, times_of};
use std::cell::RefCell;
use std::iter::once;
use std::rc::Rc;
use std::time::Duration;
use treefold::{Client, Reply, Shape};
use treefold_cli::exit::Failure;
use treefold_core::id::PartitionId;
use treefold_micro::{Distribution, Emulation, Timed};
use treefold_sim::experiment::polling::workload::Workload;

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
    pub(super) workload: &'a Workload,
    pub(super) deadline: Duration,
    pub(super) index: Rc<LoadIndex>,
    /// Tower's balancer of each front, if it is the chooser.
    pub(super) balancers: Vec<Rc<Balancer>>,
    /// Calls that are planned before this second of the measurement and after its beginning are measured.
    pub(super) until_s: f64,
    /// Time of each measured call outside of its server.
    pub(super) choosing: Rc<RefCell<Vec<Duration>>>,
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
        let work = work(self.workload.service.draw_for_ms(arrival.seed, SERVICE));
        let (chooser, deadline) = (self.chooser, self.deadline);
        let placed = (chooser == Chooser::Ideal).then(|| self.index.place(arrival.seed));
        let is_measured = (0.0..self.until_s).contains(&planned_s);
        let choosing = is_measured.then(|| Rc::clone(&self.choosing));
        async move {
            let ask = move |partition: PartitionId| {
                let mut call = front.call::<Timed>(KIND, &work).shape(shape).deadline(deadline).explain(true);
                call = call.partitions(once(partition).collect());
                if let Chooser::Policy(policy) = chooser {
                    call = call.policy(policy);
                }
                call.into_future()
            };
            let result = match balancer {
                Some(balancer) => balancer.call(Box::new(ask)).await,
                None => ask(placed.as_ref().map_or(SHARED, |placed| own_of(placed.server()))).await,
            };
            drop(placed);
            if let (Some(choosing), Ok(reply)) = (choosing, &result) {
                choosing.borrow_mut().extend(outside_of_server(reply));
            }
            Ended::of(result, |reply| fault_of(reply, 1), times_of)
        }
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

/// Returns the time of an answered call at its front and on the way, without its time at the server.
fn outside_of_server<T>(reply: &Reply<T>) -> Option<Duration> {
    let server = reply.explain()?;
    Some(reply.elapsed.saturating_sub(server.total))
}
