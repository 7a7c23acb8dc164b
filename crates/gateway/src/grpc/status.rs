//! A problem as the status of an RPC: the code of its kind, its message, and its fields as details.
//!
//! The details are a `google.rpc.Status` in `grpc-status-details-bin`, with one `treefold.v1.Problem`. The metadata has the
//! name of the kind, and for a call the headers that an answer over HTTP has.

use super::generated as pb;
use crate::problem::{Content, Problem, TYPE_PREFIX};
use axum::http::HeaderMap;
use prost::Message;
use tonic::Status;
use tonic::metadata::{MetadataMap, MetadataValue};

/// The name of the kind.
const PROBLEM: &str = "treefold-problem";
/// Milliseconds after which a client may try again, for clients that retry by themselves.
const PUSHBACK: &str = "grpc-retry-pushback-ms";
const TYPE_URL: &str = "type.googleapis.com/treefold.v1.Problem";
/// Most bytes of the missing partitions in the details. Clients take no more than 8 KiB of metadata.
const MISSING_BYTES_MAX: usize = 2 << 10;
/// Most bytes of a text.
const TEXT_BYTES_MAX: usize = 512;

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, prost::Message)]
struct Details {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, prost::Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

impl From<Problem> for Status {
    fn from(problem: Problem) -> Self {
        let content = problem.into_content();
        let retry_after_s = content.retry_after_s();
        let Content { kind, detail, field, given, limit, headers, account, .. } = content;
        let mut metadata = MetadataMap::from_headers(HeaderMap::from_iter(headers));
        metadata.insert(PROBLEM, MetadataValue::from_static(kind.name()));
        if let Some(seconds) = retry_after_s {
            metadata.insert(PUSHBACK, MetadataValue::from(seconds * 1_000));
        }
        let (account, missing_is_cut) = match account {
            Some(account) => {
                let mut account = pb::Account { tree: None, ..account.into() };
                let is_cut = cut_missing(&mut account.missing);
                (Some(account), is_cut)
            }
            None => (None, false),
        };
        let message = cut(detail);
        let document = pb::Problem {
            r#type: format!("{TYPE_PREFIX}{}", kind.name()),
            title: kind.title().to_owned(),
            detail: message.clone(),
            field,
            given: given.map(cut),
            limit: limit.map(cut),
            retry_after_s: retry_after_s.map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX)),
            account,
            missing_is_cut,
        };
        let any = Any { type_url: TYPE_URL.to_owned(), value: document.encode_to_vec() };
        let details = Details { code: kind.code() as i32, message: message.clone(), details: vec![any] };
        let details = details.encode_to_vec().into();
        Self::with_details_and_metadata(kind.code(), message, details, metadata)
    }
}

/// Keeps the first entries. Returns true if some were left out.
fn cut_missing(missing: &mut Vec<pb::Missing>) -> bool {
    let (mut bytes, asked) = (0, missing.len());
    missing.iter_mut().for_each(|missing| missing.detail = missing.detail.take().map(cut));
    let fits = missing.iter().take_while(|missing| {
        bytes += missing.encoded_len();
        bytes <= MISSING_BYTES_MAX
    });
    let kept = fits.count();
    missing.truncate(kept);
    kept < asked
}

/// Cuts a text between two characters.
fn cut(mut text: String) -> String {
    if text.len() > TEXT_BYTES_MAX {
        let end = text.floor_char_boundary(TEXT_BYTES_MAX);
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::Kind;
    use std::time::Duration;

    fn details_of(status: &Status) -> pb::Problem {
        let details = Details::decode(status.details()).unwrap();
        assert_eq!((details.code, details.message.as_str()), (status.code() as i32, status.message()));
        assert_eq!(details.details[0].type_url, TYPE_URL);
        pb::Problem::decode(details.details[0].value.as_slice()).unwrap()
    }

    #[test]
    fn status_has_the_fields_of_the_problem() {
        let problem = Problem::new(Kind::Rate, "too many").about("requests_per_s").limit(7);
        let status = Status::from(problem.again_after(Duration::from_millis(1_200)));
        assert_eq!((status.code(), status.message()), (tonic::Code::ResourceExhausted, "too many"));
        assert_eq!(status.metadata().get(PROBLEM).unwrap(), "rate");
        assert_eq!(status.metadata().get(PUSHBACK).unwrap(), "2000");
        let details = details_of(&status);
        assert_eq!(details.r#type, "urn:treefold:problem:rate");
        assert_eq!((details.field.as_deref(), details.limit.as_deref()), (Some("requests_per_s"), Some("7")));
        assert_eq!((details.retry_after_s, details.account), (Some(2), None));
    }

    #[test]
    fn long_texts_and_lists_are_cut() {
        let long = "é".repeat(TEXT_BYTES_MAX);
        let status = Status::from(Problem::new(Kind::Internal, long.clone()));
        assert!(status.message().len() <= TEXT_BYTES_MAX + 3 && status.message().ends_with('…'));
        let entry = pb::Missing { detail: Some(long), ..pb::Missing::default() };
        let mut missing = vec![entry; 1_000];
        assert!(cut_missing(&mut missing));
        assert!((1..10).contains(&missing.len()), "{}", missing.len());
        assert!(!cut_missing(&mut missing));
    }
}
