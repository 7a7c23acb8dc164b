//! `vectors` and `faces`: nearest neighbours.
//!
//! ```text
//! vectors=FILE:partitions=IDS/TOTAL:metric=METRIC[:KEY=VALUE]…
//! faces=FOLDER:model=FILE:partitions=IDS/TOTAL[:name=NAME]
//!
//! vectors=texts.npy:partitions=0-3/16:metric=cosine
//! vectors=texts.npy:partitions=0-3/16:metric=cosine:index=hnsw:attributes=texts.jsonl:name=texts
//! vectors=part-{partition}.fvecs:partitions=3/16:metric=l2
//! faces=people:model=people.model:partitions=0-3/16
//! ```

use super::folders::{Folder, read};
use super::kind::{Kind, Offer};
use super::words::Words;
use super::{Opened, chain, with_operators};
use indicatif::{ProgressBar, ProgressStyle};
use std::path::PathBuf;
use std::sync::Arc;
use treefold::{CallError, Operator, PartitionSet, Service};
use treefold_vectors::faces::{self, Gallery, Model};
use treefold_vectors::{GraphOptions, Index, Metric, Source};

/// Bounds of `links`.
const LINKS: std::ops::RangeInclusive<u32> = 2..=128;
/// Bounds of `breadth`.
const BREADTH: std::ops::RangeInclusive<u32> = 8..=4_096;
/// Bounds of `memory`, in bytes.
const MEMORY_BYTES: std::ops::RangeInclusive<u64> = 1 << 20..=u64::MAX;

/// The kind `vectors`.
pub(super) struct Vectors;
/// The kind `faces`.
pub(super) struct Faces;

impl Kind for Vectors {
    fn name(&self) -> &'static str {
        treefold_vectors::SERVICE
    }

    fn keys(&self) -> &'static [&'static str] {
        &["metric", "index", "attributes", "name", "data", "memory", "links", "breadth"]
    }

    fn form(&self) -> &'static str {
        "vectors with a file, partitions and a metric, as in vectors=FILE:partitions=0-3/16:metric=cosine"
    }

    fn parse(&self, words: &Words<'_>) -> Result<Arc<dyn Offer>, CallError> {
        let metric = words.of("metric").ok_or_else(|| words.refuse(self.form()))?;
        let allowed = format!("one of {}", Metric::NAMES.join(", "));
        let metric = Metric::named(metric).ok_or_else(|| CallError::bad_field("metric", metric, allowed))?;
        let mut source = Source::new(words.subject()?, metric);
        source.index = index(words)?;
        source.attributes = words.path("attributes");
        source.data = words.path("data");
        if let Some(bytes) = words.bytes("memory", MEMORY_BYTES, "bytes from 1M on, as in memory=512M")? {
            source.memory_bytes_max = bytes;
        }
        Ok(Arc::new(Near { name: words.service_name()?, data: Data::Vectors(source) }))
    }

    fn operators(&self) -> Vec<(&'static str, Arc<dyn Operator>)> {
        treefold_vectors::aggregations()
    }
}

impl Kind for Faces {
    fn name(&self) -> &'static str {
        faces::SERVICE
    }

    fn keys(&self) -> &'static [&'static str] {
        &["model", "name"]
    }

    fn form(&self) -> &'static str {
        "faces with a folder, a model and partitions, as in faces=DIR:model=FILE:partitions=0-3/16"
    }

    fn parse(&self, words: &Words<'_>) -> Result<Arc<dyn Offer>, CallError> {
        let model = words.path("model").ok_or_else(|| words.refuse(self.form()))?;
        let data = Data::Faces { folder: words.subject()?.into(), model };
        Ok(Arc::new(Near { name: words.service_name()?, data }))
    }

    fn operators(&self) -> Vec<(&'static str, Arc<dyn Operator>)> {
        faces::aggregations()
    }
}

/// Vectors or faces under a name.
#[derive(Debug)]
struct Near {
    name: Option<String>,
    data: Data,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Data {
    Vectors(Source),
    Faces { folder: PathBuf, model: PathBuf },
}

impl Offer for Near {
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(match self.data {
            Data::Vectors(_) => treefold_vectors::SERVICE,
            Data::Faces { .. } => faces::SERVICE,
        })
    }

