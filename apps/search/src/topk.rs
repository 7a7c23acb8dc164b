//! The aggregation `topk`: the best documents for a query.
//!
//! Every partition gives its best k hits, and a reduce keeps the best k of two such lists. Hits are totally
//! ordered (score, then path, then partition and document), so every tree gives the same answer. With
//! [`Statistics`] in the parameters, every number of partitions gives the same answer, too.

use crate::limits::{K_DEFAULT, K_MAX, SNIPPET_CHARS_DEFAULT, SNIPPET_CHARS_MAX};
use crate::query;
use crate::shard::Shard;
use crate::snippet::Snippets;
use crate::statistics::{Figures, Statistics};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use tantivy::collector::{Count, TopDocs};
use treefold_operators::fold::merge_counted;
use treefold_operators::{Aggregation, OperatorError, Partition, Placement, Result};

/// The parameters of `topk`. Only the query must be given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopKParams {
    /// The query, in the language of [`query`].
    pub query: String,
    /// Whether a query that is not well-formed is refused; see [`query`]. Default: it is searched as words and phrases.
    #[serde(default)]
    pub strict: bool,
    /// Number of documents, 1 to [`K_MAX`]. Default: [`K_DEFAULT`].
    #[serde(default = "k_default")]
    pub k: u32,
    /// Longest snippet, 0 to [`SNIPPET_CHARS_MAX`]. Default: [`SNIPPET_CHARS_DEFAULT`].
    #[serde(default = "snippet_chars_default")]
    pub snippet_chars: u32,
    /// The answer of `terms` to the same query, for scores by the figures of all partitions. Without it,
    /// each partition scores by its own.
    #[serde(default)]
    pub statistics: Option<Statistics>,
}

fn k_default() -> u32 {
    K_DEFAULT
}

fn snippet_chars_default() -> u32 {
    SNIPPET_CHARS_DEFAULT
}

/// The parameter that is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// `k` is out of its range.
    #[error("k is {0}; it must be 1 to {K_MAX}")]
    K(u32),
    /// `snippet_chars` is out of its range.
    #[error("snippet_chars is {0}; it must be at most {SNIPPET_CHARS_MAX}")]
    SnippetChars(u32),
}

impl TopKParams {
    /// The default parameters, for `query`.
    pub fn new(query: impl Into<String>) -> Self {
        let (k, snippet_chars) = (K_DEFAULT, SNIPPET_CHARS_DEFAULT);
        Self { query: query.into(), strict: false, k, snippet_chars, statistics: None }
    }

    fn check(&self) -> Result<(), ParamsError> {
        if !(1..=K_MAX).contains(&self.k) {
            return Err(ParamsError::K(self.k));
        }
        if self.snippet_chars > SNIPPET_CHARS_MAX {
            return Err(ParamsError::SnippetChars(self.snippet_chars));
        }
        Ok(())
    }
}

/// One document that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// BM25 score over title (counted twice), path and body; higher is better.
    pub score: f32,
    /// Its partition.
    pub partition: u32,
    /// Its number in the partition, in path order: the same in every replica.
    pub document: u32,
    /// Its file's path below the folder, with `/` between its parts.
    pub path: String,
    /// Its title.
    pub title: String,
    /// A stretch of its body, on one line.
    pub snippet: String,
    /// The parts of the snippet to highlight, ascending: start (inclusive) and end (exclusive) in
    /// characters (Unicode scalar values).
    pub highlights: Vec<(u32, u32)>,
}

impl Hit {
    /// Orders hits, best first. Only hits of the same document are equal.
    pub fn rank(&self, other: &Self) -> Ordering {
        let place = |hit: &Self| (hit.partition, hit.document);
        let by_score = other.score.total_cmp(&self.score);
        by_score.then_with(|| self.path.cmp(&other.path)).then_with(|| place(self).cmp(&place(other)))
    }

    /// The snippet with each highlight between `before` and `after`.
    pub fn marked(&self, before: &str, after: &str) -> String {
        let mut marked = String::with_capacity(self.snippet.len() + self.highlights.len() * 8);
        let mut highlights = self.highlights.iter().peekable();
        for (at, character) in (0u32..).zip(self.snippet.chars()) {
            if highlights.peek().is_some_and(|(begin, _)| *begin == at) {
                marked.push_str(before);
            }
            marked.push(character);
            if highlights.next_if(|(_, end)| *end == at + 1).is_some() {
                marked.push_str(after);
            }
        }
        marked
    }
}

/// The best documents of some partitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hits {
    /// At most k of them, best first.
    pub hits: Vec<Hit>,
    /// Number of documents that match the query.
    pub matched: u64,
}

/// The aggregation `topk`.
#[derive(Clone, Copy, Debug, Default)]
pub struct TopK;

impl Aggregation for TopK {
    type Params = TopKParams;
    type Partial = Hits;

