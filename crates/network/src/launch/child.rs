//! One started process, from its start to its end: its last lines on standard error, and its exit status.

use std::collections::VecDeque;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::Child;
use tokio::time::timeout;

/// The most lines of standard error in a report.
const LINES_MAX: usize = 5;
/// Bytes of standard error that are kept for them.
const TAIL_BYTES_MAX: usize = 4 << 10;
/// Time limit for reading the rest of an ended process's output. Its own children may keep its standard error
/// open.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(200);

/// The end of a process's standard error.
#[derive(Clone, Debug, Default)]
pub(super) struct Tail(Arc<Mutex<VecDeque<u8>>>);

impl Tail {
    fn push(&self, bytes: &[u8]) {
        let mut tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend(bytes);
        let excess = tail.len().saturating_sub(TAIL_BYTES_MAX);
        tail.drain(..excess);
    }

    /// The last lines, without control characters.
    pub(super) fn last_words(&self) -> Vec<String> {
        let bytes: Vec<u8> = {
            let tail = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            tail.iter().copied().collect()
        };
        let text = String::from_utf8_lossy(&bytes);
        let tidy = |line: &str| line.chars().filter(|c| !c.is_control() || *c == '\t').collect::<String>();
        let lines: Vec<String> = text.lines().map(tidy).filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(LINES_MAX)..].to_vec()
    }
}

/// Waits for a process's end, and describes how it ended.
pub(super) async fn watch(mut child: Child, tail: Tail) -> String {
    let stderr = child.stderr.take();
    let read = async {
        let Some(mut stderr) = stderr else { return };
        let mut buffer = [0; 1024];
        while let Ok(bytes @ 1..) = stderr.read(&mut buffer).await {
            tail.push(&buffer[..bytes]);
        }
    };
    tokio::pin!(read);
    let status = tokio::select! {
        status = child.wait() => {
            // All of the process's output is in the pipe already.
            let _ = timeout(DRAIN_TIMEOUT, &mut read).await;
            status
        }
        () = &mut read => child.wait().await,
    };
    match status {
        Ok(status) => said(status),
        Err(error) => format!("can't be waited for: {error}"),
    }
}

fn said(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit status {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_bounded_and_has_no_control_characters() {
        let tail = Tail::default();
        for line in 0..10_000 {
            tail.push(format!("line {line}\x1b[2J\r\n").as_bytes());
        }
        let last: Vec<String> = (9_995..10_000).map(|line| format!("line {line}[2J")).collect();
        assert_eq!(tail.last_words(), last);
        assert!(tail.0.lock().unwrap().len() <= TAIL_BYTES_MAX);
    }
}
