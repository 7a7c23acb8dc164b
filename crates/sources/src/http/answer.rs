//! Answers to requests, as JSON.

use crate::feeder::HandError;
use crate::limits::SourceLimits;
use crate::reply::{Fatal, Numbers, Refusals};
use axum::body::Body;
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use std::time::Duration;
use treefold_http::Unfit;

/// Seconds after which a client should try again.
const RETRY_AFTER_SECONDS: u32 = 1;

/// The answer to a request with events.
#[derive(Debug, Default, Serialize)]
pub(super) struct Answer {
    /// Events that the origin took.
    pub(super) accepted: u64,
    /// Events that the origin had already.
    pub(super) repeated: u64,
    /// Events that the origin refused, and lines that are no events.
    pub(super) refused: u64,
    /// Acknowledged numbers of the streams of the request.
    pub(super) acknowledged: Numbers,
    /// The first refusals.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) refusals: Vec<Refusals>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Fatal>,
    #[serde(skip)]
    problem: Option<Problem>,
    /// True if the request does not wait for acknowledgements.
    #[serde(skip)]
    is_early: bool,
}

/// The reason why a request was not carried out to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("no feed `{given}` here; expected `{known}`")]
    UnknownFeed { given: String, known: String },
    #[error("pages in a browser can't feed events; found the header Origin or Sec-Fetch-Site")]
    Page,
    #[error(transparent)]
    Unfit(#[from] Unfit),
    #[error("too many connections; allowed: {0}")]
    Connections(usize),
    #[error("{0}")]
    NoEvents(String),
    #[error("{0}")]
    TooLong(String),
    #[error("no byte of the body came within {0:?}")]
    Slow(Duration),
    #[error("the line had no end within {0:?}")]
    SlowLine(Duration),
    #[error("the body had no end within {0:?}")]
    SlowBody(Duration),
    #[error("the origin is busy")]
    Busy,
    #[error("too many requests; allowed: {0}")]
    Requests(usize),
    #[error("the origin has ended")]
    Ended,
    #[error("the source stops")]
    Stopping,
    #[error("not all events are acknowledged within {0:?}; the origin has them")]
    NotAcknowledged(Duration),
}

impl Problem {
    fn word(&self) -> (&'static str, StatusCode) {
        match self {
            Self::UnknownFeed { .. } => ("feed", StatusCode::NOT_FOUND),
            Self::Page => ("page", StatusCode::FORBIDDEN),
            Self::Unfit(unfit) => (unfit.field(), unfit.status()),
            Self::Connections(_) => ("connections", StatusCode::SERVICE_UNAVAILABLE),
            Self::NoEvents(_) => ("syntax", StatusCode::BAD_REQUEST),
            Self::TooLong(_) => ("length", StatusCode::PAYLOAD_TOO_LARGE),
            Self::Slow(_) | Self::SlowLine(_) | Self::SlowBody(_) => ("slow", StatusCode::REQUEST_TIMEOUT),
            Self::Busy => ("busy", StatusCode::TOO_MANY_REQUESTS),
            Self::Requests(_) => ("requests", StatusCode::TOO_MANY_REQUESTS),
            Self::Ended => ("ended", StatusCode::SERVICE_UNAVAILABLE),
            Self::Stopping => ("stopping", StatusCode::SERVICE_UNAVAILABLE),
            Self::NotAcknowledged(_) => ("not_acknowledged", StatusCode::SERVICE_UNAVAILABLE),
        }
    }
}

impl From<HandError> for Problem {
    fn from(error: HandError) -> Self {
        match error {
            HandError::Busy => Self::Busy,
            HandError::Ended => Self::Ended,
        }
    }
}

impl Answer {
    /// The answer to a request, which may wait for acknowledgements.
    pub(super) fn new(waits: bool) -> Self {
        Self { is_early: !waits, ..Self::default() }
    }

    /// The answer to a request of which nothing was read.
    pub(super) fn failed(problem: Problem) -> Self {
        let mut answer = Self::default();
        answer.fail(None, problem);
        answer
    }

    /// Notes that the request ends here, at this line of its body.
    pub(super) fn fail(&mut self, line: Option<u64>, problem: Problem) {
        let fatal = Fatal { line, problem: problem.word().0, message: problem.to_string() };
        self.error = Some(fatal);
        self.problem = Some(problem);
    }

    /// True if the request was not carried out to its end.
    pub(super) fn has_failed(&self) -> bool {
        self.problem.is_some()
    }

    /// The body of the answer.
    pub(super) fn to_json(&self) -> Vec<u8> {
        line_of(self)
    }

    /// Lists a refusal. The list keeps those of the first lines.
    pub(super) fn list(&mut self, refusal: Refusals) {
        if !self.refusals.iter_mut().any(|known| known.merge(&refusal)) {
            let place = self.refusals.partition_point(|known| known.line <= refusal.line);
            self.refusals.insert(place, refusal);
            self.refusals.truncate(SourceLimits::REFUSALS_LISTED_MAX);
        }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let status = match &self.problem {
            Some(problem) => problem.word().1,
            None if self.refused > 0 => StatusCode::MULTI_STATUS,
            None if self.is_early => StatusCode::ACCEPTED,
            None => StatusCode::OK,
        };
        let mut response = json(status, &self);
        if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
            response.headers_mut().insert(header::RETRY_AFTER, RETRY_AFTER_SECONDS.into());
        }
        response
    }
}

/// A line of JSON.
fn line_of(value: &impl Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec(value).expect("invariant: answers have string keys");
    text.push(b'\n');
    text
}

/// A response with a line of JSON.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let text = line_of(value);
    let kind: (HeaderName, &str) = (header::CONTENT_TYPE, "application/json");
    (status, [kind], Body::from(text)).into_response()
}
