//! A connection before its first message: sockets and the greeting.
//!
//! Both sides greet. The side that dialled sends its greeting first. The listening side answers with its own
//! greeting, or with a fault and nothing more. Neither side writes anything else before it has read the
//! other's greeting. The name in the greeting tells which life of the process answers at that address, and
//! messages for a dead process must not reach its successor.
//!
//! In a cluster with a token or with certificates, a TLS session comes before the greetings, and everything goes through it
//! ([`session`](crate::session)). With certificates, each side also verifies the other's certificate, and that the name in
//! the greeting is one that the certificate allows.
//!
//! Nodes and clients share this file. They differ in how they use a connection afterwards.

use crate::channel::{ReadEnd, Secured, WriteEnd, encrypt, split};
use crate::client::client_id;
use crate::credentials::{Credentials, Held, Proven, usage_of};
use crate::options::{ClusterOptions, Trust};
use crate::session::Sessions;
use crate::wire::blocks::Blocks;
use crate::wire::{Fault, FaultCode, Hello, Inbox, Incoming, Outbox, Side, Token, WireError};
use rustls::AlertDescription;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use treefold_certificates::Refusal;
use treefold_core::id::NodeId;
use treefold_core::limits::Limits;

mod dials;

use dials::Dials;

/// Time limit for the connection of a dial, which the other side's system makes even if its process is busy.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time limit for the greetings on a connection that this process has made. It is longer, because the process at the other
/// side must come to it: where many nodes start at once, one has hundreds of greetings before it.
pub(crate) const GREETING_TIMEOUT: Duration = Duration::from_secs(3);
/// Time limit for the greeting of a process that connects here.
pub(crate) const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes read and dropped so that a final fault arrives before the connection is reset.
const FAREWELL_BYTES_MAX: usize = 1 << 20;
/// Time limit for reading these bytes.
const FAREWELL_TIMEOUT: Duration = Duration::from_millis(500);
/// How long the end of a connection may take to arrive after a process at its address did not confirm it.
const GOODBYE_PATIENCE: Duration = Duration::from_millis(200);

/// This process's identity for its peers, and the limits of its connections.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) node: NodeId,
    pub(crate) cluster: String,
    pub(crate) trust: Trust,
    pub(crate) limits: Limits,
    /// See [`Hello::by_launcher`].
    pub(crate) by_launcher: bool,
    /// The connections that this process is making.
    pub(crate) dials: Dials,
    /// See [`Hello::asks`].
    pub(crate) asks: u64,
    /// The shared memory blocks of large payloads.
    pub(crate) blocks: Blocks,
}

impl Identity {
    /// The identity of `node` in a cluster; `by_launcher` is true if a launcher keeps its network.
    pub(crate) fn new(node: NodeId, cluster: ClusterOptions, by_launcher: bool) -> Self {
        let ClusterOptions { name, trust, insecure: _, limits } = cluster;
        let (dials, blocks) = Default::default();
        Self { node, cluster: name, trust, limits, by_launcher, dials, asks: 0, blocks }
    }

    fn token(&self) -> Option<&Token> {
        match &self.trust {
            Trust::Token(token) => Some(token),
            Trust::Open | Trust::Certificates(_) => None,
        }
    }

    /// This process's credentials, in a cluster with certificates.
    pub(crate) fn credentials(&self) -> Option<&Credentials> {
        match &self.trust {
            Trust::Certificates(credentials) => Some(credentials),
            Trust::Open | Trust::Token(_) => None,
        }
    }
}

/// A connection that is ready for messages.
pub(crate) struct Greeted {
    pub(crate) peer: NodeId,
    /// See [`Hello::by_launcher`]. Of the listening side, for the side that dialled.
    pub(crate) by_launcher: bool,
    /// The session, with the certificate that the peer has shown.
    pub(crate) session: Session,
    pub(crate) read: ReadEnd,
    pub(crate) write: WriteEnd,
    /// May contain frames that arrived directly after the greeting.
    pub(crate) inbox: Inbox,
}

