//! Progress reports of an indexing run.
//!
//! The library does not draw anything: it calls a [`Progress`] with [`Step`]s, from several threads at
//! once. [`Bar`] draws them. A closure is a `Progress` too.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// The state of an indexing run. Counts only grow within a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Another process is indexing into the same directory, and this one waits for it.
    Waiting,
    /// The folder is being listed.
    Surveying {
        /// Files found so far.
        files: u64,
    },
    /// Files are being read and indexed.
    Indexing {
        /// Files done.
        files: u64,
        /// Files to do.
        files_total: u64,
        /// Bytes done.
        bytes: u64,
        /// Bytes to do.
        bytes_total: u64,
    },
    /// Pieces of large partitions are being merged.
    Merging {
        /// Partitions done.
        partitions: u64,
        /// Partitions to do.
        partitions_total: u64,
    },
    /// The run is over. This is also reported if the index was reused.
    Done,
}

/// Receives the steps of a run.
pub trait Progress: Sync {
    /// Called at each step, from any thread; must not block.
    fn step(&self, step: Step);
}

impl<F: Fn(Step) + Sync> Progress for F {
    fn step(&self, step: Step) {
        self(step);
    }
}

/// A progress bar on standard error. It is silent if standard error is not a terminal, and disappears after
/// the run.
#[derive(Debug)]
pub struct Bar(ProgressBar);

/// Interval at which the bar is redrawn without other events, so that a waiting run is seen to be alive.
const TICK: Duration = Duration::from_millis(120);

impl Bar {
    /// A bar that appears with the first step.
    pub fn new() -> Self {
        Self(ProgressBar::no_length().with_style(style("{spinner} {msg}")))
    }

    fn phase(&self, template: &str, message: &'static str, length: u64) {
        if self.0.message() != message {
            self.0.set_style(style(template));
            self.0.set_message(message);
            self.0.set_length(length);
            self.0.enable_steady_tick(TICK);
        }
    }
}

impl Default for Bar {
    fn default() -> Self {
        Self::new()
    }
}

/// Removes the bar, so that a failed run leaves no partial bar behind.
impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

impl Progress for Bar {
    fn step(&self, step: Step) {
        if self.0.is_hidden() {
            return;
        }
        match step {
            Step::Waiting => self.phase("{spinner} {msg}", "waiting for another indexing run", 0),
            Step::Surveying { files } => {
                self.phase("{spinner} {msg} {pos} files", "listing", 0);
                self.0.set_position(files);
            }
            Step::Indexing { bytes, bytes_total, .. } => {
                let template = "{msg} {bar:32} {bytes}/{total_bytes} {bytes_per_sec} {eta}";
                self.phase(template, "indexing", bytes_total);
                self.0.set_position(bytes);
            }
            Step::Merging { partitions, partitions_total } => {
                self.phase("{msg} {bar:32} {pos}/{len} partitions", "merging", partitions_total);
                self.0.set_position(partitions);
            }
            Step::Done => self.0.finish_and_clear(),
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("invariant: the templates above are well-formed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_bar_accepts_every_step() {
        let bar = Bar::new();
        let indexing = Step::Indexing { files: 1, files_total: 2, bytes: 3, bytes_total: 4 };
        let merging = Step::Merging { partitions: 1, partitions_total: 2 };
        for step in [Step::Waiting, Step::Surveying { files: 1 }, indexing, merging, Step::Done] {
            bar.step(step);
        }
    }

    #[test]
    fn every_template_is_well_formed() {
        for template in [
            "{spinner} {msg}",
            "{spinner} {msg} {pos} files",
            "{msg} {bar:32} {bytes}/{total_bytes} {bytes_per_sec} {eta}",
            "{msg} {bar:32} {pos}/{len} partitions",
        ] {
            style(template);
        }
    }
}
