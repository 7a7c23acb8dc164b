//! Recordings as JSON lines.

use super::{Problem, RecordingOptions};
use std::io::Read;
use treefold_mirror::Event;
use treefold_mirror::event::{Defaults, Given};
use treefold_operators::text::LineReader;

pub(super) struct JsonLines {
    lines: LineReader<Box<dyn Read + Send>>,
    options: RecordingOptions,
}

impl JsonLines {
    pub(super) fn new(reader: Box<dyn Read + Send>, options: RecordingOptions) -> Self {
        Self { lines: LineReader::new(reader, options.line_bytes_max), options }
    }

    pub(super) fn line(&self) -> u64 {
        self.lines.line()
    }

    pub(super) fn has_buffered(&mut self) -> bool {
        self.lines.has_buffered()
    }

    pub(super) fn next_event(&mut self) -> Result<Option<(Event, Option<f64>)>, Problem> {
        let Some(text) = self.lines.next_line().map_err(Problem::new)? else { return Ok(None) };
        let text = std::str::from_utf8(text).map_err(|error| Problem {
            column: Some(error.valid_up_to() + 1),
            problem: "the line is not UTF-8 text".to_owned(),
        })?;
        let defaults = Defaults { stream: self.options.stream.as_ref(), number: None };
        let given = Given::from_json(text, &defaults, &self.options.limits)?;
        Ok(Some((given.event, given.at_ms)))
    }
}
