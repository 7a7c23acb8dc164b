//! The bytes of a connection, plain or in a TLS session.
//!
//! ```text
//!   outbox ──► WriteEnd ──► [ rustls ] ──► socket
//!   inbox  ◄── ReadEnd  ◄── [ rustls ] ◄── socket
//! ```
//!
//! rustls does no input or output itself. The two ends of a connection share its state, because reading may make it write:
//! answers to key updates, and alerts. The lock is never held across an await, and in a node only one thread takes it.
//!
//! Without TLS, bytes go from the outbox to the socket and from the socket to the inbox without a copy.

use crate::wire::{Inbox, Outbox};
use bytes::BufMut;
use rustls::Connection;
use rustls::pki_types::CertificateDer;
use socket2::{SockRef, TcpKeepalive};
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// The most parts of frames in one write. Small frames are adjacent and are one part.
const WRITE_SLICES_MAX: usize = 64;
/// Idle time after which the system probes whether the other machine is alive.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(30);
/// Interval of these probes. After about nine missed answers, the connection breaks.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
/// The length of a session's secret.
const SECRET_BYTES: usize = 32;
/// The first bytes of a TLS session: a record of a handshake, version 3.x. As the length of a greeting's frame they would be
/// above the limit.
const TLS_BEGINS: [u8; 3] = [22, 3, 1];

/// The end of a connection that is read.
pub(crate) struct ReadEnd {
    half: OwnedReadHalf,
    tls: Option<Tls>,
}

/// The end of a connection that is written.
pub(crate) struct WriteEnd {
    half: OwnedWriteHalf,
    tls: Option<Tls>,
}

#[derive(Clone)]
struct Tls(Arc<Mutex<Connection>>);

impl Tls {
    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sets the socket's options and splits a new connection into its ends.
pub(crate) fn split(stream: TcpStream) -> io::Result<(ReadEnd, WriteEnd)> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER).with_interval(KEEPALIVE_EVERY);
    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    let (read, write) = stream.into_split();
    Ok((ReadEnd { half: read, tls: None }, WriteEnd { half: write, tls: None }))
}

/// A TLS session after its handshake.
#[derive(Default)]
pub(crate) struct Secured {
    /// A secret of the session, which only its two sides know. Empty without a session.
    pub(crate) secret: Vec<u8>,
    /// The other side's certificates, its own first. They are not verified yet.
    pub(crate) chain: Vec<CertificateDer<'static>>,
}

/// Runs the handshake of a TLS session on a connection whose two ends have carried nothing yet.
///
/// # Errors
/// If the connection breaks, or the handshake fails; the inner error is that of TLS then.
pub(crate) async fn encrypt(
    read: &mut ReadEnd,
    write: &mut WriteEnd,
    session: Connection,
) -> io::Result<Result<Secured, rustls::Error>> {
    let tls = Tls(Arc::new(Mutex::new(session)));
    (read.tls, write.tls) = (Some(tls.clone()), Some(tls.clone()));
    loop {
        while !write.flush()? {
            write.writable().await?;
        }
        if !tls.lock().is_handshaking() {
            return Ok(secured(&tls.lock()));
        }
        match read.pull(&tls).await? {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => {}
            Err(error) => {
                // The alert that tells the other side. If it cannot be sent, the close tells it less.
                let _ = write.flush();
                return Ok(Err(error));
            }
        }
    }
}

fn secured(session: &Connection) -> Result<Secured, rustls::Error> {
    let secret =
        session.export_keying_material(vec![0; SECRET_BYTES], b"EXPORTER-treefold-greeting", None)?;
    let chain = session.peer_certificates().unwrap_or_default();
    Ok(Secured { secret, chain: chain.iter().map(|der| der.clone().into_owned()).collect() })
}

impl ReadEnd {
    /// Reads into an inbox. Returns 0 at the connection's end. Cancel safe.
    pub(crate) async fn read_into(&mut self, inbox: &mut Inbox) -> io::Result<usize> {
        let Some(tls) = self.tls.clone() else {
            return self.half.read_buf(&mut inbox.read_buffer()).await;
        };
        loop {
            if let Some(taken) = take_plain(&mut tls.lock(), inbox)? {
                return Ok(taken);
            }
            match self.pull(&tls).await? {
                Ok(0) => return Ok(0),
                Ok(_) => {}
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
        }
    }

    /// Reads records from the socket, and decrypts those that are complete. Returns the number of bytes read.
    async fn pull(&mut self, tls: &Tls) -> io::Result<Result<usize, rustls::Error>> {
        std::future::poll_fn(|cx| {
            let mut tls = tls.lock();
            match tls.read_tls(&mut Polled { half: &mut self.half, cx }) {
                Ok(read) => Poll::Ready(Ok(tls.process_new_packets().map(|_| read))),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            }
        })
        .await
    }

    /// True if the other side begins with a TLS handshake. Waits for its first bytes, and leaves them unread.
    pub(crate) async fn begins_with_tls(&mut self) -> io::Result<bool> {
        let mut first = [0; TLS_BEGINS.len()];
        match self.half.peek(&mut first).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            came => Ok(first[..came] == TLS_BEGINS[..came]),
        }
    }

