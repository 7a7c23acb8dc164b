//! Recorded traces: files whose reading shows its progress.

use crate::exit::Failure;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::Read;
use treefold_core::time::Instant;
use treefold_mirror::{Event, MirrorLimits, Name};
use treefold_sources::SourceLimits;
use treefold_sources::recording::{Format, Recorded, Recording, RecordingOptions, Types};

/// A trace that is being read. A bar shows the progress if standard error is a terminal.
pub(super) struct Trace {
    recording: Recording,
    bar: ProgressBar,
}

impl Trace {
    /// Opens a file; `-` means standard input. Events without a time follow each other `per_second`.
    pub(super) fn open(path: &str, per_second: f64, types: Types) -> Result<Self, Failure> {
        let (recording, bar) = open(path, per_second, types, None)?;
        Ok(Self { recording, bar })
    }

    /// The next event with its time. `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(Instant, Event)>, Failure> {
        match self.recording.next_event() {
            Ok(Some(Recorded { event, at })) => Ok(Some((at, event))),
            Ok(None) => {
                self.bar.finish_and_clear();
                Ok(None)
            }
            Err(error) => {
                self.bar.finish_and_clear();
                Err(Failure::failed(error.to_string()))
            }
        }
    }

    /// The time of the last event.
    pub(super) fn last_at(&self) -> Instant {
        self.recording.last_at()
    }

    /// A failure at the present line.
    pub(super) fn refuse(&self, problem: impl std::fmt::Display) -> Failure {
        self.bar.finish_and_clear();
        Failure::failed(self.recording.error(problem).to_string())
    }
}

/// Opens a file as a recording, with a bar that shows how much of it was read.
pub(super) fn open(
    path: &str,
    per_second: f64,
    types: Types,
    stream: Option<Name>,
) -> Result<(Recording, ProgressBar), Failure> {
    let (name, reader, bytes): (_, Box<dyn Read + Send>, _) = if path == "-" {
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
    let options = RecordingOptions {
        name: name.to_owned(),
        stream,
        per_second,
        types,
        limits: MirrorLimits::DEFAULT,
        line_bytes_max: SourceLimits::DEFAULT.line_bytes_max,
    };
    let reader = Box::new(bar.wrap_read(reader));
    Ok((Recording::new(reader, Format::of(path), options), bar))
}
