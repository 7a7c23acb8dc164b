//! A connection before its first message: sockets and the greeting.
//!
//! Both sides greet. The side that dialled sends its greeting first. The listening side answers with its own
//! greeting, or with a fault and nothing more. Neither side writes anything else before it has read the
//! other's greeting. The name in the greeting tells which life of the process answers at that address, and
//! messages for a dead process must not reach its successor.
//!
//! In a cluster with a token, a TLS session comes before the greetings, and everything goes through it
//! ([`session`](crate::session)).
//!
//! Nodes and clients share this file. They differ in how they use a connection afterwards.

use crate::channel::{ReadEnd, WriteEnd, encrypt, split};
use crate::options::ClusterOptions;
use crate::session::Sessions;
use crate::wire::blocks::Blocks;
use crate::wire::{Fault, FaultCode, Hello, Inbox, Incoming, Outbox, Side, Token, WireError};
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use treefold_core::id::NodeId;
use treefold_core::limits::Limits;

/// Time limit for a dial, greeting included.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time limit for the greeting of a process that connects here.
pub(crate) const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes read and dropped so that a final fault arrives before the connection is reset.
const FAREWELL_BYTES_MAX: usize = 1 << 20;
/// Time limit for reading these bytes.
const FAREWELL_TIMEOUT: Duration = Duration::from_millis(500);

/// This process's identity for its peers, and the limits of its connections.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) node: NodeId,
    pub(crate) cluster: String,
    pub(crate) token: Option<Token>,
    pub(crate) limits: Limits,
    /// See [`Hello::by_launcher`].
    pub(crate) by_launcher: bool,
    /// The shared memory blocks of large payloads.
    pub(crate) blocks: Blocks,
}

impl Identity {
    /// The identity of `node` in a cluster; `by_launcher` is true if a launcher keeps its network.
    pub(crate) fn new(node: NodeId, cluster: ClusterOptions, by_launcher: bool) -> Self {
        let ClusterOptions { name, token, insecure: _, limits } = cluster;
        Self { node, cluster: name, token, limits, by_launcher, blocks: Blocks::default() }
    }
}

/// A connection that is ready for messages.
pub(crate) struct Greeted {
    pub(crate) peer: NodeId,
    /// See [`Hello::by_launcher`]. Of the listening side, for the side that dialled.
    pub(crate) by_launcher: bool,
    pub(crate) read: ReadEnd,
    pub(crate) write: WriteEnd,
    /// May contain frames that arrived directly after the greeting.
    pub(crate) inbox: Inbox,
}