    fn local(&self, partition: &Partition, params: &TopKParams) -> Result<Hits> {
        params.check().map_err(OperatorError::invalid_params)?;
        let shard = partition.data_as::<Shard>()?;
        let query =
            query::parse(shard, &params.query, params.strict).map_err(OperatorError::invalid_params)?;
        let terms = query::terms(shard, &*query);
        let figures = Figures::new(shard, params.statistics.as_ref(), &terms)?;

        // Counting visits every match, which also keeps scores exact (see `query`).
        let best_and_count = (TopDocs::with_limit(params.k as usize).order_by_score(), Count);
        let searcher = &shard.searcher;
        let (best, matched) = searcher.search_with_statistics_provider(&*query, &best_and_count, &figures)?;

        let snippets = Snippets::new(shard, terms.values(), &figures, params)?;
        let mut hits = Vec::with_capacity(best.len());
        for (score, address) in best {
            let [path, title, body] = shard.stored(address)?;
            let (snippet, highlights) = snippets.of(&body);
            let (partition, document) = (partition.id, address.doc_id);
            hits.push(Hit { score, partition, document, path, title, snippet, highlights });
        }
        Ok(Hits { hits, matched: matched as u64 })
    }

    fn reduce(&self, a: Hits, b: Hits, params: &TopKParams) -> Result<Hits> {
        self.reduce_all(vec![a, b], params)
    }

    fn reduce_all(&self, parts: Vec<Hits>, params: &TopKParams) -> Result<Hits> {
        let matched = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.matched));
        let mut hits: Vec<Hit> = parts.into_iter().flat_map(|part| part.hits).collect();
        // The lists are sorted, and the standard library's sort merges such runs.
        hits.sort_by(Hit::rank);
        hits.truncate(params.k as usize);
        Ok(Hits { hits, matched })
    }

    fn reduce_encoded(&self, parts: &[Bytes], params: &TopKParams) -> Option<Bytes> {
        merge_counted(parts, ["hits", "matched"], params.k, Hit::rank)
    }

    fn placement(&self) -> Placement {
        Placement::Measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use treefold_operators::Body;

    /// Scores from a few values, so that ties are frequent and only the rest of the order can break them.
    fn hit(partition: u32, document: u32) -> Hit {
        let score = ((partition * 7 + document * 3) % 4) as f32 / 2.0;
        let path = format!("{}.rs", (partition + document) % 3);
        Hit {
            score,
            partition,
            document,
            path,
            title: String::new(),
            snippet: String::new(),
            highlights: vec![],
        }
    }

    fn partial(partition: u32, documents: u32, k: u32) -> Hits {
        let mut hits: Vec<Hit> = (0..documents).map(|document| hit(partition, document)).collect();
        hits.sort_by(Hit::rank);
        hits.truncate(k as usize);
        Hits { hits, matched: u64::from(documents) }
    }

    /// Folds in an order given by `choices`: each picks two of the remaining partials.
    fn folded(mut partials: Vec<Hits>, choices: &[(usize, usize)], params: &TopKParams) -> Hits {
        for (first, second) in choices.iter().cycle() {
            if partials.len() == 1 {
                break;
            }
            let a = partials.swap_remove(first % partials.len());
            let b = partials.swap_remove(second % partials.len());
            partials.push(TopK.reduce(a, b, params).unwrap());
        }
        partials.remove(0)
    }

    proptest! {
        #[test]
        fn any_tree_gives_the_same_answer(
            sizes in proptest::collection::vec(0u32..12, 1..9),
            k in 1u32..15,
            choices in proptest::collection::vec(any::<(usize, usize)>(), 1..9),
        ) {
            let params = TopKParams { k, ..TopKParams::new("q") };
            let each = || (0..).zip(sizes.iter().copied());
            let partials: Vec<Hits> = each().map(|(id, documents)| partial(id, documents, k)).collect();
            let hits_of = |(id, documents)| (0..documents).map(move |document| hit(id, document));
            let mut all: Vec<Hit> = each().flat_map(hits_of).collect();
            all.sort_by(Hit::rank);
            all.truncate(k as usize);
            let answer = folded(partials, &choices, &params);
            prop_assert_eq!(answer.hits, all);
            prop_assert_eq!(answer.matched, sizes.iter().map(|documents| u64::from(*documents)).sum::<u64>());
        }

        #[test]
        fn reducing_is_associative_and_commutative_with_identity(
            (a, b, c) in (0u32..9, 0u32..9, 0u32..9), k in 1u32..12,
        ) {
            let params = TopKParams { k, ..TopKParams::new("q") };
            let [a, b, c] = [(0, a), (1, b), (2, c)].map(|(id, documents)| partial(id, documents, k));
            let reduce = |a: &Hits, b: &Hits| TopK.reduce(a.clone(), b.clone(), &params).unwrap();
            prop_assert_eq!(reduce(&a, &b), reduce(&b, &a));
            prop_assert_eq!(reduce(&reduce(&a, &b), &c), reduce(&a, &reduce(&b, &c)));
            prop_assert_eq!(reduce(&a, &Hits::default()), a.clone());
            let encoded = [&a, &b, &c].map(|partial| partial.encode().unwrap());
            let whole = TopK.reduce_all(vec![a, b, c], &params).unwrap().encode().unwrap();
            prop_assert_eq!(TopK.reduce_encoded(&encoded, &params), Some(whole));
        }
    }

    #[test]
    fn a_snippet_is_marked_by_characters() {
        let marked = Hit { snippet: "où vont été".into(), highlights: vec![(0, 2), (8, 11)], ..hit(0, 0) };
        assert_eq!(marked.marked("<b>", "</b>"), "<b>où</b> vont <b>été</b>");
    }
}
