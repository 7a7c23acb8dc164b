//! One partition's vectors, and their search.
//!
//! Row `r` of a file belongs to partition `r` modulo the number of partitions, so partitions are equally
//! large, and a lost one costs an even part of any group of rows. Neighbours are ordered by distance and then
//! by row, so the exact answer is the same for every number of partitions.

use crate::attributes::Attributes;
use crate::filter::Matching;
use crate::graph::Graph;
use crate::limits::SCAN_SHARE;
use crate::metric::Metric;
use crate::near::{Near, Space, scan};
use treefold_operators::Result;

/// The numbers of a partition's rows in the whole.
#[derive(Clone, Debug)]
pub(crate) enum Numbering {
    /// `first`, `first + step` and so on.
    Every { first: u64, step: u64 },
    /// Any ascending numbers.
    Listed(Vec<u64>),
}

/// One partition: the data of a partition of this service.
#[derive(Debug)]
pub struct Shard {
    pub(crate) metric: Metric,
    pub(crate) dimensions: usize,
    pub(crate) values: Vec<f32>,
    pub(crate) numbering: Numbering,
    pub(crate) attributes: Attributes,
    pub(crate) graph: Option<Graph>,
}

/// A search of a partition.
pub(crate) struct Search<'a> {
    /// A query that is ready for the metric.
    pub(crate) query: &'a [f32],
    pub(crate) k: usize,
    /// Breadth in the graph.
    pub(crate) ef: usize,
    pub(crate) matching: Matching<'a>,
    /// True if all rows must be compared.
    pub(crate) exact: bool,
}

impl Shard {
    /// Numbers of each vector.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Vectors of the partition.
    pub fn vectors(&self) -> usize {
        self.space().rows()
    }

    /// How near two vectors are.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    pub(crate) fn space(&self) -> Space<'_> {
        Space { metric: self.metric, dimensions: self.dimensions, values: &self.values }
    }

    /// The number of a row in the whole.
    pub(crate) fn row(&self, at: usize) -> u64 {
        match &self.numbering {
            Numbering::Every { first, step } => first + at as u64 * step,
            Numbering::Listed(rows) => rows[at],
        }
    }

    /// The id of a row.
    pub(crate) fn id(&self, at: usize) -> String {
        self.attributes.id(at).map_or_else(|| self.row(at).to_string(), str::to_owned)
    }

    /// The rows of an id.
    pub(crate) fn rows_of(&self, id: &str) -> Vec<usize> {
        if self.attributes.has_ids() {
            return self.attributes.rows_of(id).collect();
        }
        let Ok(row) = id.parse::<u64>() else { return Vec::new() };
        let at = match &self.numbering {
            Numbering::Every { first, step } => {
                row.checked_sub(*first).filter(|past| past.is_multiple_of(*step)).map(|past| past / step)
            }
            Numbering::Listed(rows) => rows.binary_search(&row).ok().map(|at| at as u64),
        };
        at.and_then(|at| usize::try_from(at).ok()).filter(|at| *at < self.vectors()).into_iter().collect()
    }

    /// The nearest rows, nearest first, and the number of compared rows.
    pub(crate) fn search(&self, search: &Search<'_>) -> Result<(Vec<Near>, u64)> {
        let Search { query, k, ef, matching, exact } = search;
        let space = self.space();
        let accept = |at: u32| matching.matches(at as usize);
        let all = 0..space.rows() as u32;
        let Some(graph) = self.graph.as_ref().filter(|_| !exact) else {
            return match matching.is_open() {
                true => scan(space, query, *k, all),
                false => scan(space, query, *k, all.filter(|at| accept(*at))),
            };
        };
        if matching.is_open() {
            return graph.search(space, query, (*k, *ef), |_| true);
        }
        let matched = all.clone().filter(|at| accept(*at)).count();
        if matched <= (space.rows() / SCAN_SHARE).max(*k) {
            return scan(space, query, *k, all.filter(|at| accept(*at)));
        }
        graph.search(space, query, (*k, *ef), accept)
    }
}
