//! The body of a call, read within its limits: its parameters in one of four forms, or a call document.

use crate::limits::Limits;
use crate::parameters::{DocumentForm, Params};
use crate::problem::{Kind, Problem};
use crate::site::{BODY_PERMIT_BYTES, Site};
use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;
use treefold_forms::value::{check_message_pack, message_pack_of_json};

/// The forms of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// JSON, which travels as MessagePack.
    Json,
    /// MessagePack.
    MessagePack,
    /// Bytes, for aggregations of bytes.
    Bytes,
    /// A stream of Arrow record batches (Arrow IPC), which travels as it is.
    Arrow,
}

impl Form {
    /// The forms, and the media types that name each.
    pub(crate) const ALL: [(Self, &[&str]); 4] = [
        (Self::Json, &["application/json"]),
        (Self::MessagePack, &["application/msgpack", "application/vnd.msgpack", "application/x-msgpack"]),
        (Self::Bytes, &["application/octet-stream"]),
        (Self::Arrow, &["application/vnd.apache.arrow.stream"]),
    ];

    /// The form that a media type names, with or without its parameters.
    pub(crate) fn of_media_type(media_type: &str) -> Option<Self> {
        let name = media_type.split(';').next().unwrap_or_default().trim();
        let is_named = |names: &[&str]| names.iter().any(|known| name.eq_ignore_ascii_case(known));
        Self::ALL.into_iter().find(|(_, names)| is_named(names)).map(|(form, _)| form)
    }

    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::MessagePack => "application/msgpack",
            Self::Bytes => "application/octet-stream",
            Self::Arrow => "application/vnd.apache.arrow.stream",
        }
    }
}

/// The media types that [`Form::of_media_type`] knows, in messages.
pub(crate) const MEDIA_TYPES: &str =
    "application/json, application/msgpack, application/octet-stream, application/vnd.apache.arrow.stream";
/// The media types of bodies with the parameters of single partitions, in messages.
const DOCUMENT_MEDIA_TYPES: &str =
    "application/vnd.treefold.call+json, application/vnd.treefold.call+msgpack";

/// True for the beginning of a stream of Arrow record batches: four bytes of 255, the length of the schema's message in
/// eights of bytes, and that message. The rest is for the operators, which decode it.
pub(crate) fn is_arrow_stream(bytes: &[u8]) -> bool {
    let Some((&[255, 255, 255, 255, length @ ..], rest)) = bytes.split_first_chunk::<8>() else {
        return false;
    };
    let length = u32::from_le_bytes(length) as usize;
    length > 0 && length.is_multiple_of(8) && length <= rest.len()
}

/// Parameters, and the permits for their bytes, which last as long as the call.
pub(crate) struct Parameters {
    pub(crate) params: Params,
    pub(crate) _permits: Option<OwnedSemaphorePermit>,
}

/// Reads the parameters of a call.
pub(crate) async fn read(site: &Site, headers: &HeaderMap, body: Body) -> Result<Parameters, Problem> {
    let within = site.limits.body_within;
    let whole = timeout(within, read_whole(site, headers, body)).await;
    let (bytes, mut permits) = whole.unwrap_or_else(|_| Err(Problem::body_timeout(&site.limits)))?;
    let read = bytes.len();
    let params = if bytes.is_empty() { Params::default() } else { params_of(headers, bytes, &site.limits)? };
    reserve(site, &mut permits, read.saturating_add(params.own_bytes()))?;
    Ok(Parameters { params, _permits: permits })
}

async fn read_whole(
    site: &Site,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Bytes, Option<OwnedSemaphorePermit>), Problem> {
    let bytes_max = site.limits.body_bytes_max;
    let announced =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    // A body that is announced as too large is not read at all.
    if announced.is_some_and(|bytes| bytes > bytes_max as u64) {
        return Err(Problem::body_too_large(&site.limits));
    }
    let (mut read, mut permits, mut stream) = (BytesMut::new(), None, body.into_data_stream());
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| {
            Problem::new(Kind::BadBody, format!("the body broke off: {error}")).about("body")
        })?;
        if read.len() + chunk.len() > bytes_max {
            return Err(Problem::body_too_large(&site.limits));
        }
        read.extend_from_slice(&chunk);
        reserve(site, &mut permits, read.len())?;
    }
    Ok((read.freeze(), permits))
}

