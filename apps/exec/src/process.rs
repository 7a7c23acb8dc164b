//! One process, in a group of its own, from its start to its end.
//!
//! Invariants:
//!
//! - **The group is killed before its leader is reaped**, so its number still belongs to it. On Linux a file
//!   descriptor of the process tells its end without reaping it.
//! - **Every way out kills the group**: the end of the command, too much output, a cancelled call, the end of the
//!   thread ([`Group`] kills when it is dropped).
//! - **No pipe blocks the command for ever.** Its input is written, its output and its errors are read side by
//!   side. Of its errors only the last bytes are kept.

use crate::error::RunError;
use bytes::Bytes;
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process_group, setrlimit};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, Command};

/// Bytes of standard error that are kept: the last ones.
const STDERR_BYTES_MAX: usize = 2 << 10;
/// Lines of standard error in an error message: the last ones.
const STDERR_LINES_MAX: usize = 4;
/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// Time in which the pipes close after the command has ended and its group was killed. A process that has left
/// the group may hold them open.
const PIPES_GRACE: Duration = Duration::from_secs(1);
/// Prefix of the environment variables that the command does not get: they may hold the cluster's token.
const PRIVATE_VARIABLES: &str = "TREEFOLD_";

/// A command to run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
    pub(crate) directory: Option<PathBuf>,
    /// Bytes for its standard input.
    pub(crate) input: Bytes,
    /// Most bytes of its standard output.
    pub(crate) output_bytes_max: usize,
    /// Most bytes of its address space; `None` for no limit.
    pub(crate) memory_bytes_max: Option<u64>,
    /// Exit codes besides 0 with which its output is an answer.
    pub(crate) empty: Vec<i32>,
}

/// Runs a command until it ends, or until `unwanted` does. Returns its standard output.
pub(crate) async fn run(run: Run, unwanted: impl Future<Output = ()>) -> Result<Bytes, RunError> {
    let mut running = Running::start(&run)?;
    let read = tokio::select! {
        read = running.read(&run) => read,
        () = unwanted => Err(RunError::Closing),
    };
    let ended = running.end().await;
    let (output, stderr) = read?;
    judge(&run, ended.map_err(|cause| run.system(cause))?, &stderr)?;
    Ok(output.into())
}

impl Run {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        let stdin = if self.input.is_empty() { Stdio::null() } else { Stdio::piped() };
        command.args(&self.arguments).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        let is_private =
            |name: &std::ffi::OsString| name.as_encoded_bytes().starts_with(PRIVATE_VARIABLES.as_bytes());
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_private(name)) {
            command.env_remove(name);
        }
        let memory_bytes_max = self.memory_bytes_max;
        // SAFETY: between fork and exec, `confine` only makes system calls. It neither allocates nor locks.
        unsafe { command.pre_exec(move || confine(memory_bytes_max)) };
        command
    }

    #[cold]
    fn system(&self, cause: io::Error) -> RunError {
        RunError::System { program: self.program.clone(), cause }
    }
}

/// Bounds the process in which it is called, and ties its life to that of the thread that started it.
fn confine(memory_bytes_max: Option<u64>) -> io::Result<()> {
    if let Some(bytes) = memory_bytes_max {
        // An unprivileged process can lower its limit only.
        let bytes = getrlimit(Resource::As).maximum.map_or(bytes, |allowed| allowed.min(bytes));
        setrlimit(Resource::As, Rlimit { current: Some(bytes), maximum: Some(bytes) })?;
    }
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    Ok(())
}

/// A process that was started and not reaped.
struct Running {
    // Dropped first: the group is killed while the process is not reaped.
    group: Group,
    child: Child,
}

impl Running {
    fn start(run: &Run) -> Result<Self, RunError> {
        let start = |cause| RunError::Start { program: run.program.clone(), cause };
        let child = run.command().spawn().map_err(start)?;
        let leader = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let leader = leader.expect("invariant: a process that was not waited for has a number");
        Ok(Self { group: Group { leader: Some(leader) }, child })
    }

