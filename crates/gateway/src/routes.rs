//! The paths of a gateway.

use crate::openapi::DOCUMENT;
use crate::problem::{Kind, Problem};
use crate::site::Site;
use crate::{call, cluster, door, metrics, page, streams, trees, watch};
use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use std::sync::Arc;

/// A path of the gateway.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Route {
    Call,
    Stream,
    Status,
    Services,
    Nodes,
    Watch,
    Trees,
    Tree,
    OpenApi,
    Health,
    Readiness,
    Metrics,
}

impl Route {
    pub(crate) const ALL: [Self; 12] = [
        Self::Call,
        Self::Stream,
        Self::Status,
        Self::Services,
        Self::Nodes,
        Self::Watch,
        Self::Trees,
        Self::Tree,
        Self::OpenApi,
        Self::Health,
        Self::Readiness,
        Self::Metrics,
    ];

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Call => "/v1/call/{service}/{aggregation}",
            Self::Stream => "/v1/streams/{service}",
            Self::Status => "/v1/status",
            Self::Services => "/v1/services",
            Self::Nodes => "/v1/nodes",
            Self::Watch => "/v1/watch",
            Self::Trees => "/v1/trees",
            Self::Tree => "/v1/trees/{call}",
            Self::OpenApi => "/v1/openapi.json",
            Self::Health => "/healthz",
            Self::Readiness => "/readyz",
            Self::Metrics => "/metrics",
        }
    }

    /// The method that a path takes. `GET` also answers `HEAD`.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Call => "POST",
            _ => "GET",
        }
    }

    fn handler(self) -> MethodRouter<Arc<Site>> {
        let allowed = if self.method() == "POST" { "POST" } else { "GET, HEAD" };
        let handler = match self {
            Self::Call => post(call::call),
            Self::Stream => get(streams::open),
            Self::Status => get(cluster::status),
            Self::Services => get(cluster::services),
            Self::Nodes => get(cluster::nodes),
            Self::Watch => get(watch::watch),
            Self::Trees => get(trees::list),
            Self::Tree => get(trees::tree),
            Self::OpenApi => get(openapi),
            Self::Health => get(cluster::health),
            Self::Readiness => get(cluster::readiness),
            Self::Metrics => get(metrics::metrics),
        };
        handler.fallback(async move || wrong_method(allowed))
    }
}

/// The refusal of a method that a path does not take.
fn wrong_method(allowed: &'static str) -> Problem {
    let problem = Problem::new(Kind::Method, format!("this path takes {allowed}")).about("method");
    problem.header(header::ALLOW, HeaderValue::from_static(allowed))
}

pub(crate) fn router(site: Arc<Site>) -> Router {
    let routes = Route::ALL.into_iter();
    let router = routes.fold(Router::new(), |router, route| router.route(route.path(), route.handler()));
    let router = page::FILES.iter().fold(router, |router, file| {
        let handler = get(async |headers: HeaderMap| file.answer(&headers));
        router.route(file.path, handler.fallback(async || wrong_method("GET, HEAD")))
    });
    #[cfg(feature = "grpc")]
    let router = router.merge(crate::grpc::routes(&site));
    router
        .fallback(async |request: Request| {
            let paths = Route::ALL.map(Route::path).join(", ");
            let detail = format!("no such path: {}; there are {paths}", request.uri().path());
            refusal(request.headers(), Problem::new(Kind::UnknownPath, detail))
        })
        .layer(from_fn_with_state(Arc::clone(&site), door::pass))
        .with_state(site)
}

/// The answer to a request that no handler gets, in the form of its protocol.
pub(crate) fn refusal(headers: &HeaderMap, problem: Problem) -> Response {
    #[cfg(feature = "grpc")]
    if crate::grpc::is_rpc(headers) {
        return crate::grpc::refusal(problem);
    }
    #[cfg(not(feature = "grpc"))]
    let _ = headers;
    problem.into_response()
}

async fn openapi() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], DOCUMENT)
}
