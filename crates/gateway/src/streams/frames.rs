//! Frames of a WebSocket that carry nothing, counted below the WebSocket.
//!
//! Pings, pongs and parts of a message that is never complete cost their sender nothing: the library of the protocol
//! answers or collects them, and a message that is not complete counts against no rate. A flood of them keeps a thread
//! busy, and others wait. So the bytes of a connection pass through here first, which reads the heads of frames only
//! (RFC 6455, section 5.2). Complete messages count against the caller's rate, and long parts against the bytes of a message;
//! the others are *idle* frames: control frames, and parts of less than [`PART_BYTES_MIN`] that do not complete a message.
//! Above [`Limits::IDLE_FRAMES_PER_S`] reading fails, and the connection is closed with the reason.

use crate::bucket::Bucket;
use crate::limits::Limits;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};

/// Least bytes of a part of a message that is not idle: a message has at most some hundreds of such parts.
const PART_BYTES_MIN: u64 = 1 << 10;
/// Most bytes of a frame before its payload.
const HEAD_BYTES_MAX: usize = 14;
/// Bytes that are read and dropped after a flood, so that the peer gets the reason: the system resets a connection that is
/// closed with unread bytes.
const DROPPED_BYTES_MAX: u64 = 1 << 20;

/// The peer sends more idle frames than allowed.
#[derive(Debug, thiserror::Error)]
#[error(
    "more than {max} frames came in a second that complete no message: pings, pongs, or short parts; allowed: at most {max} \
     (IDLE_FRAMES_PER_S)",
    max = Limits::IDLE_FRAMES_PER_S
)]
pub(super) struct TooManyFrames;

/// A connection whose idle frames are counted.
pub(super) struct Counted<S> {
    stream: S,
    heads: Heads,
    bucket: Bucket,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Counted<S> {
    pub(super) fn new(stream: S) -> Self {
        let bucket = Bucket::full(f64::from(Limits::IDLE_FRAMES_PER_S), Instant::now());
        Self { stream, heads: Heads::default(), bucket }
    }

    /// Ends this side, and reads on until the peer closes or has sent too much.
    pub(super) async fn end(&mut self) {
        if self.stream.shutdown().await.is_err() {
            return;
        }
        let mut rest = (&mut self.stream).take(DROPPED_BYTES_MAX);
        // An error is an end as well.
        let _ = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(context, buffer))?;
        let idle = this.heads.idle_in(&buffer.filled()[before..]);
        if idle == 0 {
            return Poll::Ready(Ok(()));
        }
        let taken = this.bucket.take(idle.into(), f64::from(Limits::IDLE_FRAMES_PER_S), Instant::now());
        Poll::Ready(taken.map_err(|_| io::Error::other(TooManyFrames)))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The place within the frames of a connection.
#[derive(Debug, Default)]
struct Heads {
    head: [u8; HEAD_BYTES_MAX],
    /// Bytes of the present head that have come.
    come: usize,
    /// Bytes of the present payload that have not.
    payload: u64,
}

impl Heads {
    /// The idle frames whose heads end within some bytes.
    fn idle_in(&mut self, mut bytes: &[u8]) -> u32 {
        let mut idle = 0;
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.payload > 0 {
                let skipped = self.payload.min(bytes.len() as u64);
                self.payload -= skipped;
                // No slice is longer than a `usize` can say.
                bytes = &bytes[skipped as usize..];
                continue;
            }
            self.head[self.come] = byte;
            self.come += 1;
            bytes = rest;
            if let Some(length) = self.length() {
                (self.come, self.payload) = (0, length);
                let (is_last, is_control) = (self.head[0] & 0x80 != 0, self.head[0] & 0x08 != 0);
                idle += u32::from(is_control || (!is_last && length < PART_BYTES_MIN));
            }
        }
        idle
    }

    /// The bytes of the payload, once the head is complete.
    fn length(&self) -> Option<u64> {
        let head = self.head.get(..self.come)?;
        let &[_, second, ref rest @ ..] = head else { return None };
        let mask_bytes = if second & 0x80 != 0 { 4 } else { 0 };
        let (length, length_bytes) = match second & 0x7f {
            126 => (u64::from(u16::from_be_bytes(*rest.first_chunk()?)), 2),
            127 => (u64::from_be_bytes(*rest.first_chunk()?), 8),
            short => (short.into(), 0),
        };
        (rest.len() == length_bytes + mask_bytes).then_some(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of a client: its first byte, and its payload.
    fn frame(first: u8, bytes: usize) -> Vec<u8> {
        let mut out = vec![first];
        match bytes {
            0..=125 => out.push(0x80 | bytes as u8),
            126..=0xffff => {
                out.push(0x80 | 126);
                out.extend_from_slice(&(bytes as u16).to_be_bytes());
            }
            _ => {
                out.push(0x80 | 127);
                out.extend_from_slice(&(bytes as u64).to_be_bytes());
            }
        }
        out.extend_from_slice(&[7; 4]);
        // Bytes that would be heads of pings if they were read as such.
        out.resize(out.len() + bytes, 0x89);
        out
    }

    #[test]
    fn control_frames_and_short_parts_are_idle_however_the_bytes_are_cut() {
        let [text, part, more, last, ping, pong] = [0x81, 0x01, 0x00, 0x80, 0x89, 0x8a];
        let frames = [
            (text, 5, 0),
            (text, 0, 0),
            (ping, 0, 1),
            (pong, 125, 1),
            (part, 70_000, 0),
            (more, 0, 1),
            (ping, 3, 1),
            (more, 1_023, 1),
            (more, 1_024, 0),
            (last, 0, 0),
            (ping, 0, 1),
        ];
        let bytes: Vec<u8> = frames.iter().flat_map(|&(first, bytes, _)| frame(first, bytes)).collect();
        let expected: u32 = frames.iter().map(|&(.., idle)| idle).sum();
        for cut in [1, 2, 3, 7, 1_000, bytes.len()] {
            let mut heads = Heads::default();
            let idle: u32 = bytes.chunks(cut).map(|piece| heads.idle_in(piece)).sum();
            assert_eq!(idle, expected, "pieces of {cut} bytes");
        }
    }
}
