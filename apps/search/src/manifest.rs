//! Keeps an index on disk complete, current, and written by one process at a time.
//!
//! ```text
//! data directory/
//!   lock                  held by the indexing process
//!   manifest.json         names the current generation; replaced in one step at the end of a run
//!   generation-<digest><build>/
//!     0000/ 0001/ …       one index per partition, each with a seal: its files' sizes and checksums
//! ```
//!
//! A generation is named after its build, a random number, and its input: the files' paths, sizes and modification times, the options that
//! affect the index, and the versions of the schema and of words. A run builds a generation beside the current one, publishes
//! it by renaming a new manifest over the old one, and then removes the old generation. A killed run
//! therefore leaves at most a generation that no manifest names, and the next run removes it. A process
//! that opens the index sees either the old generation or the new one.
//!
//! The index library panics on a torn file, and takes a changed bit of a file for another number. So a partition's files are
//! read once and compared with its seal before anything is mapped, each time that the partition is opened: also when another
//! machine wrote it and a store kept it. That takes as long as the disk needs for the partition's bytes, which are then in
//! memory for the first queries; the checksum itself (CRC-32C) takes less. The manifest has a checksum of its own.

use crate::corpus::{Fnv, Survey};
use crate::error::IndexError;
use crate::indexing::{IndexOptions, Skipped};
use crate::limits::SEAL_READ_BYTES;
use crate::progress::{Progress, Step};
use crate::schema::SCHEMA_VERSION;
use crate::tokens;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
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
    /// [`tokens::version`] of the run.
    pub(crate) words_version: String,
    pub(crate) digest: String,
    /// [`build_name`] of the run.
    pub(crate) build: String,
    pub(crate) partitions: u32,
    pub(crate) documents: u64,
    pub(crate) bytes: u64,
    pub(crate) skipped: Skipped,
}

/// A manifest's text: the manifest, and the checksum of its own text.
#[derive(Serialize, Deserialize)]
struct Signed {
    manifest: Manifest,
    crc32c: u32,
}

/// Why a manifest can't be used.
pub(crate) enum Unfit {
    /// It is not a manifest, or was changed.
    Damaged,
    /// Another version wrote it, which is described here.
    OtherVersion(String),
}

impl Manifest {
    /// The versions of indexes that this program writes and reads.
    fn version(schema: u32, words: &str) -> String {
        format!("schema {schema}, words {words}")
    }

    /// Reads a manifest's text.
    pub(crate) fn parse(text: &[u8]) -> Result<Self, Unfit> {
        let value: serde_json::Value = serde_json::from_slice(text).map_err(|_| Unfit::Damaged)?;
        // Older versions had no checksum, and the fields of the manifest at this place.
        let own = value.get("manifest").unwrap_or(&value);
        let schema = own.get("schema_version").and_then(serde_json::Value::as_u64).ok_or(Unfit::Damaged)?;
        if schema != u64::from(SCHEMA_VERSION) {
            return Err(Unfit::OtherVersion(format!("schema {schema}")));
        }
        let Signed { manifest, crc32c } = serde_json::from_value(value).map_err(|_| Unfit::Damaged)?;
        if manifest.sum() != crc32c {
            return Err(Unfit::Damaged);
        }
        if manifest.words_version != tokens::version() {
            return Err(Unfit::OtherVersion(Self::version(SCHEMA_VERSION, &manifest.words_version)));
        }
        Ok(manifest)
    }

    fn sum(&self) -> u32 {
        let text = serde_json::to_vec(self).expect("invariant: a manifest has only numbers and texts");
        crc32c::crc32c(&text)
    }

    /// Reads the manifest in `directory`. `None` if there is none.
    ///
    /// # Errors
    /// [`IndexError::Damaged`], [`IndexError::OtherVersion`], [`IndexError::DataDirectory`].
    pub(crate) fn read(directory: &Path) -> Result<Option<Self>, IndexError> {
        let text = match fs::read(directory.join(MANIFEST)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(IndexError::data(directory)(error)),
        };
        Self::parse(&text).map(Some).map_err(|unfit| match unfit {
            Unfit::Damaged => IndexError::Damaged { file: directory.join(MANIFEST) },
            Unfit::OtherVersion(found) => IndexError::OtherVersion {
                directory: directory.to_owned(),
                found,
                expected: Self::version(SCHEMA_VERSION, &tokens::version()),
            },
        })
    }

