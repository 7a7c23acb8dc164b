//! Pieces: several threads write a generation's indexes in bounded memory.
//!
//! Each partition's files, in path order, are cut into pieces of limited size. A pool of threads takes the
//! pieces, largest first, and writes each as one segment. Memory is therefore bounded by threads × piece
//! size, every file is read once, and even a single large partition keeps all processors busy. Partitions
//! of several pieces are then merged into one segment, in order, because a shard requires that its
//! documents are numbered in path order.

use crate::corpus::{Entry, Survey, Text, partition_of, read_text};
use crate::error::IndexError;
use crate::indexing::{IndexOptions, Skipped};
use crate::manifest::{partition_directory, seal};
use crate::progress::{Progress, Step};
use crate::schema::schema;
use crate::tokens;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::{fs, thread};
use tantivy::directory::MmapDirectory;
use tantivy::indexer::merge_indices;
use tantivy::{Index, IndexBuilder, IndexSettings, SingleSegmentIndexWriter, TantivyDocument};

/// Smallest memory with which the index library starts a segment.
const WRITER_BYTES_MIN: usize = 1 << 20;

/// A part of a partition's files, in path order, that becomes one segment.
struct Piece<'a> {
    entries: Vec<&'a Entry>,
    bytes: u64,
    directory: PathBuf,
}

/// All pieces, largest first, and the merges for partitions with several pieces.
pub(crate) struct Pieces<'a> {
    by_size: Vec<Piece<'a>>,
    merges: Vec<Merge>,
}

struct Merge {
    parts: Vec<PathBuf>,
    parts_directory: PathBuf,
    directory: PathBuf,
}

impl<'a> Pieces<'a> {
    pub(crate) fn cut(survey: &'a Survey, options: &IndexOptions, generation: &Path) -> Self {
        let mut partitions = vec![Vec::new(); options.partitions as usize];
        for entry in &survey.entries {
            partitions[partition_of(&entry.path, options.partitions) as usize].push(entry);
        }
        let mut pieces = Self { by_size: Vec::new(), merges: Vec::new() };
        for (partition, entries) in (0..).zip(partitions) {
            pieces.add_partition(
                entries,
                partition_directory(generation, partition),
                options.piece_bytes_max,
            );
        }
        pieces.by_size.sort_by_key(|piece| std::cmp::Reverse(piece.bytes));
        pieces
    }

    /// An empty partition becomes one empty piece, so its index exists like any other.
    fn add_partition(&mut self, entries: Vec<&'a Entry>, directory: PathBuf, bytes_max: u64) {
        let mut cut = vec![Piece { entries: Vec::new(), bytes: 0, directory: directory.clone() }];
        for entry in entries {
            let last = cut.last_mut().expect("invariant: there is a piece from the start");
            if last.entries.is_empty() || last.bytes + entry.bytes <= bytes_max {
                last.entries.push(entry);
                last.bytes += entry.bytes;
            } else {
                cut.push(Piece { entries: vec![entry], bytes: entry.bytes, directory: directory.clone() });
            }
        }
        if cut.len() > 1 {
            let parts_directory = directory.with_extension("parts");
            for (number, piece) in cut.iter_mut().enumerate() {
                piece.directory = parts_directory.join(format!("{number:04}"));
            }
            let parts = cut.iter().map(|piece| piece.directory.clone()).collect();
            self.merges.push(Merge { parts, parts_directory, directory });
        }
        self.by_size.extend(cut);
    }
}

/// Counts of the files that were read.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counted {
    pub(crate) documents: u64,
    pub(crate) bytes: u64,
    pub(crate) skipped: Skipped,
}

/// Writes every piece as an index with one segment.
pub(crate) fn write_pieces(
    folder: &Path,
    survey: &Survey,
    pieces: &Pieces<'_>,
    options: &IndexOptions,
    progress: &dyn Progress,
) -> Result<Counted, IndexError> {
    let written = Mutex::new((0, 0));
    let (files_total, bytes_total) = (survey.entries.len() as u64, survey.bytes());
    let done = |entry: &Entry| {
        // One lock for both counts, so that each step reports the bytes of exactly its files and steps are
        // in order.
        let mut written = written.lock().expect("invariant: nothing panics while it holds this lock");
        let (files, bytes) = (written.0 + 1, written.1 + entry.bytes);
        *written = (files, bytes);
        progress.step(Step::Indexing { files, files_total, bytes, bytes_total });
    };
    let counted = Mutex::new(Counted::default());
    in_parallel(&pieces.by_size, options.threads, |piece, stop| {
        let one = write_piece(folder, piece, options, &done, stop)?;
        let mut all = counted.lock().expect("invariant: nothing panics while it holds this lock");
        all.documents += one.documents;
        all.bytes += one.bytes;
        all.skipped.add(one.skipped);
        Ok(())
    })?;
    Ok(counted.into_inner().expect("invariant: nothing panics while it holds this lock"))
}

