//! Blocking forms for threads without a runtime: the calling thread waits, for a limited time.
//!
//! Every function reports one of three results: done, not now, or never again. A timeout of zero looks
//! without waiting, and `Duration::MAX` waits for ever.

use super::Packet;
use super::accepted::{Acceptor, EndpointSender, EndpointStream};
use crate::park::{deadline_after, park_until};
use crate::window::Closed;
use bytes::Bytes;
use std::time::Duration;
use tokio::sync::mpsc::error::TryRecvError;
use treefold_core::stream::StreamError;

/// Why no stream was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// No stream was opened in that time.
    #[error("no stream was opened in that time")]
    Empty,
    /// The node has ended; no stream will ever be opened.
    #[error("the node has ended")]
    Closed,
}

/// Why there is no packet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecvError {
    /// No packet arrived in that time.
    #[error("no packet came in that time")]
    Empty,
    /// The stream is over; no packet will ever arrive.
    #[error("the stream is over: {0}")]
    Over(StreamError),
}

/// Why a packet was not sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// There was no room for the packet in that time. The payload is returned.
    #[error("the stream's window was full all that time")]
    Full(Bytes),
    /// The packet is longer than `payload_bytes_max`.
    #[error("the packet has {bytes} bytes; allowed: at most {bytes_max} (payload_bytes_max)")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The most that is allowed.
        bytes_max: usize,
    },
    /// The stream is over.
    #[error("the stream is over: {0}")]
    Over(StreamError),
}

impl Acceptor {
    /// Blocks until a stream is opened to one of the endpoints, for at most `timeout`.
    ///
    /// # Errors
    /// If no stream was opened in that time, or the node has ended.
    pub fn accept_timeout(&self, timeout: Duration) -> Result<EndpointStream, AcceptError> {
        // One thread waits on the channel and the others for their turn, none longer than its timeout.
        match park_until(self.accept(), deadline_after(timeout)) {
            Some(Some(stream)) => Ok(stream),
            Some(None) => Err(AcceptError::Closed),
            None => Err(AcceptError::Empty),
        }
    }
}

impl EndpointStream {
    /// Takes the next packet if it has arrived.
    ///
    /// # Errors
    /// If no packet is there, or the stream is over.
    pub fn try_recv(&mut self) -> Result<Packet, RecvError> {
        loop {
            if let Some(packet) = self.next_arrived() {
                return Ok(packet);
            }
            match self.arrivals.try_recv() {
                Ok(arrived) => _ = self.take_arrived(arrived),
                Err(TryRecvError::Empty) => return Err(RecvError::Empty),
                Err(TryRecvError::Disconnected) => return Err(RecvError::Over(self.out.reason())),
            }
        }
    }

    /// Blocks until the next packet arrives, for at most `timeout`.
    ///
    /// # Errors
    /// If no packet arrives in that time, or the stream is over.
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

    /// Sends like [`EndpointSender::try_send`].
    ///
    /// # Errors
    /// As for [`EndpointSender::try_send`].
    pub fn try_send(&self, tag: Option<u64>, payload: Bytes) -> Result<(), SendError> {
        self.out.try_send(tag, payload)
    }

    /// Sends like [`EndpointSender::send_timeout`].
    ///
    /// # Errors
    /// As for [`EndpointSender::send_timeout`].
    pub fn send_timeout(&self, tag: Option<u64>, payload: Bytes, timeout: Duration) -> Result<(), SendError> {
        self.out.send_timeout(tag, payload, timeout)
    }
}

impl EndpointSender {
    /// Sends a packet up into the wave of `tag`, or into this endpoint's next wave, if there is room.
    ///
    /// # Errors
    /// Returns the payload if there is no room. Fails if the stream is over or the packet is too long.
    pub fn try_send(&self, tag: Option<u64>, payload: Bytes) -> Result<(), SendError> {
        self.check(&payload)?;
        match self.window.try_take(&payload) {
            Ok(true) => self.pass_on(tag, payload),
            Ok(false) => return Err(SendError::Full(payload)),
            Err(Closed) => return Err(SendError::Over(self.reason())),
        }
        Ok(())
    }

    /// Sends a packet up into the wave of `tag`, or into this endpoint's next wave; waits for room for at
    /// most `timeout`.
    ///
    /// # Errors
    /// Returns the payload if there was no room in that time. Fails if the stream is over or the packet is
    /// too long.
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
