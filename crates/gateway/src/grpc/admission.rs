//! Admits requests before their message is read.

use super::bounded::{Bounded, Late, Room};
use super::{deadline, refusal};
use crate::caller::Caller;
use crate::observers::parent_of;
use crate::problem::Problem;
use crate::site::Site;
use crate::tenants::Tenant;
use axum::body::Body;
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use std::sync::Arc;
use tokio::time::Instant;
use tonic::Code;
use treefold_traces::Parent;

/// The caller of an RPC. It is among the extensions of its request.
#[derive(Clone)]
pub(super) struct Admitted {
    pub(super) tenant: Arc<Tenant>,
    /// The end of the caller's patience, from the header `grpc-timeout`.
    pub(super) until: Option<Instant>,
    /// The caller's place in a trace.
    pub(super) parent: Option<Parent>,
    /// Reserved for the bytes of the message, as long as the request is open.
    pub(super) room: Room,
}

/// Admits a request of a tenant.
pub(super) async fn admit(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    let room = Room::default();
    let admitted = async {
        let Caller(tenant) = Caller::from_request_parts(&mut parts, &site).await?;
        let until = deadline::of(&parts.headers)?;
        Ok::<_, Problem>(Admitted { tenant, until, parent: parent_of(&parts.headers), room: room.clone() })
    };
    let response = match admitted.await {
        Ok(admitted) => {
            parts.extensions.insert(admitted);
            let body = Bounded::new(body, Arc::clone(&site), room, Late::Refused);
            next.run(Request::from_parts(parts, Body::new(body))).await
        }
        Err(problem) => refusal(problem),
    };
    count(&site, response)
}

/// Admits a request to a service that needs no token, as health and the descriptors.
pub(super) async fn admit_anybody(State(site): State<Arc<Site>>, request: Request, next: Next) -> Response {
    let bounded = |body| Body::new(Bounded::new(body, Arc::clone(&site), Room::default(), Late::Ended));
    let response = next.run(request.map(bounded)).await;
    count(&site, response)
}

/// Counts the status of an answer. A stream counts as OK when it begins.
fn count(site: &Site, response: Response) -> Response {
    let status = response.headers().get("grpc-status");
    site.metrics.count_rpc(status.map_or(Code::Ok, |code| Code::from_bytes(code.as_bytes())));
    response
}
