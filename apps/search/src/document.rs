//! Documents with their whole texts, for aggregations that need more than a snippet.
//!
//! They make large partials, which are the purpose of relays. Each document has a digest of its text. With
//! it, a fold recognises two copies of one text, which may come from two partitions, and it can draw a
//! random number for a document without reading its text again.

use crate::corpus::Fnv;
use crate::limits::{K_DEFAULT, K_MAX, TEXT_BYTES_DEFAULT, TEXT_BYTES_MAX};
use crate::query;
use crate::shard::Shard;
use crate::statistics::Figures;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use tantivy::collector::{Count, TopDocs};
use treefold_operators::{OperatorError, Partition, Result};

/// A document, as its partition gives it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// BM25 score by the figures of its partition; higher is better.
    pub score: f32,
    /// Its file's path below the folder, with `/` between its parts.
    pub path: String,
    /// Its title.
    pub title: String,
    /// Digest of `text`: equal texts have equal digests, on every machine.
    pub digest: u64,
    /// The beginning of its text, up to the requested length.
    pub text: String,
}

impl Document {
    /// Orders documents, best first. Only documents with the same path are equal.
    pub(crate) fn rank(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then_with(|| self.path.cmp(&other.path))
    }
}

/// The documents that a partition gives, and the length of their texts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) query: &'a str,
    pub(crate) strict: bool,
    pub(crate) k: u32,
    pub(crate) text_bytes: u32,
}

/// The parameter that is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WantedError {
    /// `k` is out of its range.
    #[error("k is {0}; it must be 1 to {K_MAX}")]
    K(u32),
    /// `text_bytes` is out of its range.
    #[error("text_bytes is {0}; it must be at most {TEXT_BYTES_MAX}")]
    TextBytes(u32),
}

impl Wanted<'_> {
    fn check(self) -> std::result::Result<(), WantedError> {
        match self {
            Self { k, .. } if !(1..=K_MAX).contains(&k) => Err(WantedError::K(k)),
            Self { text_bytes, .. } if text_bytes > TEXT_BYTES_MAX => Err(WantedError::TextBytes(text_bytes)),
            _ => Ok(()),
        }
    }

    /// The partition's best k documents, best first, and the number of matching documents.
    pub(crate) fn of(self, partition: &Partition) -> Result<(Vec<Document>, u64)> {
        self.check().map_err(OperatorError::invalid_params)?;
        let shard = partition.data_as::<Shard>()?;
        let query = query::parse(shard, self.query, self.strict).map_err(OperatorError::invalid_params)?;
        let figures = Figures::new(shard, None, &query::terms(shard, &*query))?;
        let best_and_count = (TopDocs::with_limit(self.k as usize).order_by_score(), Count);
        let (best, matched) =
            shard.searcher.search_with_statistics_provider(&*query, &best_and_count, &figures)?;
        let mut documents = Vec::with_capacity(best.len());
        for (score, address) in best {
            let [path, title, mut text] = shard.stored(address)?;
            text.truncate(text.floor_char_boundary(self.text_bytes as usize));
            let digest = Fnv::default().update(text.as_bytes()).finish();
            documents.push(Document { score, path, title, digest, text });
        }
        Ok((documents, matched as u64))
    }
}

pub(crate) fn k_default() -> u32 {
    K_DEFAULT
}

pub(crate) fn text_bytes_default() -> u32 {
    TEXT_BYTES_DEFAULT
}

/// Bytes of text of these documents.
pub(crate) fn text_bytes(documents: &[Document]) -> u64 {
    documents.iter().map(|document| document.text.len() as u64).sum()
}

#[cfg(test)]
pub(crate) mod drawn {
    //! Generates documents for tests of the aggregations' laws.

    use super::*;
    use proptest::prelude::*;

    /// Few paths and texts, so that copies are common.
    pub(crate) fn document() -> impl Strategy<Value = Document> {
        (0u8..4, 0u8..6, 0u8..9).prop_map(|(score, path, text)| {
            let text = ["a lock and a thread", "a socket", "", "byte disk file", "none of these"]
                [usize::from(text) % 5]
                .to_owned();
            let digest = Fnv::default().update(text.as_bytes()).finish();
            let path = format!("{path}.rs");
            Document { score: f32::from(score) / 2.0, title: path.clone(), path, digest, text }
        })
    }
}