/// Why a connection did not reach its first message. The connection is closed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GreetError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("the other side reports: {0}")]
    Fault(Fault),
    #[error("the TLS session failed: {0}")]
    Tls(#[from] rustls::Error),
    #[error("the other side does not encrypt the connection; it has no token, and this cluster has one")]
    Plain,
    #[error("the other side encrypts the connection; it has a token, and this side has none")]
    Encrypted,
    #[error("the process at that address greets with this process's own name; check the address")]
    Echo,
    #[error("the limit of {limit} connections is reached ({name})")]
    Full { name: &'static str, limit: usize },
}

impl Identity {
    /// Checks that this process may talk to the sender of `hello`, on the side `from`. A sender without the token learns
    /// nothing else.
    fn check(&self, hello: &Hello, from: Side, session: &[u8]) -> Result<(), WireError> {
        hello.check_seal(self.token.as_ref(), from, session)?;
        Hello::new(self.cluster.as_str(), self.node).agree(hello).map(drop)
    }

    async fn greet(&self, write: &WriteEnd, side: Side, session: &[u8]) -> Result<(), GreetError> {
        let mut outbox = Outbox::new(self.limits.clone());
        let mut hello = Hello::new(self.cluster.as_str(), self.node);
        hello.by_launcher = self.by_launcher;
        outbox.push_hello(&hello.sealed(self.token.as_ref(), side, session))?;
        Ok(write.write_all(&mut outbox).await?)
    }

    /// Encrypts a connection if the cluster has a token. Returns the session's secret, which is empty without one.
    async fn begin_session(
        &self,
        read: &mut ReadEnd,
        write: &mut WriteEnd,
        side: Side,
    ) -> Result<Vec<u8>, GreetError> {
        let has_token = self.token.is_some();
        if side == Side::Listens && read.begins_with_tls().await? != has_token {
            return Err(if has_token { GreetError::Plain } else { GreetError::Encrypted });
        }
        if !has_token {
            return Ok(Vec::new());
        }
        let sessions = Sessions::of_tokens()?;
        let session = match side {
            Side::Dials => sessions.dial()?,
            Side::Listens => sessions.listen()?,
        };
        let secret = encrypt(read, write, session).await?;
        secret.map(Vec::from).map_err(|error| match error {
            // The other side's first bytes are no TLS if it does not encrypt.
            rustls::Error::InvalidMessage(_) if side == Side::Dials => GreetError::Plain,
            error => error.into(),
        })
    }
}

/// Dials an address and greets.
pub(crate) async fn dial(addr: SocketAddr, identity: &Identity) -> Result<Greeted, GreetError> {
    let greet = async {
        let (mut read, mut write) = split(TcpStream::connect(addr).await?)?;
        let session = identity.begin_session(&mut read, &mut write, Side::Dials).await?;
        identity.greet(&write, Side::Dials, &session).await?;
        let mut inbox = Inbox::with_blocks(identity.limits.clone(), identity.blocks.clone());
        let hello = read_hello(&mut read, &mut inbox).await?;
        identity.check(&hello, Side::Listens, &session)?;
        if hello.node == identity.node {
            return Err(GreetError::Echo);
        }
        Ok(Greeted { peer: hello.node, by_launcher: hello.by_launcher, read, write, inbox })
    };
    within(CONNECT_TIMEOUT, greet).await
}

/// Reads the greeting of a process that has connected here, and answers it. Calls `admit` once the sender
/// is known.
pub(crate) async fn welcome(
    stream: TcpStream,
    identity: &Identity,
    admit: impl Fn(NodeId) -> Result<(), GreetError>,
) -> Result<Greeted, GreetError> {
    let (mut read, mut write) = split(stream)?;
    let mut inbox = Inbox::with_blocks(identity.limits.clone(), identity.blocks.clone());
    let greet = async {
        let session = identity.begin_session(&mut read, &mut write, Side::Listens).await?;
        let hello = read_hello(&mut read, &mut inbox).await?;
        identity.check(&hello, Side::Dials, &session)?;
        admit(hello.node)?;
        identity.greet(&write, Side::Listens, &session).await?;
        Ok((hello.node, hello.by_launcher))
    };
    match within(HELLO_TIMEOUT, greet).await {
        Ok((peer, by_launcher)) => Ok(Greeted { peer, by_launcher, read, write, inbox }),
        Err(error) => {
            if let Some(fault) = error.as_fault() {
                say_farewell(read, &write, &fault, identity).await;
            }
            Err(error)
        }
    }
}

impl GreetError {
    /// The fault to send to the other side; `None` if it is gone or has sent a fault itself.
    pub(crate) fn as_fault(&self) -> Option<Fault> {
        match self {
            Self::Io(_) | Self::Fault(_) | Self::Echo | Self::Tls(_) => None,
            Self::Plain | Self::Encrypted => Some(Fault::new(FaultCode::Encryption)),
            Self::Wire(error) => Some(error.into()),
            &Self::Full { name, limit } => Some(Fault {
                limit: limit as u64,
                field: name.to_string(),
                ..Fault::new(FaultCode::TooManyPeers)
            }),
        }
    }
}

/// Sends the reason for closing a connection, and gives the other side time to read it. Closing with unread
/// bytes resets the connection, and the reset could overtake the fault.
pub(crate) async fn say_farewell(read: ReadEnd, write: &WriteEnd, fault: &Fault, identity: &Identity) {
    let mut outbox = Outbox::new(identity.limits.clone());
    if outbox.push_fault(fault).is_err() {
        return;
    }
    let farewell = async {
        write.write_all(&mut outbox).await?;
        write.end()?;
        read.drain(FAREWELL_BYTES_MAX).await
    };
    // If the other side does not read the fault, the result is the same as that of a plain close.
    let _ = timeout(FAREWELL_TIMEOUT, farewell).await;
}

/// Sends the reason for closing a connection that another task reads. The connection must stay open until this returns.
pub(crate) async fn say_last(write: &WriteEnd, fault: &Fault, identity: &Identity) {
    let mut outbox = Outbox::new(identity.limits.clone());
    if outbox.push_fault(fault).is_err() {
        return;
    }
    let farewell = async {
        write.write_all(&mut outbox).await?;
        write.end()
    };
    if timeout(FAREWELL_TIMEOUT, farewell).await.is_ok_and(|said| said.is_ok()) {
        // Unread bytes would reset the connection at its close, and the reset could overtake the fault.
        tokio::time::sleep(FAREWELL_TIMEOUT).await;
    }
}

async fn read_hello(read: &mut ReadEnd, inbox: &mut Inbox) -> Result<Hello, GreetError> {
    loop {
        match inbox.next()? {
            Some(Incoming::Hello(hello)) => return Ok(hello),
            Some(Incoming::Fault(fault)) => return Err(GreetError::Fault(fault)),
            // The inbox accepts no other first frame. This arm only makes the match complete.
            Some(Incoming::Message(_) | Incoming::Launch(_) | Incoming::Keys(_)) => {
                return Err(WireError::OutOfTurn { kind: 0 }.into());
            }
            None => {}
        }
        if read.read_into(inbox).await? == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
    }
}

async fn within<T>(
    time: Duration,
    greet: impl Future<Output = Result<T, GreetError>>,
) -> Result<T, GreetError> {
    timeout(time, greet).await.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use tokio::net::TcpListener;
    use treefold_core::message::Message;
    use treefold_core::partitions::PartitionSet;
    use treefold_core::stream::StreamId;
    use treefold_core::stream::message::{StreamMessage, StreamUp};

    const STREAM: StreamId = StreamId { origin: 7, sequence: 1 };
    /// More bytes than the system buffers for a connection that is not read.
    const PAYLOAD_BYTES: usize = 48 << 20;

    fn identity(addr: SocketAddr, generation: u64) -> Identity {
        let node = NodeId::new(addr, generation);
        let (limits, blocks) = (Limits::DEFAULT, Blocks::default());
        Identity { node, cluster: "test".to_string(), token: None, limits, by_launcher: false, blocks }
    }

    fn packet_up() -> Message<Bytes> {
        Message::Stream(Box::new(StreamMessage::Up(StreamUp {
            stream: STREAM,
            lane: 0,
            tag: 1,
            serial: 0,
            payload: Some(vec![1; PAYLOAD_BYTES].into()),
            more: false,
            urgent: false,
            contributors: PartitionSet::first(1),
            missing: Vec::new(),
            holds_from: None,
        })))
    }

    type Met = (Result<Greeted, GreetError>, Result<Greeted, GreetError>);

    /// A side that dials and a side that listens, with their tokens.
    async fn meet(dials: Option<&str>, listens: Option<&str>) -> Met {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has free ports");
        let addr = listener.local_addr().expect("the listener is bound");
        let (mut dialler, mut host) = (identity(SocketAddr::from(([127, 0, 0, 1], 1)), 1), identity(addr, 2));
        (dialler.token, host.token) = (dials.and_then(Token::new), listens.and_then(Token::new));
        let accept = async {
            let (stream, _) = listener.accept().await.expect("the other side dials");
            welcome(stream, &host, |_| Ok(())).await
        };
        tokio::join!(dial(addr, &dialler), accept)
    }

    #[tokio::test]
    async fn a_beat_overtakes_a_payload_of_its_stream() {
        a_beat_overtakes(None).await;
    }

    #[tokio::test]
    async fn a_beat_overtakes_a_payload_of_its_stream_in_a_session() {
        a_beat_overtakes(Some("secret")).await;
    }

    #[tokio::test]
    async fn two_sides_meet_with_the_same_token_only() {
        let code = |side: Result<Greeted, GreetError>| match side {
            Err(GreetError::Fault(fault)) => Some(fault.code),
            _ => None,
        };
        let (dialled, listened) = meet(Some("one"), Some("two")).await;
        assert!(matches!(listened, Err(GreetError::Wire(WireError::Token))));
        assert_eq!(code(dialled), Some(FaultCode::Token));
        let (dialled, listened) = meet(None, Some("two")).await;
        assert!(matches!(listened, Err(GreetError::Plain)));
        assert_eq!(code(dialled), Some(FaultCode::Encryption));
        let (dialled, listened) = meet(Some("one"), None).await;
        assert!(matches!(listened, Err(GreetError::Encrypted)));
        assert!(matches!(dialled, Err(GreetError::Plain)));
        assert!(matches!(meet(Some("one"), Some("one")).await, (Ok(_), Ok(_))));
    }

    /// Sends a payload and then a beat, which comes first.
    async fn a_beat_overtakes(token: Option<&str>) {
        let (sender, reader) = meet(token, token).await;
        let (sender, mut reader) =
            (sender.expect("the listener accepts the dialler"), reader.expect("the dialler greets"));

        let mut outbox = Outbox::new(Limits::DEFAULT);
        outbox.push(&packet_up()).expect("the packet is within the limits");
        let is_all = sender.write.write_some(&mut outbox).expect("the connection is open");
        assert!(!is_all, "the reader has not started, so part of the payload waits here");
        let beat = Message::Stream(Box::new(StreamMessage::Beat { stream: STREAM }));
        outbox.push(&beat).expect("the beat is within the limits");

        let read = async {
            let mut came = Vec::new();
            while came.len() < 2 {
                while let Some(incoming) = reader.inbox.next().expect("the bytes are well-formed") {
                    came.push(incoming);
                }
                if came.len() < 2 {
                    let read = reader.read.read_into(&mut reader.inbox).await;
                    assert_ne!(read.expect("the connection is open"), 0);
                }
            }
            came
        };
        let (written, came) = tokio::join!(sender.write.write_all(&mut outbox), read);
        written.expect("the connection is open");
        let kinds: Vec<&str> = came.iter().map(kind).collect();
        assert_eq!(kinds, ["beat", "packet"]);
    }

    fn kind(incoming: &Incoming) -> &'static str {
        match incoming {
            Incoming::Message(Message::Stream(message)) => match &**message {
                StreamMessage::Beat { .. } => "beat",
                StreamMessage::Up(up)
                    if up.payload.as_ref().is_some_and(|all| all.len() == PAYLOAD_BYTES) =>
                {
                    "packet"
                }
                _ => "another",
            },
            _ => "another",
        }
    }
}
