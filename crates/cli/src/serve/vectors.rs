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

use super::{Serve, What, chain, each_once, is_service_name, split_options, total_of, with_operators};
use crate::parse::partitions_of_total;
use indicatif::{ProgressBar, ProgressStyle};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use treefold::{CallError, PartitionSet, Service};
use treefold_vectors::faces::{self, Gallery, Model};
use treefold_vectors::{GraphOptions, Index, Metric, Source};

/// Keys that may follow a colon.
const KEYS: [&str; 10] =
    ["partitions", "metric", "index", "attributes", "name", "data", "memory", "links", "breadth", "model"];
/// Keys of faces.
const FACES_KEYS: [&str; 3] = ["partitions", "model", "name"];

/// Bounds of `links`.
const LINKS: std::ops::RangeInclusive<u32> = 2..=128;
/// Bounds of `breadth`.
const BREADTH: std::ops::RangeInclusive<u32> = 8..=4_096;
/// Least `memory`, in bytes.
const MEMORY_BYTES_MIN: u64 = 1 << 20;

/// Vectors or faces under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Near {
    name: Option<String>,
    data: Data,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Data {
    Vectors(Source),
    Faces { folder: PathBuf, model: PathBuf },
}

/// Returns the services without partitions: only their operators.
pub(super) fn known() -> [Service; 2] {
    let vectors = with_operators(Service::new(treefold_vectors::SERVICE), treefold_vectors::aggregations());
    [vectors, with_operators(Service::new(faces::SERVICE), faces::aggregations())]
}

impl Near {
    /// The files and folders that are read.
    pub(super) fn sources(&self) -> Vec<&Path> {
        match &self.data {
            Data::Vectors(source) => {
                std::iter::once(&source.vectors).chain(&source.attributes).map(PathBuf::as_path).collect()
            }
            Data::Faces { folder, model } => vec![folder, model],
        }
    }

    /// The directory of the graphs, if it is given.
    pub(super) fn data(&self) -> Option<&PathBuf> {
        match &self.data {
            Data::Vectors(source) => source.data.as_ref(),
            Data::Faces { .. } => None,
        }
    }

