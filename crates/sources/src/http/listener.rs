//! Serves routes on a listener: with limits on connections, on the time of a request's head and of an answer, and until
//! the source is stopped.

use super::timed::Timed;
use crate::limits::SourceLimits;
use crate::listen::accept;
use crate::stop::Stop;
use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// The answer to a connection that is one too many.
const TURNED_AWAY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Serves connections until the source is stopped and the requests that run are answered. A client that does not take
/// its answer is cut off.
pub async fn serve(listener: TcpListener, routes: Router, limits: &SourceLimits, stop: Stop) {
    let serve = |stream| serve_one(stream, routes.clone(), limits.clone(), stop.clone());
    let turn_away = |stream: &TcpStream| drop(stream.try_write(TURNED_AWAY));
    let mut connections = accept(listener, stop.clone(), limits.connections_max, serve, turn_away).await;
    let all = async { while connections.join_next().await.is_some() {} };
    // Dropping the others closes them.
    let _ = timeout(limits.acknowledge_within + limits.write_within, all).await;
}

async fn serve_one(stream: TcpStream, routes: Router, limits: SourceLimits, mut stop: Stop) {
    // Without it, answers are only later.
    let _ = stream.set_nodelay(true);
    let mut server = hyper::server::conn::http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(limits.line_within)
        .max_headers(SourceLimits::HEADERS_MAX)
        .max_buf_size(SourceLimits::LINE_BYTES_FREE);
    let io = Timed::new(TokioIo::new(stream), limits.write_within);
    let connection = server.serve_connection(io, TowerToHyperService::new(routes));
    tokio::pin!(connection);
    let mut is_stopping = false;
    let ended = loop {
        tokio::select! {
            ended = connection.as_mut() => break ended,
            () = stop.asked(), if !is_stopping => {
                is_stopping = true;
                connection.as_mut().graceful_shutdown();
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection of a source has ended early");
    }
}
