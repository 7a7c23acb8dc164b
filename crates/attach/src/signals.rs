//! Blocks all signals in the threads that this library starts.
//!
//! A thread inherits the signal mask of the thread that starts it, so the mask is set during the start.
//! There are two reasons. The program's handlers are written for its own threads. And Rust programs ignore
//! `SIGPIPE` but C programs do not, so that writing to a peer that has just died would end the whole
//! daemon.

use std::marker::PhantomData;
use std::mem::MaybeUninit;

/// Faults of the thread itself. Blocking them has no use.
const FAULTS: [libc::c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP];

/// While this value lives, all signals are blocked in the calling thread and in every thread that it
/// starts.
pub(crate) struct Blocked {
    before: libc::sigset_t,
    /// A mask belongs to one thread, so this value must not move to another.
    _here: PhantomData<*const ()>,
}

impl Blocked {
    pub(crate) fn new() -> Self {
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: both point to memory for a set. `sigfillset` initialises the first before it is used, and
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
        // SAFETY: the set was read on this same thread.
        let status =
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
        debug_assert_eq!(status, 0, "the arguments are valid");
    }
}
