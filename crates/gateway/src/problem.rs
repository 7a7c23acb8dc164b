//! Refusals: RFC 9457 problems, each with a stable type, the field that it is about, and its limit.

use crate::limits::Limits;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::time::Duration;
use treefold::{CallError, Error, Reply};
use treefold_core::stream::StreamError;
use treefold_forms::json::Account;

/// The content type of a problem.
pub(crate) const PROBLEM_JSON: &str = "application/problem+json";
/// The beginning of every type.
pub(crate) const TYPE_PREFIX: &str = "urn:treefold:problem:";

/// The kinds of problems: their name, status and title. They are part of the interface.
macro_rules! kinds {
    ($($kind:ident = $name:literal, $status:ident, $code:ident, $title:literal;)*) => {
        /// A kind of problem.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind { $($kind),* }

        impl Kind {
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$kind),*];

            pub(crate) fn name(self) -> &'static str {
                match self { $(Self::$kind => $name),* }
            }

            pub(crate) fn status(self) -> StatusCode {
                match self { $(Self::$kind => StatusCode::$status),* }
            }

            /// The status over gRPC.
            #[cfg(feature = "grpc")]
            pub(crate) fn code(self) -> tonic::Code {
                match self { $(Self::$kind => tonic::Code::$code),* }
            }

            pub(crate) fn title(self) -> &'static str {
                match self { $(Self::$kind => $title),* }
            }
        }
    };
}

kinds! {
    BadField = "bad_field", BAD_REQUEST, InvalidArgument, "A field is outside its limits";
    UnknownField = "unknown_field", BAD_REQUEST, InvalidArgument, "The request has a field that does not exist";
    BadParams = "bad_params", BAD_REQUEST, InvalidArgument, "The aggregation does not accept the parameters";
    BadBody = "bad_body", BAD_REQUEST, InvalidArgument, "The body is not in the form that its content type names";
    Filter = "filter", BAD_REQUEST, InvalidArgument, "A filter does not exist, or does not accept its parameters";
    NoToken = "no_token", UNAUTHORIZED, Unauthenticated, "The request has no valid token";
    Denied = "denied", FORBIDDEN, PermissionDenied, "The token does not give this right";
    Browser = "browser", FORBIDDEN, PermissionDenied, "A page in a browser makes the request";
    UnknownPath = "unknown_path", NOT_FOUND, Unimplemented, "There is no such path";
    UnknownService = "unknown_service", NOT_FOUND, NotFound, "No node in sight provides the service";
    UnknownAggregation = "unknown_aggregation", NOT_FOUND, NotFound, "The service has no such aggregation";
    UnknownCall = "unknown_call", NOT_FOUND, NotFound, "No tree of this call is kept";
    Method = "method", METHOD_NOT_ALLOWED, Unimplemented, "The path has another method";
    NotAcceptable = "not_acceptable", NOT_ACCEPTABLE, InvalidArgument, "No form of the answer is acceptable";
    BodyTimeout = "body_timeout", REQUEST_TIMEOUT, DeadlineExceeded, "The body took too long";
    BodyTooLarge = "body_too_large", PAYLOAD_TOO_LARGE, ResourceExhausted, "The body is too large";
    ContentType = "content_type", UNSUPPORTED_MEDIA_TYPE, InvalidArgument, "The body has an unknown content type";
    ContentEncoding = "content_encoding", UNSUPPORTED_MEDIA_TYPE, InvalidArgument, "The body has a content encoding";
    Rate = "rate", TOO_MANY_REQUESTS, ResourceExhausted, "Too many requests in a second";
    OpenCalls = "open_calls", TOO_MANY_REQUESTS, ResourceExhausted, "Too many open calls";
    OpenStreams = "open_streams", TOO_MANY_REQUESTS, ResourceExhausted, "Too many open streams";
    SlowReader = "slow_reader", REQUEST_TIMEOUT, ResourceExhausted, "The reader of a stream takes too little";
    Internal = "internal", INTERNAL_SERVER_ERROR, Internal, "The node gave no usable answer";
    Coverage = "coverage", SERVICE_UNAVAILABLE, Unavailable, "Less than the minimum coverage: no answer";
    Busy = "busy", SERVICE_UNAVAILABLE, Unavailable, "A table of the node or of the gateway is full";
    Connections = "connections", SERVICE_UNAVAILABLE, Unavailable, "Too many connections";
    Loading = "loading", SERVICE_UNAVAILABLE, Unavailable, "The node loads its partitions";
    Ending = "ending", SERVICE_UNAVAILABLE, Unavailable, "The node ends or has ended";
    Silent = "silent", GATEWAY_TIMEOUT, DeadlineExceeded, "The node gave no answer in time";
}

