//! The receiving side of a connection: lines, with limits on their length and on their time.

use crate::limits::SourceLimits;
use crate::reply::Fatal;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use treefold_operators::text::Lines;

/// The reason why a connection is not read any further.
#[derive(Debug)]
pub(super) enum End {
    /// The peer has closed its side.
    Closed,
    /// The peer has to be told.
    Fatal(Fatal),
}

/// Received bytes, cut into lines.
pub(super) struct Received<R> {
    reader: R,
    lines: Lines,
    /// Lines that were given out.
    count: u64,
    is_closed: bool,
    /// Start of the line that has no end yet.
    line_since: Option<Instant>,
    long_lines: Arc<Semaphore>,
    long_line: Option<OwnedSemaphorePermit>,
    idle_within: Duration,
    line_within: Duration,
}

impl<R: AsyncRead + Unpin> Received<R> {
    pub(super) fn new(reader: R, long_lines: Arc<Semaphore>, limits: &SourceLimits) -> Self {
        Self {
            reader,
            lines: Lines::new(limits.line_bytes_max),
            count: 0,
            is_closed: false,
            line_since: None,
            long_lines,
            long_line: None,
            idle_within: limits.idle_within,
            line_within: limits.line_within,
        }
    }

    /// Returns when there is a line, or when the peer has closed its side.
    pub(super) async fn fill(&mut self) -> Result<(), End> {
        while !self.lines.has_line() && !self.is_closed && !self.lines.is_too_long() {
            self.read().await?;
        }
        Ok(())
    }

    async fn read(&mut self) -> Result<(), End> {
        let pending = self.lines.pending();
        if pending <= SourceLimits::LINE_BYTES_FREE {
            self.long_line = None;
        } else if self.long_line.is_none() {
            let place = Arc::clone(&self.long_lines).acquire_owned().await;
            self.long_line = Some(place.expect("invariant: the semaphore is never closed"));
            // The wait for other connections is not the peer's.
            self.line_since = None;
        }
        let now = Instant::now();
        let give_up_at = match pending {
            0 => now + self.idle_within,
            _ => *self.line_since.get_or_insert(now) + self.line_within,
        };
        let room = self.lines.room(SourceLimits::READ_BYTES);
        match timeout_at(give_up_at, self.reader.read_buf(room)).await {
            Ok(Ok(bytes)) => self.is_closed = bytes == 0,
            Ok(Err(error)) => {
                tracing::debug!(%error, "a source's connection is lost");
                self.is_closed = true;
            }
            Err(_) if self.lines.pending() == 0 => {
                let message =
                    format!("no line within {:?}; an empty line keeps a connection", self.idle_within);
                return Err(fatal(self.count, "idle", message));
            }
            Err(_) => {
                let message = format!("the line had no end within {:?}", self.line_within);
                return Err(fatal(self.count + 1, "slow", message));
            }
        }
        Ok(())
    }

    /// The next received line that is not empty, with its number. `None` if there is no whole line.
    ///
    /// A closed connection may end with a line that has no end. It is a line like the others: the first part of an
    /// event is no event, because it lacks a bracket.
    pub(super) fn next_text(&mut self) -> Result<Option<(u64, &str)>, End> {
        let line = loop {
            let next = self.lines.next_line(self.is_closed);
            let count = self.count + 1;
            match next.map_err(|error| fatal(count, "length", error.to_string()))? {
                Some(line) => {
                    (self.count, self.line_since) = (count, None);
                    if !line.is_empty() {
                        break line;
                    }
                }
                None if self.is_closed => return Err(End::Closed),
                None => return Ok(None),
            }
        };
        let (line, count) = (self.lines.at(line), self.count);
        let is_text = !line.iter().any(|&byte| byte < b' ' && byte != b'\t');
        match std::str::from_utf8(line) {
            Ok(text) if is_text => Ok(Some((count, text))),
            _ => Err(fatal(count, "binary", "the line is not UTF-8 text".to_owned())),
        }
    }
}

/// An error at a line.
fn fatal(line: u64, problem: &'static str, message: String) -> End {
    End::Fatal(Fatal { line: Some(line), problem, message })
}
