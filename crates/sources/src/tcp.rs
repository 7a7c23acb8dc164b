//! Events as lines of JSON over TCP. A line is an event, and answers are lines of JSON too.
//!
//! ```text
//! ▶ {"stream":"faa"}                                                  optional: the stream of events that name none
//! ◀ {"acknowledged":{"faa":5012}}
//! ▶ {"number":5013,"key":"DL146","type":"position","fields":{…}}
//! ▶ {"number":5015,"key":"DL146","type":"position","fields":{…}}
//! ◀ {"refused":{"line":3,"events":1,"stream":"faa","number":5015,"problem":"jump","expected":5014,"message":"…"}}
//! ◀ {"acknowledged":{"faa":5013}}
//! ```
//!
//! - An acknowledgement covers all events of a stream up to its number, and there are at most a few hundred a
//!   second, for any number of events.
//! - A refusal does not end the connection. If further events of the stream are refused for the same reason, `events`
//!   counts them.
//! - A busy origin stops reading. A peer that takes no answers stops it too, until `write_within` closes the
//!   connection.
//! - A first line that does not begin with `{` ends the connection: the peer speaks another protocol. So a page in a
//!   browser can't post lines that are events.
//! - When the peer has closed its side, the connection stays until its events are acknowledged.

mod connection;
mod received;
mod replies;

use crate::feeder::Feeder;
use crate::intake::Intake;
use crate::listen::{ListenError, Reach, accept, listen};
use crate::reply::{Fatal, Reply};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// A listener for events as lines of JSON.
#[derive(Debug)]
pub struct TcpSource {
    listener: TcpListener,
}

impl TcpSource {
    /// Listens at an address.
    ///
    /// # Errors
    /// [`ListenError`].
    pub async fn bind(addr: &str, reach: Reach) -> Result<Self, ListenError> {
        Ok(Self { listener: listen(addr, reach).await? })
    }

    /// The address.
    ///
    /// # Errors
    /// If the system does not tell it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves connections until the source is stopped and all its connections are closed.
    pub async fn run<I: Intake>(self, feeder: Feeder<I>) {
        let long_lines = Arc::new(Semaphore::new(feeder.limits.long_lines_max));
        let (stop, limit) = (feeder.stop.clone(), feeder.limits.connections_max);
        let serve = |stream| connection::serve(stream, feeder.clone(), Arc::clone(&long_lines));
        let mut connections =
            accept(self.listener, stop, limit, serve, |stream| turn_away(stream, limit)).await;
        while connections.join_next().await.is_some() {}
    }
}

/// Tells a peer that there are too many connections.
fn turn_away(stream: &TcpStream, limit: usize) {
    let message = format!("too many connections; allowed: {limit}");
    let mut line = Vec::new();
    Reply::Error(Fatal { line: None, problem: "connections", message }).write(&mut line);
    let _ = stream.try_write(&line);
}
