//! Parameters of a run, and which combinations are valid.

use super::layout::Layout;
use crate::load::args::{LARGE_NODES, LoadArgs};
use clap::Args;
use std::path::{Path, PathBuf};
use treefold::{CallError, Shape};
use treefold_cli::exit::Failure;
use treefold_cli::fleet::NODES_MAX;
use treefold_cli::parse;
use treefold_cli::serve::Corpus;
use treefold_micro::COSTS_MAX;

/// Measure response time and throughput of tree shapes over a real search, on emulated processors
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchRetrieval {
    /// Folder of text to search
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Directory of the index; an index of the same folder and partitions is used again [default: the search service's]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Most files to index, the first in path order
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    files: Option<u64>,

    /// Number of nodes; each is one process and has one partition, of as many and four more
    #[arg(long, value_name = "N", default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    pub(super) nodes: u32,

    /// Give the last four nodes four processors each, instead of two
    #[arg(long)]
    heterogeneous: bool,

    /// Requests per second at which a node of two processors alone is saturated; the factor follows from it
    #[arg(long, value_name = "R", default_value_t = NODE_RATE_PER_S, value_parser = node_rate)]
    pub(super) node_rate: f64,

    /// Number of queries in the log, if it must be made; a run plays it from its beginning, again and again
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=QUERIES_MAX))]
    pub(super) queries: u32,

    /// File of the queries, one in each line; made if there is none [default: queries-SEED-N.txt with the index]
    #[arg(long, value_name = "FILE")]
    pub(super) log: Option<PathBuf>,

    /// Tree shapes to compare, separated by commas: adaptive, earliest-ready, binomial, kary:K, chain, flat, base
    #[arg(long, value_name = "SHAPE", value_delimiter = ',', default_value = SHAPES, value_parser = parse::shape)]
    pub(super) shape: Vec<Shape>,

    #[command(flatten)]
    pub(super) load: LoadArgs,
}

const EXAMPLES: &str = "\
The DAC paper's RET. Each call searches all the nodes' partitions for one query of the log and folds the ten best
documents; every answer is compared with that of a loop over the partitions. A job takes one of its node's emulated
processors for its real processor time, times a factor. Loads are 0.5, 0.7 and 0.9 unless --rate or --load is given.
Arrival intervals are as varied as those of a published trace; shapes get the same arrivals and queries.

With -o json, {work, points}. work is:
  {queries, words_mean, local_ms, local_deviation, slowest_partition, reduce_ms, factor, stretched_local_ms,
   stretched_reduce_ms, ideal_per_s}
local_ms and reduce_ms are mean processor times; local_deviation is the deviation of the queries' mean locals as a share
of their mean, slowest_partition the largest mean local of a partition as a multiple of it. The points are those of bench-cluster micro, and so is the output of --csv. late_us_mean and late_share
also count the real searches, which run before the emulated time begins.

Examples:
  bench-cluster retrieval /usr/share/doc
  bench-cluster retrieval /usr/share/doc --heterogeneous --shape adaptive,binomial,flat --rounds 3
  bench-cluster retrieval ~/notes --log queries.txt --load 0.5,0.9 --seconds 60 -o json";

/// The paper's shapes.
const SHAPES: &str = "base,flat,binomial,adaptive";

/// Requests per second that saturate a node of two processors. The paper says below 20.
const NODE_RATE_PER_S: f64 = 19.0;

/// Largest rate of one node: faster searches are no emulation.
const NODE_RATE_PER_S_MAX: f64 = 1000.0;

/// Most queries, because nodes keep one cost for each of them.
const QUERIES_MAX: i64 = COSTS_MAX as i64;

/// Loads if neither rates nor loads are given.
const LOADS_DEFAULT: [f64; 3] = [0.5, 0.7, 0.9];

impl BenchRetrieval {
    /// Checks the combination of the arguments.
    pub(super) fn check(&self) -> Result<(), Failure> {
        if self.heterogeneous && self.nodes <= LARGE_NODES {
            return Err(Failure::usage(format!(
                "{} nodes can't be heterogeneous: {LARGE_NODES} are the larger ones; give more nodes",
                self.nodes
            )));
        }
        Ok(())
    }

