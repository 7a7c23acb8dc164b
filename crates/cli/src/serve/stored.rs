//! Partitions of `search` and `sql` in an object store.
//!
//! ```text
//! search=s3://BUCKET/FOLDER:partitions=…[:data=DIR][:cache=BYTES]   an index that `treefold index --to` has uploaded
//! sql=s3://BUCKET/FOLDER:partitions=…                               tables, whose files are dealt out to the partitions
//! sql=s3://BUCKET/FOLDER/{partition}:partitions=…                   tables, with a folder for each partition
//! ```
//!
//! A node copies the objects of a partition into a directory on its disk, and opens the copy. See [`treefold_objects`].

use super::folders::Folder as LocalFolder;
use super::kind::Offer;
use super::words::Words;
use super::{Opened, chain, search, sql};
use crate::sql::Tables;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::{any::Any, env};
use treefold::{CallError, LoadPartition, PartitionData, PartitionSet, Service};
use treefold_objects::{CACHE_BYTES_DEFAULT, Cache, Folder, LocalCopy, Object, ObjectsError};
use treefold_search::{Published, Shard};

/// In an address, the place of a partition's number.
const PARTITION: &str = "{partition}";
/// Declares the tables of a folder, so each partition needs it.
const SCHEMA: &str = "schema.sql";
/// Bounds of a cache, in bytes.
const CACHE_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=u64::MAX;

/// Data in an object store, and where its copies are kept.
#[derive(Clone, Debug)]
struct Stored {
    url: String,
    /// Directory of the copies; `None` for the default.
    directory: Option<PathBuf>,
    bytes_max: u64,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    /// An index, and the number of emulated processors for stretched aggregations.
    Search(Option<u32>),
    Sql(Tables),
}

impl Offer for Stored {
    fn name(&self) -> &str {
        match &self.kind {
            Kind::Search(_) => treefold_search::SERVICE,
            Kind::Sql(tables) => &tables.name,
        }
    }

    fn may_block(&self) -> bool {
        true
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn emulated_processors(&self) -> Option<u32> {
        match self.kind {
            Kind::Search(emulated) => emulated,
            Kind::Sql(_) => None,
        }
    }

    fn folders(&self, _: u32) -> Vec<LocalFolder> {
        self.directory().map(|path| LocalFolder::written(path, "data")).into_iter().collect()
    }

    /// The partitions stay until the process ends. Blocks until they are copied.
    fn open(&self, partitions: &PartitionSet, total: u32) -> Result<Opened, String> {
        let loader = self.copies(total)?;
        let service = partitions.iter().try_fold(self.empty(total)?, |service, partition| {
            let (data, copy) = loader.opened(partition).map_err(|error| self.said(&error))?;
            copy.hold_until_exit();
            Ok::<_, String>(service.partition_arc(partition, data))
        })?;
        Ok(service.into())
    }

    fn open_placed(&self, total: u32, replicas: u32) -> Result<Option<Service>, String> {
        Ok(Some(self.empty(total)?.placed(replicas, self.copies(total)?)))
    }
}

impl Stored {
    /// The directory of the copies.
    fn directory(&self) -> Result<PathBuf, String> {
        let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let default =
            || absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
        let given = self.directory.clone().or_else(|| default().map(|cache| cache.join("treefold/objects")));
        given.ok_or_else(|| {
            format!("--serve {}={}: neither data=DIR nor HOME names a directory", self.name(), self.url)
        })
    }

    fn copies(&self, total: u32) -> Result<Loader, String> {
        let cache = Cache::in_directory(&self.directory()?, self.bytes_max);
        let cache = cache.map_err(|error| self.said(&error.to_string()))?;
        // The address of a folder for each partition is complete only with the partition, but its settings are known.
        let folder = Folder::at(&self.url.replace(PARTITION, "0"));
        let folder = folder.map_err(|error| self.said(&error.to_string()))?;
        Ok(Loader { stored: self.clone(), folder, cache, total, held: Mutex::default() })
    }

