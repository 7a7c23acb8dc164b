//! Indexes a folder, one index per partition: survey, reuse or build, publish.
//!
//! The folder is walked once. If the index on disk was made from exactly the files found, it is kept.
//! Otherwise a new generation is built beside it (see `pieces`) and replaces it in one step. See `manifest`
//! for the state of the disk after a failed or killed run.

use crate::corpus::{Fnv, Survey};
use crate::error::IndexError;
use crate::limits::{FILE_BYTES_MAX, PARTITIONS_MAX, PIECE_BYTES_MAX};
use crate::manifest::{self, Lock, Manifest, generation_directory};
use crate::pieces::{Pieces, in_parallel, merge_pieces, write_pieces};
use crate::progress::{Progress, Step};
use crate::schema::SCHEMA_VERSION;
use crate::shard::Shard;
use crate::tokens;
use serde::{Deserialize, Serialize};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// The options of an indexing run.
#[derive(Clone, Debug)]
pub struct IndexOptions {
    /// Number of partitions into which the folder is split.
    pub partitions: u32,
    /// Directory of the index. Default: [`data_directory`].
    pub data_directory: Option<PathBuf>,
    /// Files with more bytes are skipped.
    pub file_bytes_max: u64,
    /// Most files to index: the first in path order.
    pub files_max: Option<u64>,
    /// Most bytes of files to index: the first files in path order.
    pub bytes_max: Option<u64>,
    /// Whether to respect `.gitignore` files inside a git work tree.
    pub git_ignore: bool,
    /// Bytes of text that a thread gathers before it writes a segment.
    pub piece_bytes_max: u64,
    /// Number of indexing threads. Default: one per processor.
    pub threads: usize,
}

impl IndexOptions {
    /// The default options, for a folder that is split into `partitions`.
    pub fn new(partitions: u32) -> Self {
        Self {
            partitions,
            data_directory: None,
            file_bytes_max: FILE_BYTES_MAX,
            files_max: None,
            bytes_max: None,
            git_ignore: true,
            piece_bytes_max: PIECE_BYTES_MAX,
            threads: thread::available_parallelism().map_or(1, NonZero::get),
        }
    }
}

/// Numbers of files that were left out, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Files that are gone, forbidden or broken, or have names that are not Unicode.
    pub unreadable: u64,
    /// Files with a zero byte, or with a beginning that is not UTF-8.
    pub binary: u64,
    /// Files above `file_bytes_max`.
    pub too_large: u64,
    /// Files beyond `files_max` or `bytes_max`.
    pub over_limit: u64,
}

impl Skipped {
    /// Number of all files that were left out.
    pub fn total(&self) -> u64 {
        self.unreadable + self.binary + self.too_large + self.over_limit
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.unreadable += other.unreadable;
        self.binary += other.binary;
        self.too_large += other.too_large;
        self.over_limit += other.over_limit;
    }
}

/// The result of an indexing run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The index's directory, for [`Shard::open`].
    pub directory: PathBuf,
    /// Number of its partitions.
    pub partitions: u32,
    /// Files found: the documents and the skipped files.
    pub files: u64,
    /// Files indexed.
    pub documents: u64,
    /// Bytes of the indexed files.
    pub bytes: u64,
    /// Files left out.
    pub skipped: Skipped,
    /// Duration of the run, with the time that it waited for another run.
    pub elapsed: Duration,
    /// True if the folder had not changed and the index on disk was kept.
    pub reused: bool,
}

/// The default directory of the index of `folder`, split into `partitions`: a separate directory below
/// `treefold/search` in the user's data home (`XDG_DATA_HOME`, or `.local/share` in `HOME`).
///
/// # Errors
/// [`IndexError::Folder`] if there is no such folder, and [`IndexError::NoHome`] if the environment names
/// no home.
pub fn data_directory(folder: &Path, partitions: u32) -> Result<PathBuf, IndexError> {
    let folder = whole_path(folder)?;
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")));
    let hash = Fnv::default().update(folder.as_os_str().as_encoded_bytes()).update(&partitions.to_le_bytes());
    let name = format!("{:016x}", hash.finish());
    Ok(home.ok_or(IndexError::NoHome)?.join("treefold").join("search").join(name))
}