/// Reserves room for `bytes` of one body among those of all.
pub(crate) fn reserve(
    site: &Site,
    permits: &mut Option<OwnedSemaphorePermit>,
    bytes: usize,
) -> Result<(), Problem> {
    let held = permits.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
    let more = u32::try_from(bytes.div_ceil(BODY_PERMIT_BYTES).saturating_sub(held)).unwrap_or(u32::MAX);
    if more == 0 {
        return Ok(());
    }
    let Ok(taken) = Arc::clone(&site.bodies).try_acquire_many_owned(more) else {
        let limit = site.limits.bodies_bytes_max;
        let detail = format!(
            "the bodies of all requests have {limit} bytes; allowed: at most {limit} (bodies_bytes_max)"
        );
        return Err(Problem::new(Kind::Busy, detail).limit(limit).again_after(Duration::from_secs(1)));
    };
    match permits {
        Some(permits) => permits.merge(taken),
        None => *permits = Some(taken),
    }
    Ok(())
}

fn params_of(headers: &HeaderMap, bytes: Bytes, limits: &Limits) -> Result<Params, Problem> {
    let given = headers.get(header::CONTENT_TYPE).map(|value| value.to_str().unwrap_or("not a text"));
    if let Some(form) = given.and_then(DocumentForm::of_media_type) {
        return form.read(&bytes, limits);
    }
    let form = given.and_then(Form::of_media_type).ok_or_else(|| {
        let (found, allowed) = (given.unwrap_or("none"), format!("{MEDIA_TYPES}, {DOCUMENT_MEDIA_TYPES}"));
        let detail = format!("the body's content type is {found}; allowed: {allowed}");
        Problem::new(Kind::ContentType, detail).about("content-type").given(found).limit(allowed)
    })?;
    Ok(encoded(form, bytes)?.into())
}

fn encoded(form: Form, bytes: Bytes) -> Result<Bytes, Problem> {
    let refuse = |problem: String| {
        let detail = format!("the body is not {}: {problem}", form.media_type());
        Problem::new(Kind::BadBody, detail).about("body")
    };
    match form {
        Form::Json => message_pack_of_json(&bytes).map_err(refuse),
        Form::MessagePack => match check_message_pack(&bytes) {
            Ok(()) => Ok(bytes),
            Err(problem) => Err(refuse(format!("expected exactly one value: {problem}"))),
        },
        Form::Arrow if !is_arrow_stream(&bytes) => {
            Err(refuse("expected a stream of record batches (Arrow IPC), not a file".to_owned()))
        }
        Form::Bytes | Form::Arrow => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_have_parameters_and_other_names() {
        assert_eq!(Form::of_media_type("Application/JSON; charset=utf-8"), Some(Form::Json));
        assert_eq!(Form::of_media_type("application/x-msgpack"), Some(Form::MessagePack));
        assert_eq!(Form::of_media_type("text/plain"), None);
        for (form, _) in Form::ALL {
            assert_eq!(Form::of_media_type(form.media_type()), Some(form));
            assert!(MEDIA_TYPES.contains(form.media_type()));
        }
        for form in DocumentForm::ALL {
            assert!(DOCUMENT_MEDIA_TYPES.contains(form.media_type()));
        }
    }

    #[test]
    fn arrow_streams_are_known_by_their_beginning() {
        let stream = [&[255; 4][..], &8_u32.to_le_bytes(), &[0; 8]].concat();
        assert!(is_arrow_stream(&stream));
        let nothing_follows = [&[255; 4][..], &[0; 4]].concat();
        for other in [&stream[..15], &stream[..7], &nothing_follows, b"ARROW1\0\0 a file", &[]] {
            assert!(!is_arrow_stream(other), "{other:?}");
        }
    }

    #[test]
    fn json_travels_as_message_pack_and_message_pack_as_it_is() {
        let encode = |form, bytes: &'static [u8]| encoded(form, Bytes::from_static(bytes));
        assert_eq!(encode(Form::Json, b"[7, true]").unwrap(), &[0x92, 7, 0xc3][..]);
        assert_eq!(encode(Form::MessagePack, &[0x92, 7, 0xc3]).unwrap(), &[0x92, 7, 0xc3][..]);
        assert_eq!(encode(Form::Bytes, &[0xc1]).unwrap(), &[0xc1][..]);
        for (form, unsound) in [
            (Form::Json, &b"[7"[..]),
            (Form::Json, b"12345678901234567890123"),
            (Form::Json, b"{\"a\": {\"b\": 1, \"b\": 2}}"),
            (Form::MessagePack, &[7, 8]),
            (Form::MessagePack, &[7, 0xc1]),
            (Form::MessagePack, "日本語".as_bytes()),
            (Form::MessagePack, &[0xc1]),
            (Form::Arrow, &[7]),
        ] {
            let problem = encoded(form, Bytes::from_static(unsound)).unwrap_err();
            assert_eq!(problem.name(), "bad_body", "{unsound:?}");
        }
    }
}
