//! The journal in segment files.

use crate::epochs::{self, EPOCHS_MAX};
use crate::files::{lock, segment_path, segments, sync_directory};
use crate::journal::{Epoch, Journal, JournalError, Stored, Sync, io_at};
use crate::record::{self, HEAD_BYTES, SEGMENT_HEAD_BYTES, Salt};
use crate::scan::{Torn, scan};
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Most bytes of a record's payload.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// Options of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// When records are forced to the disk.
    pub sync: Sync,
    /// Bytes of a segment above which the next record begins another.
    pub segment_bytes: u64,
    /// Most bytes of records that wait to be written. An append beyond it is refused.
    pub pending_bytes_max: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { sync: Sync::Always, segment_bytes: 64 << 20, pending_bytes_max: 64 << 20 }
    }
}

/// A journal in append-only files.
#[derive(Debug)]
pub struct Segments {
    directory: PathBuf,
    options: Options,
    epochs: Vec<Epoch>,
    /// Segments, the last of which is written.
    sealed: VecDeque<Segment>,
    active: Option<Active>,
    /// Encoded records that are not written.
    pending: Vec<u8>,
    /// The salt of the segment that is written, and of the next ones.
    salt: Salt,
    last: u64,
    written: u64,
    synced: u64,
    /// A failed fsync, after which nothing is promised.
    failed: Option<String>,
    /// Dropping it releases the directory.
    _lock: File,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    first: u64,
    last: u64,
}

#[derive(Debug)]
struct Active {
    file: File,
    first: u64,
    /// Bytes of whole records, after which the next one is written.
    bytes: u64,
}

/// A journal that was opened, with the records that it holds.
#[derive(Debug)]
pub struct Opened {
    /// The journal.
    pub journal: Segments,
    /// The torn records at its end, if there were any. They are cut off, and kept in a file of their own.
    pub torn: Option<Torn>,
}

impl Segments {
    /// Opens the journal of a directory, which is made if it is absent. Torn records at the end are cut off.
    ///
    /// An empty journal continues after position `start`.
    ///
    /// # Errors
    /// If another process has it open, a record is damaged, or the disk fails.
    pub fn open(directory: &Path, start: u64, options: Options) -> Result<Opened, JournalError> {
        let at = || io_at(directory);
        fs::create_dir_all(directory).map_err(at())?;
        let lock = lock(directory).map_err(at())?;
        let lock = lock.ok_or_else(|| JournalError::Locked(directory.to_owned()))?;
        let firsts = segments(directory).map_err(at())?;
        let mut journal = Self {
            directory: directory.to_owned(),
            options,
            epochs: epochs::read(directory).map_err(at())?,
            sealed: VecDeque::new(),
            active: None,
            pending: Vec::new(),
            salt: Salt::random(),
            last: start,
            written: start,
            synced: start,
            failed: None,
            _lock: lock,
        };
        let mut torn = None;
        for (index, &first) in firsts.iter().enumerate() {
            let path = segment_path(directory, first);
            let is_last = index + 1 == firsts.len();
            if index == 0 {
                journal.last = first.saturating_sub(1);
            }
            let scanned = scan(&path, journal.last, &mut |_| ())?;
            if is_last {
                torn = scanned.keep_rest(&path)?;
                journal.salt = scanned.salt.unwrap_or(journal.salt);
                let file = OpenOptions::new().write(true).open(&path).map_err(io_at(&path))?;
                let mut active = Active { file, first, bytes: scanned.bytes };
                let cut_off = active.cut_off(journal.salt).and_then(|()| active.file.sync_all());
                cut_off.map_err(io_at(&path))?;
                journal.active = Some(active);
            } else {
                if let Some(problem) = scanned.problem {
                    return Err(scanned.damaged(&path, problem));
                }
                journal.sealed.push_back(Segment { first, last: scanned.last });
            }
            journal.last = scanned.last;
        }
        (journal.written, journal.synced) = (journal.last, journal.last);
        Ok(Opened { journal, torn })
    }

    /// Bytes of records that wait to be written.
    pub fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    fn check(&self) -> Result<(), JournalError> {
        self.failed.as_ref().map_or(Ok(()), |problem| Err(JournalError::Failed(problem.clone())))
    }

    fn begin_segment_if_needed(&mut self) -> Result<(), JournalError> {
        if self.active.as_ref().is_some_and(|active| active.bytes < self.options.segment_bytes) {
            return Ok(());
        }
        // The segment that is left is never written again, so it is made durable now.
        if self.options.sync != Sync::Never {
            self.sync()?;
        }
        let first = self.written + 1;
        let path = segment_path(&self.directory, first);
        let begun =
            OpenOptions::new().write(true).create(true).truncate(true).open(&path).and_then(|mut file| {
                // A segment whose head is broken is therefore damaged if it has records.
                file.write_all(&self.salt.segment_head())?;
                file.sync_all()?;
                sync_directory(&self.directory)?;
                Ok(Active { file, first, bytes: SEGMENT_HEAD_BYTES as u64 })
            });
        let begun = begun.map_err(io_at(&path))?;
        if let Some(left) = self.active.replace(begun) {
            self.sealed.push_back(Segment { first: left.first, last: self.written });
        }
        Ok(())
    }
}

impl Journal for Segments {
    fn epochs(&self) -> &[Epoch] {
        &self.epochs
    }

