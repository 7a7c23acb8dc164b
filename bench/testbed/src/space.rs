//! Network namespaces that have no name and are held by nothing but a descriptor.
//!
//! The kernel removes such a namespace, with every interface, address and queue in it, as soon as no descriptor and no
//! process is left in it. So nothing of a testbed outlives this process and the nodes it started, however it ends. Tools
//! that want a name get `/proc/PID/fd/N`.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A network of its own: a host, or a switch.
#[derive(Debug)]
pub(crate) struct Space(File);

impl Space {
    /// A new one, with a loopback interface that is down.
    ///
    /// # Errors
    /// [`io::ErrorKind::PermissionDenied`] without the right to administer the system (`CAP_SYS_ADMIN`).
    pub(crate) fn new() -> io::Result<Self> {
        // A thread has a network of its own from here to its end; the others keep theirs.
        apart(|| {
            // SAFETY: the call touches no memory.
            if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
                return Err(io::Error::last_os_error());
            }
            File::open("/proc/thread-self/ns/net").map(Self)
        })
    }

    /// A name by which programs started here find it.
    pub(crate) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Does something inside, on a thread of its own: what is opened there stays there.
    pub(crate) fn run<T: Send>(&self, inside: impl FnOnce() -> T + Send) -> io::Result<T> {
        let descriptor = self.0.as_raw_fd();
        apart(move || enter(descriptor).map(|()| inside()))
    }

    /// Has a program run inside, and end when the thread that starts it does.
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
                // Who started it died before it could be tied to that.
                (_, false) => Err(io::ErrorKind::Interrupted.into()),
                _ => Ok(()),
            }
        };
        // SAFETY: the closure allocates nothing and takes no lock, as is demanded between fork and exec.
        unsafe { command.pre_exec(enter) };
    }
}

fn enter(descriptor: RawFd) -> io::Result<()> {
    // SAFETY: the call touches no memory; the descriptor is open as long as its `Space` is.
    match unsafe { libc::setns(descriptor, libc::CLONE_NEWNET) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Runs on a thread that ends with it, and with what it did to itself.
fn apart<T: Send>(work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