/// The session of a connection, after its handshake.
#[derive(Clone, Default)]
pub(crate) struct Session {
    /// A secret that only the two sides know. Empty if the connection is not encrypted.
    pub(crate) secret: Vec<u8>,
    /// The peer's certificate, in a cluster with certificates.
    pub(crate) peer: Option<Proven>,
    /// The credentials that this process has shown.
    pub(crate) shown: Option<Arc<Held>>,
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
    #[error(
        "the other side does not encrypt the connection, as this side does (with a token or a certificate)"
    )]
    Plain,
    #[error("the other side encrypts the connection (with a token or a certificate), and this side does not")]
    Encrypted,
    #[error("one side has a token, and the other a certificate")]
    OtherKind,
    #[error("the other side's certificate is not accepted: {0}")]
    Certificate(#[from] Refusal),
    #[error(
        "it greets as {0}, but the process at that address does not make this connection, or does not answer"
    )]
    Name(NodeId),
    #[error("it asks about a connection that this process does not make; somebody else has its name")]
    NotMine,
    #[error("the process at that address greets with this process's own name; check the address")]
    Echo,
    #[error("the limit of {limit} connections is reached ({name})")]
    Full { name: &'static str, limit: usize },
}

impl Identity {
    /// Checks that this process may talk to the sender of `hello`, on the side `from`. A sender without the token learns
    /// nothing else.
    fn check(&self, hello: &Hello, from: Side, session: &Session) -> Result<(), GreetError> {
        hello.check_seal(self.token(), from, &session.secret)?;
        Hello::new(self.cluster.as_str(), self.node).agree(hello)?;
        if let Some(peer) = &session.peer {
            peer.check_name(hello.node)?;
        }
        Ok(())
    }

    /// Checks a name in a greeting that proves nothing: connects to the address in it as a client. A process of this name must
    /// listen there, and must be making the connection with the number `dial`, if that is not 0.
    async fn confirm(&self, name: NodeId, dial: u64) -> Result<(), GreetError> {
        if name.is_client() || !matches!(self.trust, Trust::Open) {
            return Ok(());
        }
        let caller = Self { node: client_id(), asks: dial, blocks: Blocks::default(), ..self.clone() };
        match reach(name.addr, &caller).await {
            Ok(greeted) if greeted.peer == name => Ok(()),
            Ok(_) | Err(_) => Err(GreetError::Name(name)),
        }
    }

    /// True for a node whose greeting does not prove its name.
    fn proves_nothing(&self) -> bool {
        matches!(self.trust, Trust::Open) && !self.node.is_client()
    }

    async fn greet(
        &self,
        write: &WriteEnd,
        side: Side,
        session: &Session,
        dial: u64,
    ) -> Result<(), GreetError> {
        let mut outbox = Outbox::new(self.limits.clone());
        let mut hello = Hello::new(self.cluster.as_str(), self.node);
        (hello.by_launcher, hello.dial, hello.asks) = (self.by_launcher, dial, self.asks);
        outbox.push_hello(&hello.sealed(self.token(), side, &session.secret))?;
        Ok(write.write_all(&mut outbox).await?)
    }

    /// Encrypts a connection if the cluster has a token or certificates, and verifies the other side's certificate.
    async fn begin_session(
        &self,
        read: &mut ReadEnd,
        write: &mut WriteEnd,
        side: Side,
    ) -> Result<Session, GreetError> {
        let encrypts = !matches!(self.trust, Trust::Open);
        if side == Side::Listens && read.begins_with_tls().await? != encrypts {
            return Err(if encrypts { GreetError::Plain } else { GreetError::Encrypted });
        }
        match &self.trust {
            Trust::Open => Ok(Session::default()),
            Trust::Token(_) => {
                let Secured { secret, chain: _ } =
                    handshake(Sessions::of_tokens()?, read, write, side).await?;
                Ok(Session { secret, ..Session::default() })
            }
            Trust::Certificates(credentials) => {
                let held = credentials.current();
                let Secured { secret, chain } = handshake(&held.sessions, read, write, side).await?;
                let peer = held.prove(&chain, usage_of(side.other()))?;
                Ok(Session { secret, peer: Some(peer), shown: Some(held) })
            }
        }
    }
}

