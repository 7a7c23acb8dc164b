//! A file descriptor that is readable when there may be news, for programs that wait in `poll`.
//!
//! A pair of sockets and a flag: ringing writes one byte unless one is there, and clearing reads what is there *before*
//! it lowers the flag. Whoever rings between the two writes nothing, but what it rings for was there before, and the
//! program looks after clearing. Whoever rings just before may write a byte that finds nothing: a look in vain, and no
//! news is lost.

use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes read at a time when the bell is cleared; there is hardly ever more than one.
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
            // It can only be full of bytes, which say the same.
            let _ = (&self.write).write(&[1]);
        }
    }

    /// Makes the descriptor quiet until it is rung again.
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
    fn one_byte_says_it_however_often_it_is_rung() {
        let bell = Bell::new().unwrap();
        let waiting = || (&bell.read).read(&mut [0; 4]).unwrap_or(0);
        (0..100_000).for_each(|_| bell.ring());
        assert_eq!(waiting(), 1);
        bell.ring();
        assert_eq!(waiting(), 0, "nobody has cleared it");
        bell.clear();
        bell.ring();
        assert_eq!(waiting(), 1);
        bell.clear();
        assert_eq!(waiting(), 0);
    }
}
