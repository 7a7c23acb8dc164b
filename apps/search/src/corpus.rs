//! Lists the files of a folder, assigns each to a partition, and decides which are text.
//!
//! The survey lists a folder without reading a file. It takes regular files only, follows no links, and
//! ignores every name that begins with a dot. Inside a git work tree it respects `.gitignore`, so that a
//! build's output is not searched. Elsewhere, for instance in unpacked packages, it ignores such files.
//! Files are ordered by their relative paths as text, on every machine: an index numbers its documents in
//! this order, and the order breaks ties between equal scores.
//!
//! A path's partition depends only on the path and the number of partitions. A test pins [`partition_of`],
//! because nodes that index the same folder separately must agree.

use crate::error::IndexError;
use crate::indexing::{IndexOptions, Skipped};
use crate::limits::TEXT_PROBE_BYTES;
use crate::progress::{Progress, Step};
use ignore::{DirEntry, WalkBuilder};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Files that the survey lists between two progress reports.
const FILES_PER_STEP: usize = 256;

/// A file in the listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Path below the folder, with `/` between its parts.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    /// Modification time in ns since 1970; negative before it.
    pub(crate) modified_ns: i128,
}

/// A folder's content: the files to index in path order, and the counts of files that were left out.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) entries: Vec<Entry>,
    pub(crate) skipped: Skipped,
}

impl Survey {
    /// Lists `folder` except the directory `without`, since the index itself may be inside the folder.
    pub(crate) fn take(
        folder: &Path,
        without: &Path,
        options: &IndexOptions,
        progress: &dyn Progress,
    ) -> Result<Self, IndexError> {
        let refused = |source| IndexError::Folder { folder: folder.to_owned(), source };
        // The walk would report a folder that cannot be listed as one unreadable entry among others.
        std::fs::read_dir(folder).map_err(refused)?;
        let mut survey = Self::default();
        let without = without.to_owned();
        let walk = WalkBuilder::new(folder)
            .standard_filters(false)
            .hidden(true)
            .parents(options.git_ignore)
            .git_ignore(options.git_ignore)
            .git_exclude(options.git_ignore)
            .filter_entry(move |entry| entry.path() != without)
            .build();
        for found in walk {
            survey.add(folder, found, options.file_bytes_max);
            if survey.entries.len().is_multiple_of(FILES_PER_STEP) {
                progress.step(Step::Surveying { files: survey.entries.len() as u64 });
            }
        }
        survey.entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        survey.cap(options);
        Ok(survey)
    }

    fn add(&mut self, folder: &Path, found: Result<DirEntry, ignore::Error>, bytes_max: u64) {
        let Ok(found) = found else {
            self.skipped.unreadable += 1;
            return;
        };
        if !found.file_type().is_some_and(|kind| kind.is_file()) {
            return;
        }
        match entry_of(folder, &found) {
            None => self.skipped.unreadable += 1,
            Some(entry) if entry.bytes > bytes_max => self.skipped.too_large += 1,
            Some(entry) => self.entries.push(entry),
        }
    }

    /// Drops files at the end of the order until the caps of the options hold.
    fn cap(&mut self, options: &IndexOptions) {
        let (files_max, bytes_max) =
            (options.files_max.unwrap_or(u64::MAX), options.bytes_max.unwrap_or(u64::MAX));
        let mut bytes = 0u64;
        let fits = |(index, entry): &(usize, &Entry)| {
            bytes = bytes.saturating_add(entry.bytes);
            (*index as u64) < files_max && bytes <= bytes_max
        };
        let kept = self.entries.iter().enumerate().take_while(fits).count();
        self.skipped.over_limit = (self.entries.len() - kept) as u64;
        self.entries.truncate(kept);
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.bytes).sum()
    }
}

/// `None` if the file's metadata cannot be read, or its name is not Unicode and so cannot be shown.
fn entry_of(folder: &Path, found: &DirEntry) -> Option<Entry> {
    let metadata = found.metadata().ok()?;
    let below = found.path().strip_prefix(folder).ok()?;
    let parts: Option<Vec<&str>> = below.components().map(|part| part.as_os_str().to_str()).collect();
    let modified_ns = match metadata.modified().ok()?.duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_nanos() as i128,
        Err(before) => -(before.duration().as_nanos() as i128),
    };
    Some(Entry { path: parts?.join("/"), bytes: metadata.len(), modified_ns })
}

