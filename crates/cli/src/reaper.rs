//! The command as process 1 of a container, or as another process that inherits orphans.
//!
//! If a command of an exec service leaves processes behind, they become children of the nearest process that inherits orphans:
//! process 1 of their namespace, or one that has declared itself a subreaper. That process must collect their exit statuses,
//! or each of them stays in the table of processes until no further one can start. In a container process 1 is this command.
//!
//! A node can't collect all statuses itself: it would take those of its own commands from the runtime, which waits for them one by
//! one. So a process that inherits orphans starts the same command line again as its child, and itself only passes signals on,
//! collects statuses, and ends as the child does. `tini` and `docker run --init` do the same.
//!
//! Invariants:
//!
//! - The child is not process 1, and a fork does not inherit the subreaper's part. So it does not start a further one.
//! - The child dies with this process, also if that is killed.
//! - The child is a process group of its own, in the terminal's foreground if this process was, so that it gets each signal
//!   of the terminal once. In a namespace that was entered without a session of its own, it stays in the caller's group.

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use tokio::signal::unix::{SignalKind, signal};

/// The signals that are passed on.
const PASSED_ON: [(Signal, SignalKind); 6] = [
    (Signal::HUP, SignalKind::hangup()),
    (Signal::INT, SignalKind::interrupt()),
    (Signal::QUIT, SignalKind::quit()),
    (Signal::TERM, SignalKind::terminate()),
    (Signal::USR1, SignalKind::user_defined1()),
    (Signal::USR2, SignalKind::user_defined2()),
];

/// Added to a signal's number for the exit code, as shells do.
const ENDED_BY_SIGNAL: i32 = 128;

/// True if this process inherits orphans.
pub(crate) fn inherits_orphans() -> bool {
    let mut is_subreaper: libc::c_int = 0;
    // SAFETY: this option writes one integer at the address, which is valid for it.
    let told = unsafe { libc::prctl(libc::PR_GET_CHILD_SUBREAPER, &raw mut is_subreaper) };
    getpid() == Pid::INIT || (told == 0 && is_subreaper != 0)
}

/// Runs the command line in a child, and collects the status of every process that ends meanwhile. Returns the child's exit
/// code.
///
/// # Errors
/// If the child can't be started; nothing has happened then.
pub(crate) fn run_apart(program: &Path, words: &[OsString]) -> io::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    // Caught before the child starts, so that none is missed.
    let mut ended = signal(SignalKind::child())?;
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    for (signal_of, kind) in PASSED_ON {
        let (mut caught, tell) = (signal(kind)?, tell.clone());
        runtime.spawn(async move { while caught.recv().await.is_some() && tell.send(signal_of).is_ok() {} });
    }
    let child = start(program, words)?;
    let status = runtime.block_on(async {
        loop {
            if let Some(status) = collect(child)? {
                return Ok::<_, io::Error>(status);
            }
            tokio::select! {
                _ = ended.recv() => {}
                passed = told.recv() => {
                    // It fails if the child has ended; its status comes next.
                    let _ = passed.map(|signal| kill_process(child, signal));
                }
            }
        }
    });
    let status = status.expect("invariant: a child whose status was not collected can be waited for");
    let code = match status.terminating_signal() {
        Some(signal) => ENDED_BY_SIGNAL + signal,
        None => status.exit_status().unwrap_or(1),
    };
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
}

fn start(program: &Path, words: &[OsString]) -> io::Result<Pid> {
    let mut command = Command::new(program);
    command.args(words.iter().skip(1));
    if let Some(name) = words.first() {
        command.arg0(name);
    }
    // SAFETY: getpgrp touches no memory.
    let group = unsafe { libc::getpgrp() };
    // 0 is a group outside of this namespace, whose terminal is not this process's to hand on.
    if group != 0 {
        command.process_group(0);
    }
    let begin = move || {
        // SAFETY: these system calls touch no memory but the set of signals, which is initialised before it is used, and may be
        // made between fork and exec.
        unsafe {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            if group != 0 && libc::tcgetpgrp(libc::STDIN_FILENO) == group {
                // A process in the background is stopped if it takes the terminal, unless it blocks the signal.
                let mut stops: libc::sigset_t = std::mem::zeroed();
                libc::sigemptyset(&raw mut stops);
                libc::sigaddset(&raw mut stops, libc::SIGTTOU);
                libc::sigprocmask(libc::SIG_BLOCK, &raw const stops, std::ptr::null_mut());
                libc::tcsetpgrp(libc::STDIN_FILENO, libc::getpid());
                libc::sigprocmask(libc::SIG_UNBLOCK, &raw const stops, std::ptr::null_mut());
            }
        }
        Ok(())
    };
    // SAFETY: the closure allocates nothing and takes no lock, as required between fork and exec.
    unsafe { command.pre_exec(begin) };
    // Its status is collected with those of the orphans.
    let id = command.spawn()?.id();
    Ok(Pid::from_raw(id.cast_signed()).expect("invariant: a process has a number"))
}

/// Collects the statuses of all processes that have ended. Returns that of the child, if it is among them.
fn collect(child: Pid) -> io::Result<Option<WaitStatus>> {
    loop {
        match wait(WaitOptions::NOHANG)? {
            Some((ended, status)) if ended == child => return Ok(Some(status)),
            Some(_) => {}
            None => return Ok(None),
        }
    }
}
