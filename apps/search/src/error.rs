//! Errors of building and opening an index.
//!
//! A failed run leaves an existing index intact: a run publishes its work in one step, at its end.

use crate::limits::PARTITIONS_MAX;
use std::io;
use std::path::{Path, PathBuf};
use tantivy::TantivyError;

/// Why an index cannot be built or opened. An index that the directory held before is unchanged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The folder to index is missing, is not a folder, or cannot be listed.
    #[error("can't read the folder {}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// Index data cannot be written to or read from its directory, for instance for lack of permission or
    /// space.
    #[error("can't use the data directory {}", directory.display())]
    DataDirectory {
        /// The directory.
        directory: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// No data directory was given, and the environment names neither a data home nor a home directory.
    #[error("no data directory: give one, or set XDG_DATA_HOME or HOME")]
    NoHome,
    /// The number of partitions is zero or above the limit.
    #[error("{0} partitions: it must be 1 to {PARTITIONS_MAX}")]
    Partitions(u32),
    /// The directory holds no complete index: no run has ended there, or a run was killed.
    #[error("{} holds no finished index", directory.display())]
    Unfinished {
        /// The directory.
        directory: PathBuf,
    },
    /// The directory's index has another number of partitions than requested.
    #[error(
        "{} holds {found} partitions; partition {partition} of {total} was asked for",
        directory.display()
    )]
    OtherSplit {
        /// The directory.
        directory: PathBuf,
        /// The requested partition.
        partition: u32,
        /// The requested number of partitions.
        total: u32,
        /// The index's number of partitions.
        found: u32,
    },
    /// Another version of this program wrote the index, or one with other tables of Unicode. Index the folder again to
    /// rebuild it.
    #[error("{} holds an index of another version ({found}; {expected} was expected); index the folder again",
        directory.display())]
    OtherVersion {
        /// The directory.
        directory: PathBuf,
        /// The index's versions.
        found: String,
        /// The versions of this program.
        expected: String,
    },
    /// A file of the index is missing, cut off or changed. Index the folder again to rebuild it.
    #[error("the index is damaged: {} is missing, cut off or changed; index the folder again", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
    },
    /// The index library reports an error: it can't use the index although its files are as they were written.
    #[error("the index in {} can't be used", directory.display())]
    Library {
        /// The directory of that index.
        directory: PathBuf,
        /// The library's error.
        source: TantivyError,
    },
}

impl IndexError {
    pub(crate) fn data(directory: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::DataDirectory { directory: directory.to_owned(), source }
    }

    /// Distinguishes the system's errors, which concern the directory, from errors in the index data.
    pub(crate) fn reading(directory: &Path) -> impl FnOnce(TantivyError) -> Self {
        let directory = directory.to_owned();
        move |error| match io_error(&error) {
            Some(source) => Self::DataDirectory { directory, source },
            None => Self::Library { directory, source: error },
        }
    }

    /// While writing, every error concerns the directory: the library reports some of the system's errors
    /// only as text.
    pub(crate) fn writing(directory: &Path) -> impl FnOnce(TantivyError) -> Self {
        let directory = directory.to_owned();
        move |error| {
            let source = io_error(&error).unwrap_or_else(|| io::Error::other(error));
            Self::DataDirectory { directory, source }
        }
    }
}

/// The system's error inside the library's error, if there is one.
fn io_error(error: &TantivyError) -> Option<io::Error> {
    use tantivy::directory::error::{OpenDirectoryError, OpenReadError, OpenWriteError};
    let source = match error {
        TantivyError::IoError(source)
        | TantivyError::OpenDirectoryError(OpenDirectoryError::IoError { io_error: source, .. })
        | TantivyError::OpenWriteError(OpenWriteError::IoError { io_error: source, .. })
        | TantivyError::OpenReadError(OpenReadError::IoError { io_error: source, .. }) => source,
        _ => return None,
    };
    Some(io::Error::new(source.kind(), source.to_string()))
}
