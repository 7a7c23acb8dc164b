//! The index in this process: its words, and the answers that calls must give.
//!
//! The expected answers come from a loop over the partitions, without any node, so that a fault of the cluster
//! cannot be in both.

use std::path::Path;
use std::sync::Arc;
use treefold::PartitionSet;
use treefold_cli::exit::Failure;
use treefold_operators::{Aggregation, OperatorError, Partition};
use treefold_search::{Hits, SERVICE, Shard, TopK, TopKParams, Words, WordsParams};

/// Bytes of words that each partition counts: a sample that is large enough for the order of frequent words.
const SAMPLE_BYTES: u64 = 2 << 20;

/// All partitions of an index.
#[derive(Debug)]
pub(super) struct OpenCorpus {
    partitions: Vec<Partition>,
}

/// The parameters of one query. RET gives identifications of documents, so there are no snippets.
pub(super) fn params(query: &str) -> TopKParams {
    TopKParams { snippet_chars: 0, ..TopKParams::new(query) }
}

impl OpenCorpus {
    pub(super) fn open(directory: &Path, total: u32) -> Result<Self, Failure> {
        let open = |id| {
            let shard =
                Shard::open(directory, id, total).map_err(|error| Failure::failed(error.to_string()))?;
            Ok(Partition::new(SERVICE.into(), id, total, Arc::new(shard)))
        };
        Ok(Self { partitions: (0..total).map(open).collect::<Result<_, Failure>>()? })
    }

    /// The answer of these partitions to a query.
    pub(super) fn answer(&self, query: &str, asked: &PartitionSet) -> Result<Hits, Failure> {
        let params = params(query);
        let failed = |error: OperatorError| Failure::failed(format!("query {query:?}: {error}"));
        let mut answer = Hits::default();
        for partition in self.partitions.iter().filter(|partition| asked.contains(partition.id)) {
            let hits = TopK.local(partition, &params).map_err(failed)?;
            answer = TopK.reduce(answer, hits, &params).map_err(failed)?;
        }
        Ok(answer)
    }

    /// The words of a sample of all partitions, the most frequent ones first.
    pub(super) fn words(&self) -> Result<Vec<String>, Failure> {
        let params = WordsParams { bytes_max: Some(SAMPLE_BYTES), ..WordsParams::default() };
        let failed =
            |error: OperatorError| Failure::failed(format!("can't count the folder's words: {error}"));
        let mut all = Words.local(&self.partitions[0], &params).map_err(failed)?;
        for partition in &self.partitions[1..] {
            let words = Words.local(partition, &params).map_err(failed)?;
            all = Words.reduce(all, words, &params).map_err(failed)?;
        }
        let mut counted: Vec<(&str, u64)> = all.iter().collect();
        counted.sort_by(|(a, a_count), (b, b_count)| b_count.cmp(a_count).then_with(|| a.cmp(b)));
        Ok(counted.into_iter().map(|(word, _)| word.to_owned()).collect())
    }
}
