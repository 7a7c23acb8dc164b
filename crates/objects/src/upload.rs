//! Uploads a directory.

use crate::error::ObjectsError;
use crate::folder::Folder;
use crate::limits::{OBJECTS_MAX, PIECE_BYTES};
use object_store::buffered::BufWriter;
use object_store::{ObjectStore, ObjectStoreExt};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};
use tokio::io::AsyncWriteExt;

/// The result of an upload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uploaded {
    /// Files that were sent.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Files that the store had already, by name and size.
    pub kept: u64,
}

impl Folder {
    /// Uploads the files of a directory to the folder `below`, except those that are there with the same size.
    ///
    /// It is meant for files that never change under their names.
    ///
    /// # Errors
    /// [`ObjectsError::Unreachable`], [`ObjectsError::Refused`], [`ObjectsError::Disk`], [`ObjectsError::Limit`]. Blocks.
    pub fn upload(&self, directory: &Path, below: &str) -> Result<Uploaded, ObjectsError> {
        let files = files_of(directory)?;
        if files.len() > OBJECTS_MAX {
            return Err(self
                .limit(format!("the number of files in {}", directory.display()), OBJECTS_MAX.to_string()));
        }
        let there: BTreeMap<String, u64> =
            self.list(below)?.into_iter().map(|object| (object.name, object.bytes)).collect();
        let mut uploaded = Uploaded::default();
        for (name, bytes) in files {
            let object = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
            if there.get(&object) == Some(&bytes) {
                uploaded.kept += 1;
            } else {
                self.run(self.send(&directory.join(&name), &object))?;
                uploaded.files += 1;
                uploaded.bytes += bytes;
            }
        }
        Ok(uploaded)
    }

    /// Writes a small object, in place of the one of this name.
    ///
    /// # Errors
    /// As [`Folder::upload`]. Blocks.
    pub fn write(&self, name: &str, content: Vec<u8>) -> Result<(), ObjectsError> {
        self.run(async {
            let put = self.store.put(&self.location(name)?, content.into()).await;
            put.map(drop).map_err(|error| ObjectsError::of_store(self.url(), name, &error))
        })
    }

    /// Removes all objects below a folder.
    ///
    /// # Errors
    /// As [`Folder::list`]. Blocks.
    pub fn remove(&self, below: &str) -> Result<(), ObjectsError> {
        self.run(async {
            for object in self.listed(below).await? {
                let removed = self.store.delete(&self.location(&object.name)?).await;
                removed.map_err(|error| ObjectsError::of_store(self.url(), &object.name, &error))?;
            }
            Ok(())
        })
    }

    async fn send(&self, path: &Path, name: &str) -> Result<(), ObjectsError> {
        let disk = || ObjectsError::disk(path);
        let mut file = tokio::fs::File::open(path).await.map_err(disk())?;
        let store: Arc<dyn ObjectStore> = Arc::clone(&self.store);
        let capacity = usize::try_from(PIECE_BYTES).unwrap_or(usize::MAX);
        let mut writer = BufWriter::with_capacity(store, self.location(name)?, capacity);
        let sent = async {
            tokio::io::copy_buf(&mut tokio::io::BufReader::with_capacity(1 << 20, &mut file), &mut writer)
                .await?;
            writer.shutdown().await
        };
        let sent = sent.await;
        if sent.is_err() {
            // The parts that were sent would stay and cost; if this fails too, the store's own rules remove them.
            let _ = writer.abort().await;
        }
        sent.map_err(|error| of_writer(self.url(), name, error))
    }
}

/// The store's error inside one of writing.
fn of_writer(url: &str, name: &str, error: io::Error) -> ObjectsError {
    match error.downcast::<object_store::Error>() {
        Ok(error) => ObjectsError::of_store(url, name, &error),
        Err(error) => ObjectsError::Unreachable { url: url.to_owned(), reason: error.to_string() },
    }
}

/// The files below a directory with their sizes, by names with slashes, sorted.
fn files_of(directory: &Path) -> Result<Vec<(String, u64)>, ObjectsError> {
    let (mut found, mut open) = (Vec::new(), vec![PathBuf::new()]);
    while let Some(below) = open.pop() {
        let here = directory.join(&below);
        for entry in fs::read_dir(&here).map_err(ObjectsError::disk(&here))? {
            let entry = entry.map_err(ObjectsError::disk(&here))?;
            let path = below.join(entry.file_name());
            let meta = entry.metadata().map_err(ObjectsError::disk(&entry.path()))?;
            if meta.is_dir() {
                open.push(path);
            } else {
                let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
                found.push((parts.join("/"), meta.len()));
            }
        }
    }
    found.sort();
    Ok(found)
}
