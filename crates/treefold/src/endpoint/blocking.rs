//! The same for threads that know no runtime: the calling thread waits, for so long at most.
//!
//! Every form says one of three things: done, not now, or never again. Zero is a look without waiting, and
//! `Duration::MAX` is for ever.

use super::Packet;
use super::accepted::{Acceptor, EndpointSender, EndpointStream};
use crate::park::{deadline_after, park_until};
use crate::window::Closed;
use bytes::Bytes;
use std::time::Duration;
use tokio::sync::mpsc::error::TryRecvError;
use treefold_core::stream::StreamError;

/// Why there is no stream to accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// None was opened in that time.
    #[error("no stream was opened in that time")]
    Empty,
    /// The node has ended, and none will be.
    #[error("the node has ended")]
    Closed,
}

/// Why there is no packet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecvError {
    /// None came in that time.
    #[error("no packet came in that time")]
    Empty,
    /// The stream is over, and none will come.
    #[error("the stream is over: {0}")]
    Over(StreamError),
}

/// Why a packet was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// There was no room for it in that time; here it is again.
    #[error("the stream's window was full all that time")]
    Full(Bytes),
    /// It is longer than anything that is sent may be.
    #[error("the packet has {bytes} bytes; allowed: at most {bytes_max} (payload_bytes_max)")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The most there may be.
        bytes_max: usize,
    },
    /// The stream is over.
    #[error("the stream is over: {0}")]
    Over(StreamError),
}

impl Acceptor {
    /// The next stream that is opened to one of the endpoints, within `timeout`.
    ///
    /// # Errors
    /// When there is none in that time, or never again.
    pub fn accept_timeout(&self, timeout: Duration) -> Result<EndpointStream, AcceptError> {
        // One thread waits on the channel, the others for their turn; all of them no longer than they said.
        match park_until(self.accept(), deadline_after(timeout)) {
            Some(Some(stream)) => Ok(stream),
            Some(None) => Err(AcceptError::Closed),
            None => Err(AcceptError::Empty),
        }
    }
}

impl EndpointStream {
    /// The next packet, if it is here.
    ///
    /// # Errors
    /// When it is not, or never will be.
    pub fn try_recv(&mut self) -> Result<Packet, RecvError> {
        match self.packets.try_recv() {
            Ok(packet) => {
                self.note_taken(&packet);
                Ok(packet)
            }
            Err(TryRecvError::Empty) => Err(RecvError::Empty),
            Err(TryRecvError::Disconnected) => Err(RecvError::Over(self.out.reason())),
        }
    }

    /// The next packet, within `timeout`.
    ///
    /// # Errors
    /// When none comes in that time, or never will.
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Packet, RecvError> {
        match self.try_recv() {
            Err(RecvError::Empty) if !timeout.is_zero() => {}
            done => return done,
        }
        match park_until(self.recv(), deadline_after(timeout)) {
            Some(Some(packet)) => Ok(packet),
            Some(None) => Err(RecvError::Over(self.out.reason())),
            None => Err(RecvError::Empty),
        }
    }

    /// As [`EndpointSender::try_send`].
    ///
    /// # Errors
    /// As there.
    pub fn try_send(&self, tag: Option<u64>, payload: Bytes) -> Result<(), SendError> {
        self.out.try_send(tag, payload)
    }

    /// As [`EndpointSender::send_timeout`].
    ///
    /// # Errors
    /// As there.
    pub fn send_timeout(&self, tag: Option<u64>, payload: Bytes, timeout: Duration) -> Result<(), SendError> {
        self.out.send_timeout(tag, payload, timeout)
    }
}

impl EndpointSender {
    /// Sends a packet up into the wave of `tag`, or into the next of this endpoint, if there is room.
    ///
    /// # Errors
    /// The payload again, when there is none; or when the stream is over.
    pub fn try_send(&self, tag: Option<u64>, payload: Bytes) -> Result<(), SendError> {
        self.check(&payload)?;
        match self.window.try_take(&payload) {
            Ok(true) => self.pass_on(tag, payload),
            Ok(false) => return Err(SendError::Full(payload)),
            Err(Closed) => return Err(SendError::Over(self.reason())),
        }
        Ok(())
    }

    /// Sends a packet up into the wave of `tag`, or into the next of this endpoint; waits for room no longer than
    /// `timeout`.
    ///
    /// # Errors
    /// The payload again, when there was none in that time; or when the stream is over.
    pub fn send_timeout(&self, tag: Option<u64>, payload: Bytes, timeout: Duration) -> Result<(), SendError> {
        let payload = match self.try_send(tag, payload) {
            Err(SendError::Full(payload)) if !timeout.is_zero() => payload,
            done => return done,
        };
        match park_until(self.window.take(&payload), deadline_after(timeout)) {
            Some(Ok(())) => self.pass_on(tag, payload),
            Some(Err(Closed)) => return Err(SendError::Over(self.reason())),
            None => return Err(SendError::Full(payload)),
        }
        Ok(())
    }

    fn check(&self, payload: &Bytes) -> Result<(), SendError> {
        let (bytes, bytes_max) = (payload.len(), self.opening.handle.limits.payload_bytes_max);
        if bytes > bytes_max { Err(SendError::TooLarge { bytes, bytes_max }) } else { Ok(()) }
    }
}
