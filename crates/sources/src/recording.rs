//! Recordings: files of events, as JSON lines or as CSV, read one event after the other.
//!
//! Reading blocks, so a live feed reads on a thread of its own ([`crate::replay`]).

mod cells;
mod csv;
mod json;

use std::collections::BTreeMap;
use std::io::Read;
use treefold_core::time::Instant;
use treefold_mirror::event::EventError;
use treefold_mirror::rules::FieldType;
use treefold_mirror::{Event, MirrorLimits, Name};

/// Declared types of fields, by event type and field, as a file of rules has them.
pub type Types = BTreeMap<String, BTreeMap<String, FieldType>>;

/// The format of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An event a line, as JSON.
    JsonLines,
    /// Comma-separated values, with a header.
    Csv,
}

impl Format {
    /// The format of a file by the end of its name: `.csv`, or else JSON lines.
    pub fn of(path: &str) -> Self {
        let is_csv = path.rsplit_once('.').is_some_and(|(_, end)| end.eq_ignore_ascii_case("csv"));
        if is_csv { Self::Csv } else { Self::JsonLines }
    }
}

/// Settings of a recording.
#[derive(Clone, Debug)]
pub struct RecordingOptions {
    /// The name for errors.
    pub name: String,
    /// The stream of events that name none.
    pub stream: Option<Name>,
    /// Events per second of events without a time. Infinity means that they have no time.
    pub per_second: f64,
    /// Types of fields, for formats without types.
    pub types: Types,
    /// The limits of an event.
    pub limits: MirrorLimits,
    /// Most bytes of a line or of a record.
    pub line_bytes_max: usize,
}

/// An event of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The event.
    pub event: Event,
    /// Its time since the start of the recording.
    pub at: Instant,
}

/// A recording that is being read. After an error it must not be read further.
pub struct Recording {
    source: Source,
    name: String,
    per_second: f64,
    events: u64,
    last_at: Instant,
}

enum Source {
    JsonLines(Box<json::JsonLines>),
    Csv(Box<csv::Csv>),
}

/// A problem of a recording, with its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}:{line}{}: {problem}", column.map(|column| format!(":{column}")).unwrap_or_default())]
pub struct RecordingError {
    /// The file.
    pub name: String,
    /// The line, from 1.
    pub line: u64,
    /// The column in bytes, from 1, where it is known.
    pub column: Option<usize>,
    /// The problem.
    pub problem: String,
}

/// A problem at the present line.
struct Problem {
    column: Option<usize>,
    problem: String,
}

impl Problem {
    fn new(problem: impl std::fmt::Display) -> Self {
        Self { column: None, problem: problem.to_string() }
    }
}

impl From<EventError> for Problem {
    fn from(error: EventError) -> Self {
        match error {
            EventError::Json { problem, column } => {
                Self { column: Some(column), problem: format!("not an event: {problem}") }
            }
            error => Self::new(error),
        }
    }
}

impl Recording {
    /// Reads a recording from `reader`, which need not be buffered.
    pub fn new(reader: Box<dyn Read + Send>, format: Format, options: RecordingOptions) -> Self {
        let (name, per_second) = (options.name.clone(), options.per_second);
        let source = match format {
            Format::JsonLines => Source::JsonLines(Box::new(json::JsonLines::new(reader, options))),
            Format::Csv => Source::Csv(Box::new(csv::Csv::new(reader, options))),
        };
        Self { source, name, per_second, events: 0, last_at: Instant::START }
    }

    /// The next event. `None` at the end.
    ///
    /// # Errors
    /// [`RecordingError`].
    pub fn next_event(&mut self) -> Result<Option<Recorded>, RecordingError> {
        let read = match &mut self.source {
            Source::JsonLines(lines) => lines.next_event(),
            Source::Csv(csv) => csv.next_event(),
        };
        let Some((event, at_ms)) = read.map_err(|problem| self.at_line(problem))? else { return Ok(None) };
        let at_ms = at_ms.unwrap_or(self.events as f64 * 1e3 / self.per_second);
        let refuse = |problem| self.error(format!("at_ms is {at_ms}{problem}"));
        // This also refuses a value that is no number.
        if !(0.0..).contains(&at_ms) {
            return Err(refuse("; allowed: 0 or more"));
        }
        let at = Instant::from_nanos((at_ms * 1e6) as u64);
        if at < self.last_at {
            return Err(refuse(", less than on an earlier line"));
        }
        (self.last_at, self.events) = (at, self.events + 1);
        Ok(Some(Recorded { event, at }))
    }

    /// True if the next event can probably be read without blocking.
    pub fn has_buffered(&mut self) -> bool {
        match &mut self.source {
            Source::JsonLines(lines) => lines.has_buffered(),
            Source::Csv(csv) => csv.has_buffered(),
        }
    }

    /// The time of the last event.
    pub fn last_at(&self) -> Instant {
        self.last_at
    }

    /// An error at the present line.
    pub fn error(&self, problem: impl std::fmt::Display) -> RecordingError {
        self.at_line(Problem::new(problem))
    }

    fn at_line(&self, Problem { column, problem }: Problem) -> RecordingError {
        let line = match &self.source {
            Source::JsonLines(lines) => lines.line(),
            Source::Csv(csv) => csv.line(),
        };
        RecordingError { name: self.name.clone(), line, column, problem }
    }
}

#[cfg(test)]
mod tests;