    fn may_block(&self) -> bool {
        true
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn folders(&self, _: u32) -> Vec<Folder> {
        match &self.data {
            Data::Vectors(source) => {
                let sources = std::iter::once(&source.vectors).chain(&source.attributes);
                let data = source.data.iter().map(|path| Folder::written(path.clone(), "data"));
                sources.map(|path| read(path)).chain(data).collect()
            }
            Data::Faces { folder, model } => vec![read(folder), read(model)],
        }
    }

    /// Files are read, and graphs may have to be built.
    fn open(&self, partitions: &PartitionSet, total: u32) -> Result<Opened, String> {
        let ids: Vec<u32> = partitions.iter().collect();
        let service = Service::new(self.name()).total(total);
        match &self.data {
            Data::Vectors(source) => {
                let bar = Bar::new();
                let shards = source
                    .open(&ids, total, &|done, all| bar.show(done, all))
                    .map_err(|error| chain(&error))?;
                let service =
                    with_operators(service, treefold_vectors::SERVICE, treefold_vectors::aggregations());
                let opened =
                    shards.into_iter().fold(service, |service, (id, shard)| service.partition(id, shard));
                Ok(opened.into())
            }
            Data::Faces { folder, model } => {
                let model = Arc::new(Model::read(model).map_err(|error| chain(&error))?);
                let opened = Gallery::list(folder).and_then(|gallery| gallery.open(&model, &ids, total));
                let shards = opened.map_err(|error| chain(&error))?;
                let service = with_operators(service, faces::SERVICE, faces::aggregations());
                let opened =
                    shards.into_iter().fold(service, |service, (id, shard)| service.partition(id, shard));
                Ok(opened.into())
            }
        }
    }
}

/// Progress of building graphs, as a bar if standard error is a terminal.
struct Bar(ProgressBar);

impl Bar {
    fn new() -> Self {
        let style = ProgressStyle::with_template("indexing {pos}/{len} vectors {wide_bar} {eta}");
        Self(ProgressBar::new(0).with_style(style.expect("invariant: the template is well-formed")))
    }

    fn show(&self, done: u64, all: u64) {
        self.0.set_length(all);
        self.0.set_position(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Parses the index and its options.
fn index(words: &Words<'_>) -> Result<Index, CallError> {
    let number = |key: &str, allowed: std::ops::RangeInclusive<u32>, default: u32| match words.of(key) {
        None => Ok(default),
        Some(text) => {
            let found = text.parse().ok().filter(|number| allowed.contains(number));
            let limit = format!("{} to {}", allowed.start(), allowed.end());
            found.ok_or_else(|| CallError::bad_field(key, text, limit))
        }
    };
    match words.of("index") {
        None | Some("exact") => {
            match ["links", "breadth", "data"].into_iter().find_map(|key| Some((key, words.of(key)?))) {
                None => Ok(Index::Exact),
                Some((key, value)) => Err(CallError::bad_field(key, value, "with index=hnsw only")),
            }
        }
        Some("hnsw") => {
            let GraphOptions { links, breadth } = GraphOptions::default();
            let (links, breadth) = (number("links", LINKS, links)?, number("breadth", BREADTH, breadth)?);
            Ok(Index::Hnsw(GraphOptions { links, breadth }))
        }
        Some(other) => Err(CallError::bad_field("index", other, "exact, hnsw")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_options_and_names_are_read() {
        let is_read_as = |kind: &'static dyn Kind, text: &str, name: Option<&str>, data: Data| {
            let near = Near { name: name.map(str::to_owned), data };
            let read = kind.parse(&Words::split(text, kind).unwrap()).unwrap();
            assert_eq!(format!("{read:?}"), format!("{near:?}"));
        };
        let plain = Data::Vectors(Source::new("/srv/a:b.npy", Metric::Cosine));
        is_read_as(&Vectors, "vectors=/srv/a:b.npy:partitions=0-3/16:metric=cosine", None, plain);
        let source = Source {
            attributes: Some("p-{partition}.csv".into()),
            index: Index::Hnsw(GraphOptions { links: 8, breadth: 40 }),
            data: Some("/var/g".into()),
            memory_bytes_max: 2 << 30,
            ..Source::new("p-{partition}.fvecs", Metric::L2)
        };
        let all = "vectors=p-{partition}.fvecs:index=hnsw:links=8:breadth=40:attributes=p-{partition}.csv:data=/var/g:memory=2G:name=texts:partitions=0/1:metric=l2";
        is_read_as(&Vectors, all, Some("texts"), Data::Vectors(source));
        let people = Data::Faces { folder: "people".into(), model: "people.model".into() };
        is_read_as(&Faces, "faces=people:model=people.model:partitions=1/4", None, people);
    }

    #[test]
    fn invalid_declarations_are_refused_with_the_allowed_form() {
        for (text, reason) in [
            ("vectors:partitions=0/1:metric=l2", "vectors with a file"),
            ("vectors=a.npy:partitions=0/1", "vectors with a file, partitions and a metric"),
            ("vectors=a.npy:metric=l2", "vectors with a file, partitions and a metric"),
            ("vectors=a.npy:partitions=0/1:metric=manhattan", "one of cosine, ip, l2"),
            ("vectors=a.npy:partitions=0/1:metric=l2:index=flat", "exact, hnsw"),
            ("vectors=a.npy:partitions=0/1:metric=l2:links=8", "with index=hnsw only"),
            ("vectors=a.npy:partitions=0/1:metric=l2:index=hnsw:links=1", "2 to 128"),
            ("vectors=a.npy:partitions=0/1:metric=l2:memory=1K", "memory=512M"),
            ("vectors=a.npy:partitions=0/1:metric=l2:name=a/b", "letters, digits"),
            ("vectors=a.npy:partitions=0/1:metric=l2:metric=ip", "metric is given twice"),
            ("vectors=a.npy:partitions=0/1:metric=l2:model=m", "without model"),
            ("faces=people:partitions=0/1", "faces with a folder, a model"),
            ("faces:partitions=0/1", "faces with a folder, a model"),
        ] {
            let refused = text.parse::<super::super::Serve>().unwrap_err().to_string();
            assert!(refused.contains("allowed: ") && refused.contains(reason), "{text}: {refused}");
        }
    }
}
