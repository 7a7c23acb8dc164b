//! Why an index can't be built or opened.
//!
//! An index that was whole before a failure still is: a run publishes its work in one step, at its end.

use crate::limits::PARTITIONS_MAX;
use std::io;
use std::path::{Path, PathBuf};
use tantivy::TantivyError;

/// Why an index can't be built or opened. Whatever index the directory held before is untouched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The folder to index is missing, no folder, or can't be listed.
    #[error("can't read the folder {}", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Index data can't be written to or read from its directory: no permission, no space left.
    #[error("can't use the data directory {}", directory.display())]
    DataDirectory {
        /// The directory.
        directory: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// No data directory was given, and the environment names neither a data home nor a home.
    #[error("no data directory: give one, or set XDG_DATA_HOME or HOME")]
    NoHome,
    /// The number of partitions is zero or above the limit.
    #[error("{0} partitions: it must be 1 to {PARTITIONS_MAX}")]
    Partitions(u32),
    /// The directory holds no whole index: nothing was indexed there, or a run was killed.
    #[error("{} holds no finished index", directory.display())]
    Unfinished {
        /// The directory.
        directory: PathBuf,
    },
    /// The directory's index is split otherwise than the caller thinks.
    #[error(
        "{} holds {found} partitions; partition {partition} of {total} was asked for",
        directory.display()
    )]
    OtherSplit {
        /// The directory.
        directory: PathBuf,
        /// The number asked for.
        partition: u32,
        /// The total asked for.
        total: u32,
        /// The total that is there.
        found: u32,
    },
    /// A file of the index is missing or cut off. Indexing the folder again builds it anew.
    #[error("the index is damaged: {}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
    },
    /// The index library refuses: the index is another version's, or broken in a way that its sizes don't
    /// show.
    #[error("the index in {} can't be used", directory.display())]
    Library {
        /// Where that index is.
        directory: PathBuf,
        /// What the library says.
        source: TantivyError,
    },
}

impl IndexError {
    pub(crate) fn data(directory: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::DataDirectory { directory: directory.to_owned(), source }
    }

    /// Tells a system that refuses from data that is wrong: the first is about the directory, not the index.
    pub(crate) fn reading(directory: &Path) -> impl FnOnce(TantivyError) -> Self {
        let directory = directory.to_owned();
        move |error| match io_error(&error) {
            Some(source) => Self::DataDirectory { directory, source },
            None => Self::Library { directory, source: error },
        }
    }

    /// What fails in writing is the directory: the library hands some of the system's refusals on as mere text.
    pub(crate) fn writing(directory: &Path) -> impl FnOnce(TantivyError) -> Self {
        let directory = directory.to_owned();
        move |error| {
            let source = io_error(&error).unwrap_or_else(|| io::Error::other(error));
            Self::DataDirectory { directory, source }
        }
    }
}

/// The system's error that the library's is about, if it is.
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
