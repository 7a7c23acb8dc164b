//! A client over HTTP/1.1 that sends no more, and may still want its answer.
//!
//! A program may close its side of a connection after its request, as `nc -N` does, and read until the answer ends. A
//! program that is gone has closed its connection too, and its request must end, because it costs work in a whole tree. Both
//! look the same to the listener: the end of what the client sends.
//!
//! So the end is held back while an answer is due. From then on the listener looks now and again by writing an interim answer
//! (`100 Continue`, which every client over HTTP/1.1 skips: RFC 9110, section 15.2). The system of a client that is gone
//! refuses it, which makes the next write fail, and the request ends. A client that half-closed reads it, and then its
//! answer. HTTP/1.0 has no interim answers, so its requests run to their end.
//!
//! An answer without a known length, which is a stream of events, ends when its client sends no more: it has no end of
//! its own, and each of its readers holds a place.

use crate::door::Duplex;
use axum::body::Bytes;
use axum::http::Version;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// Pause between two looks whether the client is gone.
const LOOK_EVERY: Duration = Duration::from_millis(100);
const INTERIM: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The place of a connection within the exchange of a request and its answer, as its service sees it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turn(Arc<AtomicU8>);

impl Turn {
    /// The service works on a request, and has given no answer.
    const WORKS: u8 = 1;
    /// The request was read to its end.
    const READ: u8 = 2;
    /// The service waits for more of the request's body than was received.
    const WAITS: u8 = 4;
    /// The client knows interim answers.
    const KNOWS_INTERIM: u8 = 8;

    /// Notes that the service begins with a request.
    pub(crate) fn begin(&self, version: Version) {
        let knows = if version == Version::HTTP_11 { Self::KNOWS_INTERIM } else { 0 };
        self.0.store(Self::WORKS | knows, Ordering::Relaxed);
    }

    /// Notes that the request was read to its end.
    pub(crate) fn request_is_read(&self) {
        self.0.fetch_or(Self::READ, Ordering::Relaxed);
    }

    /// Notes whether the service waits for more of the body.
    fn service_waits(&self, waits: bool) {
        if waits {
            self.0.fetch_or(Self::WAITS, Ordering::Relaxed);
        } else {
            self.0.fetch_and(!Self::WAITS, Ordering::Relaxed);
        }
    }

    /// Notes that the answer begins.
    pub(crate) fn answer_begins(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// True if an answer may follow although nothing more is received. A service that waits for the rest of a body gives
    /// none; one that works may have the rest of it waiting.
    fn is_answer_due(&self) -> bool {
        self.has(Self::WORKS) && (self.has(Self::READ) || !self.has(Self::WAITS))
    }

    fn may_look(&self) -> bool {
        self.is_answer_due() && self.has(Self::KNOWS_INTERIM)
    }

    fn has(&self, all: u8) -> bool {
        self.0.load(Ordering::Relaxed) & all == all
    }
}

/// The body of a request, which notes its end, and whether more of it is awaited.
pub(crate) struct Noted {
    body: Incoming,
    /// `None` behind the end.
    turn: Option<Turn>,
}

impl Noted {
    pub(crate) fn new(body: Incoming, turn: Turn) -> Self {
        let mut noted = Self { body, turn: Some(turn) };
        noted.note(false);
        noted
    }

    fn note(&mut self, is_over: bool) {
        if (is_over || self.body.is_end_stream())
            && let Some(turn) = self.turn.take()
        {
            turn.request_is_read();
        }
    }
}

impl Body for Noted {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Some(turn) = &self.turn {
            turn.service_waits(polled.is_pending());
        }
        let frame = ready!(polled);
        self.note(frame.is_none());
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A connection that holds back the end of what its client sends.
pub(crate) struct HalfClosed<S> {
    stream: S,
    turn: Turn,
    /// True if the client sends no more.
    has_ended: bool,
    /// True from a write to the flush after it: bytes of an answer may wait.
    is_unflushed: bool,
    /// The rest of an interim answer. It precedes all other bytes.
    interim: &'static [u8],
    look: Option<Pin<Box<Sleep>>>,
}

impl<S: Duplex> HalfClosed<S> {
    pub(crate) fn new(stream: S, turn: Turn) -> Self {
        Self { stream, turn, has_ended: false, is_unflushed: false, interim: &[], look: None }
    }

    fn poll_interim(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.interim.is_empty() {
            let bytes = ready!(Pin::new(&mut self.stream).poll_write(context, self.interim))?;
            if bytes == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.interim = &self.interim[bytes..];
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Duplex> AsyncRead for HalfClosed<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.has_ended {
            let (filled, room) = (buffer.filled().len(), buffer.remaining());
            ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
            if buffer.filled().len() > filled || room == 0 {
                // They may be what the service waits for.
                this.turn.service_waits(false);
                return Poll::Ready(Ok(()));
            }
            this.has_ended = true;
        }
        while this.turn.is_answer_due() || this.is_unflushed {
            let look = this.look.get_or_insert_with(|| Box::pin(sleep(LOOK_EVERY)));
            ready!(look.as_mut().poll(context));
            this.look = None;
            // Among the bytes of an answer, the interim answer would be a part of it.
            if this.turn.may_look() && !this.is_unflushed {
                if this.interim.is_empty() {
                    this.interim = INTERIM;
                }
                if let Poll::Ready(written) = this.poll_interim(context) {
                    written?;
                    if let Poll::Ready(flushed) = Pin::new(&mut this.stream).poll_flush(context) {
                        flushed?;
                    }
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Duplex> AsyncWrite for HalfClosed<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.is_unflushed = true;
        ready!(this.poll_interim(context))?;
        Pin::new(&mut this.stream).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(Pin::new(&mut this.stream).poll_flush(context))?;
        if std::mem::take(&mut this.is_unflushed) && this.has_ended {
            // The reading side was told to wait.
            context.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.is_unflushed = true;
        ready!(this.poll_interim(context))?;
        Pin::new(&mut this.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
