//! Messages without end in an answer: lines of JSON, or server-sent events.
//!
//! ```text
//! {"wave":{"tag":1}}        id: 7
//!                           event: wave
//!                           data: {"tag":1}
//! ```
//!
//! The content of a message is JSON without line breaks, as serde writes it.

use crate::accept::Accepted;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};

/// The header by which a browser says the last event that it has.
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A form of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Lines of JSON.
    Lines,
    /// Server-sent events.
    Sent,
}

impl Framing {
    /// The form that a request prefers: server-sent events if it accepts them by name, else lines.
    pub fn of(headers: &HeaderMap) -> Self {
        let forms = [(Self::Lines, &["application/x-ndjson"][..]), (Self::Sent, &["text/event-stream"][..])];
        // A request that accepts neither gets lines, which every program can skip.
        Accepted::of(headers).and_then(|accepted| accepted.best(&forms)).unwrap_or(Self::Lines)
    }

    /// The headers of an answer: its content type, and the wish that neither caches nor proxies hold messages back.
    pub fn headers(self) -> [(HeaderName, HeaderValue); 4] {
        let kind = match self {
            Self::Lines => "application/x-ndjson",
            Self::Sent => "text/event-stream",
        };
        [
            (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
            (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
            (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
            (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
        ]
    }

    /// Appends the beginning of a message with a name. Its id is written in server-sent events only.
    pub fn open(self, name: &str, id: Option<&str>, out: &mut Vec<u8>) {
        match self {
            Self::Sent => {
                if let Some(id) = id {
                    out.extend_from_slice(b"id: ");
                    out.extend_from_slice(id.as_bytes());
                    out.push(b'\n');
                }
                out.extend_from_slice(b"event: ");
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b"\ndata: ");
            }
            Self::Lines => {
                out.extend_from_slice(b"{\"");
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b"\":");
            }
        }
    }

    /// A sign of life, which readers skip: a comment, or an empty message.
    pub fn alive(self) -> &'static [u8] {
        match self {
            Self::Lines => b"{\"alive\":{}}\n",
            Self::Sent => b": alive\n\n",
        }
    }

    /// Appends the end of a message.
    pub fn close(self, out: &mut Vec<u8>) {
        let end: &[u8] = if self == Self::Sent { b"\n\n" } else { b"}\n" };
        out.extend_from_slice(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn form_follows_the_accept_header() {
        let accepts = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, HeaderValue::from_static(value));
            Framing::of(&headers)
        };
        assert_eq!(accepts("text/event-stream"), Framing::Sent);
        assert_eq!(accepts("text/html, Text/Event-Stream;q=0.9"), Framing::Sent);
        for lines in ["text/event-stream;q=0", "text/event-stream;q=0, */*", "text/html"] {
            assert_eq!(accepts(lines), Framing::Lines, "{lines}");
        }
        let both = "text/event-stream;q=0.5, application/x-ndjson;q=0.6";
        assert_eq!([accepts(both), accepts("text/event-stream, */*")], [Framing::Lines, Framing::Sent]);
        assert_eq!([accepts("*/*"), accepts("application/x-ndjson")], [Framing::Lines; 2]);
    }
}
