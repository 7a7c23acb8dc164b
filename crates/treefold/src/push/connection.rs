//! A worker's connection: finding a node, attaching to it, and the frames between them.

use super::worker::PushError;
use crate::client::client_id;
use crate::transport::{self, GreetError, Greeted, Identity, write_some};
use crate::wire::{Inbox, Incoming, Outbox};
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::lookup_host;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use treefold_core::message::Message;
use treefold_core::push::message::PushMessage;

/// The first pause after no address has taken the worker in.
const PAUSE_LEAST: Duration = Duration::from_millis(50);
/// The longest.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long a node may take to say whether it takes a worker in.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(5);

/// Who a worker is, and where it attaches.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) addrs: Vec<String>,
    pub(super) identity: Identity,
    pub(super) application: Arc<str>,
    pub(super) worker: u32,
}

/// A connection to a node that has taken the worker in.
pub(super) struct Connection {
    read: OwnedReadHalf,
    write: OwnedWriteHalf,
    inbox: Inbox,
    outbox: Outbox,
    is_blocked: bool,
    pub(super) window: u64,
}

/// What came over a connection.
pub(super) enum Came {
    /// A word of the node.
    Word(PushMessage<Bytes>),
    /// All that was to be said is written.
    Written,
    /// The node has thrown the worker out.
    Thrown(Arc<str>),
    /// The connection is over.
    Lost,
}

impl Way {
    /// Attaches to the first address that takes the worker in; tries until there is one, and tells what is wrong.
    pub(super) async fn attach(&mut self, mut tell: impl FnMut(PushError)) -> Connection {
        let mut pause = PAUSE_LEAST;
        loop {
            for given in self.addrs.clone() {
                match self.attach_at(&given).await {
                    Ok(connection) => return connection,
                    Err(error) => tell(error),
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn attach_at(&mut self, given: &str) -> Result<Connection, PushError> {
        let addr = given.to_owned();
        let unreachable =
            |source: io::Error| PushError::Unreachable { addr: addr.clone(), source: source.into() };
        let mut last = unreachable(io::ErrorKind::AddrNotAvailable.into());
        for resolved in lookup_host(given).await.map_err(unreachable)? {
            self.identity.node = client_id();
            last = match transport::dial(resolved, &self.identity).await {
                Ok(greeted) => match self.introduce(greeted).await {
                    Ok(connection) => return Ok(connection),
                    Err(problem) => PushError::Refused { addr: addr.clone(), problem },
                },
                Err(GreetError::Io(source)) => unreachable(source),
                Err(error) => PushError::Refused { addr: addr.clone(), problem: error.to_string().into() },
            };
        }
        Err(last)
    }

    /// Asks a node that has greeted to take the worker in.
    async fn introduce(&self, greeted: Greeted) -> Result<Connection, Arc<str>> {
        let Greeted { read, write, inbox, .. } = greeted;
        let outbox = Outbox::new(self.identity.limits.clone());
        let mut connection = Connection { read, write, inbox, outbox, is_blocked: false, window: 0 };
        let (application, worker) = (Arc::clone(&self.application), self.worker);
        connection
            .say(PushMessage::Attach { application, worker })
            .map_err(|error| Arc::from(error.as_str()))?;
        let answered = async {
            loop {
                match connection.next().await {
                    Came::Word(PushMessage::Attached { result: Ok(window) }) => return Ok(window),
                    Came::Word(_) | Came::Written => {}
                    Came::Thrown(problem) => return Err(problem),
                    Came::Lost => return Err("it closes the connection".into()),
                }
            }
        };
        let silent = || Err("it does not say whether it takes workers in".into());
        let window = tokio::time::timeout(ATTACH_TIMEOUT, answered).await.unwrap_or_else(|_| silent())?;
        connection.window = window;
        Ok(connection)
    }
}

impl Connection {
    /// Has a word sent; what is wrong with it when it can't be.
    pub(super) fn say(&mut self, word: PushMessage<Bytes>) -> Result<(), String> {
        self.outbox.push(&Message::Push(Box::new(word))).map_err(|error| error.to_string())
    }

    /// True when all that was to be said is with the system.
    pub(super) fn has_written(&self) -> bool {
        self.outbox.is_empty()
    }

    /// Writes what the system takes at once of what is still to be said, before the connection is given up.
    pub(super) fn write_rest(&mut self) {
        // Whoever can't be told any more would not hear it in time either.
        let _ = write_some(&self.write, &mut self.outbox);
    }

    /// The next word that comes; meanwhile what is to be said is written. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Came {
        loop {
            match self.inbox.next() {
                Ok(Some(Incoming::Message(Message::Push(word)))) => match *word {
                    PushMessage::Attached { result: Err(problem) } => return Came::Thrown(problem),
                    word => return Came::Word(word),
                },
                // What members tell each other is of no use here.
                Ok(Some(Incoming::Message(_) | Incoming::Hello(_) | Incoming::Launch(_))) => continue,
                Ok(Some(Incoming::Fault(fault))) => {
                    tracing::warn!(%fault, "the node closes a worker's connection");
                    return Came::Lost;
                }
                Ok(None) => {}
                Err(error) if error.is_fatal() => return Came::Lost,
                Err(error) => {
                    tracing::debug!(%error, "a message to a worker was dropped");
                    continue;
                }
            }
            if !self.outbox.is_empty() && !self.is_blocked {
                match write_some(&self.write, &mut self.outbox) {
                    Ok(true) => return Came::Written,
                    Ok(false) => self.is_blocked = true,
                    Err(_) => return Came::Lost,
                }
            }
            let mut room = self.inbox.read_buffer();
            tokio::select! {
                read = self.read.read_buf(&mut room) => {
                    if !matches!(read, Ok(bytes) if bytes > 0) {
                        return Came::Lost;
                    }
                }
                ready = self.write.writable(), if self.is_blocked => {
                    if ready.is_err() {
                        return Came::Lost;
                    }
                    self.is_blocked = false;
                }
            }
        }
    }
}
