//! The aggregation `categorise`: sorts matching documents into categories, and keeps the best of each.
//!
//! Every partition gives its best k documents with their texts, unread. The folds read them: a document
//! belongs to the category with the most of its words, where every occurrence counts, and to [`OTHER`] if
//! no category has any. The best few of each category are kept, without their texts. The folds do the
//! reading because this is the purpose of NetAgg's `categorise` (§4.2.1): an aggregation that is expensive
//! where partials meet.

use crate::document::{Document, Wanted, k_default, text_bytes, text_bytes_default};
use crate::limits::{CATEGORIES_MAX, CATEGORY_WORDS_MAX};
use crate::tokens;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use treefold_operators::{Aggregation, OperatorError, Partition, Result};

/// The category of documents that contain no category's words.
pub const OTHER: &str = "other";

/// The default categories, with their words: subjects of programs and their texts.
pub const BASE_CATEGORIES: [(&str, &[&str]); 8] = [
    (
        "concurrency",
        &["thread", "threads", "lock", "mutex", "atomic", "async", "await", "future", "channel", "parallel"],
    ),
    ("data", &["vec", "map", "set", "list", "hash", "tree", "array", "slice", "iterator", "collection"]),
    (
        "errors",
        &["error", "errors", "panic", "result", "unwrap", "fail", "failed", "invalid", "expected", "err"],
    ),
    (
        "network",
        &["socket", "tcp", "udp", "http", "address", "connection", "client", "server", "packet", "request"],
    ),
    ("numbers", &["float", "integer", "f32", "f64", "u64", "i64", "sum", "mean", "min", "max"]),
    (
        "storage",
        &["file", "disk", "path", "directory", "read", "write", "buffer", "bytes", "memory", "cache"],
    ),
    (
        "testing",
        &["test", "tests", "assert", "check", "bench", "mock", "fixture", "case", "expect", "verify"],
    ),
    ("text", &["string", "str", "char", "text", "parse", "token", "format", "regex", "utf8", "unicode"]),
];

/// The parameters of `categorise`. Only the query must be given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CategoriseParams {
    /// The query, in the language of [`query`](crate::query).
    pub query: String,
    /// Whether a query that is not well-formed is refused; see [`query`](crate::query).
    #[serde(default)]
    pub strict: bool,
    /// Documents that each partition gives, 1 to [`K_MAX`](crate::limits::K_MAX).
    #[serde(default = "k_default")]
    pub k: u32,
    /// Bytes of each text that are read, at most [`TEXT_BYTES_MAX`](crate::limits::TEXT_BYTES_MAX).
    #[serde(default = "text_bytes_default")]
    pub text_bytes: u32,
    /// Documents that are named for each category.
    #[serde(default = "k_default")]
    pub best: u32,
    /// Categories, each with its words; [`BASE_CATEGORIES`] if empty.
    #[serde(default)]
    pub categories: BTreeMap<String, Vec<String>>,
}

/// The parameter that is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CategoriesError {
    /// Too many categories.
    #[error("there are {0} categories; at most {CATEGORIES_MAX} are allowed")]
    Categories(usize),
    /// Too many words.
    #[error("the categories have {0} words; at most {CATEGORY_WORDS_MAX} are allowed")]
    Words(usize),
}

impl CategoriseParams {
    /// The default parameters, for `query`.
    pub fn new(query: impl Into<String>) -> Self {
        let (k, text_bytes, best) = (k_default(), text_bytes_default(), k_default());
        Self { query: query.into(), strict: false, k, text_bytes, best, categories: BTreeMap::new() }
    }

    fn check(&self) -> std::result::Result<(), CategoriesError> {
        let words = self.categories.values().map(Vec::len).sum();
        match self.categories.len() {
            categories if categories > CATEGORIES_MAX => Err(CategoriesError::Categories(categories)),
            _ if words > CATEGORY_WORDS_MAX => Err(CategoriesError::Words(words)),
            _ => Ok(()),
        }
    }
}

/// The categories, in a form for reading texts.
struct Lexicon<'a> {
    names: Vec<&'a str>,
    /// The index of a word's category among the names.
    of_word: HashMap<String, usize>,
}

impl<'a> Lexicon<'a> {
    fn new(params: &'a CategoriseParams) -> Self {
        let mut lexicon = Self { names: Vec::new(), of_word: HashMap::new() };
        if params.categories.is_empty() {
            BASE_CATEGORIES.iter().for_each(|(name, words)| lexicon.add(name, words.iter().copied()));
        }
        for (name, words) in &params.categories {
            lexicon.add(name, words.iter().map(String::as_str));
        }
        lexicon
    }

    fn add(&mut self, name: &'a str, words: impl Iterator<Item = &'a str>) {
        let place = self.names.len();
        self.names.push(name);
        for word in words {
            let mut folded = String::with_capacity(word.len());
            tokens::fold_into(word, &mut folded);
            // A word of two categories counts for the first.
            self.of_word.entry(folded).or_insert(place);
        }
    }

    /// The category of a text. If two categories have equally many words, the first.
    fn category_of(&self, text: &str) -> &'a str {
        let mut counts = vec![0u32; self.names.len()];
        let mut folded = String::new();
        for range in tokens::ranges(text) {
            folded.clear();
            tokens::fold_into(&text[range], &mut folded);
            if let Some(&place) = self.of_word.get(folded.as_str()) {
                counts[place] += 1;
            }
        }
        let most = counts.iter().copied().max().unwrap_or(0);
        match counts.iter().position(|&count| count == most) {
            Some(place) if most > 0 => self.names[place],
            _ => OTHER,
        }
    }
}

