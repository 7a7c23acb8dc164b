//! A file descriptor that is readable when there may be news, for programs that wait in `poll`.
//!
//! It is a pair of sockets and a flag. Ringing writes one byte unless the flag is set. Clearing reads the
//! bytes *before* it lowers the flag. If a thread rings between these two steps, it writes nothing; but its
//! news was there before, and the program looks for news after clearing. If a thread rings just before
//! them, its byte may wake the program once for nothing. No news is lost.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes read at a time when the bell is cleared. There is rarely more than one.
const CLEARED_BYTES: usize = 64;

pub(crate) struct Bell {
    read: UnixStream,
    write: UnixStream,
    has_rung: AtomicBool,
}

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        let (read, write) = UnixStream::pair()?;
        read.set_nonblocking(true)?;
        write.set_nonblocking(true)?;
        Ok(Self { read, write, has_rung: AtomicBool::new(false) })
    }

    /// Makes the descriptor readable. Never blocks.
    pub(crate) fn ring(&self) {
        if !self.has_rung.swap(true, Ordering::AcqRel) {
            // The write can fail only because the socket is full, and then it is readable already.
            let _ = (&self.write).write(&[1]);
        }
    }

    /// Makes the descriptor unreadable until the bell rings again.
    pub(crate) fn clear(&self) {
        while matches!((&self.read).read(&mut [0; CLEARED_BYTES]), Ok(CLEARED_BYTES)) {}
        self.has_rung.swap(false, Ordering::AcqRel);
    }

    pub(crate) fn descriptor(&self) -> RawFd {
        self.read.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_rings_write_one_byte() {
        let bell = Bell::new().unwrap();
        let waiting = || (&bell.read).read(&mut [0; 4]).unwrap_or(0);
        (0..100_000).for_each(|_| bell.ring());
        assert_eq!(waiting(), 1);
        bell.ring();
        assert_eq!(waiting(), 0, "the bell has not been cleared");
        bell.clear();
        bell.ring();
        assert_eq!(waiting(), 1);
        bell.clear();
        assert_eq!(waiting(), 0);
    }
}