    /// The service without partitions.
    fn empty(&self, total: u32) -> Result<Service, String> {
        match &self.kind {
            Kind::Search(emulated) => Ok(search::stretched(search::empty(total), *emulated)),
            Kind::Sql(tables) => tables.service(&PartitionSet::default(), total),
        }
    }

    fn said(&self, error: &str) -> String {
        format!("--serve {}={}: {error}", self.name(), self.url)
    }
}

/// Reads an argument of `search` whose folder is in a store.
pub(super) fn search(words: &Words<'_>, url: &str) -> Result<Arc<dyn Offer>, CallError> {
    if url.contains(PARTITION) {
        return Err(words.refuse("the folder of an index, without {partition}"));
    }
    if words.of("files").is_some() {
        return Err(words.refuse("files with a folder on this machine only"));
    }
    stored(words, url, Kind::Search(search::emulated(words)?))
}

/// Reads an argument of `sql` whose folder is in a store.
pub(super) fn sql(words: &Words<'_>, url: &str) -> Result<Arc<dyn Offer>, CallError> {
    let tables = Tables { is_dealt: true, ..sql::tables(words, url)? };
    stored(words, url, Kind::Sql(tables))
}

fn stored(words: &Words<'_>, url: &str, kind: Kind) -> Result<Arc<dyn Offer>, CallError> {
    Folder::check(&url.replace(PARTITION, "0")).map_err(|error| words.refuse(&error.to_string()))?;
    let bytes_max = words.bytes("cache", CACHE_BYTES, "bytes from 1M on, as in cache=20G")?;
    let bytes_max = bytes_max.unwrap_or(CACHE_BYTES_DEFAULT);
    Ok(Arc::new(Stored { url: url.to_owned(), directory: words.path("data"), bytes_max, kind }))
}

/// Copies and opens partitions.
struct Loader {
    stored: Stored,
    /// The folder of all partitions; with a folder for each, that of partition 0.
    folder: Folder,
    cache: Cache,
    total: u32,
    /// The copies of loaded partitions, with the data that reads them.
    held: Mutex<Vec<(Weak<dyn Any + Send + Sync>, LocalCopy)>>,
}

impl LoadPartition for Loader {
    fn load(&self, partition: u32) -> Result<PartitionData, String> {
        // A copy whose data is gone may make room for the next one.
        self.held.lock().unwrap_or_else(PoisonError::into_inner).retain(|(data, _)| data.strong_count() > 0);
        let (data, copy) = self.opened(partition)?;
        let entry = (Arc::downgrade(&data), copy);
        self.held.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
        Ok(data)
    }
}

impl Loader {
    fn opened(&self, partition: u32) -> Result<(PartitionData, LocalCopy), String> {
        let copy = self.copied(partition).map_err(|error| chain(&error))?;
        let data: PartitionData = match &self.stored.kind {
            Kind::Search(_) => {
                let shard = Shard::open(copy.files(), partition, self.total);
                Arc::new(shard.map_err(|error| chain(&error))?)
            }
            Kind::Sql(tables) => {
                let tables = Tables { folder: copy.files().to_owned(), ..tables.clone() };
                let one = [partition].into_iter().collect();
                let data = tables.service(&one, self.total)?.into_partition(partition);
                data.ok_or_else(|| format!("partition {partition} was opened without data"))?
            }
        };
        Ok((data, copy))
    }

