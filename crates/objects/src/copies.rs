//! The directories of a cache.
//!
//! ```text
//! cache/
//!   lock                       taken for every change of the rows below; never held for long
//!   <part>-<version>/          one copy: 32 hex digits of its folder and part, 32 of its objects
//!     lock                     shared while the copy is held, alone while it is written
//!     plan.json                its folder, part and objects; from here on it counts with all its bytes
//!     complete                 each file's checksum; there once all files are; its time is that of the last use
//!     files/…
//! ```
//!
//! A disk may change bits of a file that it kept for months, and a damaged table or index answers with other numbers. So the
//! files are compared with their checksums whenever a copy is opened, outside of the cache's lock, and a damaged file is
//! copied again.
//!
//! A copy's lock is only tried, never waited for, and only under the cache's lock. So nobody waits for a lock in a
//! directory that is removed meanwhile, and the system releases the locks of a process that dies.

use crate::download::has_size;
use crate::error::ObjectsError;
use crate::folder::Object;
use crate::limits::SUM_READ_BYTES;
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const LOCK: &str = "lock";
const PLAN: &str = "plan.json";
const COMPLETE: &str = "complete";
const FILES: &str = "files";

/// CRC-32C of files by name.
pub(crate) type Sums = BTreeMap<String, u32>;

/// The contents of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// [`Folder::identity`](crate::Folder::identity).
    pub(crate) folder: String,
    pub(crate) part: String,
    pub(crate) objects: Vec<Object>,
}

impl Plan {
    pub(crate) fn bytes(&self) -> u64 {
        self.objects.iter().map(|object| object.bytes).fold(0, u64::saturating_add)
    }

    /// The name of the copy's directory.
    fn directory_name(&self) -> String {
        let objects = self
            .objects
            .iter()
            .flat_map(|Object { name, bytes, tag }| [Cow::from(name), bytes.to_string().into(), tag.into()]);
        format!("{}{}", prefix_of(&self.folder, &self.part), digest(objects))
    }
}

/// The beginning of the names of all copies of a part.
fn prefix_of(folder: &str, part: &str) -> String {
    format!("{}-", digest([folder.into(), part.into()]))
}