/// A refusal of a request. It is boxed, because most functions return none.
#[derive(Debug)]
pub(crate) struct Problem(Box<Content>);

#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) kind: Kind,
    pub(crate) detail: String,
    pub(crate) field: Option<String>,
    pub(crate) given: Option<String>,
    pub(crate) limit: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
    pub(crate) account: Option<Account>,
}

impl Content {
    /// The seconds after which a request may pass. A part of a second counts as one, or the client would come too early.
    pub(crate) fn retry_after_s(&self) -> Option<u64> {
        let seconds = |after: Duration| after.as_secs() + u64::from(after.subsec_nanos() > 0);
        self.retry_after.map(|after| seconds(after).max(1))
    }
}

/// The document of a problem.
#[derive(Serialize)]
struct Document<'a> {
    r#type: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    given: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'a str>,
    #[serde(flatten)]
    account: Option<&'a Account>,
}

impl Problem {
    pub(crate) fn new(kind: Kind, detail: impl Into<String>) -> Self {
        Self(Box::new(Content {
            kind,
            detail: detail.into(),
            field: None,
            given: None,
            limit: None,
            retry_after: None,
            headers: Vec::new(),
            account: None,
        }))
    }

    pub(crate) fn about(mut self, field: impl Into<String>) -> Self {
        self.0.field = Some(field.into());
        self
    }

    pub(crate) fn given(mut self, given: impl Into<String>) -> Self {
        self.0.given = Some(given.into());
        self
    }

    #[allow(clippy::needless_pass_by_value, reason = "numbers and texts are given alike")]
    pub(crate) fn limit(mut self, limit: impl ToString) -> Self {
        self.0.limit = Some(limit.to_string());
        self
    }

    pub(crate) fn again_after(mut self, retry_after: Duration) -> Self {
        self.0.retry_after = Some(retry_after);
        self
    }