/// A document of a category, without its text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Named {
    /// BM25 score by the figures of its partition.
    pub score: f32,
    /// Its path.
    pub path: String,
    /// Its title.
    pub title: String,
}

impl Named {
    fn rank(&self, other: &Self) -> Ordering {
        let by_score = other.score.total_cmp(&self.score);
        by_score.then_with(|| self.path.cmp(&other.path)).then_with(|| self.title.cmp(&other.title))
    }
}

/// A category's result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Category {
    /// Number of documents in it, among those that were read.
    pub documents: u64,
    /// The best of them, best first.
    pub best: Vec<Named>,
}

/// The documents of some partitions, by category.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Categories {
    /// Categories by name. Only categories with documents are present.
    pub categories: BTreeMap<String, Category>,
    /// Documents that no fold has read yet; empty in an answer.
    pub unread: Vec<Document>,
    /// Number of documents that match the query.
    pub matched: u64,
    /// Bytes of text that the partitions gave.
    pub given_bytes: u64,
}

impl Categories {
    /// Reads the unread documents.
    fn read(&mut self, lexicon: &Lexicon<'_>, best: usize) {
        for Document { score, path, title, text, .. } in std::mem::take(&mut self.unread) {
            let category = self.categories.entry(lexicon.category_of(&text).to_owned()).or_default();
            category.documents += 1;
            category.best.push(Named { score, path, title });
        }
        self.categories.values_mut().for_each(|category| keep(&mut category.best, best));
    }
}

fn keep(named: &mut Vec<Named>, best: usize) {
    named.sort_by(Named::rank);
    named.truncate(best);
}

/// The aggregation `categorise`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Categorise;

impl Aggregation for Categorise {
    type Params = CategoriseParams;
    type Partial = Categories;

    fn local(&self, partition: &Partition, params: &CategoriseParams) -> Result<Categories> {
        params.check().map_err(OperatorError::invalid_params)?;
        let CategoriseParams { query, strict, k, text_bytes: bytes, .. } = params;
        let (unread, matched) = Wanted { query, strict: *strict, k: *k, text_bytes: *bytes }.of(partition)?;
        let given_bytes = text_bytes(&unread);
        Ok(Categories { categories: BTreeMap::new(), unread, matched, given_bytes })
    }

    fn reduce(&self, mut a: Categories, mut b: Categories, params: &CategoriseParams) -> Result<Categories> {
        let (lexicon, best) = (Lexicon::new(params), params.best as usize);
        a.read(&lexicon, best);
        b.read(&lexicon, best);
        for (name, other) in b.categories {
            let category = a.categories.entry(name).or_default();
            category.documents = category.documents.saturating_add(other.documents);
            category.best.extend(other.best);
            keep(&mut category.best, best);
        }
        a.matched = a.matched.saturating_add(b.matched);
        a.given_bytes = a.given_bytes.saturating_add(b.given_bytes);
        Ok(a)
    }

    fn finish(&self, mut partial: Categories, params: &CategoriseParams) -> Result<Categories> {
        partial.read(&Lexicon::new(params), params.best as usize);
        Ok(partial)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::drawn::document;
    use proptest::prelude::*;

    fn given() -> impl Strategy<Value = Categories> {
        proptest::collection::vec(document(), 0..6).prop_map(|unread| {
            let (matched, given_bytes) = (unread.len() as u64, text_bytes(&unread));
            Categories { unread, matched, given_bytes, ..Categories::default() }
        })
    }

    proptest! {
        #[test]
        fn any_tree_finds_the_same(a in given(), b in given(), c in given(), best in 0u32..4) {
            let params = CategoriseParams { best, ..CategoriseParams::new("q") };
            let reduce = |a: &Categories, b: &Categories| Categorise.reduce(a.clone(), b.clone(), &params).unwrap();
            prop_assert_eq!(reduce(&a, &b), reduce(&b, &a));
            prop_assert_eq!(reduce(&reduce(&a, &b), &c), reduce(&a, &reduce(&b, &c)));
            let nothing = Categories::default();
            prop_assert_eq!(reduce(&a, &nothing), Categorise.finish(a.clone(), &params).unwrap());
            let all = reduce(&reduce(&a, &b), &c);
            prop_assert!(all.unread.is_empty());
            let documents: u64 = all.categories.values().map(|category| category.documents).sum();
            prop_assert_eq!(documents, all.matched);
        }
    }

    #[test]
    fn category_is_the_one_with_most_words_in_the_text() {
        let params = CategoriseParams::new("q");
        let lexicon = Lexicon::new(&params);
        assert_eq!(lexicon.category_of("A TCP socket, a Packet; one thread"), "network");
        assert_eq!(
            lexicon.category_of("a lock around a file"),
            "concurrency",
            "equally many words: the first category"
        );
        assert_eq!(lexicon.category_of("nothing of the kind"), OTHER);
        let named = BTreeMap::from([("fruit".to_owned(), vec!["pear".to_owned()])]);
        let params = CategoriseParams { categories: named, ..params };
        assert_eq!(Lexicon::new(&params).category_of("a thread and a pear"), "fruit");
    }
}
