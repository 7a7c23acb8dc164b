//! The gateway's door: TLS if it has a certificate, counted connections, and problems as refusals.

use crate::door;
use crate::limits::Limits;
use crate::problem::{PROBLEM_JSON, Problem};
use crate::site::Site;
use crate::watched::Watched;
use axum::http::HeaderMap;
use axum::response::Response;
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use treefold_http::{Bounds, Door, Duplex, Http2Bounds, Refusal, Unfit};

#[derive(Clone)]
pub(crate) struct Entrance {
    pub(crate) site: Arc<Site>,
    pub(crate) acceptor: Option<Arc<Watched<TlsAcceptor>>>,
}

impl Door for Entrance {
    fn opened(&self) {
        self.site.metrics.connection_opened();
    }

    fn closed(&self) {
        self.site.metrics.connection_closed();
    }

    async fn secure(&self, stream: TcpStream) -> io::Result<Box<dyn Duplex>> {
        Ok(match &self.acceptor {
            None => Box::new(stream),
            Some(acceptor) => Box::new(acceptor.content().accept(stream).await?),
        })
    }

    fn knows_callers(&self) -> bool {
        self.site.tokens.is_some()
    }

    fn refuse_request(&self, headers: &HeaderMap, unfit: Unfit) -> Response {
        door::refuse_unfit(&self.site, headers, &unfit)
    }

    fn refuse(&self) -> Option<Refusal> {
        self.site.metrics.count_refused_connection();
        // A client that expects TLS could not read it.
        let is_plain = self.acceptor.is_none();
        is_plain.then(|| Refusal {
            content_type: PROBLEM_JSON,
            body: Problem::connections(self.site.limits.connections_max).to_json(),
        })
    }
}

impl Limits {
    pub(crate) fn bounds(&self) -> Bounds {
        Bounds {
            connections_max: self.connections_max,
            head_bytes_max: self.head_bytes_max,
            headers_max: self.headers_max,
            head_within: self.head_within,
            stalled_max: self.stalled_max,
            http2: Some(Http2Bounds { requests_open_max: self.requests_open_max, idle_max: self.idle_max }),
        }
    }
}
