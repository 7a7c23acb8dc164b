//! Errors of opening a service's data.

use crate::limits::{DIMENSIONS_MAX, PARTITIONS_MAX};
use std::io;
use std::path::{Path, PathBuf};

/// Why a partition of vectors or faces cannot be opened. Files are only read; a damaged graph is built again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A file or folder cannot be read or written.
    #[error("can't use {}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A file is not in a format that this service reads.
    #[error("{}: {problem}", path.display())]
    Format {
        /// Its path.
        path: PathBuf,
        /// The expected and the found content.
        problem: String,
    },
    /// A vector cannot be compared.
    #[error("{}: row {row} {problem}", path.display())]
    Row {
        /// The file's path.
        path: PathBuf,
        /// The row, from 0.
        row: u64,
        /// The reason.
        problem: String,
    },
    /// The number of partitions is zero or above the limit.
    #[error("{0} partitions: it must be 1 to {PARTITIONS_MAX}")]
    Partitions(u32),
    /// The data need more memory than the node may use.
    #[error("{} needs about {needed} MiB for this node's partitions, and memory is {allowed} MiB; serve fewer partitions, or raise memory", path.display())]
    Memory {
        /// The file's path.
        path: PathBuf,
        /// Mebibytes that it needs.
        needed: u64,
        /// Mebibytes that it may use.
        allowed: u64,
    },
    /// No data directory was given, and the environment names neither a data home nor a home directory.
    #[error("no data directory for the graphs: give one, or set XDG_DATA_HOME or HOME")]
    NoHome,
}

impl OpenError {
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { path: path.to_owned(), source }
    }

    pub(crate) fn format(path: &Path, problem: impl Into<String>) -> Self {
        Self::Format { path: path.to_owned(), problem: problem.into() }
    }

    pub(crate) fn dimensions(path: &Path, found: u64) -> Self {
        Self::format(path, format!("vectors of {found} dimensions; allowed: 1 to {DIMENSIONS_MAX}"))
    }
}
