//! `search`: full-text search over the files of a folder, or over an index in an object store.
//!
//! Each partition of a folder has an index in a directory of its own. The parts of one folder share one index directory
//! and build it in turn.

use super::folders::{Folder, read};
use super::kind::Offer;
use super::words::Words;
use super::{Opened, chain, with_operators};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use treefold::{CallError, LoadPartition, Operator, PartitionData, PartitionSet, Service};
use treefold_micro::PROCESSORS_MAX;
use treefold_search::{Bar, IndexOptions, Progress, Report, SERVICE, Shard};

pub(super) struct Kind;

impl super::kind::Kind for Kind {
    fn name(&self) -> &'static str {
        SERVICE
    }

    fn keys(&self) -> &'static [&'static str] {
        &["data", "files", "emulate", "cache"]
    }

    fn form(&self) -> &'static str {
        "search with a folder, as in search=DIR:partitions=0-3/12"
    }

    fn parse(&self, words: &Words<'_>) -> Result<Arc<dyn Offer>, CallError> {
        let folder = words.subject()?;
        if super::is_in_store(folder) {
            return super::stored::search(words, folder);
        }
        if words.of("cache").is_some() {
            return Err(words.refuse("cache with an index in an object store only"));
        }
        let files_max = words.number("files", "a number of files")?;
        let corpus = Corpus { folder: folder.into(), data: words.path("data"), files_max };
        Ok(Arc::new(Search { corpus, emulated: emulated(words)? }))
    }

    fn operators(&self) -> Vec<(&'static str, Arc<dyn Operator>)> {
        treefold_search::aggregations()
    }
}

/// A folder to search, and how to index it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corpus {
    pub folder: PathBuf,
    /// Directory of the index; `None` for the search service's default.
    pub data: Option<PathBuf>,
    pub files_max: Option<u64>,
}

impl Corpus {
    /// Indexes the folder, or finds that its index is still valid.
    ///
    /// Blocks.
    pub fn index(&self, partitions: u32, progress: &dyn Progress) -> Result<Report, String> {
        let mut options = IndexOptions::new(partitions);
        options.data_directory.clone_from(&self.data);
        options.files_max = self.files_max;
        treefold_search::index(&self.folder, &options, progress).map_err(|error| chain(&error))
    }
}

#[derive(Debug)]
struct Search {
    corpus: Corpus,
    /// Number of emulated processors for stretched aggregations; `None` for no such aggregations.
    emulated: Option<u32>,
}

impl Offer for Search {
    fn name(&self) -> &str {
        SERVICE
    }

    fn may_block(&self) -> bool {
        true
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn emulated_processors(&self) -> Option<u32> {
        self.emulated
    }

    fn folders(&self, total: u32) -> Vec<Folder> {
        let default = || treefold_search::data_directory(&self.corpus.folder, total).ok();
        let index = self.corpus.data.clone().or_else(default).map(|path| Folder::written(path, "data"));
        std::iter::once(read(&self.corpus.folder)).chain(index).collect()
    }

    fn open(&self, partitions: &PartitionSet, total: u32) -> Result<Opened, String> {
        let report = self.corpus.index(total, &Bar::new())?;
        let service = search_service(&report.directory, partitions.iter(), total)?;
        Ok(stretched(service, self.emulated).into())
    }

    fn open_placed(&self, total: u32, replicas: u32) -> Result<Option<Service>, String> {
        let report = self.corpus.index(total, &Bar::new())?;
        let service = stretched(search_service(&report.directory, [], total)?, self.emulated);
        Ok(Some(service.placed(replicas, ShardLoader { directory: report.directory, total })))
    }
}

/// Opens partitions of an index.
struct ShardLoader {
    directory: PathBuf,
    total: u32,
}

impl LoadPartition for ShardLoader {
    fn load(&self, partition: u32) -> Result<PartitionData, String> {
        let shard = Shard::open(&self.directory, partition, self.total).map_err(|error| chain(&error))?;
        Ok(Arc::new(shard))
    }
}

/// Makes the search service with these partitions of an index.
pub fn search_service(
    directory: &Path,
    partitions: impl IntoIterator<Item = u32>,
    total: u32,
) -> Result<Service, String> {
    let mut service = empty(total);
    for partition in partitions {
        let shard = Shard::open(directory, partition, total).map_err(|error| chain(&error))?;
        service = service.partition(partition, shard);
    }
    Ok(service)
}

/// The search service without partitions.
pub(super) fn empty(total: u32) -> Service {
    with_operators(Service::new(SERVICE), SERVICE, treefold_search::aggregations()).total(total)
}

/// Adds the stretched forms of the search service's aggregations, if processors are emulated.
pub(super) fn stretched(service: Service, emulated: Option<u32>) -> Service {
    let Some(processors) = emulated else { return service };
    with_operators(service, SERVICE, treefold_micro::stretched(treefold_search::aggregations(), processors))
}

/// Reads the number of emulated processors.
pub(super) fn emulated(words: &Words<'_>) -> Result<Option<u32>, CallError> {
    let read = |text: &str| {
        let number = text.parse().ok().filter(|number| (1..=PROCESSORS_MAX).contains(number));
        number.ok_or_else(|| {
            CallError::bad_field("emulate", text, format_args!("1 to {PROCESSORS_MAX} processors"))
        })
    };
    words.of("emulate").map(read).transpose()
}
