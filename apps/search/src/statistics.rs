//! The aggregation `terms`: how often a query's words occur in the whole folder.
//!
//! BM25 weighs a word by the number of documents that contain it, and a document by its length relative to
//! the average. Each partition knows only its own figures, so equal documents in different partitions get
//! different scores. A caller that needs equal scores calls twice: first `terms`, then `topk` with its
//! answer. In the second call every partition scores by the figures of all partitions. (Elasticsearch calls
//! this `dfs_query_then_fetch`.)
//!
//! Merging is saturating addition, so it is associative for all figures.

use crate::query::{self, name_of};
use crate::shard::Shard;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tantivy::Term;
use tantivy::query::Bm25StatisticsProvider;
use tantivy::schema::Field;
use treefold_operators::{Aggregation, OperatorError, Partition, Placement, Result};

/// The parameters of `terms`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TermsParams {
    /// The query that `topk` will get.
    pub query: String,
    /// Whether a query that is not well-formed is refused; as in `topk`.
    #[serde(default)]
    pub strict: bool,
}

impl TermsParams {
    /// The default parameters, for `query`.
    pub fn new(query: impl Into<String>) -> Self {
        Self { query: query.into(), strict: false }
    }
}

/// How often a query's words occur in some partitions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// Number of documents.
    pub documents: u64,
    /// Number of words per field, in all documents together.
    pub tokens: BTreeMap<String, u64>,
    /// Number of documents with a word, by `field:word`. A word of the query that no document has is
    /// present with zero.
    pub frequencies: BTreeMap<String, u64>,
}

/// Why statistics cannot be used with a query.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatisticsError {
    /// The statistics were made for another query.
    #[error("the statistics have no figure for {0}; ask search/terms with the same query")]
    Missing(String),
    /// The statistics contradict themselves.
    #[error("the statistics contradict themselves: {frequency} documents have {term}, of {documents} in all")]
    Impossible {
        /// The word.
        term: String,
        /// The claimed number of documents with the word.
        frequency: u64,
        /// The claimed number of documents.
        documents: u64,
    },
}

impl Statistics {
    /// The statistics of one partition for these words.
    fn of(shard: &Shard, terms: &BTreeMap<String, Term>) -> tantivy::Result<Self> {
        let searcher = &shard.searcher;
        let mut statistics = Self { documents: searcher.total_num_docs()?, ..Self::default() };
        for field in shard.fields.all() {
            let name = searcher.schema().get_field_name(field).to_owned();
            statistics.tokens.insert(name, searcher.total_num_tokens(field)?);
        }
        for (name, term) in terms {
            statistics.frequencies.insert(name.clone(), searcher.doc_freq(term)?);
        }
        Ok(statistics)
    }

    /// The sum of both statistics.
    #[must_use]
    pub fn merged(mut self, other: Self) -> Self {
        self.documents = self.documents.saturating_add(other.documents);
        add(&mut self.tokens, other.tokens);
        add(&mut self.frequencies, other.frequencies);
        self
    }

    /// Checks that the statistics can be used to score `terms`. The index library asserts the same
    /// conditions.
    fn check(&self, terms: &BTreeMap<String, Term>) -> Result<(), StatisticsError> {
        for term in terms.keys() {
            let documents = self.documents;
            match self.frequencies.get(term) {
                None => return Err(StatisticsError::Missing(term.clone())),
                Some(&frequency) if frequency > documents => {
                    return Err(StatisticsError::Impossible { term: term.clone(), frequency, documents });
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

fn add(to: &mut BTreeMap<String, u64>, from: BTreeMap<String, u64>) {
    for (name, count) in from {
        let sum = to.entry(name).or_default();
        *sum = sum.saturating_add(count);
    }
}

/// The source of BM25's figures: the given statistics, or the partition's own.
pub(crate) struct Figures<'a> {
    shard: &'a Shard,
    global: Option<&'a Statistics>,
}

impl<'a> Figures<'a> {
    pub(crate) fn new(
        shard: &'a Shard,
        global: Option<&'a Statistics>,
        terms: &BTreeMap<String, Term>,
    ) -> Result<Self, StatisticsError> {
        global.map_or(Ok(()), |statistics| statistics.check(terms))?;
        Ok(Self { shard, global })
    }
}

/// Zero documents or words would make averages of zero. If this partition has matches that the statistics
/// do not contain, because they are old or from other partitions, one is close enough.
impl Bm25StatisticsProvider for Figures<'_> {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        let Some(global) = self.global else { return self.shard.searcher.total_num_tokens(field) };
        let name = self.shard.searcher.schema().get_field_name(field);
        Ok(global.tokens.get(name).copied().unwrap_or_default().max(1))
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        let Some(global) = self.global else { return self.shard.searcher.total_num_docs() };
        Ok(global.documents.max(1))
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        let Some(global) = self.global else { return self.shard.searcher.doc_freq(term) };
        Ok(global.frequencies.get(&name_of(self.shard, term)).copied().unwrap_or_default())
    }
}

/// The aggregation `terms`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terms;

impl Aggregation for Terms {
    type Params = TermsParams;
    type Partial = Statistics;

    fn local(&self, partition: &Partition, params: &TermsParams) -> Result<Statistics> {
        let shard = partition.data_as::<Shard>()?;
        let query =
            query::parse(shard, &params.query, params.strict).map_err(OperatorError::invalid_params)?;
        Statistics::of(shard, &query::terms(shard, &*query)).map_err(OperatorError::from)
    }

    fn reduce(&self, a: Statistics, b: Statistics, _: &TermsParams) -> Result<Statistics> {
        Ok(a.merged(b))
    }

    fn placement(&self) -> Placement {
        Placement::Measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn statistics() -> impl Strategy<Value = Statistics> {
        let counts =
            || proptest::collection::btree_map("[a-c]", prop_oneof![0..100u64, Just(u64::MAX)], 0..3);
        (any::<u64>(), counts(), counts()).prop_map(|(documents, tokens, frequencies)| Statistics {
            documents,
            tokens,
            frequencies,
        })
    }

    proptest! {
        #[test]
        fn merging_is_associative_and_commutative_with_identity(
            a in statistics(), b in statistics(), c in statistics(),
        ) {
            prop_assert_eq!(a.clone().merged(b.clone()), b.clone().merged(a.clone()));
            prop_assert_eq!(
                a.clone().merged(b.clone()).merged(c.clone()),
                a.clone().merged(b.clone().merged(c.clone()))
            );
            prop_assert_eq!(a.clone().merged(Statistics::default()), a.clone());
        }
    }
}
