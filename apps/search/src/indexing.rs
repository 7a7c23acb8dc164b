//! From a folder to an index per partition: survey, reuse or build, publish.
//!
//! The folder is walked once. If what the walk finds is what the index on disk was made from, that index is
//! kept. Otherwise a new generation is built beside it (see `pieces`) and takes its place in one step; how a
//! run leaves the disk when it fails or is killed is in `manifest`.

use crate::corpus::{Fnv, Survey};
use crate::error::IndexError;
use crate::limits::{FILE_BYTES_MAX, PARTITIONS_MAX, PIECE_BYTES_MAX};
use crate::manifest::{self, Lock, Manifest, generation_directory};
use crate::pieces::{Pieces, merge_pieces, write_pieces};
use crate::progress::{Progress, Step};
use crate::schema::SCHEMA_VERSION;
use crate::shard::Shard;
use serde::{Deserialize, Serialize};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// What to index, and how.
#[derive(Clone, Debug)]
pub struct IndexOptions {
    /// How many partitions the folder is split into.
    pub partitions: u32,
    /// Where the index goes; by default [`data_directory`].
    pub data_directory: Option<PathBuf>,
    /// Larger files are skipped.
    pub file_bytes_max: u64,
    /// Take no more files than this, the first in path order.
    pub files_max: Option<u64>,
    /// Take no more bytes of files than this, the first in path order.
    pub bytes_max: Option<u64>,
    /// Whether `.gitignore` files hold inside a git work tree.
    pub git_ignore: bool,
    /// How much text a thread gathers before it writes a segment.
    pub piece_bytes_max: u64,
    /// How many threads index; by default one per processor.
    pub threads: usize,
}

impl IndexOptions {
    /// The defaults, for a folder split into `partitions`.
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

/// How many files were left out, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Gone, forbidden, broken, or with a name that is no Unicode.
    pub unreadable: u64,
    /// With a zero byte, or no UTF-8 at its beginning.
    pub binary: u64,
    /// Above `file_bytes_max`.
    pub too_large: u64,
    /// Beyond `files_max` or `bytes_max`.
    pub over_limit: u64,
}

impl Skipped {
    /// All of them.
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

/// What an indexing run found and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Where the index is: what [`Shard::open`] takes.
    pub directory: PathBuf,
    /// How many partitions it has.
    pub partitions: u32,
    /// Files met: the documents and the skipped.
    pub files: u64,
    /// Files indexed.
    pub documents: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files left out.
    pub skipped: Skipped,
    /// How long the run took, waiting for another included.
    pub elapsed: Duration,
    /// True when the folder had not changed and the index on disk was kept.
    pub reused: bool,
}

/// Where the index of `folder`, split into `partitions`, goes by default: a directory of its own below
/// `treefold/search` in the user's data home (`XDG_DATA_HOME`, or `.local/share` in `HOME`).
///
/// # Errors
/// [`IndexError::Folder`] when there is no such folder, [`IndexError::NoHome`] when the environment names
/// none.
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

/// Indexes `folder`, or finds that the index on disk still holds.
///
/// Two runs into one directory take turns. Blocks until done; `progress` is told from several threads.
///
/// # Errors
/// Any [`IndexError`]; an index that was there before is then still there.
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
    let kept = Manifest::read(&directory)?
        .filter(|manifest| manifest.digest == digest && opens(manifest, &directory));
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

/// True when every partition can be opened.
fn opens(manifest: &Manifest, directory: &Path) -> bool {
    let opens = |partition| Shard::open_at(&manifest.partition_directory(directory, partition)).is_ok();
    (0..manifest.partitions).all(opens)
}

/// Builds a generation beside the one in use, publishes it, removes the old.
fn build(
    folder: &Path,
    directory: &Path,
    digest: String,
    survey: &Survey,
    options: &IndexOptions,
    progress: &dyn Progress,
) -> Result<Manifest, IndexError> {
    let in_use = Manifest::read(directory)?.map(|manifest| manifest.digest);
    manifest::remove_generations(directory, in_use.as_deref().filter(|in_use| *in_use != digest))?;
    let generation = generation_directory(directory, &digest);

    let pieces = Pieces::cut(survey, options, &generation);
    let built = write_pieces(folder, survey, &pieces, options, progress)
        .and_then(|counted| merge_pieces(&pieces, options, progress).map(|()| counted));
    let counted = built.map_err(|error| {
        // On a full disk what was written so far is what is in the way. What can't be removed the next run removes.
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
        digest,
        partitions: options.partitions,
        documents: counted.documents,
        bytes: counted.bytes,
        skipped,
    };
    manifest.publish(directory)?;
    manifest::remove_generations(directory, Some(&manifest.digest))?;
    Ok(manifest)
}
