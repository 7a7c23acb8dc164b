//! gRPC: calls, streams and the state of the node, on the same address as HTTP.
//!
//! ```text
//!  connection ─▶ door ─▶ admission ─▶ calls ─▶ the node's client
//!  HTTP/2                token, rate,
//!                        body, deadline
//! ```
//!
//! - `admission` admits a request before its message is read: token, rate, and bounds of its body (`bounded`).
//! - `calls` has the methods. `messages` converts between `treefold_forms` and the messages.
//! - `status` writes a `Problem` as the status of an RPC. `deadline` reads the header `grpc-timeout`.
//! - `readiness` is the standard health service. The standard reflection service has the descriptors of `generated`, which is
//!   the code from `docs/treefold.proto`.
//!
//! There is no transport of its own: `treefold_http` serves HTTP/2 within its bounds, and the router of HTTP leads here.

mod admission;
mod bounded;
mod calls;
mod deadline;
#[rustfmt::skip]
#[allow(clippy::all, clippy::pedantic, missing_docs, unreachable_pub, reason = "generated")]
mod generated;
mod messages;
mod readiness;
mod status;

use crate::problem::Problem;
use crate::site::Site;
use axum::Router;
use axum::http::{HeaderMap, header};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use calls::Calls;
use generated::treefold_server::TreefoldServer;
use readiness::Readiness;
use std::sync::Arc;
use tonic::Status;
use tonic_health::pb::health_server::HealthServer;

/// The descriptors of the package `treefold.v1`.
const DESCRIPTORS: &[u8] = include_bytes!("generated/treefold.binpb");
/// Most bytes of a message to the services that need no token. They take names only.
const NAME_BYTES_MAX: usize = 4 << 10;

/// The services.
pub(crate) fn routes(site: &Arc<Site>) -> Router<Arc<Site>> {
    let treefold = TreefoldServer::new(Calls::new(Arc::clone(site)))
        .max_decoding_message_size(site.limits.body_bytes_max)
        .max_encoding_message_size(usize::MAX);
    let health =
        HealthServer::new(Readiness::new(Arc::clone(site))).max_decoding_message_size(NAME_BYTES_MAX);
    let reflection = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let sound = "invariant: the descriptors are kept equal to the proto file by a test";
    let newer = reflection().build_v1().expect(sound).max_decoding_message_size(NAME_BYTES_MAX);
    let older = reflection().build_v1alpha().expect(sound).max_decoding_message_size(NAME_BYTES_MAX);
    let open = Router::new()
        .route_service("/grpc.health.v1.Health/{method}", health)
        .route_service("/grpc.reflection.v1.ServerReflection/{method}", newer)
        .route_service("/grpc.reflection.v1alpha.ServerReflection/{method}", older)
        .layer(from_fn_with_state(Arc::clone(site), admission::admit_anybody));
    Router::new()
        .route_service("/treefold.v1.Treefold/{method}", treefold)
        .layer(from_fn_with_state(Arc::clone(site), admission::admit))
        .merge(open)
}

/// True for a request over gRPC.
pub(crate) fn is_rpc(headers: &HeaderMap) -> bool {
    headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// The answer to an RPC that no method gets.
pub(crate) fn refusal(problem: Problem) -> Response {
    Status::from(problem).into_http()
}
