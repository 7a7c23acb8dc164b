//! The door of the readers' listener: no encryption, and refusals in the form of the other errors.

use super::{HttpLimits, answer};
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use std::io;
use tokio::net::TcpStream;
use treefold_http::{Bounds, Door, Duplex, Refusal, Unfit};

#[derive(Clone, Debug)]
pub(super) struct ReadersDoor {
    pub(super) connections_max: usize,
}

impl Door for ReadersDoor {
    async fn secure(&self, stream: TcpStream) -> io::Result<Box<dyn Duplex>> {
        Ok(Box::new(stream))
    }

    fn refuse_request(&self, _: &HeaderMap, unfit: Unfit) -> Response {
        answer::Problem::unfit(&unfit).into_response()
    }

    fn refuse(&self) -> Option<Refusal> {
        let body = answer::Problem::connections(self.connections_max).to_json();
        Some(Refusal { content_type: "application/json", body })
    }
}

impl HttpLimits {
    pub(super) fn bounds(&self) -> Bounds {
        Bounds {
            connections_max: self.connections_max,
            head_bytes_max: self.header_bytes_max,
            headers_max: self.headers_max,
            head_within: self.request_within,
            stalled_max: self.stalled_max,
            http2: None,
        }
    }
}