/// The first half of a SHA-256 of texts, none of which contains a zero byte, as 32 hex digits.
fn digest<'a>(texts: impl IntoIterator<Item = Cow<'a, str>>) -> String {
    let mut context = Context::new(&SHA256);
    for text in texts {
        context.update(text.as_bytes());
        context.update(&[0]);
    }
    context.finish().as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// One copy's directory, under the cache's lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn of(cache: &Path, plan: &Plan) -> Self {
        Self(cache.join(plan.directory_name()))
    }

    pub(crate) fn files(&self) -> PathBuf {
        self.0.join(FILES)
    }

    /// The plan, if one was written.
    pub(crate) fn plan(&self) -> Option<Plan> {
        serde_json::from_slice(&fs::read(self.0.join(PLAN)).ok()?).ok()
    }

    /// True if all files were there once.
    pub(crate) fn was_complete(&self) -> bool {
        self.0.join(COMPLETE).exists()
    }

    /// The error of a copy in use that lacks a file.
    pub(crate) fn damaged(&self) -> ObjectsError {
        ObjectsError::disk(&self.files())(io::Error::other(
            "files of a copy that is in use were removed or changed; stop the processes that use it, and remove it",
        ))
    }

    /// True if all files are there.
    pub(crate) fn is_complete(&self) -> bool {
        self.sums().is_some()
            && self.plan().is_some_and(|plan| {
                plan.objects.iter().all(|object| has_size(&self.files().join(&object.name), object.bytes))
            })
    }

    /// Reserves the room of a copy.
    pub(crate) fn reserve(&self, plan: &Plan) -> Result<(), ObjectsError> {
        let path = self.0.join(PLAN);
        let text = serde_json::to_vec(plan).map_err(io::Error::from).map_err(ObjectsError::disk(&path))?;
        let next = self.0.join("plan.json.next");
        fs::write(&next, text).and_then(|()| fs::rename(&next, &path)).map_err(ObjectsError::disk(&path))
    }

    /// The checksums of the plan's files as they are now. Reads all of them.
    pub(crate) fn sums_now(&self, plan: &Plan) -> Result<Sums, ObjectsError> {
        let mut sums = Sums::new();
        for object in &plan.objects {
            let path = self.files().join(&object.name);
            sums.insert(object.name.clone(), sum(&path).map_err(ObjectsError::disk(&path))?);
        }
        Ok(sums)
    }

    /// Notes that all files are there, with these checksums.
    pub(crate) fn complete(&self, sums: &Sums) -> Result<(), ObjectsError> {
        let (path, next) = (self.0.join(COMPLETE), self.0.join("complete.next"));
        let text = serde_json::to_vec(sums).map_err(io::Error::from).map_err(ObjectsError::disk(&path))?;
        fs::write(&next, text).and_then(|()| fs::rename(&next, &path)).map_err(ObjectsError::disk(&path))
    }

    /// The checksums of the files. `None` if they are not all there; empty if an older version copied them, without
    /// checksums.
    fn sums(&self) -> Option<Sums> {
        let text = fs::read(self.0.join(COMPLETE)).ok()?;
        if text.is_empty() { Some(Sums::new()) } else { serde_json::from_slice(&text).ok() }
    }

    /// True if an older version copied the files, without checksums.
    pub(crate) fn lacks_sums(&self) -> bool {
        self.sums().is_some_and(|sums| sums.is_empty())
    }

    /// The files that are not as they were copied. Reads all of them.
    pub(crate) fn changed_files(&self) -> Vec<PathBuf> {
        let sums = self.sums().unwrap_or_default();
        let changed = |(name, expected): (String, u32)| {
            let path = self.files().join(name);
            // A file that the disk can't read is as good as a changed one.
            (sum(&path).ok() != Some(expected)).then_some(path)
        };
        sums.into_iter().filter_map(changed).collect()
    }

    /// Removes files, so that the copy is not complete and they are copied again.
    pub(crate) fn discard(&self, files: &[PathBuf]) -> Result<(), ObjectsError> {
        let complete = self.0.join(COMPLETE);
        for path in std::iter::once(&complete).chain(files) {
            match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(ObjectsError::disk(path)(error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Notes a use, for the choice of a copy to remove. A disk that can't be written does not matter for that.
    pub(crate) fn used(&self) {
        if let Ok(file) = File::options().append(true).open(self.0.join(COMPLETE)) {
            let _ = file.set_modified(SystemTime::now());
        }
    }

    /// The time of the last use; the beginning of time for an unfinished copy.
    pub(crate) fn used_at(&self) -> SystemTime {
        let modified = fs::metadata(self.0.join(COMPLETE)).and_then(|found| found.modified());
        modified.unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Opens the copy's lock; with `make`, in a directory that is made if necessary.
    pub(crate) fn lock(&self, make: bool) -> Result<File, ObjectsError> {
        let path = self.0.join(LOCK);
        if make {
            fs::create_dir_all(&self.0).map_err(ObjectsError::disk(&self.0))?;
        }
        File::options().create(make).append(true).open(&path).map_err(ObjectsError::disk(&path))
    }

    pub(crate) fn remove(&self) -> Result<(), ObjectsError> {
        fs::remove_dir_all(&self.0).map_err(ObjectsError::disk(&self.0))
    }
}

/// The checksum of a file's bytes.
fn sum(path: &Path) -> io::Result<u32> {
    let mut file = File::open(path)?;
    let mut piece = vec![0; SUM_READ_BYTES];
    let mut sum = 0;
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(sum),
            Ok(read) => sum = crc32c::crc32c_append(sum, &piece[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// True if the lock was free and is taken now.
pub(crate) fn taken(tried: Result<(), TryLockError>, cache: &Path) -> Result<bool, ObjectsError> {
    match tried {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(ObjectsError::disk(cache)(error)),
    }
}

/// Takes the cache's lock, until the file is dropped.
pub(crate) fn lock(cache: &Path) -> Result<File, ObjectsError> {
    let path = cache.join(LOCK);
    let open = || -> io::Result<File> {
        let file = File::options().create(true).append(true).open(&path)?;
        file.lock()?;
        Ok(file)
    };
    open().map_err(ObjectsError::disk(&path))
}

/// All copies of a cache, or those of one part.
pub(crate) fn places(cache: &Path, of: Option<(&str, &str)>) -> Result<Vec<Place>, ObjectsError> {
    let prefix = of.map(|(folder, part)| prefix_of(folder, part)).unwrap_or_default();
    let mut found = Vec::new();
    for entry in fs::read_dir(cache).map_err(ObjectsError::disk(cache))? {
        let entry = entry.map_err(ObjectsError::disk(cache))?;
        let is_copy = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_copy && entry.file_name().to_string_lossy().starts_with(&prefix) {
            found.push(Place(entry.path()));
        }
    }
    Ok(found)
}
