//! A sender's window: so many bytes may be on their way, and whoever wants to send more waits until some are taken.
//!
//! The loop gives room back, as it hears from core what has been taken; senders take room, in any task or thread.
//! Packets weigh what core takes them to weigh. One that is larger than the window takes all of it.

use bytes::Bytes;
use tokio::sync::{Semaphore, TryAcquireError};
use treefold_core::stream::PACKET_BYTES;

/// Bytes that may be sent, of so many in all.
#[derive(Debug)]
pub(crate) struct Window {
    free: Semaphore,
    bytes: u64,
}

/// No room will be given any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed;

impl Window {
    /// A window of so many bytes, all of them free.
    pub(crate) fn new(bytes: u64) -> Self {
        let free = usize::try_from(bytes).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self { free: Semaphore::new(free), bytes: free as u64 }
    }

    /// Waits until there is room for a packet, and takes it.
    pub(crate) async fn take(&self, payload: &Bytes) -> Result<(), Closed> {
        let room = self.free.acquire_many(self.weight(payload)).await;
        room.map_err(|_| Closed).map(tokio::sync::SemaphorePermit::forget)
    }

    /// Takes room for a packet, or says whether there is none now.
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

    /// So many bytes have been taken. Called by one thread only.
    pub(crate) fn give(&self, bytes: u64) {
        let taken = self.bytes.saturating_sub(self.free.available_permits() as u64);
        self.free.add_permits(usize::try_from(bytes.min(taken)).unwrap_or(0));
    }

    /// Nobody waits any more, nor is given room.
    pub(crate) fn close(&self) {
        self.free.close();
    }

    fn weight(&self, payload: &Bytes) -> u32 {
        let weight = (PACKET_BYTES as u64 + payload.len() as u64).min(self.bytes);
        u32::try_from(weight).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_larger_than_the_window_takes_all_of_it_and_gives_no_more_back() {
        let window = Window::new(100);
        let [small, large] = [0, 1_000].map(|bytes| Bytes::from(vec![0; bytes]));
        assert_eq!(window.try_take(&large), Ok(true));
        assert_eq!(window.try_take(&small), Ok(false));
        window.give(PACKET_BYTES as u64 + 1_000);
        assert_eq!([window.try_take(&small), window.try_take(&small)], [Ok(true), Ok(false)]);
        window.close();
        assert_eq!(window.try_take(&small), Err(Closed));
    }

    #[test]
    fn there_are_windows_larger_than_any_memory() {
        let window = Window::new(u64::MAX);
        assert_eq!(window.try_take(&Bytes::from_static(b"x")), Ok(true));
        window.give(u64::MAX);
        assert_eq!(window.free.available_permits(), Semaphore::MAX_PERMITS);
    }
}
