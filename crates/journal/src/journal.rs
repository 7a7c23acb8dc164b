//! The interface of a journal, whether it is in files or elsewhere.

use bytes::Bytes;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The moment at which written records are forced to the disk, and with it the promise of
/// [`Journal::durable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// At every flush. Durable records survive a crash of the process, of the system, and a power cut.
    Always,
    /// At this interval, when the caller calls [`Journal::sync`]. Durable records survive a crash of the
    /// process; a crash of the system or a power cut may lose the records of one interval.
    Interval(Duration),
    /// Never; the system writes when it likes. Durable records survive a crash of the process only.
    Never,
}

/// Numbered records, so that events survive the death of their node. One writer at a time has it open.
///
/// Most methods wait for a disk or a network, so a journal belongs on a thread that may wait.
pub trait Journal: Send {
    /// The epochs of its writers, in ascending order. Empty before the first [`begin_epoch`](Self::begin_epoch).
    fn epochs(&self) -> &[Epoch];

    /// Begins an epoch after the last record. It is durable when this returns, under every policy.
    ///
    /// # Errors
    /// If the epoch is not above all earlier ones, another writer has begun it, or the disk fails.
    fn begin_epoch(&mut self, number: u32) -> Result<(), JournalError>;

    /// Lets the first record of an empty journal follow `position`.
    ///
    /// # Errors
    /// [`JournalError::Order`] if it has records.
    fn begin_after(&mut self, position: u64) -> Result<(), JournalError>;

    /// Appends a record in memory. [`flush`](Self::flush) writes it.
    ///
    /// # Errors
    /// [`JournalError::Order`], [`TooLong`](JournalError::TooLong) or [`Failed`](JournalError::Failed).
    fn append(&mut self, first: u64, last: u64, payload: &[u8]) -> Result<(), JournalError>;

    /// Writes the appended records, and forces them to the disk if the policy is [`Sync::Always`]. Returns the
    /// last durable position.
    ///
    /// # Errors
    /// If the disk or the server fails, or another writer has begun an epoch. If the error
    /// [is temporary](JournalError::is_temporary), a later flush can succeed.
    fn flush(&mut self) -> Result<u64, JournalError>;

    /// Forces written records to the disk.
    ///
    /// # Errors
    /// If the disk fails. The journal then refuses further work.
    fn sync(&mut self) -> Result<(), JournalError>;

    /// The policy.
    fn policy(&self) -> Sync;

    /// The last position that the policy promises to keep.
    fn durable(&self) -> u64;

    /// The first position that is stored; that of the next record, if none is.
    fn first(&self) -> u64;

    /// The last position that was appended.
    fn last(&self) -> u64;

    /// Removes records whose positions are all at `position` or before, as far as whole segments allow. The last
    /// record stays.
    ///
    /// # Errors
    /// If the disk fails.
    fn trim(&mut self, position: u64) -> Result<(), JournalError>;

    /// Reads the written records with positions after `position`, in order. The first may begin before it.
    ///
    /// # Errors
    /// If a record is damaged or the disk fails.
    fn read_after(&self, position: u64, take: &mut dyn FnMut(Stored)) -> Result<(), JournalError>;
}

/// The time of one writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Its number.
    pub number: u32,
    /// The position after which it began.
    pub after: u64,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its first position.
    pub first: u64,
    /// Its last position.
    pub last: u64,
    /// Its content.
    pub payload: Bytes,
}

/// The reason why a journal cannot do something.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process has the journal open.
    #[error("another process has the journal in {0} open")]
    Locked(PathBuf),
    /// A record is broken that had been forced to the disk. The journal is not opened and not changed.
    #[error(
        "{segment}: the record at byte {offset} is damaged: {problem}; restore the file, or move it and the later ones away"
    )]
    Damaged {
        /// The segment.
        segment: PathBuf,
        /// The record's first byte.
        offset: u64,
        /// The problem.
        problem: &'static str,
    },
    /// A record does not follow the last one. Nothing has changed.
    #[error("the record begins at position {given}; expected {expected}")]
    Order {
        /// The position after the last record.
        expected: u64,
        /// The record's first position.
        given: u64,
    },
    /// A record is too long, or too many bytes wait. Nothing has changed.
    #[error("{field} is {given} bytes; allowed: {limit}")]
    TooLong {
        /// `payload` or `pending`.
        field: &'static str,
        /// Bytes.
        given: usize,
        /// The limit.
        limit: usize,
    },
    /// The disk is full. The records stay in memory, and the next flush tries again.
    #[error("the disk of {0} is full")]
    Full(PathBuf),
    /// An epoch has begun already. Nothing has changed.
    #[error("epoch {given} is not above epoch {known}, which has begun already")]
    Epoch {
        /// The greatest epoch.
        known: u32,
        /// The given epoch.
        given: u32,
    },
    /// Another writer has begun an epoch after this one's. Nothing more is written.
    #[error("a newer origin has begun epoch {epoch}, so this one writes no more")]
    Fenced {
        /// The newer epoch.
        epoch: u32,
    },
    /// The server of a journal does not answer, or refuses to store records. They stay in memory, and the next flush
    /// tries again.
    #[error("{place}: {problem}")]
    Unavailable {
        /// The journal's place.
        place: String,
        /// The problem.
        problem: String,
    },
    /// The server of a journal has something else than this journal's records.
    #[error("{place}: {problem}")]
    Remote {
        /// The journal's place.
        place: String,
        /// The problem.
        problem: String,
    },
    /// An fsync has failed before. Nothing more is written; open the journal again.
    #[error("an fsync has failed: {0}; open the journal again")]
    Failed(String),
    /// Reading or writing has failed. Records that were not written stay in memory.
    #[error("{path}: {error}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
}

impl JournalError {
    /// True if a later flush can succeed. The records stay in memory until then.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::Full(_) | Self::Unavailable { .. })
    }
}

pub(crate) fn io_at(path: &Path) -> impl FnOnce(io::Error) -> JournalError + '_ {
    move |error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => JournalError::Full(path.to_owned()),
        _ => JournalError::Io { path: path.to_owned(), error },
    }
}