    pub(super) fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(match self.data {
            Data::Vectors(_) => treefold_vectors::SERVICE,
            Data::Faces { .. } => faces::SERVICE,
        })
    }

    /// Makes the service with its partitions.
    ///
    /// Blocks: files are read, and graphs may have to be built.
    pub(super) fn service(&self, partitions: &PartitionSet, total: u32) -> Result<Service, String> {
        let ids: Vec<u32> = partitions.iter().collect();
        let service = Service::new(self.name()).total(total);
        match &self.data {
            Data::Vectors(source) => {
                let bar = Bar::new();
                let shards = source
                    .open(&ids, total, &|done, all| bar.show(done, all))
                    .map_err(|error| chain(&error))?;
                let service = with_operators(service, treefold_vectors::aggregations());
                Ok(shards.into_iter().fold(service, |service, (id, shard)| service.partition(id, shard)))
            }
            Data::Faces { folder, model } => {
                let model = Arc::new(Model::read(model).map_err(|error| chain(&error))?);
                let opened = Gallery::list(folder).and_then(|gallery| gallery.open(&model, &ids, total));
                let shards = opened.map_err(|error| chain(&error))?;
                let service = with_operators(service, faces::aggregations());
                Ok(shards.into_iter().fold(service, |service, (id, shard)| service.partition(id, shard)))
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

/// Parses an argument that begins with `vectors` or `faces`.
pub(super) fn parse(text: &str) -> Result<Serve, CallError> {
    let refuse = |limit: &str| CallError::bad_field("serve", text, limit);
    let is_faces = text.starts_with("faces");
    let (head, options) = split_options(text, if is_faces { &FACES_KEYS } else { &KEYS });
    let example = match is_faces {
        true => "faces with a folder, a model and partitions, as in faces=DIR:model=FILE:partitions=0-3/16",
        false => {
            "vectors with a file, partitions and a metric, as in vectors=FILE:partitions=0-3/16:metric=cosine"
        }
    };
    let path = head.split_once('=').map(|(_, path)| path).filter(|path| !path.is_empty());
    let path = path.ok_or_else(|| refuse(example))?;
    each_once(&options).map_err(|limit| refuse(&limit))?;
    let of = |key: &str| options.iter().find(|(known, _)| *known == key).map(|(_, value)| *value);
    let (partitions, total) = partitions_of_total(of("partitions").ok_or_else(|| refuse(example))?)?;
    let name = of("name").map(str::to_owned);
    if let Some(name) = name.as_deref().filter(|name| !is_service_name(name)) {
        return Err(CallError::bad_field("name", name, "letters, digits and -_."));
    }
    let data = if is_faces {
        let model = of("model").ok_or_else(|| refuse(example))?.into();
        Data::Faces { folder: path.into(), model }
    } else {
        if of("model").is_some() {
            return Err(refuse("model for faces only"));
        }
        let metric = of("metric").ok_or_else(|| refuse(example))?;
        let allowed = format!("one of {}", Metric::NAMES.join(", "));
        let metric = Metric::named(metric).ok_or_else(|| CallError::bad_field("metric", metric, allowed))?;
        let mut source = Source::new(path, metric);
        source.index = index(&of)?;
        source.attributes = of("attributes").map(PathBuf::from);
        source.data = of("data").map(PathBuf::from);
        if let Some(text) = of("memory") {
            let bytes = super::exec::bytes_of(text).filter(|bytes| *bytes >= MEMORY_BYTES_MIN);
            let allowed = "bytes from 1M on, as in memory=512M";
            source.memory_bytes_max = bytes.ok_or_else(|| CallError::bad_field("memory", text, allowed))?;
        }
        Data::Vectors(source)
    };
    let (declared, total) = (total.is_some(), total_of(&partitions, total));
    Ok(Serve { what: What::Near(Near { name, data }), partitions, total, declared, placing: None })
}

/// Parses the index and its options.
fn index<'a>(of: &impl Fn(&str) -> Option<&'a str>) -> Result<Index, CallError> {
    let number = |key: &str, allowed: std::ops::RangeInclusive<u32>, default: u32| match of(key) {
        None => Ok(default),
        Some(text) => {
            let found = text.parse().ok().filter(|number| allowed.contains(number));
            let limit = format!("{} to {}", allowed.start(), allowed.end());
            found.ok_or_else(|| CallError::bad_field(key, text, limit))
        }
    };
    match of("index") {
        None | Some("exact") => {
            match ["links", "breadth", "data"].into_iter().find_map(|key| Some((key, of(key)?))) {
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

    fn near(text: &str) -> Near {
        match text.parse::<Serve>().unwrap().what {
            What::Near(near) => near,
            _ => panic!("{text} is not a service of vectors or faces"),
        }
    }

    #[test]
    fn files_options_and_names_are_read() {
        let plain = near("vectors=/srv/a:b.npy:partitions=0-3/16:metric=cosine");
        assert_eq!(plain.data, Data::Vectors(Source::new("/srv/a:b.npy", Metric::Cosine)));
        assert_eq!(plain.name(), "vectors");
        let all = near(
            "vectors=p-{partition}.fvecs:index=hnsw:links=8:breadth=40:attributes=p-{partition}.csv:data=/var/g:memory=2G:name=texts:partitions=0/1:metric=l2",
        );
        let source = Source {
            attributes: Some("p-{partition}.csv".into()),
            index: Index::Hnsw(GraphOptions { links: 8, breadth: 40 }),
            data: Some("/var/g".into()),
            memory_bytes_max: 2 << 30,
            ..Source::new("p-{partition}.fvecs", Metric::L2)
        };
        assert_eq!((all.name(), &all.data), ("texts", &Data::Vectors(source)));
        let faces = near("faces=people:model=people.model:partitions=1/4");
        assert_eq!(faces.name(), "faces");
        assert_eq!(faces.data, Data::Faces { folder: "people".into(), model: "people.model".into() });
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
            ("vectors=a.npy:partitions=0/1:metric=l2:model=m", "model for faces only"),
            ("faces=people:partitions=0/1", "faces with a folder, a model"),
            ("faces:partitions=0/1", "faces with a folder, a model"),
        ] {
            let refused = text.parse::<Serve>().unwrap_err().to_string();
            assert!(refused.contains("allowed: ") && refused.contains(reason), "{text}: {refused}");
        }
    }
}