async fn handshake(
    sessions: &Sessions,
    read: &mut ReadEnd,
    write: &mut WriteEnd,
    side: Side,
) -> Result<Secured, GreetError> {
    let session = match side {
        Side::Dials => sessions.dial()?,
        Side::Listens => sessions.listen()?,
    };
    let secured = encrypt(read, write, session).await?;
    secured.map_err(|error| match error {
        // The other side's first bytes are no TLS if it does not encrypt.
        rustls::Error::InvalidMessage(_) if side == Side::Dials => GreetError::Plain,
        rustls::Error::NoApplicationProtocol
        | rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => GreetError::OtherKind,
        error => error.into(),
    })
}

/// Dials an address and greets.
pub(crate) async fn dial(addr: SocketAddr, identity: &Identity) -> Result<Greeted, GreetError> {
    let greeted = reach(addr, identity).await?;
    if greeted.peer.addr != addr {
        identity.confirm(greeted.peer, 0).await?;
    }
    Ok(greeted)
}

/// As [`dial`], without confirming the name of the other side.
async fn reach(addr: SocketAddr, identity: &Identity) -> Result<Greeted, GreetError> {
    if let Some(credentials) = identity.credentials() {
        credentials.refresh();
    }
    let connect = async { Ok(split(TcpStream::connect(addr).await?)?) };
    let making = identity.proves_nothing().then(|| identity.dials.begin());
    let number = making.as_ref().map_or(0, |making| making.number);
    let (mut read, mut write) = within(CONNECT_TIMEOUT, connect).await?;
    let mut inbox = Inbox::with_blocks(identity.limits.clone(), identity.blocks.clone());
    let greet = async {
        let session = identity.begin_session(&mut read, &mut write, Side::Dials).await?;
        identity.greet(&write, Side::Dials, &session, number).await?;
        let hello = read_hello(&mut read, &mut inbox).await?;
        identity.check(&hello, Side::Listens, &session)?;
        if hello.node == identity.node {
            return Err(GreetError::Echo);
        }
        Ok((hello, session))
    };
    match within(GREETING_TIMEOUT, greet).await {
        Ok((hello, session)) => {
            let Hello { node: peer, by_launcher, .. } = hello;
            Ok(Greeted { peer, by_launcher, session, read, write, inbox })
        }
        Err(error) => {
            // The other side learns why this one does not go on, as it would from a side that listens.
            if let (GreetError::Certificate(_), Some(fault)) = (&error, error.as_fault()) {
                say_farewell(read, &write, &fault, identity).await;
            }
            Err(error)
        }
    }
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
        identity.dials.check(hello.asks)?;
        if let Err(error) = identity.confirm(hello.node, hello.dial.max(1)).await {
            // A process that has ended, or has given up, confirms nothing: nobody is left to be refused.
            let is_gone = read.ends_within(GOODBYE_PATIENCE).await;
            return Err(if is_gone {
                io::Error::from(io::ErrorKind::ConnectionAborted).into()
            } else {
                error
            });
        }
        admit(hello.node)?;
        identity.greet(&write, Side::Listens, &session, 0).await?;
        Ok((hello, session))
    };
    match within(HELLO_TIMEOUT, greet).await {
        Ok((hello, session)) => {
            let Hello { node: peer, by_launcher, .. } = hello;
            Ok(Greeted { peer, by_launcher, session, read, write, inbox })
        }
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
            Self::Io(_) | Self::Fault(_) | Self::Echo | Self::Tls(_) | Self::OtherKind => None,
            Self::Certificate(refusal) => {
                Some(Fault { field: refusal.word().to_owned(), ..Fault::new(FaultCode::Certificate) })
            }
            Self::Plain | Self::Encrypted => Some(Fault::new(FaultCode::Encryption)),
            Self::Name(_) | Self::NotMine => Some(Fault::new(FaultCode::Name)),
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
            Some(Incoming::Message(_) | Incoming::Launch(_) | Incoming::Keys(_) | Incoming::Renewal(_)) => {
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
    limit: Duration,
    greet: impl Future<Output = Result<T, GreetError>>,
) -> Result<T, GreetError> {
    timeout(limit, greet).await.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
}

#[cfg(test)]
mod tests;