    pub(super) fn layout(&self) -> Layout {
        Layout::new(self.nodes, self.heterogeneous)
    }

    /// The folder, with the options of its index.
    pub(super) fn corpus(&self) -> Corpus {
        Corpus { folder: self.folder.clone(), data: self.data.clone(), files_max: self.files }
    }

    /// Returns the argument of `--serve` of a node.
    ///
    /// The index is at `data`, which was made with the same options.
    pub(super) fn serve(&self, data: &Path, node: u32) -> String {
        let (layout, folder) = (self.layout(), self.folder.display());
        let (partition, total) = (layout.partition_of(node), layout.total());
        let processors = layout.processors()[node as usize];
        let files = self.files.map(|files| format!(":files={files}")).unwrap_or_default();
        format!(
            "search={folder}:partitions={partition}/{total}:data={}{files}:emulate={processors}",
            data.display()
        )
    }

    /// Returns the rates of the points; `ideal_per_s` is the load 1.
    pub(super) fn rates_per_s(&self, ideal_per_s: f64) -> Vec<f64> {
        let usual = || LOADS_DEFAULT.map(|load| load * ideal_per_s).to_vec();
        self.load.rates_per_s(ideal_per_s).unwrap_or_else(usual)
    }
}

fn node_rate(text: &str) -> Result<f64, CallError> {
    let rate = text.parse::<f64>().ok().filter(|rate| *rate > 0.0 && *rate <= NODE_RATE_PER_S_MAX);
    rate.ok_or_else(|| {
        CallError::bad_field(
            "node-rate",
            text,
            format_args!("above 0, at most {NODE_RATE_PER_S_MAX} requests/s"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Alone {
        #[command(flatten)]
        retrieval: BenchRetrieval,
    }

    fn parsed(line: &str) -> Result<BenchRetrieval, String> {
        let words = std::iter::once("retrieval").chain(line.split_whitespace());
        let retrieval = Alone::try_parse_from(words).map_err(|error| error.to_string())?.retrieval;
        retrieval.check().map_err(|failure| failure.to_string())?;
        Ok(retrieval)
    }

    #[test]
    fn defaults_are_the_papers() {
        let paper = parsed("docs").unwrap();
        assert_eq!((paper.layout().total(), paper.layout().processors().len()), (28, 24));
        assert_eq!(paper.shape, [Shape::Base, Shape::Flat, Shape::Binomial, Shape::Adaptive]);
        assert_eq!((paper.node_rate, paper.load.deadline.as_secs()), (19.0, 2));
        assert_eq!(paper.rates_per_s(20.0), [10.0, 14.0, 18.0]);
        assert_eq!(parsed("docs --rate 3,5").unwrap().rates_per_s(20.0), [3.0, 5.0]);
    }

    #[test]
    fn index_options_reach_the_corpus() {
        let corpus = parsed("docs --data /x --files 7").unwrap().corpus();
        assert_eq!((corpus.data, corpus.files_max), (Some("/x".into()), Some(7)));
        let mixed = parsed("docs --files 7 --heterogeneous").unwrap();
        assert_eq!(
            mixed.serve(Path::new("/i"), 19),
            "search=docs:partitions=19/28:data=/i:files=7:emulate=2"
        );
        assert_eq!(
            mixed.serve(Path::new("/i"), 20),
            "search=docs:partitions=24/28:data=/i:files=7:emulate=4"
        );
    }

    #[test]
    fn invalid_arguments_are_refused_with_the_valid_range() {
        for (line, complaint) in [
            ("", "<DIR>"),
            ("docs --nodes 4 --heterogeneous", "4 nodes can't be heterogeneous"),
            ("docs --node-rate 0", "above 0, at most 1000 requests/s"),
            ("docs --queries 0", "0 is not in 1..=65536"),
            ("docs --rate 1 --load 0.5", "cannot be used with"),
        ] {
            let refused = parsed(line).unwrap_err();
            assert!(refused.contains(complaint), "{line}: {refused}");
        }
    }
}
