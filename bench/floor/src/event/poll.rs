//! The three system calls of epoll, without a library between the program and the kernel.
//!
//! Readiness is level-triggered: a socket is reported as long as it is ready, so a loop that stops reading after
//! a short read misses nothing.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Most sockets reported by one call. The others are reported by the next one.
const EVENTS_MAX: usize = 256;

/// An epoll instance and the sockets that it has reported as ready.
pub(crate) struct Poll {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
}

/// A socket that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    /// The token with which the socket was added.
    pub(crate) token: u64,
    /// Whether a read returns bytes, the end of the stream, or an error.
    pub(crate) can_read: bool,
    pub(crate) can_write: bool,
}

impl Poll {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: the call takes flags only and returns a descriptor or -1.
        let epoll = checked(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the kernel has just opened this descriptor, and nothing else owns it.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        Ok(Self { epoll, events: Vec::with_capacity(EVENTS_MAX) })
    }

    /// Reports from now on when the socket is readable.
    pub(crate) fn add(&self, socket: &TcpStream, token: u64) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, socket, token, libc::EPOLLIN)
    }

    /// Reports from now on also when the socket is writable, or no longer.
    pub(crate) fn watch_writes(&self, socket: &TcpStream, token: u64, are_watched: bool) -> io::Result<()> {
        let events = if are_watched { libc::EPOLLIN | libc::EPOLLOUT } else { libc::EPOLLIN };
        self.control(libc::EPOLL_CTL_MOD, socket, token, events)
    }

    fn control(&self, operation: i32, socket: &TcpStream, token: u64, events: i32) -> io::Result<()> {
        let mut event = libc::epoll_event { events: events.cast_unsigned(), u64: token };
        // SAFETY: both descriptors are open, and the kernel reads `event` during the call only.
        let status =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, socket.as_raw_fd(), &raw mut event) };
        checked(status).map(drop)
    }

    /// Waits until a socket is ready. Returns the number of ready sockets, which may be 0 after a signal.
    pub(crate) fn wait(&mut self) -> io::Result<usize> {
        self.events.clear();
        // SAFETY: `events` has room for EVENTS_MAX events, which the kernel fills from its beginning.
        let status = checked(unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), self.events.as_mut_ptr(), EVENTS_MAX as i32, -1)
        });
        let ready = match status {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
            other => usize::try_from(other?).expect("a count is not negative"),
        };
        // SAFETY: the kernel has filled the first `ready` events, at most EVENTS_MAX.
        unsafe { self.events.set_len(ready) };
        Ok(ready)
    }

    /// Returns one of the sockets that the last [`wait`](Self::wait) reported.
    pub(crate) fn ready(&self, at: usize) -> Ready {
        let libc::epoll_event { events, u64: token } = self.events[at];
        let has = |flags: i32| events & flags.cast_unsigned() != 0;
        // A read tells about errors and ends.
        let can_read = has(libc::EPOLLIN | libc::EPOLLERR | libc::EPOLLHUP);
        Ready { token, can_read, can_write: has(libc::EPOLLOUT) }
    }
}

fn checked(status: i32) -> io::Result<i32> {
    if status == -1 { Err(io::Error::last_os_error()) } else { Ok(status) }
}
