//! A connection that outlives its request, because a request has taken it over (a WebSocket).
//!
//! Such a connection still counts among those of its listener, and ends with it. Each request carries a [`Kept`] among its
//! extensions. Code that takes the connection over keeps it for as long as it uses the connection.

use crate::door::Door;
use crate::half_closed::{Noted, Turn};
use crate::unfit::Given;
use axum::Router;
use axum::body::{Body, HttpBody};
use axum::response::Response;
use hyper::body::Incoming;
use hyper::service::Service;
use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::Pin;
use tokio::sync::mpsc;
use tower_service::Service as _;

/// Holds a connection's place. It is among the extensions of every request.
#[derive(Clone, Debug)]
pub struct Kept(mpsc::Sender<Infallible>);

impl Kept {
    /// A place, and a future that is over when all its copies are dropped.
    pub(crate) fn new() -> (Self, impl Future<Output = ()>) {
        let (kept, mut released) = mpsc::channel(1);
        (Self(kept), async move {
            // No message is ever sent.
            let _ = released.recv().await;
        })
    }

    /// Waits until the connection must be closed at once, because the listener's grace is over.
    pub async fn revoked(&self) {
        self.0.closed().await;
    }
}

/// Serves the requests of one connection that are fit for it.
#[derive(Clone, Debug)]
pub(crate) struct Served<D> {
    pub(crate) door: D,
    pub(crate) router: Router,
    pub(crate) kept: Kept,
    /// True if only names of this machine may ask.
    pub(crate) is_for_this_machine: bool,
    pub(crate) turn: Turn,
}

pub(crate) type Serving = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

impl<D: Door> Service<hyper::Request<Incoming>> for Served<D> {
    type Response = Response;
    type Error = Infallible;
    type Future = Serving;

    fn call(&self, request: hyper::Request<Incoming>) -> Serving {
        let given = Given {
            version: request.version(),
            uri: request.uri(),
            headers: request.headers(),
            has_body: !request.body().is_end_stream(),
        };
        if let Err(unfit) = given.check(self.is_for_this_machine) {
            let allowed = unfit.allowed();
            let mut refused = self.door.refuse_request(request.headers(), unfit);
            refused.headers_mut().extend(allowed);
            return Box::pin(ready(Ok(refused)));
        }
        self.turn.begin(request.version());
        let mut request = request.map(|body| Body::new(Noted::new(body, self.turn.clone())));
        request.extensions_mut().insert(self.kept.clone());
        // A router is always ready.
        let (answering, turn) = (self.router.clone().call(request), self.turn.clone());
        Box::pin(async move {
            let answer = answering.await;
            turn.answer_begins();
            answer
        })
    }
}
