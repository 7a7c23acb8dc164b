//! Threads that are started here take no signals.
//!
//! A thread inherits its starter's mask, so the mask is set for the time of the start. Two reasons: a program's
//! handlers are written for its own threads; and Rust programs ignore `SIGPIPE` where C programs do not, so that
//! writing to a peer that has just died would end the whole daemon.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Faults of the thread itself, which are useless to block.
const FAULTS: [libc::c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];

/// While it lives, threads that the calling thread starts have all signals blocked, and so has it.
pub(crate) struct Blocked {
    before: libc::sigset_t,
    /// A mask is a thread's own: this value must not leave it.
    _here: PhantomData<*const ()>,
}

impl Blocked {
    pub(crate) fn new() -> Self {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: both sets are places for one; `sigfillset` makes the first whole before it is used, and
        // `pthread_sigmask` the second. Neither call can fail with these arguments.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            for fault in FAULTS {
                libc::sigdelset(all.as_mut_ptr(), fault);
            }
            let status = libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
            debug_assert_eq!(status, 0, "the arguments are valid");
            Self { before: before.assume_init(), _here: PhantomData }
        }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set came from this very thread.
        let status =
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
        debug_assert_eq!(status, 0, "the arguments are valid");
    }
}