fn index_builder() -> IndexBuilder {
    // The indexing thread also compresses. One more thread per piece would only compete with it.
    let settings = IndexSettings { docstore_compress_dedicated_thread: false, ..IndexSettings::default() };
    Index::builder().schema(schema().0).settings(settings).tokenizers(tokens::tokenizers())
}

fn write_piece(
    folder: &Path,
    piece: &Piece<'_>,
    options: &IndexOptions,
    done: &dyn Fn(&Entry),
    stop: &AtomicBool,
) -> Result<Counted, IndexError> {
    let refused = || IndexError::writing(&piece.directory);
    fs::create_dir_all(&piece.directory).map_err(IndexError::data(&piece.directory))?;
    let (_, fields) = schema();
    let open = || -> tantivy::Result<SingleSegmentIndexWriter<TantivyDocument>> {
        // This sets the initial size of the table of words. The table grows as needed.
        let memory = usize::try_from(piece.bytes).unwrap_or(usize::MAX).max(WRITER_BYTES_MIN);
        index_builder().single_segment_index_writer(MmapDirectory::open(&piece.directory)?, memory)
    };
    let mut writer = open().map_err(refused())?;
    let mut counted = Counted::default();
    for entry in &piece.entries {
        if stop.load(Ordering::Relaxed) {
            return Ok(counted);
        }
        match read_text(&folder.join(&entry.path), options.file_bytes_max) {
            Text::Read(body) => {
                writer.add_document(fields.document(&entry.path, &body)).map_err(refused())?;
                counted.documents += 1;
                counted.bytes += body.len() as u64;
            }
            Text::Unreadable => counted.skipped.unreadable += 1,
            Text::Binary => counted.skipped.binary += 1,
            Text::TooLarge => counted.skipped.too_large += 1,
        }
        done(entry);
    }
    // An index without documents gets no segment: the index library does not expect an empty one.
    if counted.documents > 0 {
        writer.finalize().map_err(refused())?;
    }
    seal(&piece.directory).map_err(IndexError::data(&piece.directory))?;
    Ok(counted)
}

/// Merges the pieces of every partition that has several.
pub(crate) fn merge_pieces(
    pieces: &Pieces<'_>,
    options: &IndexOptions,
    progress: &dyn Progress,
) -> Result<(), IndexError> {
    let partitions_total = pieces.merges.len() as u64;
    let partitions = AtomicU64::new(0);
    in_parallel(&pieces.merges, options.threads, |merge, _| {
        merge_parts(merge).map_err(IndexError::writing(&merge.directory))?;
        let finish = || fs::remove_dir_all(&merge.parts_directory).and_then(|()| seal(&merge.directory));
        finish().map_err(IndexError::data(&merge.directory))?;
        let partitions = partitions.fetch_add(1, Ordering::Relaxed) + 1;
        progress.step(Step::Merging { partitions, partitions_total });
        Ok(())
    })
}

fn merge_parts(merge: &Merge) -> tantivy::Result<()> {
    fs::create_dir_all(&merge.directory)?;
    let directory = MmapDirectory::open(&merge.directory)?;
    let parts: Vec<Index> = merge.parts.iter().map(Index::open_in_dir).collect::<tantivy::Result<_>>()?;
    let mut segments = 0;
    for part in &parts {
        segments += part.searchable_segment_ids()?.len();
    }
    if segments > 0 {
        merge_indices(&parts, directory)?
    } else {
        index_builder().open_or_create(directory)?
    };
    Ok(())
}

/// Calls `work` once for each item, in order of starting, on up to `threads` threads. The first error stops
/// the rest.
pub(crate) fn in_parallel<T: Sync>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T, &AtomicBool) -> Result<(), IndexError> + Sync,
) -> Result<(), IndexError> {
    let (next, stop, failed) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(None));
    let run = || {
        while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            if let Err(error) = work(item, &stop) {
                stop.store(true, Ordering::Relaxed);
                let mut failed = failed.lock().expect("invariant: nothing panics while it holds this lock");
                failed.get_or_insert(error);
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            scope.spawn(run);
        }
    });
    match failed.into_inner().expect("invariant: nothing panics while it holds this lock") {
        Some(error) => Err(error),
        None => Ok(()),
    }
}
