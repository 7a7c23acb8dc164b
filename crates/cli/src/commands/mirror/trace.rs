//! Recorded traces: a line of JSON for each event, optionally with its time.

use crate::exit::Failure;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use treefold_core::time::Instant;
use treefold_mirror::{Event, MirrorLimits};

/// Most bytes of a line.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// A trace that is being read. A bar shows the progress if standard error is a terminal.
pub(super) struct Trace {
    name: String,
    reader: Box<dyn BufRead>,
    bar: ProgressBar,
    limits: MirrorLimits,
    line: Vec<u8>,
    lines: u64,
    events: u64,
    per_second: f64,
    last_at: Instant,
}

impl Trace {
    /// Opens a file; `-` means standard input. Events without a time follow each other `per_second`.
    pub(super) fn open(path: &str, per_second: f64) -> Result<Self, Failure> {
        let (name, reader, bytes): (_, Box<dyn Read>, _) = if path == "-" {
            ("standard input", Box::new(std::io::stdin()), None)
        } else {
            let fail = |error| Failure::failed(format!("can't read {path}: {error}"));
            let file = File::open(path).map_err(fail)?;
            let bytes = file.metadata().ok().map(|data| data.len());
            (path, Box::new(file), bytes)
        };
        let style = ProgressStyle::with_template("replaying {bytes}/{total_bytes} {wide_bar} {eta}");
        let bar = bytes.map_or_else(ProgressBar::hidden, ProgressBar::new);
        let bar = bar.with_style(style.expect("invariant: the template is well-formed"));
        let reader = Box::new(BufReader::with_capacity(1 << 16, bar.wrap_read(reader)));
        Ok(Self {
            name: name.to_owned(),
            reader,
            bar,
            limits: MirrorLimits::DEFAULT,
            line: Vec::new(),
            lines: 0,
            events: 0,
            per_second,
            last_at: Instant::START,
        })
    }

    /// The next event with its time. `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(Instant, Event)>, Failure> {
        loop {
            self.line.clear();
            let mut limited = (&mut self.reader).take(LINE_BYTES_MAX + 1);
            let read = limited.read_until(b'\n', &mut self.line);
            let bytes = read.map_err(|error| self.refuse(format_args!("can't read it: {error}")))?;
            if bytes == 0 {
                self.bar.finish_and_clear();
                return Ok(None);
            }
            self.lines += 1;
            if bytes as u64 > LINE_BYTES_MAX {
                return Err(self.refuse(format_args!("the line has more than {LINE_BYTES_MAX} bytes")));
            }
            let text = match std::str::from_utf8(&self.line) {
                Ok(text) => text.trim(),
                Err(_) => return Err(self.refuse("the line is not UTF-8 text")),
            };
            if text.is_empty() {
                continue;
            }
            let (event, at_ms) =
                Event::from_trace(text, None, &self.limits).map_err(|error| self.refuse(error))?;
            let at_ms = at_ms.unwrap_or(self.events as f64 * 1e3 / self.per_second);
            if at_ms < 0.0 {
                return Err(self.refuse(format_args!("at_ms is {at_ms}; allowed: 0 or more")));
            }
            let at = Instant::from_nanos((at_ms * 1e6) as u64);
            if at < self.last_at {
                return Err(self.refuse(format_args!("at_ms is {at_ms}, less than on an earlier line")));
            }
            self.last_at = at;
            self.events += 1;
            return Ok(Some((at, event)));
        }
    }

    /// The time of the last event.
    pub(super) fn last_at(&self) -> Instant {
        self.last_at
    }

    /// A failure at the present line.
    pub(super) fn refuse(&self, problem: impl std::fmt::Display) -> Failure {
        self.bar.finish_and_clear();
        Failure::failed(format!("{}:{}: {problem}", self.name, self.lines))
    }
}
