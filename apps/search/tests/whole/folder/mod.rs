//! A folder to index, and the partitions of its index as operators see them.
#![allow(dead_code, reason = "each test binary uses its part of this module")]
#![allow(clippy::unwrap_used, reason = "a test that can't go on has failed")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use treefold_operators::{Aggregation, Partition, Result};
use treefold_search::{
    Hits, IndexError, IndexOptions, Report, SERVICE, Shard, Statistics, Terms, TermsParams, TopK, TopKParams,
    index,
};

/// A folder, and beside it the directory of its index. Both are removed at the end.
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self(TempDir::new().unwrap());
        fs::create_dir(folder.path()).unwrap();
        for (path, text) in files {
            folder.write(path, text.as_bytes());
        }
        folder
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().join("folder")
    }

    pub(crate) fn data(&self, partitions: u32) -> PathBuf {
        self.0.path().join(format!("data-{partitions}"))
    }

    pub(crate) fn write(&self, path: &str, bytes: &[u8]) {
        let file = self.path().join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, bytes).unwrap();
    }

    pub(crate) fn options(&self, partitions: u32) -> IndexOptions {
        IndexOptions { data_directory: Some(self.data(partitions)), ..IndexOptions::new(partitions) }
    }

    pub(crate) fn index(&self, partitions: u32) -> Report {
        index_with(&self.path(), &self.options(partitions)).unwrap()
    }

    /// Indexes the folder and opens the partitions.
    pub(crate) fn partitions(&self, total: u32) -> Vec<Partition> {
        opened(&self.index(total).directory, total)
    }
}

pub(crate) fn index_with(folder: &Path, options: &IndexOptions) -> std::result::Result<Report, IndexError> {
    index(folder, options, &|_| {})
}

pub(crate) fn opened(directory: &Path, total: u32) -> Vec<Partition> {
    let open = |id| Arc::new(Shard::open(directory, id, total).unwrap());
    (0..total).map(|id| Partition::new(SERVICE.into(), id, total, open(id))).collect()
}

/// Folds the partials of all partitions, and finishes the result.
pub(crate) fn called<A: Aggregation>(
    of: &A,
    partitions: &[Partition],
    params: &A::Params,
) -> Result<A::Partial> {
    let mut partials = partitions.iter().map(|partition| of.local(partition, params));
    let first = partials.next().unwrap()?;
    let last = partials.try_fold(first, |a, b| of.reduce(a, b?, params))?;
    of.finish(last, params)
}

pub(crate) fn terms(partitions: &[Partition], query: &str) -> Statistics {
    called(&Terms, partitions, &TermsParams::new(query)).unwrap()
}

/// Calls `terms`, then `topk` with its answer.
pub(crate) fn search(partitions: &[Partition], query: &str, k: u32) -> Hits {
    let statistics = Some(terms(partitions, query));
    called(&TopK, partitions, &TopKParams { k, statistics, ..TopKParams::new(query) }).unwrap()
}

pub(crate) fn paths(hits: &Hits) -> Vec<&str> {
    hits.hits.iter().map(|hit| hit.path.as_str()).collect()
}

pub(crate) fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files
}
