//! A worker's connection: finds a node, attaches to it, and carries frames between them.

use super::worker::PushError;
use crate::channel::{ReadEnd, WriteEnd};
use crate::client::client_id;
use crate::discovery::lookup;
use crate::transport::{self, GreetError, Greeted, Identity};
use crate::wire::{Inbox, Incoming, Outbox};
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use treefold_core::message::Message;
use treefold_core::push::message::PushMessage;

/// First pause after a round in which no address took the worker in.
const PAUSE_LEAST: Duration = Duration::from_millis(50);
/// Longest pause between two rounds.
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long a node may take to take a worker in, in the first round. A node that says nothing must not keep the worker for as
/// long as a master waits for one that is attached nowhere.
const ATTACH_TIMEOUT_LEAST: Duration = Duration::from_millis(500);
/// How long in later rounds: twice as long in each, up to this.
const ATTACH_TIMEOUT_MAX: Duration = Duration::from_secs(5);

/// A worker's identity, and the addresses where it attaches.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) addrs: Vec<String>,
    pub(super) identity: Identity,
    pub(super) application: Arc<str>,
    pub(super) worker: u32,
}

/// A connection to a node that has taken the worker in.
pub(super) struct Connection {
    read: ReadEnd,
    write: WriteEnd,
    inbox: Inbox,
    outbox: Outbox,
    /// True while the socket accepts no more.
    is_blocked: bool,
    /// False while encrypted bytes wait for the socket.
    is_flushed: bool,
    pub(super) window: u64,
}

/// An event on a connection.
pub(super) enum Came {
    /// The node sent a message.
    Word(PushMessage<Bytes>),
    /// All queued messages are written.
    Written,
    /// The node has thrown the worker out, with this reason.
    Thrown(Arc<str>),
    /// The connection is over.
    Lost,
}

impl Way {
    /// Attaches to the first address that takes the worker in. Tries until one does, and passes each error
    /// to `tell`.
    pub(super) async fn attach(&mut self, mut tell: impl FnMut(PushError)) -> Connection {
        let (mut pause, mut limit) = (PAUSE_LEAST, ATTACH_TIMEOUT_LEAST);
        loop {
            for given in self.addrs.clone() {
                match tokio::time::timeout(limit, self.attach_at(&given)).await {
                    Ok(Ok(connection)) => return connection,
                    Ok(Err(error)) => tell(error),
                    Err(_) => {
                        let source = io::Error::new(io::ErrorKind::TimedOut, "it did not answer in time");
                        tell(PushError::Unreachable { addr: given, source: source.into() });
                    }
                }
            }
            tokio::time::sleep(pause).await;
            (pause, limit) = ((pause * 2).min(PAUSE_MAX), (limit * 2).min(ATTACH_TIMEOUT_MAX));
        }
    }

    /// The message by which the worker asks to be taken in, and later whether its node lives.
    pub(super) fn introduction(&self) -> PushMessage<Bytes> {
        PushMessage::Attach { application: Arc::clone(&self.application), worker: self.worker }
    }

    async fn attach_at(&mut self, given: &str) -> Result<Connection, PushError> {
        let addr = given.to_owned();
        let unreachable =
            |source: io::Error| PushError::Unreachable { addr: addr.clone(), source: source.into() };
        let mut last = unreachable(io::ErrorKind::AddrNotAvailable.into());
        let found = lookup(given).await;
        if let Some(problem) = found.problem {
            last = unreachable(problem);
        }
        for resolved in found.addrs {
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

    /// Asks a node that has completed the handshake to take the worker in.
    async fn introduce(&self, greeted: Greeted) -> Result<Connection, Arc<str>> {
        let Greeted { read, write, inbox, .. } = greeted;
        let outbox = Outbox::new(self.identity.limits.clone());
        let mut connection =
            Connection { read, write, inbox, outbox, is_blocked: false, is_flushed: true, window: 0 };
        connection.say(self.introduction()).map_err(|error| Arc::from(error.as_str()))?;
        loop {
            match connection.next().await {
                Came::Word(PushMessage::Attached { result: Ok(window) }) => {
                    connection.window = window;
                    return Ok(connection);
                }
                Came::Word(_) | Came::Written => {}
                Came::Thrown(problem) => return Err(problem),
                Came::Lost => return Err("it closed the connection".into()),
            }
        }
    }
}

impl Connection {
    /// Queues a message. If it cannot be encoded, returns the reason.
    pub(super) fn say(&mut self, word: PushMessage<Bytes>) -> Result<(), String> {
        self.outbox.push(&Message::Push(Box::new(word))).map_err(|error| error.to_string())
    }

    /// Returns true if all queued messages are written to the socket.
    pub(super) fn has_written(&self) -> bool {
        self.outbox.is_empty() && self.is_flushed
    }

    /// Before the connection is dropped, writes as many queued messages as the socket accepts at once.
    pub(super) fn write_rest(&mut self) {
        // If the socket accepts no more, or fails, the rest could not be delivered in time either.
        let _ = self.write.write_some(&mut self.outbox);
    }

    /// Waits for the next event, and writes queued messages in the meantime. Cancel safe.
    pub(super) async fn next(&mut self) -> Came {
        loop {
            match self.inbox.next() {
                Ok(Some(Incoming::Message(Message::Push(word)))) => match *word {
                    PushMessage::Attached { result: Err(problem) } => return Came::Thrown(problem),
                    word => return Came::Word(word),
                },
                // Other messages between members are ignored here.
                Ok(Some(
                    Incoming::Message(_)
                    | Incoming::Hello(_)
                    | Incoming::Launch(_)
                    | Incoming::Keys(_)
                    | Incoming::Renewal(_),
                )) => continue,
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
            if !self.has_written() && !self.is_blocked {
                match self.write.write_some(&mut self.outbox) {
                    Ok(is_all) => (self.is_flushed, self.is_blocked) = (is_all, !is_all),
                    Err(_) => return Came::Lost,
                }
                if self.is_flushed {
                    return Came::Written;
                }
            }
            tokio::select! {
                read = self.read.read_into(&mut self.inbox) => {
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