    pub(crate) fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.0.headers.push((name, value));
        self
    }

    pub(crate) fn connections(limit: usize) -> Self {
        let detail =
            format!("the gateway has {limit} connections; allowed: at most {limit} (connections_max)");
        Self::new(Kind::Connections, detail).limit(limit).again_after(Duration::from_secs(1))
    }

    pub(crate) fn body_too_large(limits: &Limits) -> Self {
        let limit = limits.body_bytes_max;
        let detail =
            format!("the body has more than {limit} bytes; allowed: at most {limit} (body_bytes_max)");
        Self::new(Kind::BodyTooLarge, detail).about("body").limit(limit)
    }

    pub(crate) fn body_timeout(limits: &Limits) -> Self {
        let within = limits.body_within;
        let detail = format!("the body was not complete within {within:?} (body_within)");
        Self::new(Kind::BodyTimeout, detail).about("body").limit(format!("{within:?}"))
    }

    /// The problem of a call that has less than its minimum coverage.
    pub(crate) fn coverage<T>(reply: &Reply<T>, headers: Vec<(HeaderName, HeaderValue)>) -> Self {
        let (contributed, asked) = (reply.contributed.len(), reply.asked.len());
        let detail =
            format!("{contributed} of {asked} partitions contributed, fewer than min_coverage asks for");
        let mut problem = Self::new(Kind::Coverage, detail).about("min_coverage");
        problem.0.headers = headers;
        problem.0.account = Some(Account::of(reply));
        problem
    }

    /// The name of the kind.
    #[cfg(test)]
    pub(crate) fn name(&self) -> &'static str {
        self.0.kind.name()
    }

    #[cfg(feature = "grpc")]
    pub(crate) fn into_content(self) -> Content {
        *self.0
    }

    pub(crate) fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Time after which the request may pass.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        self.0.retry_after
    }

    pub(crate) fn loading() -> Self {
        let detail =
            "the node has started a short while ago, and loads the partitions that are assigned to it";
        Self::new(Kind::Loading, detail).again_after(Duration::from_secs(1))
    }

    pub(crate) fn ending() -> Self {
        let detail = "the gateway is told to end, and takes no new connections soon";
        Self::new(Kind::Ending, detail).again_after(Duration::from_secs(1))
    }

    /// The document on one line.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        let Content { kind, detail, field, given, limit, account, .. } = self.0.as_ref();
        let document = Document {
            r#type: format!("{TYPE_PREFIX}{}", kind.name()),
            title: kind.title(),
            status: kind.status().as_u16(),
            detail,
            field: field.as_deref(),
            given: given.as_deref(),
            limit: limit.as_deref(),
            account: account.as_ref(),
        };
        let mut out = serde_json::to_vec(&document).expect("invariant: problems can be written to a vector");
        out.push(b'\n');
        out
    }
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Self {
        let detail = error.to_string();
        let soon = Duration::from_secs(1);
        match error {
            CallError::BadField { field, given, limit } => {
                Self::new(Kind::BadField, detail).about(field).given(given).limit(limit)
            }
            CallError::UnknownService { service } => {
                Self::new(Kind::UnknownService, detail).about("service").given(service)
            }
            CallError::TooManyCalls { limit } => {
                Self::new(Kind::Busy, format!("{detail} (calls_open_max)")).limit(limit).again_after(soon)
            }
            CallError::TooManyCallsOfClient { limit } => {
                Self::new(Kind::Busy, detail).limit(limit).again_after(soon)
            }
            CallError::ShuttingDown => Self::new(Kind::Ending, detail).again_after(soon),
            CallError::Denied { service, .. } => {
                Self::new(Kind::Denied, detail).about("service").given(service)
            }
            _ => Self::new(Kind::BadField, detail),
        }
    }
}

impl From<StreamError> for Problem {
    fn from(error: StreamError) -> Self {
        let detail = error.to_string();
        let soon = Duration::from_secs(1);
        match error {
            StreamError::BadField { field, given, limit } => {
                Self::new(Kind::BadField, detail).about(field).given(given).limit(limit)
            }
            StreamError::UnknownService { service } => {
                Self::new(Kind::UnknownService, detail).about("service").given(&*service)
            }
            StreamError::Filter { .. } => Self::new(Kind::Filter, detail).about("filter"),
            StreamError::Full { limit } => Self::new(Kind::Busy, detail).limit(limit).again_after(soon),
            StreamError::Denied { service, .. } => {
                Self::new(Kind::Denied, detail).about("service").given(&*service)
            }
            StreamError::Closed | StreamError::FrontLost | StreamError::ShuttingDown => {
                Self::new(Kind::Ending, detail).again_after(soon)
            }
            _ => Self::new(Kind::Internal, detail),
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error {
            Error::Rejected(error) => error.into(),
            Error::UnknownAggregation { ref kind, .. } => {
                let aggregation =
                    kind.split_once('/').map_or(&**kind, |(_, aggregation)| aggregation).to_owned();
                Self::new(Kind::UnknownAggregation, error.to_string()).about("aggregation").given(aggregation)
            }
            Error::InvalidParams { .. } => Self::new(Kind::BadParams, error.to_string()).about("body"),
            Error::Stream(error) => error.into(),
            Error::PacketTooLarge { bytes, bytes_max } => Self::new(Kind::BodyTooLarge, error.to_string())
                .about("send")
                .given(bytes.to_string())
                .limit(bytes_max),
            Error::FrontSilent { .. } => Self::new(Kind::Silent, error.to_string()),
            Error::Closed | Error::Lost | Error::Connect { .. } | Error::NoMembers { .. } => {
                Self::new(Kind::Ending, error.to_string()).again_after(Duration::from_secs(1))
            }
            error => Self::new(Kind::Internal, error.to_string()),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.0.kind.status(), self.to_json()).into_response();
        let retry_after_s = self.0.retry_after_s();
        let Content { kind, headers: more, .. } = *self.0;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(seconds) = retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if kind == Kind::NoToken {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        headers.extend(more);
        response
    }
}
