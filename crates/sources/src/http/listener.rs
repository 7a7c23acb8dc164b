//! Serves routes by the listener of `treefold_http`, until the source is stopped.

use super::answer::{Answer, Problem};
use crate::limits::SourceLimits;
use crate::stop::Stop;
use axum::Router;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use std::io;
use tokio::join;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use treefold_http::{Bounds, Door, Duplex, Ending, Refusal, Unfit};

/// Serves connections until the source is stopped and the requests that run are answered. A client that does not take
/// its answer is cut off.
pub async fn serve(listener: TcpListener, routes: Router, limits: &SourceLimits, mut stop: Stop) {
    let door = EventsDoor { connections_max: limits.connections_max };
    let (end, stopped) = oneshot::channel();
    let ending = Ending { stopped, tell: watch::channel(false).0 };
    let serving = treefold_http::serve(listener, "a source", door, limits.bounds(), routes, ending);
    let stopping = async {
        stop.asked().await;
        // The listener runs until this is sent.
        let _ = end.send(limits.acknowledge_within + limits.write_within);
    };
    join!(serving, stopping);
}

/// The door of a source: no encryption, and refusals in the form of the other answers.
#[derive(Clone, Debug)]
struct EventsDoor {
    connections_max: usize,
}

impl Door for EventsDoor {
    async fn secure(&self, stream: TcpStream) -> io::Result<Box<dyn Duplex>> {
        Ok(Box::new(stream))
    }

    fn refuse_request(&self, _: &HeaderMap, unfit: Unfit) -> Response {
        Answer::failed(unfit.into()).into_response()
    }

    fn refuse(&self) -> Option<Refusal> {
        let body = Answer::failed(Problem::Connections(self.connections_max)).to_json();
        Some(Refusal { content_type: "application/json", body })
    }
}

impl SourceLimits {
    fn bounds(&self) -> Bounds {
        Bounds {
            connections_max: self.connections_max,
            head_bytes_max: Self::LINE_BYTES_FREE,
            headers_max: Self::HEADERS_MAX,
            head_within: self.line_within,
            stalled_max: self.write_within,
            http2: None,
        }
    }
}