    fn begin_epoch(&mut self, number: u32) -> Result<(), JournalError> {
        self.check()?;
        let known = self.epochs.last().map_or(0, |epoch| epoch.number);
        if number <= known {
            return Err(JournalError::Epoch { known, given: number });
        }
        let mut epochs = self.epochs.clone();
        // A journal that lost its end no longer has what an epoch after it began with.
        epochs.iter_mut().for_each(|epoch| epoch.after = epoch.after.min(self.last));
        epochs.push(Epoch { number, after: self.last });
        epochs.drain(..epochs.len().saturating_sub(EPOCHS_MAX));
        epochs::write(&self.directory, &epochs).map_err(io_at(&self.directory))?;
        self.epochs = epochs;
        Ok(())
    }

    fn begin_after(&mut self, position: u64) -> Result<(), JournalError> {
        if self.first() <= self.last {
            return Err(JournalError::Order { expected: self.last + 1, given: position + 1 });
        }
        // An empty segment would name another first position.
        if let Some(active) = self.active.take() {
            let path = segment_path(&self.directory, active.first);
            fs::remove_file(&path).map_err(io_at(&path))?;
        }
        (self.last, self.written, self.synced) = (position, position, position);
        Ok(())
    }

    fn policy(&self) -> Sync {
        self.options.sync
    }

    fn append(&mut self, first: u64, last: u64, payload: &[u8]) -> Result<(), JournalError> {
        self.check()?;
        let too_long = |field, given, limit| Err(JournalError::TooLong { field, given, limit });
        if first != self.last + 1 || last < first {
            return Err(JournalError::Order { expected: self.last + 1, given: first });
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            return too_long("payload", payload.len(), PAYLOAD_BYTES_MAX);
        }
        let pending = self.pending.len() + HEAD_BYTES + payload.len();
        if pending > self.options.pending_bytes_max && !self.pending.is_empty() {
            return too_long("pending", pending, self.options.pending_bytes_max);
        }
        record::write(&mut self.pending, self.salt, first, last, self.synced, payload);
        self.last = last;
        Ok(())
    }

    fn flush(&mut self) -> Result<u64, JournalError> {
        self.check()?;
        if !self.pending.is_empty() {
            self.begin_segment_if_needed()?;
            let active = self.active.as_mut().expect("invariant: a segment was just begun if there was none");
            let path = segment_path(&self.directory, active.first);
            if let Err(error) = active.file.write_all(&self.pending) {
                // A part may be written. The next try begins at the same place.
                active.cut_off(self.salt).map_err(io_at(&path))?;
                return Err(io_at(&path)(error));
            }
            active.bytes += self.pending.len() as u64;
            self.pending.clear();
            self.written = self.last;
        }
        if self.options.sync == Sync::Always {
            self.sync()?;
        }
        Ok(self.durable())
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        self.check()?;
        if self.synced == self.written {
            return Ok(());
        }
        if let Some(active) = &self.active
            && let Err(error) = active.file.sync_data()
        {
            self.failed = Some(error.to_string());
            return self.check();
        }
        self.synced = self.written;
        Ok(())
    }

    fn durable(&self) -> u64 {
        match self.options.sync {
            Sync::Always => self.synced,
            Sync::Interval(_) | Sync::Never => self.written,
        }
    }

    fn last(&self) -> u64 {
        self.last
    }

    fn first(&self) -> u64 {
        let stored = self.sealed.front().map(|segment| segment.first);
        stored.or(self.active.as_ref().map(|active| active.first)).unwrap_or(self.written + 1)
    }

    fn trim(&mut self, position: u64) -> Result<(), JournalError> {
        // The last record tells a new writer how far its sources are. A crash may take the records of the segment that
        // is written until the first of them is forced to the disk; without forcing, nothing is promised.
        let is_forced = |active: &Active| self.synced >= active.first || self.options.sync == Sync::Never;
        let has_records = |active: &Active| active.bytes > SEGMENT_HEAD_BYTES as u64;
        let has_last = self.active.as_ref().is_some_and(|active| has_records(active) && is_forced(active));
        let mut has_removed = false;
        while let Some(segment) = self.sealed.front().filter(|segment| segment.last <= position)
            && (has_last || self.sealed.len() > 1)
        {
            let path = segment_path(&self.directory, segment.first);
            fs::remove_file(&path).map_err(io_at(&path))?;
            self.sealed.pop_front();
            has_removed = true;
        }
        if has_removed {
            sync_directory(&self.directory).map_err(io_at(&self.directory))?;
        }
        Ok(())
    }

    fn read_after(&self, position: u64, take: &mut dyn FnMut(Stored)) -> Result<(), JournalError> {
        let active = self.active.as_ref().map(|active| Segment { first: active.first, last: self.written });
        for segment in self.sealed.iter().copied().chain(active) {
            if segment.last <= position {
                continue;
            }
            let path = segment_path(&self.directory, segment.first);
            let mut last = 0;
            let scanned = scan(&path, segment.first.saturating_sub(1), &mut |stored| {
                last = stored.last;
                if stored.last > position && stored.last <= segment.last {
                    take(stored);
                }
            })?;
            if let Some(problem) = scanned.problem.filter(|_| last < segment.last) {
                return Err(scanned.damaged(&path, problem));
            }
        }
        Ok(())
    }
}

impl Active {
    /// Cuts off everything behind the whole records, and continues there.
    fn cut_off(&mut self, salt: Salt) -> io::Result<()> {
        if self.bytes < SEGMENT_HEAD_BYTES as u64 {
            self.file.set_len(0)?;
            self.file.seek(SeekFrom::Start(0))?;
            self.file.write_all(&salt.segment_head())?;
            self.bytes = SEGMENT_HEAD_BYTES as u64;
            return Ok(());
        }
        self.file.set_len(self.bytes)?;
        self.file.seek(SeekFrom::Start(self.bytes))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
