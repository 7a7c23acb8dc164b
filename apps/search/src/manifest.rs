//! Keeps an index on disk complete, current, and written by one process at a time.
//!
//! ```text
//! data directory/
//!   lock                  held by the indexing process
//!   manifest.json         names the current generation; replaced in one step at the end of a run
//!   generation-<digest>/
//!     0000/ 0001/ …       one index per partition, each with a seal: the list of its files' sizes
//! ```
//!
//! A generation is named after its input: the files' paths, sizes and modification times, the options that
//! affect the index, and the schema's version. A run builds a generation beside the current one, publishes
//! it by renaming a new manifest over the old one, and then removes the old generation. A killed run
//! therefore leaves at most a generation that no manifest names, and the next run removes it. A process
//! that opens the index sees either the old generation or the new one.
//!
//! The index library panics on a torn file, so a partition's seal is checked before anything is mapped.
//! This detects files that are missing or cut off (a full disk, a power cut, an interrupted copy), but not
//! a flipped bit.

use crate::corpus::{Fnv, Survey};
use crate::error::IndexError;
use crate::indexing::{IndexOptions, Skipped};
use crate::progress::{Progress, Step};
use crate::schema::SCHEMA_VERSION;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub(crate) const MANIFEST: &str = "manifest.json";
const MANIFEST_NEXT: &str = "manifest.json.next";
const LOCK: &str = "lock";
const SEAL: &str = "seal.json";
pub(crate) const GENERATION: &str = "generation-";

/// The current generation, and the counts of the run that built it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub(crate) schema_version: u32,
    pub(crate) digest: String,
    pub(crate) partitions: u32,
    pub(crate) documents: u64,
    pub(crate) bytes: u64,
    pub(crate) skipped: Skipped,
}

impl Manifest {
    /// Reads the manifest in `directory`. `None` if there is none that this version can read.
    pub(crate) fn read(directory: &Path) -> Result<Option<Self>, IndexError> {
        let text = match fs::read(directory.join(MANIFEST)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(IndexError::data(directory)(error)),
        };
        let manifest: Option<Self> = serde_json::from_slice(&text).ok();
        Ok(manifest.filter(|manifest| manifest.schema_version == SCHEMA_VERSION))
    }

    /// Makes this the current manifest: from now on, also after a power cut, readers see its generation.
    pub(crate) fn publish(&self, directory: &Path) -> Result<(), IndexError> {
        let write = || -> io::Result<()> {
            let next = directory.join(MANIFEST_NEXT);
            let mut file = File::create(&next)?;
            file.write_all(&serde_json::to_vec_pretty(self)?)?;
            file.sync_all()?;
            fs::rename(&next, directory.join(MANIFEST))?;
            sync_directory(directory)
        };
        write().map_err(IndexError::data(directory))
    }

    /// The directory of partition `partition` in this generation.
    pub(crate) fn partition_directory(&self, directory: &Path, partition: u32) -> PathBuf {
        partition_directory(&generation_directory(directory, &self.digest), partition)
    }
}

pub(crate) fn generation_directory(directory: &Path, digest: &str) -> PathBuf {
    directory.join(format!("{GENERATION}{digest}"))
}

pub(crate) fn partition_directory(generation: &Path, partition: u32) -> PathBuf {
    generation.join(partition_name(partition))
}

pub(crate) fn partition_name(partition: u32) -> String {
    format!("{partition:04}")
}

/// Stores the sizes of a finished partition's files.
pub(crate) fn seal(partition_directory: &Path) -> io::Result<()> {
    let sizes = file_sizes(partition_directory)?;
    fs::write(partition_directory.join(SEAL), serde_json::to_vec(&sizes)?)
}

/// Checks that a partition's files are all there, with the sizes that they had when it was finished.
pub(crate) fn check_seal(partition_directory: &Path) -> Result<(), IndexError> {
    let damaged = |file: &str| IndexError::Damaged { file: partition_directory.join(file) };
    let seal = fs::read(partition_directory.join(SEAL)).map_err(|_| damaged(SEAL))?;
    let sealed: BTreeMap<String, u64> = serde_json::from_slice(&seal).map_err(|_| damaged(SEAL))?;
    let found = file_sizes(partition_directory).map_err(IndexError::data(partition_directory))?;
    match sealed.iter().find(|(file, bytes)| found.get(*file) != Some(bytes)) {
        Some((file, _)) => Err(damaged(file)),
        None => Ok(()),
    }
}

fn file_sizes(directory: &Path) -> io::Result<BTreeMap<String, u64>> {
    let mut sizes = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        sizes.insert(entry.file_name().to_string_lossy().into_owned(), entry.metadata()?.len());
    }
    Ok(sizes)
}

/// Removes every generation except `kept`.
pub(crate) fn remove_generations(directory: &Path, kept: Option<&str>) -> Result<(), IndexError> {
    let remove = || -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let digest = name.to_str().and_then(|name| name.strip_prefix(GENERATION));
            if digest.is_some_and(|digest| Some(digest) != kept) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(())
    };
    remove().map_err(IndexError::data(directory))
}

/// A digest of everything that an index is made from.
///
/// It does not notice a file whose content has changed without its size or modification time.
pub(crate) fn digest(survey: &Survey, options: &IndexOptions) -> String {
    let mut hash =
        Fnv::default().update(&SCHEMA_VERSION.to_le_bytes()).update(&options.partitions.to_le_bytes());
    hash = hash.update(&options.file_bytes_max.to_le_bytes());
    for entry in &survey.entries {
        // A path cannot contain a zero byte, so a zero byte marks its end.
        hash = hash.update(entry.path.as_bytes()).update(&[0]);
        hash = hash.update(&entry.bytes.to_le_bytes()).update(&entry.modified_ns.to_le_bytes());
    }
    let skipped = survey.skipped;
    for count in [skipped.unreadable, skipped.too_large, skipped.over_limit] {
        hash = hash.update(&count.to_le_bytes());
    }
    format!("{:016x}", hash.finish())
}

/// The right to index into a directory, until dropped. If the process dies, the system releases it.
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Takes the lock; waits while another process holds it.
    pub(crate) fn acquire(directory: &Path, progress: &dyn Progress) -> Result<Self, IndexError> {
        let lock = || -> io::Result<File> {
            let file = File::options().create(true).append(true).open(directory.join(LOCK))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    progress.step(Step::Waiting);
                    file.lock()?;
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
            Ok(file)
        };
        Ok(Self { _file: lock().map_err(IndexError::data(directory))? })
    }
}

/// Makes a rename durable by syncing its directory. On systems where directories cannot be opened, the
/// system does this.
fn sync_directory(directory: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(directory)?.sync_all() } else { Ok(()) }
}
