//! Network namespaces without a name, held only by a descriptor.
//!
//! The kernel removes such a namespace, with all its interfaces, addresses and queues, as soon as no
//! descriptor and no process refers to it. So nothing of a testbed outlives this process and the nodes it
//! started, however it ends. Tools that need a name get `/proc/PID/fd/N`.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A network namespace: a host or a switch.
#[derive(Debug)]
pub(crate) struct Space(File);

impl Space {
    /// Creates a namespace with a loopback interface that is down.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] without the right to administer the system (`CAP_SYS_ADMIN`).
    pub(crate) fn new() -> io::Result<Self> {
        // The thread has a separate network from here to its end; other threads keep theirs.
        apart(|| {
            // SAFETY: the call touches no memory.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
            File::open("/proc/thread-self/ns/net").map(Self)
        })
    }

    /// Returns a path by which programs started here find it.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Runs `inside` in the namespace, on a separate thread. Sockets opened there stay there.
    pub(crate) fn run<T: Send>(&self, inside: impl FnOnce() -> T + Send) -> io::Result<T> {
        let descriptor = self.0.as_raw_fd();
        apart(move || enter(descriptor).map(|()| inside()))
    }

    /// Makes a program run in the namespace, and end when the thread that starts it ends.
    pub(crate) fn contain(&self, command: &mut Command) {
        let descriptor = self.0.as_raw_fd();
        let parent = std::process::id();
        let enter = move || {
            enter(descriptor)?;
            // SAFETY: prctl with these arguments and getppid touch no memory.
            let (refused, above) = unsafe {
                (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0, libc::getppid().unsigned_abs())
            };
            match (refused, above == parent) {
                (true, _) => Err(io::Error::last_os_error()),
                // The starting process died before the signal was set up.
                (_, false) => Err(io::ErrorKind::Interrupted.into()),
                _ => Ok(()),
            }
        };
        // SAFETY: the closure allocates nothing and takes no lock, as required between fork and exec.
        unsafe { command.pre_exec(enter) };
    }
}

fn enter(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: the call touches no memory; the descriptor is open as long as its `Space` exists.
    match unsafe { libc::setns(descriptor, libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Runs `work` on a separate thread, so that its changes to the thread end with it.
fn apart<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
