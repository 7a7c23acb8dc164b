//! Choice of a server by tower's balancer, which users of tonic have: a peer of the policies of production.
//!
//! It takes two servers at random and chooses the one with the lesser load, by what this client has seen itself. There is one
//! balancer for each front, in the caller: as a front does, it sees the calls that are made there, and no others.

use super::caller::own_of;
use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tower::balance::p2c::Balance;
use tower::discover::ServiceList;
use tower::load::{CompleteOnResponse, PeakEwma, PendingRequests};
use tower::util::BoxService;
use tower::{BoxError, Service};
use treefold::{Error, Reply};
use treefold_core::id::PartitionId;
use treefold_core::replica::peak_ewma::DECAY;
use treefold_micro::Timed;

/// Response time that peak EWMA assumes of a server that has not answered yet: tower's documentation gives it.
const DEFAULT_RESPONSE: Duration = Duration::from_secs(1);

/// The load of a server, as tower measures it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TowerLoad {
    /// The number of open calls.
    Pending,
    /// The response times, of which peaks count most, times the number of open calls.
    PeakEwma,
}

impl TowerLoad {
    pub(super) const ALL: [Self; 2] = [Self::Pending, Self::PeakEwma];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pending => "tower:pending",
            Self::PeakEwma => "tower:peak_ewma",
        }
    }
}

pub(super) type Answer = Result<Reply<Timed>, Error>;
pub(super) type Answering = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Makes a call that asks this partition.
pub(super) type Ask = Box<dyn FnOnce(PartitionId) -> Answering + Send>;

/// A server; it is asked by the partition that only it holds.
struct Server(PartitionId);

impl Service<Ask> for Server {
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, ask: Ask) -> Self::Future {
        let answering = ask(self.0);
        Box::pin(async { Ok(answering.await) })
    }
}

/// A balancer over all servers.
pub(super) struct Balancer(RefCell<BoxService<Ask, Answer, BoxError>>);

impl Balancer {
    pub(super) fn new(load: TowerLoad, servers: u32) -> Self {
        let servers = (0..servers).map(|server| Server(own_of(server)));
        let done = CompleteOnResponse::default;
        Self(RefCell::new(match load {
            TowerLoad::Pending => {
                let servers = servers.map(|server| PendingRequests::new(server, done()));
                BoxService::new(Balance::new(ServiceList::new(servers.collect::<Vec<_>>())))
            }
            TowerLoad::PeakEwma => {
                // Tower has no default, so its averages forget as fast as ours.
                let decay_ns = DECAY.as_nanos() as f64;
                let servers = servers.map(|server| PeakEwma::new(server, DEFAULT_RESPONSE, decay_ns, done()));
                BoxService::new(Balance::new(ServiceList::new(servers.collect::<Vec<_>>())))
            }
        }))
    }

    /// Makes a call at a server that the balancer chooses.
    pub(super) async fn call(&self, ask: Ask) -> Answer {
        let ready = poll_fn(|context| self.0.borrow_mut().poll_ready(context)).await;
        ready.expect("invariant: servers are always ready");
        let answering = self.0.borrow_mut().call(ask);
        answering.await.expect("invariant: servers return errors of calls as answers")
    }
}
