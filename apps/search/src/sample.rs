//! The aggregation `sample`: whole texts of matching documents, of which a random share is kept.
//!
//! Every partition gives its best k documents with their texts. The folds keep each text once, even if
//! several partitions have it, and only those whose draw, made from digest and seed, is below `ratio`. The
//! choice therefore depends only on the texts and the seed, not on the tree or the partition of a document,
//! and folding a drawn partial again changes nothing.
//!
//! It is NetAgg's `sample` (§4.2.1), built so that the first fold's output is `ratio` of its input: a load
//! with a known reduction for network paths. If you only want fewer documents, use a smaller k.

use crate::document::{Document, Wanted, k_default, text_bytes, text_bytes_default};
use serde::{Deserialize, Serialize};
use treefold_operators::{Aggregation, Partition, Placement, Result};

/// The parameters of `sample`. Only the query must be given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleParams {
    /// The query, in the language of [`query`](crate::query).
    pub query: String,
    /// Whether a query that is not well-formed is refused; see [`query`](crate::query).
    #[serde(default)]
    pub strict: bool,
    /// Documents that each partition gives, 1 to [`K_MAX`](crate::limits::K_MAX).
    #[serde(default = "k_default")]
    pub k: u32,
    /// Bytes of each text, at most [`TEXT_BYTES_MAX`](crate::limits::TEXT_BYTES_MAX).
    #[serde(default = "text_bytes_default")]
    pub text_bytes: u32,
    /// Share of the documents that is kept, 0 to 1. Default: all.
    #[serde(default = "everything")]
    pub ratio: f64,
    /// Seed of the draws. Another seed keeps other documents.
    #[serde(default)]
    pub seed: u64,
}

fn everything() -> f64 {
    1.0
}

/// `ratio` is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("ratio is {0}; it must be 0 to 1")]
pub struct RatioError(f64);

impl SampleParams {
    /// The default parameters, for `query`.
    pub fn new(query: impl Into<String>) -> Self {
        let (k, text_bytes) = (k_default(), text_bytes_default());
        Self { query: query.into(), strict: false, k, text_bytes, ratio: 1.0, seed: 0 }
    }

