//! The version of HTTP that a client speaks, from the first bytes that it sends.
//!
//! A client of HTTP/2 begins with a fixed preface, whether both sides agreed on HTTP/2 in the TLS handshake (ALPN) or the
//! client knows it beforehand.

use crate::door::Duplex;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    One,
    Two,
}

/// A connection whose first bytes were read before.
pub(crate) struct Begun {
    first: [u8; PREFACE.len()],
    /// Bytes of `first` that are not given yet.
    given: usize,
    end: usize,
    stream: Box<dyn Duplex>,
}

/// Reads until the version is known.
pub(crate) async fn begin(mut stream: Box<dyn Duplex>) -> io::Result<(Version, Begun)> {
    let (mut first, mut end) = ([0; PREFACE.len()], 0);
    let version = loop {
        let bytes = stream.read(&mut first[end..]).await?;
        end += bytes;
        if bytes == 0 || first[..end] != PREFACE[..end] {
            break Version::One;
        }
        if end == PREFACE.len() {
            break Version::Two;
        }
    };
    Ok((version, Begun { first, given: 0, end, stream }))
}

impl AsyncRead for Begun {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.given < self.end {
            let bytes = (self.end - self.given).min(buffer.remaining());
            buffer.put_slice(&self.first[self.given..self.given + bytes]);
            self.given += bytes;
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Begun {
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

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    /// Sends parts one by one, and returns the version and the bytes as they are read.
    async fn begun(parts: &[&[u8]]) -> (Version, Vec<u8>) {
        let (mut near, far) = tokio::io::duplex(1);
        let sending = async move {
            for part in parts {
                near.write_all(part).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let reading = async {
            let (version, mut stream) = begin(Box::new(far)).await.unwrap();
            let mut read = Vec::new();
            stream.read_to_end(&mut read).await.unwrap();
            (version, read)
        };
        tokio::join!(sending, reading).1
    }

    #[tokio::test]
    async fn version_is_known_by_the_preface_and_no_byte_is_lost() {
        let request = b"PRI /not-a-preface HTTP/1.1\r\n\r\n";
        assert_eq!(begun(&[request]).await, (Version::One, request.to_vec()));
        assert_eq!(begun(&[b"POST / HTTP/1.1\r\n\r\n"]).await.0, Version::One);
        assert_eq!(begun(&[b"PRI"]).await, (Version::One, b"PRI".to_vec()), "ended early");
        let more = [&PREFACE[..], b"\0\0\0\x04"].concat();
        assert_eq!(begun(&[&PREFACE[..7], &PREFACE[7..], b"\0\0\0\x04"]).await, (Version::Two, more));
    }
}
