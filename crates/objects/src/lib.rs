//! Folders of an object store as local copies.
//!
//! ```text
//!  s3://bucket/docs            Folder: lists, reads, uploads        Cache: at most so many bytes on disk
//!    manifest.json      ───▶   [Object, Object, …] of one part ──▶  LocalCopy: files/manifest.json, files/…
//!    generation-…/0003/        names, bytes, tags                   cannot be removed while it is held
//! ```
//!
//! A service with partitions in an object store needs the objects of the partitions that its node holds, as files. A
//! [`Folder`] lists them, and a [`Cache`] copies them into a directory on disk and keeps the copies, for the next start too:
//!
//! - A copy is of one version: it is named after the names, sizes and tags (`ETag`) of its objects, and an object that
//!   is replaced meanwhile fails the copy with [`ObjectsError::Changed`].
//! - An interrupted copy is resumed with its next missing file.
//! - If the store can't be reached, [`Cache::open`] returns the newest complete copy, and says so in the log.
//! - Copies that nobody holds are removed, the longest unused first, to make room. Processes may share a directory.
//!
//! Functions block, and must be called on threads that may: requests run on two threads of the crate's own.

mod cache;
mod copies;
mod download;
mod error;
mod folder;
mod limits;
mod runtime;
mod upload;

pub use cache::{Cache, LocalCopy};
pub use error::ObjectsError;
pub use folder::{Folder, Object};
pub use limits::{CACHE_BYTES_DEFAULT, FOLDERS_MAX, OBJECTS_MAX};
pub use upload::Uploaded;
