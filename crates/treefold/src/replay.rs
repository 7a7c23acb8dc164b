//! Replays a recording: feeds its inputs to a fresh node, step by step.
//!
//! [`Recording`] reads the file. [`run`] feeds a node with it and passes each step to a callback. At the end,
//! the effects' hash tells whether this build decides as the recorded one did. If it does not, compare the
//! steps of the two builds.
//!
//! ```no_run
//! let summary = treefold::replay::run("node-3.rec", |step| {
//!     println!("{:?} {:?} -> {} effects", step.at, step.what, step.effects.len());
//! })?;
//! assert_ne!(summary.is_faithful(), Some(false));
//! # Ok::<(), treefold::replay::RecordingError>(())
//! ```

use crate::record::{EffectHash, Entry as Record, HEAD_BYTES, Header, MAGIC, read_head};
use bytes::Bytes;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use treefold_core::config::NodeConfig;
use treefold_core::effect::Effect;
use treefold_core::input::Input;
use treefold_core::node::Node;
use treefold_core::time::Instant;

/// Why a recording cannot be read, or not further. All entries before the error are valid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file cannot be opened or read.
    #[error("at byte {offset}: {source}")]
    Io {
        /// Number of bytes read before.
        offset: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not a recording, or has another version's format.
    #[error("the file is not a recording of this version: it begins with {found:?}; {MAGIC:?} was expected")]
    BadMagic {
        /// The file's first bytes.
        found: Vec<u8>,
    },
    /// A record is malformed, or was changed after it was written.
    #[error("the record at byte {offset} can't be read: {problem}")]
    BadRecord {
        /// The offset at which the record begins.
        offset: u64,
        /// The reason.
        problem: String,
    },
    /// The file ends before the end of its header.
    #[error("the recording ends within its header, at byte {offset}")]
    NoHeader {
        /// The offset at which the file ends.
        offset: u64,
    },
}

/// An event of the recorded node.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Time of the event, by the node's clock.
    pub at: Instant,
    /// The event.
    pub what: Happening,
}

/// The kind of an event.
#[derive(Clone, Debug)]
pub enum Happening {
    /// The node was started.
    Start,
    /// The node received an input.
    Input(Input<Bytes>),
    /// The node's timeout was due.
    Timeout,
}

/// A recording, read from its file entry by entry.
pub struct Recording {
    file: BufReader<File>,
    offset: u64,
    header: Header,
    end: Option<EffectHash>,
    truncated_at: Option<u64>,
    over: bool,
}

impl Recording {
    /// Opens a recording and reads its header.
    ///
    /// # Errors
    /// If the file cannot be read, is not a recording, or ends within its header.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, RecordingError> {
        let io = |source| RecordingError::Io { offset: 0, source };
        let mut file = BufReader::new(File::open(path).map_err(io)?);
        let mut found = Vec::new();
        file.by_ref().take(MAGIC.len() as u64).read_to_end(&mut found).map_err(io)?;
        if found != MAGIC {
            return Err(RecordingError::BadMagic { found });
        }
        let mut offset = MAGIC.len() as u64;
        let header = next_record(&mut file, &mut offset)?.ok_or(RecordingError::NoHeader { offset })?;
        Ok(Self { file, offset, header, end: None, truncated_at: None, over: false })
    }

    /// The node's configuration at its start.
    pub fn config(&self) -> &NodeConfig {
        &self.header.config
    }

    /// Start of the node, by its own clock.
    pub fn started_at(&self) -> Instant {
        self.header.started_at
    }

    /// The hash over all effects, after the end record of a cleanly closed recording has been read.
    pub fn recorded_hash(&self) -> Option<u64> {
        self.end.map(|end| end.hash)
    }

    /// The offset at which the file ends within a record, after the file has been read up to there. The node
    /// was then killed.
    pub fn truncated_at(&self) -> Option<u64> {
        self.truncated_at
    }

    fn advance(&mut self) -> Result<Option<Entry>, RecordingError> {
        let record = next_record::<Record<Input<Bytes>>>(&mut self.file, &mut self.offset)?;
        Ok(match record {
            Some(Record::Input(at, input)) => Some(Entry { at, what: Happening::Input(input) }),
            Some(Record::Timeout(at)) => Some(Entry { at, what: Happening::Timeout }),
            Some(Record::End { effects, hash }) => {
                self.end = Some(EffectHash { effects, hash });
                None
            }
            None => {
                // If the file ends between two records, there is no partial record to report.
                let length = self.file.get_ref().metadata().map_or(self.offset, |metadata| metadata.len());
                self.truncated_at = (length > self.offset).then_some(self.offset);
                None
            }
        })
    }
}

