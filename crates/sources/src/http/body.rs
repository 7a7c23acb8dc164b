//! The body of a request, cut into texts while it arrives: lines, or the elements of a JSON document.

use super::answer::Problem;
use crate::elements::{Elements, ElementsError};
use crate::limits::SourceLimits;
use std::ops::Range;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use treefold_operators::text::{Lines, MARK};

/// Received bytes of a body.
pub(super) struct Cutter {
    cut: Cut,
    /// Texts that were given out.
    pub(super) count: u64,
    is_over: bool,
    /// Start of the text that has no end yet.
    pub(super) since: Option<Instant>,
    long_lines: Arc<Semaphore>,
    long_line: Option<OwnedSemaphorePermit>,
}

enum Cut {
    /// Nothing but spaces, or a part of a byte order mark, has arrived yet.
    Unknown {
        line_bytes_max: usize,
        mark: Vec<u8>,
    },
    Lines(Lines),
    Elements(Elements),
}

impl Cutter {
    /// `is_document` is true if the request declares its body as one JSON document.
    pub(super) fn new(is_document: bool, limits: &SourceLimits, long_lines: Arc<Semaphore>) -> Self {
        let line_bytes_max = limits.line_bytes_max;
        let cut = match is_document {
            true => Cut::Elements(Elements::new(line_bytes_max)),
            false => Cut::Unknown { line_bytes_max, mark: Vec::new() },
        };
        Self { cut, count: 0, is_over: false, since: None, long_lines, long_line: None }
    }

    /// Takes bytes. Waits while too many long lines are being received.
    pub(super) async fn push(&mut self, bytes: &[u8]) {
        if self.pending() + bytes.len() <= 2 * SourceLimits::LINE_BYTES_FREE {
            self.long_line = None;
        } else if self.long_line.is_none() {
            let place = Arc::clone(&self.long_lines).acquire_owned().await;
            self.long_line = Some(place.expect("invariant: the semaphore is never closed"));
            // The wait for other requests is not the client's.
            self.since = None;
        }
        if let Cut::Unknown { line_bytes_max, mark } = &mut self.cut {
            let is_before = |byte: &u8| byte.is_ascii_whitespace() || MARK.contains(byte);
            let first = bytes.iter().find(|byte| !is_before(byte));
            // A mark is a few bytes. Many such bytes are something else, and the lines refuse them.
            let is_known = first.is_some() || mark.len() > MARK.len();
            if is_known {
                let (line_bytes_max, mark) = (*line_bytes_max, std::mem::take(mark));
                self.cut = match first {
                    Some(b'[') => Cut::Elements(Elements::new(line_bytes_max)),
                    _ => Cut::Lines(Lines::new(line_bytes_max)),
                };
                self.take(&mark);
            } else {
                mark.extend(bytes.iter().filter(|byte| MARK.contains(byte)));
            }
        }
        self.take(bytes);
    }

    fn take(&mut self, bytes: &[u8]) {
        match &mut self.cut {
            // Spaces before the first event.
            Cut::Unknown { .. } => {}
            Cut::Lines(lines) => lines.room(bytes.len()).extend_from_slice(bytes),
            Cut::Elements(elements) => elements.room(bytes.len()).extend_from_slice(bytes),
        }
    }

    /// Notes the time at which the text began that has no end yet.
    pub(super) fn note_time(&mut self, count_before: u64) {
        if self.pending() == 0 {
            self.since = None;
        } else if self.since.is_none() || self.count > count_before {
            self.since = Some(Instant::now());
        }
    }

    /// Gives back the memory of a body of which nothing more is read.
    pub(super) fn close(&mut self) {
        self.cut = Cut::Unknown { line_bytes_max: 0, mark: Vec::new() };
        self.long_line = None;
    }

    /// Notes that no bytes follow.
    pub(super) fn end(&mut self) {
        self.is_over = true;
        if let Cut::Unknown { line_bytes_max, mark } = &mut self.cut
            && !mark.is_empty()
            && mark != MARK
        {
            // A part of a mark, which the lines refuse.
            let mut lines = Lines::new(*line_bytes_max);
            lines.room(mark.len()).append(mark);
            self.cut = Cut::Lines(lines);
        }
    }

    fn pending(&self) -> usize {
        match &self.cut {
            Cut::Unknown { .. } => 0,
            Cut::Lines(lines) => lines.pending(),
            Cut::Elements(elements) => elements.pending(),
        }
    }

    /// The next text with its number, from 1. `None` if more bytes are needed, or if the body is over.
    pub(super) fn next_text(&mut self) -> Result<Option<(u64, &str)>, Problem> {
        let range = loop {
            let next = match &mut self.cut {
                Cut::Unknown { .. } => None,
                Cut::Lines(lines) => lines
                    .next_line(self.is_over)
                    .map_err(|error| Problem::TooLong(format!("line {}: {error}", self.count + 1)))?,
                Cut::Elements(elements) => next_element(elements, self.is_over, self.count + 1)?,
            };
            let Some(range) = next else { return Ok(None) };
            self.count += 1;
            if !range.is_empty() {
                break range;
            }
        };
        let bytes = match &self.cut {
            Cut::Unknown { .. } => &[],
            Cut::Lines(lines) => lines.at(range),
            Cut::Elements(elements) => elements.at(range),
        };
        let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
        match text {
            Some(text) => Ok(Some((self.count, text))),
            None => Err(Problem::NoEvents(format!("event {} of the body is not UTF-8 text", self.count))),
        }
    }
}

fn next_element(elements: &mut Elements, is_over: bool, count: u64) -> Result<Option<Range<usize>>, Problem> {
    let fail = |error: ElementsError| match error {
        ElementsError::TooLong { .. } => Problem::TooLong(format!("element {count}: {error}")),
        error => Problem::NoEvents(format!("element {count}: {error}")),
    };
    match elements.next_element().map_err(fail)? {
        Some(element) => Ok(Some(element)),
        None if is_over => elements.finish().map(|()| None).map_err(fail),
        None => Ok(None),
    }
}