fn whole_path(folder: &Path) -> Result<PathBuf, IndexError> {
    folder.canonicalize().map_err(|source| IndexError::Folder { folder: folder.to_owned(), source })
}

/// Indexes `folder`, or keeps the index on disk if it is up to date.
///
/// Two runs into one directory take turns. Blocks until done, and calls `progress` from several threads.
///
/// # Errors
/// Any [`IndexError`]. An existing index is then unchanged.
pub fn index(
    folder: impl AsRef<Path>,
    options: &IndexOptions,
    progress: &dyn Progress,
) -> Result<Report, IndexError> {
    let started_at = Instant::now();
    if !(1..=PARTITIONS_MAX).contains(&options.partitions) {
        return Err(IndexError::Partitions(options.partitions));
    }
    let folder = whole_path(folder.as_ref())?;
    let directory = match &options.data_directory {
        Some(given) => given.clone(),
        None => data_directory(&folder, options.partitions)?,
    };
    fs::create_dir_all(&directory).map_err(IndexError::data(&directory))?;
    let directory = directory.canonicalize().map_err(IndexError::data(&directory))?;

    let _lock = Lock::acquire(&directory, progress)?;
    let survey = Survey::take(&folder, &directory, options, progress)?;
    let digest = manifest::digest(&survey, options);
    let kept = Manifest::read_usable(&directory)?
        .filter(|manifest| manifest.digest == digest && opens(manifest, &directory, options.threads));
    let reused = kept.is_some();
    let manifest = match kept {
        Some(manifest) => manifest,
        None => build(&folder, &directory, digest, &survey, options, progress)?,
    };
    progress.step(Step::Done);
    Ok(Report {
        directory,
        partitions: manifest.partitions,
        files: manifest.documents + manifest.skipped.total(),
        documents: manifest.documents,
        bytes: manifest.bytes,
        skipped: manifest.skipped,
        elapsed: started_at.elapsed(),
        reused,
    })
}

/// Returns true if every partition can be opened. Reads all of their files.
fn opens(manifest: &Manifest, directory: &Path, threads: usize) -> bool {
    let partitions: Vec<u32> = (0..manifest.partitions).collect();
    let open = |partition: &u32, _: &AtomicBool| {
        Shard::open_at(&manifest.partition_directory(directory, *partition)).map(drop)
    };
    in_parallel(&partitions, threads, open).is_ok()
}

/// Builds a generation beside the current one, publishes it, and removes the old one.
fn build(
    folder: &Path,
    directory: &Path,
    digest: String,
    survey: &Survey,
    options: &IndexOptions,
    progress: &dyn Progress,
) -> Result<Manifest, IndexError> {
    // An index of this input that is not kept is damaged.
    let in_use = Manifest::read_usable(directory)?.filter(|manifest| manifest.digest != digest);
    manifest::remove_generations(directory, in_use.map(|manifest| manifest.generation()).as_deref())?;
    let build = manifest::build_name();
    let generation = generation_directory(directory, &format!("{digest}{build}"));

    let pieces = Pieces::cut(survey, options, &generation);
    let built = write_pieces(folder, survey, &pieces, options, progress)
        .and_then(|counted| merge_pieces(&pieces, options, progress).map(|()| counted));
    let counted = built.map_err(|error| {
        // On a full disk, these partial files fill it. If they cannot be removed now, the next run removes
        // them.
        let _ = fs::remove_dir_all(&generation);
        match error {
            IndexError::DataDirectory { source, .. } => IndexError::data(directory)(source),
            other => other,
        }
    })?;

    let mut skipped = survey.skipped;
    skipped.add(counted.skipped);
    let manifest = Manifest {
        schema_version: SCHEMA_VERSION,
        words_version: tokens::version(),
        digest,
        build,
        partitions: options.partitions,
        documents: counted.documents,
        bytes: counted.bytes,
        skipped,
    };
    manifest.publish(directory)?;
    manifest::remove_generations(directory, Some(&manifest.generation()))?;
    Ok(manifest)
}