    /// As [`Manifest::read`]. `None` also if this program can't use the index, so that it builds another.
    pub(crate) fn read_usable(directory: &Path) -> Result<Option<Self>, IndexError> {
        match Self::read(directory) {
            Err(IndexError::Damaged { .. } | IndexError::OtherVersion { .. }) => Ok(None),
            read => read,
        }
    }

    /// Makes this the current manifest: from now on, also after a power cut, readers see its generation.
    pub(crate) fn publish(&self, directory: &Path) -> Result<(), IndexError> {
        let write = || -> io::Result<()> {
            let next = directory.join(MANIFEST_NEXT);
            let mut file = File::create(&next)?;
            let signed = Signed { manifest: self.clone(), crc32c: self.sum() };
            file.write_all(&serde_json::to_vec_pretty(&signed)?)?;
            file.sync_all()?;
            fs::rename(&next, directory.join(MANIFEST))?;
            sync_directory(directory)
        };
        write().map_err(IndexError::data(directory))
    }

    /// The end of the names of its generation's directories.
    pub(crate) fn generation(&self) -> String {
        format!("{}{}", self.digest, self.build)
    }

    /// The directory of partition `partition` in this generation.
    pub(crate) fn partition_directory(&self, directory: &Path, partition: u32) -> PathBuf {
        partition_directory(&generation_directory(directory, &self.generation()), partition)
    }
}

/// A name that no other build has: files of two builds of the same input have equal names and other bytes, and a program that
/// uploads an index takes files of equal names and sizes for the same.
pub(crate) fn build_name() -> String {
    // Each hasher of the standard library has random keys.
    format!("{:08x}", RandomState::new().build_hasher().finish() as u32)
}

pub(crate) fn generation_directory(directory: &Path, generation: &str) -> PathBuf {
    directory.join(format!("{GENERATION}{generation}"))
}

pub(crate) fn partition_directory(generation: &Path, partition: u32) -> PathBuf {
    generation.join(partition_name(partition))
}

pub(crate) fn partition_name(partition: u32) -> String {
    format!("{partition:04}")
}

/// A file as it was when its partition was finished.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Sealed {
    bytes: u64,
    crc32c: u32,
}

impl Sealed {
    fn of(file: &Path) -> io::Result<Self> {
        let mut file = File::open(file)?;
        let mut piece = vec![0; SEAL_READ_BYTES];
        let mut sealed = Self { bytes: 0, crc32c: 0 };
        loop {
            match file.read(&mut piece) {
                Ok(0) => return Ok(sealed),
                Ok(read) => {
                    sealed.bytes += read as u64;
                    sealed.crc32c = crc32c::crc32c_append(sealed.crc32c, &piece[..read]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Stores the sizes and checksums of a finished partition's files.
pub(crate) fn seal(partition_directory: &Path) -> io::Result<()> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(partition_directory)? {
        let entry = entry?;
        files.insert(entry.file_name().to_string_lossy().into_owned(), Sealed::of(&entry.path())?);
    }
    fs::write(partition_directory.join(SEAL), serde_json::to_vec(&files)?)
}

/// Checks that a partition's files are all there, as they were when it was finished. Reads all of them.
pub(crate) fn check_seal(partition_directory: &Path) -> Result<(), IndexError> {
    let damaged = |file: &str| IndexError::Damaged { file: partition_directory.join(file) };
    let seal = fs::read(partition_directory.join(SEAL)).map_err(|_| damaged(SEAL))?;
    let sealed: BTreeMap<String, Sealed> = serde_json::from_slice(&seal).map_err(|_| damaged(SEAL))?;
    for (name, expected) in &sealed {
        let path = partition_directory.join(name);
        // A file that was cut off need not be read.
        let has_size = fs::metadata(&path).is_ok_and(|found| found.len() == expected.bytes);
        if !has_size || Sealed::of(&path).map_err(IndexError::data(partition_directory))? != *expected {
            return Err(damaged(name));
        }
    }
    Ok(())
}

/// Removes every generation except `kept`.
pub(crate) fn remove_generations(directory: &Path, kept: Option<&str>) -> Result<(), IndexError> {
    let remove = || -> io::Result<()> {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let name = entry.file_name();
            let found = name.to_str().and_then(|name| name.strip_prefix(GENERATION));
            if found.is_some_and(|found| Some(found) != kept) {
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
    hash = hash.update(tokens::version().as_bytes()).update(&[0]);
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
