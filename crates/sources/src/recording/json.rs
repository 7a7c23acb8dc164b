//! Recordings as JSON lines.

use super::{Problem, RecordingOptions};
use crate::lines::Lines;
use std::io::{ErrorKind, Read};
use treefold_mirror::Event;
use treefold_mirror::event::{Defaults, Given};

/// Bytes that one call of the system reads.
const READ_BYTES: usize = 64 << 10;

pub(super) struct JsonLines {
    reader: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    lines: Lines,
    options: RecordingOptions,
    line: u64,
    is_over: bool,
}

impl JsonLines {
    pub(super) fn new(reader: Box<dyn Read + Send>, options: RecordingOptions) -> Self {
        let (buffer, lines) = (vec![0; READ_BYTES], Lines::new(options.line_bytes_max));
        Self { reader, buffer, lines, options, line: 0, is_over: false }
    }

    pub(super) fn line(&self) -> u64 {
        self.line.max(1)
    }

    pub(super) fn has_buffered(&mut self) -> bool {
        self.lines.has_line()
    }

    pub(super) fn next_event(&mut self) -> Result<Option<(Event, Option<f64>)>, Problem> {
        loop {
            let line = match self.lines.next_line(self.is_over) {
                Ok(Some(line)) => line,
                Ok(None) if self.is_over => return Ok(None),
                Ok(None) => {
                    self.is_over = fill(&mut self.reader, &mut self.buffer, &mut self.lines)?;
                    continue;
                }
                Err(too_long) => {
                    self.line += 1;
                    return Err(Problem::new(too_long));
                }
            };
            self.line += 1;
            let text = self.lines.at(line);
            if text.is_empty() {
                continue;
            }
            let text = std::str::from_utf8(text).map_err(|error| Problem {
                column: Some(error.valid_up_to() + 1),
                problem: "the line is not UTF-8 text".to_owned(),
            })?;
            let defaults = Defaults { stream: self.options.stream.as_ref(), number: None };
            let given = Given::from_json(text, &defaults, &self.options.limits)?;
            return Ok(Some((given.event, given.at_ms)));
        }
    }
}

/// Reads the bytes that are there, and waits for some if there are none. Returns true at the end.
fn fill(reader: &mut Box<dyn Read + Send>, buffer: &mut [u8], lines: &mut Lines) -> Result<bool, Problem> {
    loop {
        match reader.read(buffer) {
            Ok(bytes) => {
                lines.room(bytes).extend_from_slice(&buffer[..bytes]);
                return Ok(bytes == 0);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(Problem::new(format_args!("can't read it: {error}"))),
        }
    }
}