/// The partition, of `total`, to which the file at `path` belongs. `path` is relative to the folder, with
/// `/` between its parts.
///
/// # Panics
/// If `total` is zero.
pub fn partition_of(path: &str, total: u32) -> u32 {
    assert!(total > 0, "a folder is split into at least one partition");
    let hash = Fnv::default().update(path.as_bytes()).finish();
    // The high half of hash × total is evenly spread for any total, without the bias of a remainder.
    ((u128::from(hash) * u128::from(total)) >> 64) as u32
}

/// FNV-1a over bytes, then SplitMix64's last steps: FNV alone mixes its high bits poorly for short inputs
/// that differ at their ends. It does not resist adversaries, and must stay the same on every machine and
/// in every version.
#[derive(Clone, Copy)]
pub(crate) struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    #[must_use]
    pub(crate) fn update(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)))
    }

    pub(crate) fn finish(self) -> u64 {
        let mut hash = self.0;
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ (hash >> 31)
    }
}

/// The result of reading a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Text {
    /// The file's text.
    Read(String),
    /// The file is gone, forbidden or broken.
    Unreadable,
    /// The file has a zero byte, or its beginning is not UTF-8.
    Binary,
    /// The file has grown beyond the limit since it was listed.
    TooLarge,
}

/// Reads a file if it is text of at most `bytes_max` bytes.
pub(crate) fn read_text(file: &PathBuf, bytes_max: u64) -> Text {
    let mut bytes = Vec::new();
    let read = |bytes: &mut Vec<u8>| -> io::Result<()> {
        let file = File::open(file)?;
        bytes.reserve(file.metadata()?.len().min(bytes_max) as usize + 1);
        file.take(bytes_max.saturating_add(1)).read_to_end(bytes)?;
        Ok(())
    };
    match read(&mut bytes) {
        Err(_) => Text::Unreadable,
        Ok(()) if bytes.len() as u64 > bytes_max => Text::TooLarge,
        Ok(()) => decode(bytes).map_or(Text::Binary, Text::Read),
    }
}

/// Decodes text, which is UTF-8 without zero bytes. If only bytes after the beginning are invalid, such as
/// a stray byte in a long log, they are replaced and the file is kept.
fn decode(bytes: Vec<u8>) -> Option<String> {
    if bytes.contains(&0) {
        return None;
    }
    let mut text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(broken) if broken.utf8_error().valid_up_to() < TEXT_PROBE_BYTES => return None,
        Err(broken) => String::from_utf8_lossy(broken.as_bytes()).into_owned(),
    };
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_of_a_path_never_changes() {
        let pinned = [("README.md", [0, 7, 931]), ("src/lib.rs", [0, 1, 248]), ("a/b/ünï.txt", [0, 6, 798])];
        for (path, partitions) in pinned {
            assert_eq!([1, 8, 1000].map(|total| partition_of(path, total)), partitions, "{path}");
        }
    }

    #[test]
    fn files_spread_evenly() {
        let mut counts = [0u32; 7];
        for number in 0..7000 {
            counts[partition_of(&format!("src/module_{number}.rs"), 7) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }

    #[test]
    fn text_is_utf8_without_zero_bytes_and_a_late_flaw_is_mended() {
        assert_eq!(decode(b"caf\xc3\xa9".to_vec()).as_deref(), Some("café"));
        assert_eq!(decode("\u{feff}marked".into()).as_deref(), Some("marked"));
        assert_eq!(decode(b"caf\xe9".to_vec()), None);
        assert_eq!(decode(b"nul\0".to_vec()), None);
        let mut late = vec![b'x'; TEXT_PROBE_BYTES];
        late.extend(b"\xe9 end");
        assert!(decode(late).unwrap().ends_with("x\u{fffd} end"));
        let mut late_nul = vec![b'x'; TEXT_PROBE_BYTES];
        late_nul.push(0);
        assert_eq!(decode(late_nul), None);
    }
}
