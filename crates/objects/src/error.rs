//! Errors of stores and copies.

use std::io;
use std::path::{Path, PathBuf};

/// An error of a store or of a local copy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectsError {
    /// The address of a folder is invalid.
    #[error("the address {url:?} is invalid: {reason}; allowed: s3://BUCKET/FOLDER")]
    Url {
        /// The address.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The settings in the environment do not suffice for a client.
    #[error("no client for {url} can be made of the variables AWS_…: {reason}")]
    Settings {
        /// The folder.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The store did not answer, or answered with an error of its own. The request may succeed later.
    #[error("{url} can't be reached: {reason}")]
    Unreachable {
        /// The folder.
        url: String,
        /// The reason.
        reason: String,
    },
    /// The store refuses the credentials, or the credentials give no right to the folder.
    #[error("{url} refuses access: {reason}")]
    Refused {
        /// The folder.
        url: String,
        /// The reason.
        reason: String,
    },
    /// There is no such object, or no object in the folder.
    #[error("there is no {name} at {url}")]
    Missing {
        /// The folder.
        url: String,
        /// The object's name.
        name: String,
    },
    /// An object was replaced while it was copied.
    #[error("{name} in {url} was replaced while it was copied")]
    Changed {
        /// The folder.
        url: String,
        /// The object's name.
        name: String,
    },
    /// An object's name can't be the name of a file.
    #[error("the name of {name:?} in {url} can't be a file's name")]
    Name {
        /// The folder.
        url: String,
        /// The object's name.
        name: String,
    },
    /// The folder has too many objects, or an object has too many bytes to be read.
    #[error("{what} in {url} exceeds the limit: {limit}")]
    Limit {
        /// The folder.
        url: String,
        /// The excess.
        what: String,
        /// The limit.
        limit: String,
    },
    /// The copy does not fit into the cache beside the copies that are in use.
    #[error(
        "the cache {directory} has no room for {bytes} bytes more: {in_use} of at most {limit} bytes are in use",
        directory = directory.display()
    )]
    Full {
        /// The cache's directory.
        directory: PathBuf,
        /// Bytes of the copy.
        bytes: u64,
        /// Bytes of copies that can't be removed.
        in_use: u64,
        /// Most bytes of the cache.
        limit: u64,
    },
    /// A file or directory of the cache can't be read or written.
    #[error("{path}: {source}", path = path.display())]
    Disk {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The objects are not those that a service expects.
    #[error("{url}: {reason}")]
    Content {
        /// The folder.
        url: String,
        /// The reason.
        reason: String,
    },
}

impl ObjectsError {
    /// True if the same request may succeed later without any change to settings or objects.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }

    pub(crate) fn disk(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Disk { path, source }
    }

    /// Makes an error of one of the client, about an object or the folder.
    pub(crate) fn of_store(url: &str, name: &str, error: &object_store::Error) -> Self {
        use object_store::Error as Store;
        let url = url.to_owned();
        match error {
            Store::NotFound { .. } => Self::Missing { url, name: name.to_owned() },
            Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => {
                Self::Refused { url, reason: reason(error) }
            }
            Store::InvalidPath { .. } => Self::Name { url, name: name.to_owned() },
            Store::UnknownConfigurationKey { .. } => Self::Settings { url, reason: reason(error) },
            _ => {
                let reason = reason(error);
                // The client has the status of a refused listing in its words only.
                let has_status = |status: &str| reason.contains(&format!("status code: {status}"));
                match () {
                    () if has_status("401") || has_status("403") => Self::Refused { url, reason },
                    () if has_status("404") => Self::Missing { url, name: "bucket".to_owned() },
                    () => Self::Unreachable { url, reason },
                }
            }
        }
    }
}

/// The last cause of an error, which names the fault; the ones before it repeat the request.
fn reason(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(next) = last.source() {
        last = next;
    }
    let text = last.to_string();
    // A store's answer is XML; one line of it is enough.
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(REASON_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Most characters of a store's own words in an error.
const REASON_CHARS_MAX: usize = 300;
