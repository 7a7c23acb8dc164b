//! The process's side: runs the locals of one service, one at a time, until the node has closed the socket.

use super::frame::{Answer, Ask, Wanted, encoded, read};
use super::{VARIABLE, other_service};
use crate::error::StartError;
use crate::job::text_of;
use crate::service::{Registry, Service};
use crate::workers::thread_cpu_time;
use bytes::Bytes;
use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::channel;
use treefold_core::limits::Limits;
use treefold_operators::{OperatorError, Result};

/// The service whose locals this process serves, if it was started for that.
pub(crate) fn requested() -> Option<String> {
    std::env::var(VARIABLE).ok()
}

/// Serves the locals of the service, and ends the process.
///
/// # Errors
/// If it is none of these services, or the socket is not there.
pub(crate) fn serve(services: Vec<Service>, of: &str, limits: &Limits) -> Result<Infallible, StartError> {
    let mut services = services.into_iter().filter(|service| service.name() == of);
    let service = services.next().ok_or_else(|| other_service(of))?;
    let registry = Registry::new(vec![service.in_process()], limits)?;
    let mut socket = take_socket().map_err(StartError::Loop)?;
    let mut reading = socket.try_clone().map_err(StartError::Loop)?;
    let (sender, asks) = channel();
    let read_asks = move || {
        // The node sends only bytes within its own limits.
        while let Ok(ask) = read::<Ask>(&mut reading, usize::MAX) {
            if sender.send(ask).is_err() {
                break;
            }
        }
        // The node has ended, or does not want the local that runs.
        std::process::exit(0);
    };
    let thread = std::thread::Builder::new().name("tf-isolated".to_owned()).spawn(read_asks);
    thread.map_err(StartError::Loop)?;
    let mut say = |answer: &Answer| {
        let said = encoded(answer).and_then(|bytes| socket.write_all(&bytes));
        if said.is_err() {
            std::process::exit(0);
        }
    };
    say(&Answer::Ready);
    while let Ok(ask) = asks.recv() {
        say(&answer(&registry, &ask, limits));
    }
    std::process::exit(0);
}

/// Takes the socket from standard input, which programs that a local starts would inherit. They would keep it open at its end.
fn take_socket() -> io::Result<UnixStream> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let nothing = File::open("/dev/null")?;
    // SAFETY: both descriptors are open, and nothing reads from standard input.
    match unsafe { libc::dup2(nothing.as_raw_fd(), libc::STDIN_FILENO) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(UnixStream::from(socket)),
    }
}

fn answer(registry: &Registry, ask: &Ask, limits: &Limits) -> Answer {
    let before = thread_cpu_time();
    let cut = |text: &str| text[..text.floor_char_boundary(limits.message_bytes_max)].to_owned();
    let failed = |error: &OperatorError| Answer::Failed {
        text: cut(&error.to_string()),
        is_of_params: error.is_of_params(),
    };
    match catch_unwind(AssertUnwindSafe(|| run(registry, ask))) {
        Ok(Ok(parts)) => {
            let (bytes, max) = (parts.iter().map(Bytes::len).sum::<usize>(), limits.payload_bytes_max);
            if bytes > max {
                let text =
                    format!("its partial has {bytes} bytes; allowed: at most {max} (payload_bytes_max)");
                return failed(&OperatorError::new(text));
            }
            Answer::Done { parts, cost: thread_cpu_time().saturating_sub(before) }
        }
        Ok(Err(error)) => failed(&error),
        Err(panic) => Answer::Panicked { text: cut(text_of(panic.as_ref())) },
    }
}

fn run(registry: &Registry, ask: &Ask) -> Result<Vec<Bytes>> {
    let lacks = |what: &str| OperatorError::new(format!("the isolated process lacks the {what}"));
    let is_asked = |name: &str| name.split_once('/').is_some_and(|(_, name)| name == ask.aggregation);
    let kind = registry.kinds().iter().position(|kind| is_asked(&kind.name));
    let kind = kind.and_then(|at| u32::try_from(at).ok()).ok_or_else(|| lacks("aggregation"))?;
    let operator = registry.operator(kind).ok_or_else(|| lacks("aggregation"))?;
    let partition = registry.partition(kind, ask.partition).ok_or_else(|| lacks("partition"))?;
    let slice = match ask.wanted {
        Wanted::Slice(slice) => slice,
        Wanted::All(slices) => return operator.local_sliced(&partition, slices, &ask.params),
    };
    let reduce = ask.reduce.as_ref().unwrap_or(&ask.params);
    let outcome = operator.local_slice(&partition, slice, &ask.params, reduce);
    let partial = outcome.now().ok_or_else(|| OperatorError::new("a local that waits can't be isolated"))?;
    Ok(vec![partial?])
}
