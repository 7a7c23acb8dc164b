//! Opens partitions of a file of vectors: reads their rows and attributes in one pass, and reads or builds
//! their graphs.

use crate::attributes::{Attributes, Gathering, Lines};
use crate::error::OpenError;
use crate::graph::{self, Graph, GraphOptions};
use crate::limits::{MEMORY_BYTES_MAX, PARTITIONS_MAX, ROWS_MAX};
use crate::metric::Metric;
use crate::near::Space;
use crate::rows::Rows;
use crate::shard::{Numbering, Shard};
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::UNIX_EPOCH;

/// Stands for a partition's number in the name of a file.
pub const PARTITION: &str = "{partition}";
/// Changes when graphs must be built again.
const GRAPH_VERSION: u32 = 1;

/// The index of each partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Index {
    /// None: every row is compared.
    #[default]
    Exact,
    /// A graph ([`graph`]).
    Hnsw(GraphOptions),
}

/// The files of a service, and how they are searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// `.npy` or `.fvecs`. With `{partition}` in its name, each partition has a file of its own.
    pub vectors: PathBuf,
    /// `.jsonl` or `.csv`, a line for each row; with `{partition}` as the vectors.
    pub attributes: Option<PathBuf>,
    /// How near two vectors are.
    pub metric: Metric,
    /// The index of each partition.
    pub index: Index,
    /// Directory of the graphs; `None` for the default below the user's data.
    pub data: Option<PathBuf>,
    /// Bound of the memory of the opened partitions.
    pub memory_bytes_max: u64,
}

impl Source {
    /// A file without attributes, to be searched exactly.
    pub fn new(vectors: impl Into<PathBuf>, metric: Metric) -> Self {
        let (vectors, index) = (vectors.into(), Index::Exact);
        Self { vectors, attributes: None, metric, index, data: None, memory_bytes_max: MEMORY_BYTES_MAX }
    }

    /// Opens these of `total` partitions. `progress` is told how many rows of how many have been indexed,
    /// from several threads.
    ///
    /// Blocks: building the graph of a million rows takes minutes.
    ///
    /// # Errors
    /// Any [`OpenError`].
    pub fn open(
        &self,
        partitions: &[u32],
        total: u32,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<BTreeMap<u32, Shard>, OpenError> {
        if !(1..=PARTITIONS_MAX).contains(&total) {
            return Err(OpenError::Partitions(total));
        }
        let mut shards = BTreeMap::new();
        if is_pattern(&self.vectors) {
            let mut left = self.memory_bytes_max;
            for partition in partitions {
                let own = self.of_partition(*partition);
                let mut opened = own.read(&[0], 1, left)?;
                let shard = opened.remove(&0).expect("invariant: the one partition was read");
                left = left.saturating_sub(self.bytes(shard.vectors() as u64, shard.dimensions()));
                shards.insert(*partition, shard);
            }
        } else {
            shards = self.read(partitions, total, self.memory_bytes_max)?;
        }
        if let Index::Hnsw(options) = self.index {
            self.add_graphs(&mut shards, total, options, progress)?;
        }
        Ok(shards)
    }

    /// The files of one partition, if each has its own.
    fn of_partition(&self, partition: u32) -> Self {
        let named =
            |path: &Path| PathBuf::from(path.to_string_lossy().replace(PARTITION, &partition.to_string()));
        let attributes = self.attributes.as_deref().map(named);
        Self { vectors: named(&self.vectors), attributes, ..self.clone() }
    }

    /// About the memory of this many rows.
    fn bytes(&self, rows: u64, dimensions: usize) -> u64 {
        let links = match &self.index {
            Index::Exact => 0,
            Index::Hnsw(options) => 4 * (2 * u64::from(options.links) + 1),
        };
        rows.saturating_mul(4 * dimensions as u64 + links)
    }

    fn read(
        &self,
        partitions: &[u32],
        total: u32,
        bytes_max: u64,
    ) -> Result<BTreeMap<u32, Shard>, OpenError> {
        let path = &self.vectors;
        let mut rows = Rows::open(path)?;
        let (count, dimensions) = (rows.count(), rows.dimensions());
        let of = |partition: u32| (count + u64::from(total - 1 - partition)) / u64::from(total);
        let all: u64 = partitions.iter().map(|partition| of(*partition)).sum();
        let needed = self.bytes(all, dimensions);
        if needed > bytes_max {
            let (path, mebibytes) = (path.clone(), |bytes: u64| bytes >> 20);
            return Err(OpenError::Memory { path, needed: mebibytes(needed), allowed: mebibytes(bytes_max) });
        }
        let mut read: BTreeMap<u32, (Vec<f32>, Gathering)> = BTreeMap::new();
        for partition in partitions {
            let own = of(*partition) as usize;
            if own > ROWS_MAX {
                return Err(OpenError::format(
                    path,
                    format!("{own} rows a partition; at most {ROWS_MAX} are allowed"),
                ));
            }
            read.insert(*partition, (Vec::with_capacity(own * dimensions), Gathering::default()));
        }
        let mut lines = self.attributes.as_deref().map(Lines::open).transpose()?;
        for row in 0..count {
            let line = lines.as_mut().map(|lines| next_line(lines, row, count)).transpose()?;
            // The remainder is below a total of 32 bits.
            let Some((values, gathering)) = read.get_mut(&((row % u64::from(total)) as u32)) else {
                rows.skip(1)?;
                continue;
            };
            let begin = values.len();
            rows.next(values)?;
            if !self.metric.prepare(&mut values[begin..]) {
                let problem = "is all zeros; the metric cosine needs a direction".to_owned();
                return Err(OpenError::Row { path: path.clone(), row, problem });
            }
            if let Some(line) = line {
                gathering.add(line);
            }
        }
        let names = match &mut lines {
            None => Vec::new(),
            Some(lines) => {
                if lines.next()?.is_some() {
                    let attributes = self.attributes.as_deref().unwrap_or(path);
                    return Err(OpenError::format(
                        attributes,
                        format!("more than {count} rows, which is the number of vectors"),
                    ));
                }
                lines.names().to_vec()
            }
        };
        let shard = |(partition, (values, gathering)): (u32, (Vec<f32>, Gathering))| {
            let attributes = match names.is_empty() && lines.is_none() {
                true => Attributes::default(),
                false => gathering.end(&names),
            };
            let numbering = Numbering::Every { first: u64::from(partition), step: u64::from(total) };
            (partition, Shard { metric: self.metric, dimensions, values, numbering, attributes, graph: None })
        };
        Ok(read.into_iter().map(shard).collect())
    }

    /// Reads or builds the graphs, several at a time.
    fn add_graphs(
        &self,
        shards: &mut BTreeMap<u32, Shard>,
        total: u32,
        options: GraphOptions,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<(), OpenError> {
        let directory = self.data.clone().map_or_else(data_directory, Ok)?;
        fs::create_dir_all(&directory).map_err(OpenError::file(&directory))?;
        let rows: u64 = shards.values().map(|shard| shard.vectors() as u64).sum();
        let done = Mutex::new(0u64);
        let report = |more: u64| {
            let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
            *done += more;
            progress(*done, rows);
        };
        let threads = available_parallelism().map_or(1, usize::from).min(shards.len()).max(1);
        let waiting = Mutex::new(shards.iter_mut().collect::<Vec<_>>());
        let work = || -> Result<(), OpenError> {
            loop {
                let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
                let Some((partition, shard)) = next else { return Ok(()) };
                let digest = self.digest(*partition, total, options)?;
                let path = directory.join(format!("{digest:016x}.graph"));
                shard.graph = Some(graph_of(shard.space(), &path, digest, options, &report)?);
            }
        };
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            workers
                .into_iter()
                .try_for_each(|worker| worker.join().expect("invariant: building a graph does not panic"))
        })
    }

