//! One end of a connection as an attacker holds it: any greeting, any bytes.

use crate::cluster::TIMEOUT;
use bytes::Bytes;
use std::io::{self, IoSlice, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;
use treefold::parts::wire::{GroupKey, Hello, Inbox, Incoming, Outbox};
use treefold_core::id::NodeId;
use treefold_core::limits::Limits;
use treefold_core::message::Message;

/// Slices of an outbox that are written together.
const SLICES: usize = 16;
/// Bytes read at a time.
const READ_BYTES: usize = 64 << 10;

/// A plain connection, or a TLS session.
pub(crate) trait Channel: Read + Write + Send {}

impl<T: Read + Write + Send> Channel for T {}

/// An attacker's end of a connection.
pub(crate) struct Peer {
    pub(crate) channel: Box<dyn Channel>,
    inbox: Inbox,
}

/// Opens a TCP connection whose reads and writes end after `patience`.
pub(crate) fn connect(addr: SocketAddr, patience: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&addr, TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    Ok(stream)
}

/// A name of a client, which does not listen.
pub(crate) fn client_name(generation: u64) -> NodeId {
    NodeId::new((Ipv4Addr::UNSPECIFIED, 0).into(), generation)
}

impl Peer {
    /// Speaks over an open connection.
    pub(crate) fn over(channel: Box<dyn Channel>) -> Self {
        Self { channel, inbox: Inbox::new(Limits::DEFAULT) }
    }

    /// Opens a plain connection.
    pub(crate) fn plain(addr: SocketAddr) -> io::Result<Self> {
        Ok(Self::over(Box::new(connect(addr, TIMEOUT)?)))
    }

    /// Opens a plain connection, and greets under any name. Returns the name in the answer.
    pub(crate) fn greeted(addr: SocketAddr, cluster: &str, as_node: NodeId) -> io::Result<(Self, NodeId)> {
        let mut peer = Self::plain(addr)?;
        peer.send_bytes(&hello_bytes(&Hello::new(cluster, as_node)))?;
        match peer.next()? {
            Incoming::Hello(hello) => Ok((peer, hello.node)),
            Incoming::Fault(fault) => Err(io::Error::other(fault.to_string())),
            other => Err(io::Error::other(format!("instead of a greeting: {other:?}"))),
        }
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.channel.write_all(bytes)?;
        self.channel.flush()
    }

    pub(crate) fn send(&mut self, message: &Message<Bytes>) -> io::Result<()> {
        self.send_bytes(&message_bytes(message))
    }

    /// Waits for the next frame. Fails when the connection ends, and when nothing comes in time.
    pub(crate) fn next(&mut self) -> io::Result<Incoming> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            if let Some(incoming) = self.inbox.next().map_err(io::Error::other)? {
                return Ok(incoming);
            }
            let read = self.channel.read(&mut buffer)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.inbox.put(&buffer[..read]);
        }
    }
}

/// Greets as a node that nobody knows, and takes the key of datagrams that members hand each other.
pub(crate) fn learn_key(addr: SocketAddr, cluster: &str, as_node: NodeId) -> io::Result<GroupKey> {
    const KEYS: u8 = 5;
    let (mut peer, _) = Peer::greeted(addr, cluster, as_node)?;
    // A frame without keys: the prefix alone, of which the length counts 26 bytes.
    let mut no_keys = [0; 30];
    (no_keys[0], no_keys[4]) = (26, KEYS);
    peer.send_bytes(&no_keys)?;
    loop {
        if let Incoming::Keys(keys) = peer.next()?
            && let Some(&newest) = keys.last()
        {
            return Ok(newest);
        }
    }
}

/// True if a read ended only because nothing came in time.
pub(crate) fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

pub(crate) fn hello_bytes(hello: &Hello) -> Vec<u8> {
    let mut outbox = Outbox::new(Limits::DEFAULT);
    outbox.push_hello(hello).expect("invariant: names of attacks are short");
    drained(&mut outbox, usize::MAX)
}

pub(crate) fn message_bytes(message: &Message<Bytes>) -> Vec<u8> {
    beginning_of(message, usize::MAX)
}

/// The first bytes of a message, as a sender that stops in the middle of it writes them.
pub(crate) fn beginning_of(message: &Message<Bytes>, bytes_max: usize) -> Vec<u8> {
    let mut outbox = Outbox::new(Limits::DEFAULT);
    outbox.push(message).expect("invariant: messages of attacks are within the limits of senders");
    drained(&mut outbox, bytes_max)
}

fn drained(outbox: &mut Outbox, bytes_max: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !outbox.is_empty() && bytes.len() < bytes_max {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let filled = outbox.fill_slices(&mut slices);
        let before = bytes.len();
        slices[..filled].iter().for_each(|slice| bytes.extend_from_slice(slice));
        let written = bytes.len() - before;
        outbox.advance(written);
    }
    bytes.truncate(bytes_max);
    bytes
}
