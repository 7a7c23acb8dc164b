//! Serves routes on a listener: with limits on connections, on the time of a request's head and of an answer, and until
//! the source is stopped.

use super::timed::Timed;
use crate::limits::SourceLimits;
use crate::stop::Stop;
use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Time after which a listener accepts again when the system has refused.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);
/// The answer to a connection that is one too many.
const TURNED_AWAY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// Serves connections until the source is stopped and the requests that run are answered. A client that does not take
/// its answer is cut off.
pub async fn serve(listener: TcpListener, routes: Router, limits: &SourceLimits, mut stop: Stop) {
    let places = Arc::new(Semaphore::new(limits.connections_max));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.asked() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => continue,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection of a source can't be accepted");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        match Arc::clone(&places).try_acquire_owned() {
            Ok(place) => {
                let serving = serve_one(stream, routes.clone(), limits.clone(), stop.clone());
                connections.spawn(async move {
                    serving.await;
                    drop(place);
                });
            }
            // A new connection has room for a line. If it is gone, nobody waits for the line.
            Err(_) => drop(stream.try_write(TURNED_AWAY)),
        }
    }
    drop(listener);
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
