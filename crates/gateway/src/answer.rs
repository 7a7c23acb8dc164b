//! The answers of calls and of questions about the node, in the form that the request accepts.

use crate::body::{Form, MEDIA_TYPES, is_arrow_stream};
use crate::problem::{Kind, Problem};
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use treefold::{PartitionSet, Raw, Reply};
use treefold_forms::json::Answer;
use treefold_http::accept::Accepted;

/// The verdict of a call: `full`, `partial` or `insufficient`.
const STATUS: HeaderName = HeaderName::from_static("treefold-status");
/// Contributed and asked partitions of a call, as in `12/16`.
const COVERAGE: HeaderName = HeaderName::from_static("treefold-coverage");
/// Missing partitions of a call, as in `8-11`.
const MISSING: HeaderName = HeaderName::from_static("treefold-missing");
/// The number under which the tree of a call is kept.
pub(crate) const CALL: HeaderName = HeaderName::from_static("treefold-call");
/// Most bytes of the list of missing partitions in a header. The body has them all.
const MISSING_BYTES_MAX: usize = 1_024;
/// The end of a list that was cut.
const CUT: &str = ",...";

/// The form that the request accepts. A request without `Accept` accepts JSON.
pub(crate) fn form_of(headers: &HeaderMap) -> Result<Form, Problem> {
    let Some(accepted) = Accepted::of(headers) else { return Ok(Form::Json) };
    accepted.best(&Form::ALL).ok_or_else(|| {
        let given = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let given = given.collect::<Vec<_>>().join(", ");
        let detail = format!("the request accepts {given}; there are {MEDIA_TYPES}");
        Problem::new(Kind::NotAcceptable, detail).about("accept").given(given).limit(MEDIA_TYPES)
    })
}

/// The answer of a call that has a value.
pub(crate) fn of(reply: &Reply<Raw>, form: Form) -> Result<Response, Problem> {
    let value = || reply.value.as_ref().map_or_else(Bytes::new, |raw| raw.0.clone());
    let body = match form {
        Form::Json => Body::from(json_of(&Answer::of_raw(reply))),
        Form::MessagePack => rmp_serde::to_vec_named(&Answer::of_raw_exactly(reply))
            .expect("invariant: answers can be written to a vector")
            .into(),
        Form::Bytes => value().into(),
        Form::Arrow if is_arrow_stream(&value()) => value().into(),
        Form::Arrow => {
            let detail =
                "the value of this aggregation is no stream of Arrow record batches; accept another form";
            return Err(Problem::new(Kind::NotAcceptable, detail).about("accept").given(form.media_type()));
        }
    };
    let mut response = (StatusCode::OK, body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(form.media_type()));
    headers.extend(headers_of(reply));
    Ok(response)
}

/// The accounts of a call, as headers.
pub(crate) fn headers_of<T>(reply: &Reply<T>) -> Vec<(HeaderName, HeaderValue)> {
    let coverage = format!("{}/{}", reply.contributed.len(), reply.asked.len());
    let mut headers = vec![(STATUS, HeaderValue::from_static(reply.status.name()))];
    let missing = reply.asked.difference(&reply.contributed);
    let texts = [(COVERAGE, Some(coverage)), (MISSING, (!missing.is_empty()).then(|| listed(&missing)))];
    for (name, text) in texts {
        if let Some(text) = text {
            let value = HeaderValue::try_from(text).expect("invariant: digits and commas make a header");
            headers.push((name, value));
        }
    }
    headers
}

/// Partitions as a list, cut at a comma if it is long.
fn listed(partitions: &PartitionSet) -> String {
    let mut text = partitions.to_string();
    if text.len() > MISSING_BYTES_MAX {
        let end = text[..MISSING_BYTES_MAX - CUT.len()].rfind(',').unwrap_or(0);
        text.truncate(end);
        text.push_str(CUT);
    }
    text
}

/// An answer in JSON.
pub(crate) fn json(status: StatusCode, content: &impl Serialize) -> Response {
    (status, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], json_of(content))
        .into_response()
}

fn json_of(content: &impl Serialize) -> Vec<u8> {
    let mut out = serde_json::to_vec(content).expect("invariant: answers can be written to a vector");
    out.push(b'\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(texts: &[&'static str]) -> Option<Form> {
        let mut headers = HeaderMap::new();
        for text in texts {
            headers.append(header::ACCEPT, HeaderValue::from_static(text));
        }
        form_of(&headers).ok()
    }

    #[test]
    fn form_follows_the_header_accept() {
        assert_eq!(accepted(&[]), Some(Form::Json));
        assert_eq!(accepted(&["*/*"]), Some(Form::Json));
        assert_eq!(accepted(&["text/html, application/msgpack"]), Some(Form::MessagePack));
        assert_eq!(accepted(&["application/json;q=0.5", "application/octet-stream"]), Some(Form::Bytes));
        assert_eq!(accepted(&["application/msgpack; q=0, */*; q=0.1"]), Some(Form::Json));
        assert_eq!(accepted(&["application/json; q=0, */*"]), Some(Form::MessagePack));
        assert_eq!(accepted(&["*/*;q=0.8", "application/x-msgpack"]), Some(Form::MessagePack));
        assert_eq!(accepted(&["application/vnd.apache.arrow.stream"]), Some(Form::Arrow));
        assert_eq!(accepted(&["text/html"]), None);
        assert_eq!(accepted(&["application/json;q=0"]), None);
    }

    #[test]
    fn long_lists_are_cut_at_a_comma() {
        let scattered: PartitionSet = (0..10_000).step_by(2).collect();
        let text = listed(&scattered);
        assert!(text.len() <= MISSING_BYTES_MAX && text.ends_with(CUT), "{text}");
        assert!(text.trim_end_matches(CUT).split(',').all(|id| id.parse::<u32>().is_ok()), "{text}");
        assert_eq!(listed(&PartitionSet::first(3)), "0-2");
    }
}