impl Iterator for Recording {
    type Item = Result<Entry, RecordingError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let entry = self.advance().transpose();
        self.over = !matches!(entry, Some(Ok(_)));
        entry
    }
}

/// Reads the next complete record; `None` at the end of the file or at an incomplete record. In that case
/// `offset` stays at the start of that record.
fn next_record<T: DeserializeOwned>(
    file: &mut impl Read,
    offset: &mut u64,
) -> Result<Option<T>, RecordingError> {
    let at = *offset;
    let mut read = |bytes: u64| {
        // `take` prevents a malformed length from allocating more than the file has.
        let mut part = Vec::new();
        file.by_ref().take(bytes).read_to_end(&mut part).map(|_| part)
    };
    let io = |source| RecordingError::Io { offset: at, source };
    let bad = |problem: String| RecordingError::BadRecord { offset: at, problem };
    let Ok(head) = <[u8; HEAD_BYTES]>::try_from(read(HEAD_BYTES as u64).map_err(io)?) else {
        return Ok(None);
    };
    let (length, sum) = read_head(head).ok_or_else(|| bad("its head was changed".to_owned()))?;
    let record = read(u64::from(length)).map_err(io)?;
    if (record.len() as u64) < u64::from(length) {
        return Ok(None);
    }
    if crc32c::crc32c(&record) != sum {
        return Err(bad("its bytes were changed".to_owned()));
    }
    let value = postcard::from_bytes(&record).map_err(|error| bad(error.to_string()))?;
    *offset += HEAD_BYTES as u64 + u64::from(length);
    Ok(Some(value))
}

/// One step of a replay.
#[derive(Debug)]
pub struct Step<'a> {
    /// The step's number; 0 is the node's start.
    pub number: u64,
    /// Time of the step, by the recorded node's clock.
    pub at: Instant,
    /// The event of the step.
    pub what: &'a Happening,
    /// The node's effects.
    pub effects: &'a [Effect<Bytes>],
}

/// The result of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplaySummary {
    /// Number of replayed inputs and timeouts.
    pub inputs: u64,
    /// Number of the node's effects.
    pub effects: u64,
    /// The effects' hash.
    pub effect_hash: u64,
    /// The hash in the recording; `None` if the recording was not closed cleanly.
    pub recorded_hash: Option<u64>,
    /// The offset at which the file ends within a record, if it does.
    pub truncated_at: Option<u64>,
}

impl ReplaySummary {
    /// Whether the node decided as it did when it was recorded; `None` if the recording has no end record.
    pub fn is_faithful(&self) -> Option<bool> {
        self.recorded_hash.map(|recorded| recorded == self.effect_hash)
    }
}

/// Feeds a fresh node with a recording and passes each step to `watch`.
///
/// # Errors
/// If the recording cannot be read. The steps before the error have been passed to `watch`.
pub fn run(path: impl AsRef<Path>, mut watch: impl FnMut(Step<'_>)) -> Result<ReplaySummary, RecordingError> {
    let mut recording = Recording::open(path)?;
    let started_at = recording.started_at();
    let mut node = Node::new(recording.config().clone(), started_at);
    let (mut hash, mut effects, mut number) = (EffectHash::new(), Vec::new(), 0);
    let mut show = |node: &mut Node<Bytes>, at, what: &Happening, number| {
        effects.clear();
        while let Some(effect) = node.poll_effect() {
            hash.add(&effect);
            effects.push(effect);
        }
        watch(Step { number, at, what, effects: &effects });
    };
    show(&mut node, started_at, &Happening::Start, number);
    for entry in recording.by_ref() {
        let Entry { at, what } = entry?;
        match &what {
            Happening::Input(input) => node.handle_input(at, input.clone()),
            Happening::Timeout => node.handle_timeout(at),
            Happening::Start => {}
        }
        number += 1;
        show(&mut node, at, &what, number);
    }
    Ok(ReplaySummary {
        inputs: number,
        effects: hash.effects,
        effect_hash: hash.hash,
        recorded_hash: recording.recorded_hash(),
        truncated_at: recording.truncated_at(),
    })
}

#[cfg(test)]
mod tests;