    /// Reads its output and its last errors until it ends, then kills the rest of its group.
    async fn read(&mut self, run: &Run) -> Result<(Vec<u8>, Vec<u8>), RunError> {
        let (stdin, stdout, stderr) =
            (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take());
        let write = async {
            if let Some(mut stdin) = stdin {
                // A command need not read its input.
                let _ = stdin.write_all(&run.input).await;
            }
            Ok(())
        };
        let stdout = stdout.expect("invariant: standard output is a pipe");
        let stderr = stderr.expect("invariant: standard error is a pipe");
        let pipes = async { tokio::try_join!(write, bounded(stdout, run), last(stderr, run)) };
        tokio::pin!(pipes);
        let (Self { group, child }, mut early) = (self, None);
        let ended = async {
            exited(group, child).await?;
            group.kill();
            if child.id().is_none() {
                // It was reaped meanwhile, so its number may be another's from now on.
                group.leader = None;
            }
            Ok::<(), io::Error>(())
        };
        tokio::pin!(ended);
        tokio::select! {
            read = &mut pipes => early = Some(read?),
            done = &mut ended => done.map_err(|cause| run.system(cause))?,
        }
        let ((), output, errors) = match early {
            Some(read) => {
                ended.await.map_err(|cause| run.system(cause))?;
                read
            }
            None => match tokio::time::timeout(PIPES_GRACE, pipes).await {
                Ok(read) => read?,
                Err(_) => return Err(RunError::Held { program: run.program.clone() }),
            },
        };
        Ok((output, errors))
    }

    /// Kills what is left of the group, and reaps the process.
    async fn end(&mut self) -> io::Result<ExitStatus> {
        self.group.kill();
        let status = self.child.wait().await;
        self.group.leader = None;
        status
    }
}

/// A process group. It is killed when it is dropped, unless its leader was reaped.
struct Group {
    leader: Option<Pid>,
}

impl Group {
    /// Kills every process in the group.
    fn kill(&self) {
        if let Some(leader) = self.leader {
            // It fails if all processes have ended.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Waits for the end of the group's leader without reaping it, if the system can tell.
#[cfg(target_os = "linux")]
async fn exited(group: &Group, child: &mut Child) -> io::Result<()> {
    use rustix::process::{PidfdFlags, pidfd_open};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    let Some(leader) = group.leader else { return Ok(()) };
    match pidfd_open(leader, PidfdFlags::empty()) {
        Ok(process) => {
            // SAFETY: the descriptor is open, belongs to this value alone, and is closed with it.
            let process = unsafe { AsyncFd::register_with_interest(process, Interest::READABLE) }?;
            process.readable().await.map(drop)
        }
        // Kernels before 5.3.
        Err(_) => child.wait().await.map(drop),
    }
}

/// Waits for the end of the group's leader. It is reaped, so its number could be taken by a new group in the
/// moment until the group is killed; the system gives a number again only after all others.
#[cfg(not(target_os = "linux"))]
async fn exited(_: &Group, child: &mut Child) -> io::Result<()> {
    child.wait().await.map(drop)
}

/// Reads to the end, or to the limit.
async fn bounded(mut from: impl AsyncRead + Unpin, run: &Run) -> Result<Vec<u8>, RunError> {
    let (mut all, max) = (Vec::new(), run.output_bytes_max);
    loop {
        // One byte more than allowed shows that there is too much.
        let room = (max + 1 - all.len()).min(READ_BYTES);
        let count = (&mut from).take(room as u64).read_to_end(&mut all).await;
        if count.map_err(|cause| run.system(cause))? == 0 {
            return Ok(all);
        }
        if all.len() > max {
            return Err(RunError::Output { program: run.program.clone(), max });
        }
    }
}

/// Reads to the end, and keeps the last bytes.
async fn last(mut from: impl AsyncRead + Unpin, run: &Run) -> Result<Vec<u8>, RunError> {
    let mut kept = Vec::new();
    loop {
        let count = (&mut from).take(STDERR_BYTES_MAX as u64).read_to_end(&mut kept).await;
        if count.map_err(|cause| run.system(cause))? == 0 {
            return Ok(kept);
        }
        kept.drain(..kept.len().saturating_sub(STDERR_BYTES_MAX));
    }
}

/// Decides whether the output of a process that ended is an answer.
fn judge(run: &Run, status: ExitStatus, stderr: &[u8]) -> Result<(), RunError> {
    let program = run.program.clone();
    let stderr = last_lines(stderr);
    match (status.code(), status.signal()) {
        (Some(code), _) if code == 0 || run.empty.contains(&code) => Ok(()),
        (Some(code), _) => Err(RunError::Exit { program, code, stderr }),
        (None, signal) => Err(RunError::Signal { program, signal: signal.unwrap_or_default(), stderr }),
    }
}

/// Returns the last lines of a text as one line.
fn last_lines(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(STDERR_LINES_MAX)..].join("; ")
}
