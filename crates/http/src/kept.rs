//! A connection that outlives its request, because a request has taken it over (a WebSocket).
//!
//! Such a connection still counts among those of its listener, and ends with it. Each request carries a [`Kept`] among its
//! extensions. Code that takes the connection over keeps it for as long as it uses the connection.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::service::Service;
use std::convert::Infallible;
use std::future::Future;
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

/// Serves the requests of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) router: Router,
    pub(crate) kept: Kept,
}

impl Service<hyper::Request<Incoming>> for Served {
    type Response = Response;
    type Error = Infallible;
    type Future = <Router as tower_service::Service<Request>>::Future;

    fn call(&self, request: hyper::Request<Incoming>) -> Self::Future {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(self.kept.clone());
        // A router is always ready.
        self.router.clone().call(request)
    }
}