    /// A document's draw, from 0 to 1: SplitMix64's last steps over digest and seed.
    fn lot(&self, document: &Document) -> f64 {
        let mut lot = document.digest ^ self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        lot = (lot ^ (lot >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        lot = (lot ^ (lot >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        lot ^= lot >> 31;
        // A double holds 53 bits exactly.
        (lot >> 11) as f64 / (1u64 << 53) as f64
    }

    fn keeps(&self, document: &Document) -> bool {
        self.lot(document) < self.ratio
    }
}

/// Documents drawn from some partitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampled {
    /// The kept documents, by digest. Of documents with equal texts, the one with the first path. A
    /// partition's own partial has not been drawn from yet.
    pub documents: Vec<Document>,
    /// Number of documents that match the query.
    pub matched: u64,
    /// Number of documents that the partitions gave, before any was dropped.
    pub given: u64,
    /// Bytes of text of these documents.
    pub given_bytes: u64,
}

impl Sampled {
    fn drawn(mut self, params: &SampleParams) -> Self {
        self.documents.retain(|document| params.keeps(document));
        once_each(&mut self.documents);
        self
    }
}

/// Sorts the documents, and keeps each text once.
fn once_each(documents: &mut Vec<Document>) {
    fn text(document: &Document) -> (u64, &str) {
        (document.digest, &document.text)
    }
    // If path and text are equal too, the better score wins: two partials may hold the same document.
    documents.sort_by(|a, b| {
        text(a)
            .cmp(&text(b))
            .then_with(|| a.path.cmp(&b.path))
            .then_with(|| a.rank(b))
            .then_with(|| a.title.cmp(&b.title))
    });
    documents.dedup_by(|later, first| text(later) == text(first));
}

/// The aggregation `sample`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample;

impl Aggregation for Sample {
    type Params = SampleParams;
    type Partial = Sampled;

    fn local(&self, partition: &Partition, params: &SampleParams) -> Result<Sampled> {
        if !(0.0..=1.0).contains(&params.ratio) {
            return Err(RatioError(params.ratio).into());
        }
        let SampleParams { query, strict, k, text_bytes: bytes, .. } = params;
        let (documents, matched) =
            Wanted { query, strict: *strict, k: *k, text_bytes: *bytes }.of(partition)?;
        let (given, given_bytes) = (documents.len() as u64, text_bytes(&documents));
        Ok(Sampled { documents, matched, given, given_bytes })
    }

    fn reduce(&self, a: Sampled, b: Sampled, params: &SampleParams) -> Result<Sampled> {
        let (mut a, b) = (a.drawn(params), b.drawn(params));
        a.documents.extend(b.documents);
        once_each(&mut a.documents);
        a.matched = a.matched.saturating_add(b.matched);
        a.given = a.given.saturating_add(b.given);
        a.given_bytes = a.given_bytes.saturating_add(b.given_bytes);
        Ok(a)
    }

    fn finish(&self, partial: Sampled, params: &SampleParams) -> Result<Sampled> {
        Ok(partial.drawn(params))
    }

    fn placement(&self) -> Placement {
        Placement::Measured
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::drawn::document;
    use proptest::prelude::*;

    /// A partition's partial, best documents first.
    fn given() -> impl Strategy<Value = Sampled> {
        proptest::collection::vec(document(), 0..6).prop_map(|mut documents| {
            documents.sort_by(Document::rank);
            let (given, given_bytes) = (documents.len() as u64, text_bytes(&documents));
            Sampled { documents, matched: given, given, given_bytes }
        })
    }

    proptest! {
        #[test]
        fn any_tree_draws_the_same(
            a in given(), b in given(), c in given(), ratio in 0.0..=1.0f64, seed in any::<u64>(),
        ) {
            let params = SampleParams { ratio, seed, ..SampleParams::new("q") };
            let reduce = |a: &Sampled, b: &Sampled| Sample.reduce(a.clone(), b.clone(), &params).unwrap();
            prop_assert_eq!(reduce(&a, &b), reduce(&b, &a));
            prop_assert_eq!(reduce(&reduce(&a, &b), &c), reduce(&a, &reduce(&b, &c)));
            let nothing = Sampled::default();
            prop_assert_eq!(reduce(&a, &nothing), Sample.finish(a.clone(), &params).unwrap());
            let all = reduce(&reduce(&a, &b), &c);
            prop_assert_eq!(Sample.finish(all.clone(), &params).unwrap(), all);
        }
    }

    #[test]
    fn kept_share_matches_ratio_and_depends_on_the_seed() {
        let numbered = |number: u64| {
            let digest = number.wrapping_mul(0x2545_f491_4f6c_dd1d);
            Document {
                score: 1.0,
                path: number.to_string(),
                title: String::new(),
                digest,
                text: number.to_string(),
            }
        };
        let documents: Vec<Document> = (0..10_000).map(numbered).collect();
        let kept = |seed| -> Vec<String> {
            let params = SampleParams { ratio: 0.05, seed, ..SampleParams::new("q") };
            let given = Sampled { documents: documents.clone(), ..Sampled::default() };
            given.drawn(&params).documents.into_iter().map(|document| document.path).collect()
        };
        let (one, other) = (kept(1), kept(2));
        assert!((400..600).contains(&one.len()), "{}", one.len());
        assert_ne!(one, other);
    }

    #[test]
    fn ratios_0_and_1_keep_nothing_and_everything() {
        let documents = vec![Document {
            score: 1.0,
            path: "a".into(),
            title: "a".into(),
            digest: u64::MAX,
            text: "a".into(),
        }];
        for (ratio, kept) in [(0.0, 0), (1.0, 1)] {
            let given = Sampled { documents: documents.clone(), ..Sampled::default() };
            let params = SampleParams { ratio, ..SampleParams::new("q") };
            assert_eq!(given.drawn(&params).documents.len(), kept);
        }
    }
}
