//! Copies objects into files.
//!
//! An object is fetched in pieces, so that no request takes long and none has to begin anew. A file has its final name
//! once it is complete and on disk.

use crate::error::ObjectsError;
use crate::folder::{Folder, Object};
use crate::limits::{PIECE_BYTES, REQUESTS_MAX};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use object_store::{GetOptions, GetRange, ObjectStore};
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::task::spawn_blocking;

/// Ending of a file that is not complete.
const PART: &str = ".part";

/// A file that is being written, and the number of its pieces that are missing.
struct Target {
    object: Object,
    path: PathBuf,
    part: PathBuf,
    file: File,
    missing: AtomicUsize,
}

/// Copies the objects that `directory` lacks into it.
pub(crate) fn fetch(folder: &Folder, objects: &[Object], directory: &Path) -> Result<(), ObjectsError> {
    let mut pieces = Vec::new();
    for object in objects {
        let path = directory.join(&object.name);
        if !has_size(&path, object.bytes) {
            pieces.push(object);
        }
    }
    // A file is opened when its first piece is due, so a folder of many files needs few descriptors.
    let pieces = pieces.into_iter().flat_map(|object| open(directory, object));
    folder.run(async {
        stream::iter(pieces)
            .map(|piece| async {
                let (target, range) = piece?;
                let bytes = get(folder, &target.object, range.clone()).await?;
                let wrote = spawn_blocking(move || target.put(range.start, &bytes)).await;
                wrote.unwrap_or_else(|error| Err(ObjectsError::disk(directory)(io::Error::other(error))))
            })
            .buffer_unordered(REQUESTS_MAX)
            .try_collect()
            .await
    })
}

/// Opens the file of an object, and divides the object into pieces.
fn open(
    directory: &Path,
    object: &Object,
) -> impl Iterator<Item = Result<(Arc<Target>, Range<u64>), ObjectsError>> + use<> {
    let count = object.bytes.div_ceil(PIECE_BYTES).max(1);
    let (target, failed) = match Target::create(directory, object, count) {
        Ok(target) => (Some(Arc::new(target)), None),
        Err(error) => (None, Some(Err(error))),
    };
    let bytes = object.bytes;
    let pieces = target.into_iter().flat_map(move |target| {
        (0..count).map(move |at| {
            let range = at * PIECE_BYTES..((at + 1) * PIECE_BYTES).min(bytes);
            Ok((Arc::clone(&target), range))
        })
    });
    failed.into_iter().chain(pieces)
}

impl Target {
    fn create(directory: &Path, object: &Object, count: u64) -> Result<Self, ObjectsError> {
        let path = directory.join(&object.name);
        let mut part = path.clone().into_os_string();
        part.push(PART);
        let part = PathBuf::from(part);
        let parent = path.parent().unwrap_or(directory);
        fs::create_dir_all(parent).map_err(ObjectsError::disk(parent))?;
        let file = File::create(&part).map_err(ObjectsError::disk(&part))?;
        let missing = AtomicUsize::new(usize::try_from(count).unwrap_or(usize::MAX));
        Ok(Self { object: object.clone(), path, part, file, missing })
    }

    /// Writes a piece; the last one completes the file.
    fn put(&self, at: u64, bytes: &[u8]) -> Result<(), ObjectsError> {
        self.file.write_all_at(bytes, at).map_err(ObjectsError::disk(&self.part))?;
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.file.sync_all().map_err(ObjectsError::disk(&self.part))?;
            fs::rename(&self.part, &self.path).map_err(ObjectsError::disk(&self.path))?;
        }
        Ok(())
    }
}

/// True if there is a file of exactly this size.
pub(crate) fn has_size(path: &Path, bytes: u64) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == bytes)
}

/// Fetches a piece of an object, of the version that was listed.
async fn get(folder: &Folder, object: &Object, range: Range<u64>) -> Result<Bytes, ObjectsError> {
    let expected = range.end - range.start;
    // A request for no bytes is not allowed, and for a whole object it needs no range.
    let is_whole = expected == object.bytes;
    let options =
        GetOptions { range: (!is_whole).then_some(GetRange::Bounded(range)), ..GetOptions::default() };
    let got = folder.store.get_opts(&folder.location(&object.name)?, options).await;
    let got = got.map_err(|error| match error {
        // Its listing is older than its removal.
        object_store::Error::NotFound { .. } => folder.changed(&object.name),
        other => ObjectsError::of_store(folder.url(), &object.name, &other),
    })?;
    if !object.is_version_of(&got.meta) {
        return Err(folder.changed(&object.name));
    }
    folder.content(got, &object.name, expected).await
}
