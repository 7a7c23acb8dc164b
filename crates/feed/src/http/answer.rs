//! Answers in JSON, and errors with a name, a message, and the parameter or limit that they are about.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use treefold_http::Unfit;
use treefold_mirror::filter::FilterError;
use treefold_mirror::message::Refusal;

/// Time after which a client may ask again, in seconds.
const RETRY_AFTER_S: HeaderValue = HeaderValue::from_static("1");

/// The reason why a request is refused.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Problem {
    #[serde(skip)]
    status: StatusCode,
    error: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameter: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<usize>,
}

impl Problem {
    fn new(status: StatusCode, error: &'static str, message: impl Into<String>) -> Self {
        Self { status, error, message: message.into(), parameter: None, limit: None }
    }

    fn about(self, parameter: &str) -> Self {
        Self { parameter: Some(parameter.to_owned()), ..self }
    }

    pub(super) fn connections(limit: usize) -> Self {
        let message = format!("the listener has {limit} connections, the limit connections_max");
        Self { limit: Some(limit), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "connections", message) }
    }

    pub(super) fn unfit(unfit: &Unfit) -> Self {
        Self::new(unfit.status(), unfit.field(), unfit.to_string()).about(unfit.field())
    }

    pub(super) fn readers(refusal: &Refusal) -> Self {
        let Refusal::Full { limit } = *refusal;
        let full = Self::new(StatusCode::SERVICE_UNAVAILABLE, "readers", refusal.to_string());
        Self { limit: Some(limit), ..full }
    }

    pub(super) fn not_current() -> Self {
        let message = "this mirror lacks events, or has had no origin yet";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "not_current", message)
    }

    pub(super) fn ended() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ended", "the mirror has ended")
    }

    pub(super) fn feed(given: &str, known: &str) -> Self {
        let message = format!("no feed {given} here; this is a mirror of {known}");
        Self::new(StatusCode::NOT_FOUND, "unknown_feed", message)
    }

    pub(super) fn key(key: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "unknown_key", format!("the mirror has no key {key}"))
    }

    pub(super) fn path(path: &str) -> Self {
        let message = format!(
            "no such path: {path}; there are /v1/feeds/FEED/events, /v1/feeds/FEED/keys/KEY, \
             /v1/feeds/FEED/status and /healthz"
        );
        Self::new(StatusCode::NOT_FOUND, "unknown_path", message)
    }

    pub(super) fn method() -> Self {
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method", "readers use GET")
    }

    pub(super) fn parameter(name: &str) -> Self {
        let message = format!("unknown parameter {name}; there are key, prefix, type and from");
        Self::new(StatusCode::BAD_REQUEST, "unknown_parameter", message).about(name)
    }

    pub(super) fn query(message: &str) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "query", message)
    }

    pub(super) fn filter(parameter: &str, error: &FilterError) -> Self {
        let problem = Self::new(StatusCode::BAD_REQUEST, "filter", error.to_string()).about(parameter);
        match *error {
            FilterError::TooMany { limit, .. } => Self { limit: Some(limit), ..problem },
            _ => problem,
        }
    }

    pub(super) fn time(parameter: &str, message: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "vector_time", message).about(parameter)
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        json(self)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = answer(self.status, &self);
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_S);
        }
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        }
        response
    }
}

/// An answer in JSON.
pub(super) fn answer(status: StatusCode, content: &impl Serialize) -> Response {
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    ];
    (status, headers, json(content)).into_response()
}

fn json(content: &impl Serialize) -> Vec<u8> {
    let mut out = serde_json::to_vec(content).expect("invariant: answers can be written to a vector");
    out.push(b'\n');
    out
}