    fn copied(&self, partition: u32) -> Result<LocalCopy, ObjectsError> {
        let has_own = self.stored.url.contains(PARTITION);
        let folder = match has_own {
            true => Folder::at(&self.stored.url.replace(PARTITION, &partition.to_string()))?,
            false => self.folder.clone(),
        };
        let part = format!("partition {partition} of {}", self.total);
        let objects = || match &self.stored.kind {
            Kind::Search(_) => indexed(&folder, partition, self.total),
            Kind::Sql(_) if has_own => folder.list(""),
            Kind::Sql(_) => Ok(dealt(folder.list("")?, partition, self.total)),
        };
        self.cache.open(&folder, &part, objects)
    }
}

/// The objects of one partition of an index: the manifest, and the files in its folder.
fn indexed(folder: &Folder, partition: u32, total: u32) -> Result<Vec<Object>, ObjectsError> {
    let (manifest, text) = folder.read(Published::MANIFEST)?;
    let unfit = |reason: String| ObjectsError::Content { url: folder.url().to_owned(), reason };
    let index = Published::read(&text)
        .ok_or_else(|| unfit("manifest.json is not the manifest of an index of this version".to_owned()))?;
    if index.partitions() != total {
        return Err(unfit(format!("the index has {} partitions, and not {total}", index.partitions())));
    }
    let mut objects = folder.list(&index.partition(partition))?;
    if objects.is_empty() {
        // The generation was removed between the two requests, or never uploaded completely.
        return Err(ObjectsError::Changed { url: folder.url().to_owned(), name: index.generation() });
    }
    objects.push(manifest);
    Ok(objects)
}

/// The objects of one partition of a folder of tables.
///
/// The files of each table are dealt out in turn, in the order of their names, so all nodes deal alike. Names that begin
/// with a dot or an underscore are no data, as other programs have it.
fn dealt(objects: Vec<Object>, partition: u32, total: u32) -> Vec<Object> {
    let is_data = |object: &Object| !object.name.split('/').any(|part| part.starts_with(['.', '_']));
    let mut tables: BTreeMap<String, u32> = BTreeMap::new();
    let mut own = Vec::new();
    for object in objects.into_iter().filter(is_data) {
        if object.name == SCHEMA {
            own.push(object);
            continue;
        }
        let first = object.name.split('/').next().unwrap_or_default();
        let table = if first == object.name { first.split('.').next().unwrap_or_default() } else { first };
        let number = tables.entry(table.to_lowercase()).or_default();
        if *number % total == partition {
            own.push(object);
        }
        *number += 1;
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(objects: Vec<Object>) -> Vec<String> {
        objects.into_iter().map(|object| object.name).collect()
    }

    #[test]
    fn files_of_each_table_are_dealt_out_and_the_schema_is_everyones() {
        let objects = || -> Vec<Object> {
            ["_SUCCESS", "a/.crc", "a/1.parquet", "a/2.parquet", "a/3.parquet", "b.csv", "schema.sql"]
                .map(|name| Object { name: name.to_owned(), bytes: 1, tag: String::new() })
                .into()
        };
        assert_eq!(names(dealt(objects(), 0, 2)), ["a/1.parquet", "a/3.parquet", "b.csv", "schema.sql"]);
        assert_eq!(names(dealt(objects(), 1, 2)), ["a/2.parquet", "schema.sql"]);
    }

    #[test]
    fn addresses_and_caches_are_checked_when_the_argument_is_read() {
        let read = |text: &str| text.parse::<super::super::Serve>().map(|serve| format!("{serve:?}"));
        let all = read("search=s3://docs/idx:partitions=auto/64:replicas=2:cache=20G:data=/var/c").unwrap();
        for part in
            ["Stored", "url: \"s3://docs/idx\"", "directory: Some(\"/var/c\")", "bytes_max: 21474836480"]
        {
            assert!(all.contains(part), "{part} in {all}");
        }
        assert!(!read("search=/srv/docs:partitions=0/1").unwrap().contains("Stored"));
        for (text, reason) in [
            ("search=gs://docs/idx:partitions=0/1", "s3://BUCKET/FOLDER"),
            ("search=s3://:partitions=0/1", "s3://BUCKET/FOLDER"),
            ("search=s3://docs/{partition}:partitions=0/1", "without {partition}"),
            ("search=s3://docs/a:partitions=0/1:cache=1K", "from 1M on"),
            ("search=s3://docs/a:partitions=0/1:memory=1G", "without memory"),
            ("search=s3://docs/a", "partitions=0-3/12"),
            ("search=s3://docs/a:partitions=0/1:cache=1G:cache=2G", "cache is given twice"),
            ("vectors=s3://docs/a:partitions=0/1", "vectors with a file"),
            ("hosts=s3://docs/a:partitions=0/1", "hosts with one partition"),
        ] {
            let refused = read(text).unwrap_err().to_string();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
    }
}