    /// True if the connection ends within this time, with nothing unread before its end.
    pub(crate) async fn ends_within(&mut self, time: Duration) -> bool {
        let came = tokio::time::timeout(time, self.half.peek(&mut [0])).await;
        matches!(came, Ok(Ok(0) | Err(_)))
    }

    /// Reads and drops up to `bytes_max` bytes, to the connection's end.
    pub(crate) async fn drain(mut self, bytes_max: usize) -> io::Result<()> {
        let (mut scrap, mut left) = ([0; 4096], bytes_max);
        while left > 0 {
            match self.half.read(&mut scrap).await? {
                0 => break,
                n => left = left.saturating_sub(n),
            }
        }
        Ok(())
    }
}

/// Moves decrypted bytes into an inbox. `None` if there are none; 0 if the other side has ended the session.
fn take_plain(tls: &mut Connection, inbox: &mut Inbox) -> io::Result<Option<usize>> {
    let (mut reader, mut room, mut taken) = (tls.reader(), inbox.read_buffer(), 0);
    while room.has_remaining_mut() {
        match reader.fill_buf() {
            Ok([]) => return Ok(Some(taken)),
            Ok(plain) => {
                let length = plain.len().min(room.remaining_mut());
                room.put_slice(&plain[..length]);
                reader.consume(length);
                taken += length;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok((taken > 0).then_some(taken))
}

impl WriteEnd {
    /// Writes as much of an outbox as the socket accepts. Returns true if that was all, and nothing waits encrypted.
    pub(crate) fn write_some(&self, outbox: &mut Outbox) -> io::Result<bool> {
        let Some(tls) = &self.tls else {
            while !outbox.is_empty() {
                if !advance(outbox, |slices| self.half.try_write_vectored(slices))? {
                    return Ok(false);
                }
            }
            return Ok(true);
        };
        let mut tls = tls.lock();
        loop {
            if !self.flush_session(&mut tls)? {
                return Ok(false);
            }
            if outbox.is_empty() {
                return Ok(true);
            }
            advance(outbox, |slices| tls.writer().write_vectored(slices))?;
        }
    }

    /// Writes encrypted bytes that wait. Returns false if the socket accepts no more.
    fn flush(&self) -> io::Result<bool> {
        self.tls.as_ref().map_or(Ok(true), |tls| self.flush_session(&mut tls.lock()))
    }

    fn flush_session(&self, tls: &mut Connection) -> io::Result<bool> {
        while tls.wants_write() {
            match tls.write_tls(&mut Tried(&self.half)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Writes all of an outbox, waiting as needed.
    pub(crate) async fn write_all(&self, outbox: &mut Outbox) -> io::Result<()> {
        while !self.write_some(outbox)? {
            self.writable().await?;
        }
        Ok(())
    }

    /// Waits until the socket accepts bytes.
    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.half.writable().await
    }

    /// This side's address.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.half.local_addr()
    }

    /// Ends this side's bytes, while the other side's may still be read.
    pub(crate) fn end(&self) -> io::Result<()> {
        if let Some(tls) = &self.tls {
            let mut tls = tls.lock();
            tls.send_close_notify();
            self.flush_session(&mut tls)?;
        }
        SockRef::from(self.half.as_ref()).shutdown(Shutdown::Write)
    }
}

/// Writes the next bytes of an outbox once. Returns false if they must wait.
fn advance(outbox: &mut Outbox, write: impl FnOnce(&[IoSlice<'_>]) -> io::Result<usize>) -> io::Result<bool> {
    let mut slices = [IoSlice::new(&[]); WRITE_SLICES_MAX];
    let filled = outbox.fill_slices(&mut slices);
    match write(&slices[..filled]) {
        Ok(0) => Err(io::ErrorKind::WriteZero.into()),
        Ok(written) => {
            outbox.advance(written);
            Ok(true)
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
        Err(error) => Err(error),
    }
}

/// A socket as rustls reads it inside of a poll. It is woken for its next bytes.
struct Polled<'a, 'b> {
    half: &'a mut OwnedReadHalf,
    cx: &'a mut Context<'b>,
}

impl Read for Polled<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let mut into = ReadBuf::new(into);
        match Pin::new(&mut *self.half).poll_read(self.cx, &mut into) {
            Poll::Ready(read) => read.map(|()| into.filled().len()),
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

/// A socket as rustls writes it: it takes what it can at once.
struct Tried<'a>(&'a OwnedWriteHalf);

impl Write for Tried<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
