//! Reads the records of a segment, and tells a torn end from damage.
//!
//! A crash while records are written may leave any part of them: the kernel writes pages in any order, so an intact
//! record may stand behind a broken one. But a record that was forced to the disk can't be torn. Each record says how
//! far the journal had been forced to the disk when it was appended. So a broken record is *torn* if all intact
//! records behind it were appended before it was forced to the disk; otherwise the file is *damaged*.

use crate::files::{keep_torn, torn_path};
use crate::journal::{JournalError, Stored, io_at};
use crate::record::{HEAD_BYTES, Head, SEGMENT_HEAD_BYTES, Salt};
use bytes::Bytes;
use std::fs;
use std::path::{Path, PathBuf};

/// The whole records of a segment.
pub(crate) struct Scanned {
    /// Bytes up to the end of the last whole record.
    pub(crate) bytes: u64,
    pub(crate) last: u64,
    /// `None` if the segment has no head.
    pub(crate) salt: Option<Salt>,
    /// The reason why the bytes behind it are not a record; `None` at the segment's end.
    pub(crate) problem: Option<&'static str>,
    /// The bytes behind it.
    rest: Bytes,
}

/// A record that was cut off because it was not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torn {
    /// The segment.
    pub segment: PathBuf,
    /// Bytes of whole records before it.
    pub offset: u64,
    /// Bytes that were cut off.
    pub bytes: u64,
    /// The file that keeps them.
    pub kept: PathBuf,
}

/// Reads the whole records of a segment whose first one follows `last`.
pub(crate) fn scan(
    path: &Path,
    mut last: u64,
    take: &mut impl FnMut(Stored),
) -> Result<Scanned, JournalError> {
    // A segment is at most a little longer than `segment_bytes`, and its records share these bytes.
    let bytes = Bytes::from(fs::read(path).map_err(io_at(path))?);
    let Some(salt) = Salt::read(&bytes) else {
        let problem = Some("it does not begin as a segment");
        return Ok(Scanned { bytes: 0, last, salt: None, problem, rest: bytes });
    };
    let mut at = SEGMENT_HEAD_BYTES;
    let problem = loop {
        let rest = &bytes[at..];
        if rest.is_empty() {
            break None;
        }
        let Some(head) = Head::read(rest, salt) else { break Some("its head is cut or changed") };
        let Some(payload) = head.payload(&rest[HEAD_BYTES..], salt) else {
            break Some("its payload is cut or changed");
        };
        if head.first != last + 1 || head.last < head.first {
            break Some("its position does not follow the one before");
        }
        last = head.last;
        take(Stored { first: head.first, last, payload: bytes.slice_ref(payload) });
        at += HEAD_BYTES + head.payload_bytes;
    };
    Ok(Scanned { bytes: at as u64, last, salt: Some(salt), problem, rest: bytes.slice(at..) })
}

impl Scanned {
    /// Keeps the bytes behind the whole records of the last segment in a file of their own. `None` if there are none.
    ///
    /// # Errors
    /// [`JournalError::Damaged`] if no crash explains them.
    pub(crate) fn keep_rest(&self, segment: &Path) -> Result<Option<Torn>, JournalError> {
        let Some(problem) = self.problem else { return Ok(None) };
        if self.is_damaged() {
            return Err(self.damaged(segment, problem));
        }
        if self.rest.is_empty() {
            return Ok(None);
        }
        let kept = torn_path(segment, self.bytes);
        keep_torn(&kept, &self.rest).map_err(io_at(&kept))?;
        let (offset, bytes) = (self.bytes, self.rest.len() as u64);
        Ok(Some(Torn { segment: segment.to_owned(), offset, bytes, kept }))
    }

    pub(crate) fn damaged(&self, segment: &Path, problem: &'static str) -> JournalError {
        JournalError::Damaged { segment: segment.to_owned(), offset: self.bytes, problem }
    }

    fn is_damaged(&self) -> bool {
        let Some(salt) = self.salt else {
            // The head is durable before the first record is written. Before that, the file may be short, or may have a
            // length without content.
            return self.rest.len() >= SEGMENT_HEAD_BYTES && self.rest.iter().any(|&byte| byte != 0);
        };
        (0..self.rest.len().saturating_sub(HEAD_BYTES - 1)).any(|at| {
            let Some(head) = Head::read(&self.rest[at..], salt) else { return false };
            head.synced > self.last && head.payload(&self.rest[at + HEAD_BYTES..], salt).is_some()
        })
    }
}
