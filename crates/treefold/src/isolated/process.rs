//! The node's side: a bounded number of processes, each with a thread that reads its answers and reaps it.

use super::VARIABLE;
use super::frame::{ANSWER_HEAD_BYTES, Answer, Ask, encoded, read};
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use treefold_operators::cancelled;

/// Time between two looks at whether somebody still waits for a local.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Why a local has no answer.
#[derive(Debug)]
pub(super) enum Ended {
    /// Nobody waits for it any longer.
    Unwanted,
    /// Its process has ended, in these words.
    Process(String),
    /// No process could be started.
    Start(io::Error),
}

/// News of a process, from its thread.
enum News {
    Answer(Answer),
    Ended(String),
}

/// The processes of a service.
pub(super) struct Pool {
    service: String,
    processes_max: usize,
    answer_bytes_max: usize,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    idle: Vec<Process>,
    /// All processes, also those that run a local.
    processes: usize,
}

impl Pool {
    pub(super) fn new(service: &str, processes_max: usize, partial_bytes_max: usize) -> Self {
        let answer_bytes_max = partial_bytes_max.saturating_add(ANSWER_HEAD_BYTES);
        let (state, freed) = (Mutex::default(), Condvar::new());
        Self { service: service.to_owned(), processes_max, answer_bytes_max, state, freed }
    }

    /// Runs a local, and waits for its answer as long as somebody wants it.
    pub(super) fn run(&self, ask: &Ask) -> Result<Answer, Ended> {
        let mut process = self.take()?;
        let answer = process.run(ask);
        let mut state = self.lock();
        if process.is_usable() {
            state.idle.push(process);
        } else {
            state.processes -= 1;
            // It is killed here.
            drop(process);
        }
        drop(state);
        self.freed.notify_one();
        answer
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code of a service runs under this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An idle process, or a new one. Waits if there are as many as allowed.
    fn take(&self) -> Result<Process, Ended> {
        let mut state = self.lock();
        loop {
            while let Some(mut process) = state.idle.pop() {
                if process.is_alive() {
                    return Ok(process);
                }
                state.processes -= 1;
            }
            if state.processes < self.processes_max {
                state.processes += 1;
                drop(state);
                return Process::start(&self.service, self.answer_bytes_max).map_err(|error| {
                    self.lock().processes -= 1;
                    Ended::Start(error)
                });
            }
            if cancelled() {
                return Err(Ended::Unwanted);
            }
            state = self.freed.wait_timeout(state, LOOK_EVERY).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A process. Dropping it kills it.
struct Process {
    socket: UnixStream,
    news: Receiver<News>,
    /// It has loaded its data.
    is_ready: bool,
    /// It was given a local, and has not answered.
    is_busy: bool,
    has_ended: bool,
}

impl Process {
    fn start(service: &str, answer_bytes_max: usize) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_write_timeout(Some(LOOK_EVERY))?;
        let reading = socket.try_clone()?;
        let mut command = Command::new(program()?);
        let mut arguments = std::env::args_os();
        if let Some(name) = arguments.next() {
            command.arg0(name);
        }
        command.args(arguments).env(VARIABLE, service).stdin(OwnedFd::from(theirs));
        command.stdout(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?));
        // A signal from the terminal is for the node, which ends it.
        command.process_group(0);
        let child = command.spawn()?;
        // Its end of the socket is closed here, so that the end of the process is the end of the socket.
        drop(command);
        let (sender, news) = channel();
        let name = format!("tf-isolated-{}", child.id());
        let mut process = Self { socket, news, is_ready: false, is_busy: false, has_ended: false };
        let watch = move || watch(child, reading, &sender, answer_bytes_max);
        if let Err(error) = std::thread::Builder::new().name(name).spawn(watch) {
            // The process ends when the socket is closed; without a thread it is reaped at the end of the node.
            process.has_ended = true;
            return Err(error);
        }
        Ok(process)
    }

    fn run(&mut self, ask: &Ask) -> Result<Answer, Ended> {
        if !self.is_ready {
            self.answer()?;
            self.is_ready = true;
        }
        self.is_busy = true;
        self.send(&encoded(ask).map_err(Ended::Start)?)?;
        let answer = self.answer()?;
        self.is_busy = false;
        Ok(answer)
    }

    /// Waits for its next answer.
    fn answer(&mut self) -> Result<Answer, Ended> {
        loop {
            match self.news.recv_timeout(LOOK_EVERY) {
                Ok(News::Answer(answer)) => return Ok(answer),
                Ok(News::Ended(how)) => {
                    self.has_ended = true;
                    return Err(Ended::Process(how));
                }
                Err(RecvTimeoutError::Timeout) if cancelled() => return Err(Ended::Unwanted),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    self.has_ended = true;
                    return Err(Ended::Process("is not watched any more".to_owned()));
                }
            }
        }
    }

    fn send(&mut self, mut bytes: &[u8]) -> Result<(), Ended> {
        while !bytes.is_empty() {
            match self.socket.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(error) if is_timeout(&error) && cancelled() => return Err(Ended::Unwanted),
                Err(error) if is_timeout(&error) => {}
                // It has ended, and its thread says how.
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    fn is_alive(&mut self) -> bool {
        match self.news.try_recv() {
            Ok(News::Answer(Answer::Ready)) if !self.is_ready => self.is_ready = true,
            Ok(_) => return false,
            Err(_) => {}
        }
        self.is_usable()
    }

    /// True if it can take another local, now or when it has loaded its data.
    fn is_usable(&self) -> bool {
        !self.is_busy && !self.has_ended
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Its thread then kills and reaps it. It fails if the process has ended.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

/// The program that runs, even if its file was replaced.
fn program() -> io::Result<std::path::PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// Reads the answers of a process until its end, and reaps it.
fn watch(mut child: Child, mut socket: UnixStream, news: &Sender<News>, answer_bytes_max: usize) {
    let mut problem = None;
    loop {
        match read(&mut socket, answer_bytes_max) {
            Ok(answer) => {
                // An error means that the process was dropped.
                if news.send(News::Answer(answer)).is_err() {
                    break;
                }
            }
            Err(error) => {
                problem = (error.kind() == io::ErrorKind::Other).then(|| error.to_string());
                break;
            }
        }
    }
    // It fails if the process has ended.
    let _ = child.kill();
    let how = match (problem, child.wait()) {
        (Some(problem), _) => format!("sent {problem}"),
        (None, Ok(status)) => end_of(status),
        (None, Err(error)) => format!("can't be waited for: {error}"),
    };
    // An error means that the process was dropped.
    let _ = news.send(News::Ended(how));
}

fn end_of(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, signal) => format!("was ended by signal {}", signal.unwrap_or_default()),
    }
}