    /// A digest of everything that a partition's graph is made from.
    fn digest(&self, partition: u32, total: u32, options: GraphOptions) -> Result<u64, OpenError> {
        let own = match is_pattern(&self.vectors) {
            true => self.of_partition(partition),
            false => self.clone(),
        };
        let path = &own.vectors;
        let whole = path.canonicalize().map_err(OpenError::file(path))?;
        let metadata = fs::metadata(path).map_err(OpenError::file(path))?;
        let modified = metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        // The hash may change with the compiler. A graph is then built again.
        let mut hash = DefaultHasher::new();
        (GRAPH_VERSION, whole, metadata.len(), modified, self.metric.name(), partition, total, options)
            .hash(&mut hash);
        Ok(hash.finish())
    }
}

fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(PARTITION)
}

fn next_line(lines: &mut Lines, row: u64, count: u64) -> Result<crate::attributes::Line, OpenError> {
    let line = lines.next()?.ok_or_else(|| {
        OpenError::format(
            lines.path(),
            format!("{row} rows; there are {count} vectors, and each needs a line"),
        )
    })?;
    lines.note(&line)?;
    Ok(line)
}

/// Reads a graph, or builds it and writes it.
fn graph_of(
    space: Space<'_>,
    path: &Path,
    digest: u64,
    options: GraphOptions,
    report: &(dyn Fn(u64) + Sync),
) -> Result<Graph, OpenError> {
    if let Some(graph) = graph::read(path, digest, space.rows()) {
        report(space.rows() as u64);
        return Ok(graph);
    }
    // Only a call can be cancelled.
    let graph =
        graph::build(space, options, report).map_err(|error| OpenError::format(path, error.to_string()))?;
    graph::write(path, digest, &graph).map_err(OpenError::file(path))?;
    Ok(graph)
}

/// The default directory of graphs.
fn data_directory() -> Result<PathBuf, OpenError> {
    let absolute = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")));
    Ok(home.ok_or(OpenError::NoHome)?.join("treefold").join("vectors"))
}
