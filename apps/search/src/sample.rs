//! The aggregation `sample`: whole texts of matching documents, of which a share is kept, drawn by lot.
//!
//! Every partition gives its best k with their texts. The folds keep each text once, whichever partitions have it, and
//! only those whose lot, made of digest and seed, is below `ratio`. So which are kept depends on the texts and the seed,
//! and not on the tree or on who has the document: a fold of what was drawn already changes nothing more.
//!
//! It is NetAgg's `sample` (§4.2.1), made so that what comes out of the first fold is `ratio` of what went in: a load
//! for network paths whose reduction is known. Who only wants fewer documents asks for a smaller k.

use crate::document::{Document, Wanted, k_default, text_bytes, text_bytes_default};
use serde::{Deserialize, Serialize};
use treefold_operators::{Aggregation, Partition, Placement, Result};

/// The parameters of `sample`. Only the query must be given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleParams {
    /// What to look for; [`query`](crate::query) says how it is written.
    pub query: String,
    /// How many documents a partition gives, 1 to [`K_MAX`](crate::limits::K_MAX).
    #[serde(default = "k_default")]
    pub k: u32,
    /// How much of each text, at most [`TEXT_BYTES_MAX`](crate::limits::TEXT_BYTES_MAX).
    #[serde(default = "text_bytes_default")]
    pub text_bytes: u32,
    /// Which share of the documents is kept, 0 to 1; by default all.
    #[serde(default = "everything")]
    pub ratio: f64,
    /// Another seed draws others.
    #[serde(default)]
    pub seed: u64,
}

fn everything() -> f64 {
    1.0
}

/// The ratio is no share.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("ratio is {0}; it must be 0 to 1")]
pub struct RatioError(f64);

impl SampleParams {
    /// The defaults, for `query`.
    pub fn new(query: impl Into<String>) -> Self {
        Self { query: query.into(), k: k_default(), text_bytes: text_bytes_default(), ratio: 1.0, seed: 0 }
    }

    /// A document's lot, from 0 to 1: SplitMix64's last steps over digest and seed.
    fn lot(&self, document: &Document) -> f64 {
        let mut lot = document.digest ^ self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        lot = (lot ^ (lot >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        lot = (lot ^ (lot >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        lot ^= lot >> 31;
        // 53 bits are what a double holds exactly.
        (lot >> 11) as f64 / (1u64 << 53) as f64
    }

    fn keeps(&self, document: &Document) -> bool {
        self.lot(document) < self.ratio
    }
}

/// Documents drawn from some partitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sampled {
    /// Those kept, by digest; of documents with one text, the one whose path comes first. What a partition gives is not
    /// drawn from yet.
    pub documents: Vec<Document>,
    /// How many documents match the query.
    pub matched: u64,
    /// How many documents partitions gave before any was left out.
    pub given: u64,
    /// How many bytes of text these had.
    pub given_bytes: u64,
}

impl Sampled {
    fn drawn(mut self, params: &SampleParams) -> Self {
        self.documents.retain(|document| params.keeps(document));
        once_each(&mut self.documents);
        self
    }
}

/// Sorts, and leaves each text there once.
fn once_each(documents: &mut Vec<Document>) {
    fn text(document: &Document) -> (u64, &str) {
        (document.digest, &document.text)
    }
    // Where path and text are the same too, the better score: partials may hold the same document.
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
        let SampleParams { query, k, text_bytes: bytes, .. } = params;
        let (documents, matched) = Wanted { query, k: *k, text_bytes: *bytes }.of(partition)?;
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

    /// What a partition gives, best first.
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
    fn about_the_share_that_was_asked_for_is_kept_and_another_seed_keeps_others() {
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
    fn nothing_and_everything_can_be_asked_for() {
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
