//! A sender's window: a limited number of bytes may be in flight, and further senders wait until some are
//! taken.
//!
//! The loop returns room when core reports that packets were taken. Senders take room, in any task or thread.
//! Each packet has the weight that core gives it. A packet larger than the window takes all of it that surely becomes
//! free: endpoints withhold the acknowledgement of up to a sixteenth ([`ACKNOWLEDGE_SHARE`]), so a packet that needed
//! the whole window could wait for ever behind a small one.

use bytes::Bytes;
use tokio::sync::{Semaphore, TryAcquireError};
use treefold_core::stream::{ACKNOWLEDGE_SHARE, PACKET_BYTES};

/// The free part of a window, and its size in bytes.
#[derive(Debug)]
pub(crate) struct Window {
    free: Semaphore,
    bytes: u64,
}

/// The window is closed and gives no more room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed;

impl Window {
    /// A window of `bytes` bytes, all free.
    pub(crate) fn new(bytes: u64) -> Self {
        let free = usize::try_from(bytes).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self { free: Semaphore::new(free), bytes: free as u64 }
    }

    /// Waits until there is room for a packet, and takes it.
    pub(crate) async fn take(&self, payload: &Bytes) -> Result<(), Closed> {
        let room = self.free.acquire_many(self.weight(payload)).await;
        room.map_err(|_| Closed).map(tokio::sync::SemaphorePermit::forget)
    }

    /// Takes room for a packet. Returns false if there is none now.
    pub(crate) fn try_take(&self, payload: &Bytes) -> Result<bool, Closed> {
        match self.free.try_acquire_many(self.weight(payload)) {
            Ok(room) => {
                room.forget();
                Ok(true)
            }
            Err(TryAcquireError::NoPermits) => Ok(false),
            Err(TryAcquireError::Closed) => Err(Closed),
        }
    }

    /// Returns `bytes` bytes of room. Called by one thread only.
    pub(crate) fn give(&self, bytes: u64) {
        let taken = self.bytes.saturating_sub(self.free.available_permits() as u64);
        self.free.add_permits(usize::try_from(bytes.min(taken)).unwrap_or(0));
    }

    /// Closes the window. Waiting senders get an error.
    pub(crate) fn close(&self) {
        self.free.close();
    }

    fn weight(&self, payload: &Bytes) -> u32 {
        let most = self.bytes - self.bytes / ACKNOWLEDGE_SHARE;
        let weight = (PACKET_BYTES as u64 + payload.len() as u64).min(most);
        u32::try_from(weight).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_above_the_window_takes_all_but_what_may_be_withheld() {
        let window = Window::new(16 * PACKET_BYTES as u64);
        let [small, large] = [0, 10_000].map(|bytes| Bytes::from(vec![0; bytes]));
        assert_eq!(window.try_take(&small), Ok(true));
        assert_eq!(
            window.try_take(&large),
            Ok(true),
            "the small one is a sixteenth, and may stay unacknowledged"
        );
        assert_eq!(window.try_take(&small), Ok(false));
        window.give(2 * PACKET_BYTES as u64 + 10_000);
        assert_eq!([window.try_take(&large), window.try_take(&large)], [Ok(true), Ok(false)]);
        window.close();
        assert_eq!(window.try_take(&small), Err(Closed));
    }

    #[test]
    fn windows_may_exceed_the_semaphores_limit() {
        let window = Window::new(u64::MAX);
        assert_eq!(window.try_take(&Bytes::from_static(b"x")), Ok(true));
        window.give(u64::MAX);
        assert_eq!(window.free.available_permits(), Semaphore::MAX_PERMITS);
    }
}
