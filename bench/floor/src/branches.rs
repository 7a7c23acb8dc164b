//! A node's children: their processes, and a socket to each.
//!
//! Children connect to their parent: the parent listens on a free loopback port, starts its children with
//! that port, and accepts every connection. It does not matter which socket belongs to which child, because
//! sums commute.
//!
//! No child outlives the tree. Normally, the parent closes its sockets, and a child reads the end of its
//! stream, closes its sockets, and is waited for. If a parent is killed, the kernel signals its children
//! ([`die_with_parent`]) on Linux. On other systems, the end of the stream ends them a little later.

use crate::options::{Kind, Seat};
use crate::tree::{Place, SUM_BYTES};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// If a tree is not complete by then, it has lost a process during the start.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval at which a parent that waits for connections checks that its children are alive.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// The children of one node.
pub(crate) struct Branches {
    sockets: Vec<TcpStream>,
    processes: Vec<Child>,
    /// Whether every child has connected. One that has not cannot see the end of a stream.
    all_connected: bool,
    /// Received sums of one batch from one child.
    arrived: Vec<u8>,
}

impl Branches {
    /// Starts a process for each child and waits until each reports that its subtree is complete. Returns them
    /// with the number of nodes below this process.
    ///
    /// # Errors
    /// An error of the system, or a time-out; the processes already started are ended.
    pub(crate) fn grow(
        kind: Kind,
        root_port: u16,
        children: impl IntoIterator<Item = Place>,
    ) -> io::Result<(Self, u64)> {
        let mut branches =
            Self { sockets: Vec::new(), processes: Vec::new(), all_connected: false, arrived: Vec::new() };
        let mut children = children.into_iter().peekable();
        if children.peek().is_none() {
            return Ok((branches, 0));
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let program = std::env::current_exe()?;
        let parent_port = listener.local_addr()?.port();
        for place in children {
            let seat = Seat { place, kind, parent_port, root_port, parent_process: std::process::id() };
            let child = Command::new(&program).args(seat.to_args()).stdin(Stdio::null()).spawn()?;
            branches.processes.push(child);
            // Accept waiting connections now, because the listener's queue is short.
            while wait_for_caller(&listener, Duration::ZERO)? {
                branches.admit(&listener)?;
            }
        }
        branches.await_callers(&listener)?;
        branches.all_connected = true;
        let mut below = [0];
        branches.fold(&mut below)?;
        for socket in &branches.sockets {
            socket.set_read_timeout(None)?;
        }
        Ok((branches, below[0]))
    }

    /// Waits until every child has connected. It checks for children that have ended, so that it need not
    /// wait for the time-out.
    fn await_callers(&mut self, listener: &TcpListener) -> io::Result<()> {
        let begun = Instant::now();
        while self.sockets.len() < self.processes.len() {
            if wait_for_caller(listener, LOOK_INTERVAL)? {
                self.admit(listener)?;
                continue;
            }
            for process in &mut self.processes {
                if process.try_wait()?.is_some() {
                    let reason = "a child ended before the tree was complete";
                    return Err(io::Error::new(io::ErrorKind::NotConnected, reason));
                }
            }
            if begun.elapsed() > START_TIMEOUT {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "a child never connected"));
            }
        }
        Ok(())
    }

    fn admit(&mut self, listener: &TcpListener) -> io::Result<()> {
        let (socket, _) = listener.accept()?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(START_TIMEOUT))?;
        self.sockets.push(socket);
        Ok(())
    }

    /// Takes the sockets, for a loop of another kind. They must be closed before this value is dropped, because
    /// it waits for the processes, which end when their sockets close.
    pub(crate) fn take_sockets(&mut self) -> Vec<TcpStream> {
        std::mem::take(&mut self.sockets)
    }

    /// Sends the same orders to every child.
    pub(crate) fn send(&mut self, orders: &[u8]) -> io::Result<()> {
        for socket in &mut self.sockets {
            socket.write_all(orders)?;
        }
        Ok(())
    }

    /// Waits for one sum per order from every child and adds them to `sums`.
    pub(crate) fn fold(&mut self, sums: &mut [u64]) -> io::Result<()> {
        self.arrived.resize(sums.len() * SUM_BYTES, 0);
        for socket in &mut self.sockets {
            socket.read_exact(&mut self.arrived)?;
            add_sums(&self.arrived, sums);
        }
        Ok(())
    }

    /// As [`fold`](Self::fold), but takes as many sums as the first child has sent, at least one and at most
    /// `sums.len()`, and waits for as many from the others. Returns that number.
    pub(crate) fn fold_ready(&mut self, sums: &mut [u64]) -> io::Result<usize> {
        let Some((first, others)) = self.sockets.split_first_mut() else {
            return Ok(sums.len());
        };
        self.arrived.resize(sums.len() * SUM_BYTES, 0);
        let read = first.read(&mut self.arrived)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let whole_bytes = read.next_multiple_of(SUM_BYTES);
        first.read_exact(&mut self.arrived[read..whole_bytes])?;
        let (batch, ready) = (&mut self.arrived[..whole_bytes], whole_bytes / SUM_BYTES);
        add_sums(batch, &mut sums[..ready]);
        for socket in others {
            socket.read_exact(batch)?;
            add_sums(batch, &mut sums[..ready]);
        }
        Ok(ready)
    }
}

impl Drop for Branches {
    fn drop(&mut self) {
        // A child ends when its socket closes. A child that never connected must be killed.
        self.sockets.clear();
        for process in &mut self.processes {
            if !self.all_connected {
                let _ = process.kill();
            }
            let _ = process.wait();
        }
    }
}

fn add_sums(bytes: &[u8], sums: &mut [u64]) {
    for (sum, bytes) in sums.iter_mut().zip(bytes.as_chunks::<SUM_BYTES>().0) {
        *sum = sum.wrapping_add(u64::from_le_bytes(*bytes));
    }
}

/// Returns whether a connection waits to be accepted, within `patience`.
fn wait_for_caller(listener: &TcpListener, patience: Duration) -> io::Result<bool> {
    let mut watched = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let patience_ms = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: one valid pollfd, whose descriptor `listener` keeps open during the call.
    match unsafe { libc::poll(&raw mut watched, 1, patience_ms) } {
        -1 => Err(io::Error::last_os_error()),
        ready => Ok(ready > 0),
    }
}

/// Takes a seat: connects this process to its parent, starts the children, and reports the subtree complete.
///
/// # Errors
/// An error of the system, or a lost parent or child.
pub(crate) fn join(seat: &Seat) -> io::Result<(TcpStream, Branches)> {
    die_with_parent(seat.parent_process)?;
    let mut parent = TcpStream::connect((Ipv4Addr::LOCALHOST, seat.parent_port))?;
    parent.set_nodelay(true)?;
    let (branches, below) = Branches::grow(seat.kind, seat.root_port, seat.place.child_places())?;
    parent.write_all(&(below + 1).to_le_bytes())?;
    Ok((parent, branches))
}

/// Asks the kernel to end this process when its parent ends.
///
/// # Errors
/// If the parent had ended before the request, because this process would then never be signalled.
fn die_with_parent(parent_process: u32) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: PR_SET_PDEATHSIG takes a signal number and touches no memory.
        if unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) } == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    if std::os::unix::process::parent_id() == parent_process {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::NotConnected, "the parent process has ended"))
    }
}
