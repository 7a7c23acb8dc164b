//! The aggregation `words`: how often each word, or each phrase of a given number of words, occurs in
//! matching documents.
//!
//! A partition's partial is a sorted run ([`crate::run`]), and a fold merges two runs, like the data that a
//! map/reduce job's word count sends from its mappers to its reducer. A partition keeps the last run that
//! it made. If the same job is run again, over another tree or by other means, it costs only the steps
//! after the map.

use crate::query;
use crate::run::{Run, RunWriter};
use crate::shard::Shard;
use crate::tokens;
use serde::{Deserialize, Serialize};
use std::sync::{Mutex, PoisonError};
use tantivy::collector::DocSetCollector;
use treefold_operators::{Aggregation, OperatorError, Partition, Result};

/// Most words in a phrase.
pub const PHRASE_WORDS_MAX: u32 = 8;

/// Bytes that an entry takes besides its word.
const ENTRY_BYTES: u64 = 2;

/// The parameters of `words`, all optional.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WordsParams {
    /// The query that selects the documents, in the language of [`query`]. Default: all.
    #[serde(default = "all")]
    pub query: String,
    /// Whether a query that is not well-formed is refused; see [`query`].
    #[serde(default)]
    pub strict: bool,
    /// Number of words in a phrase, 1 to [`PHRASE_WORDS_MAX`]. Default: 1.
    #[serde(default = "one")]
    pub phrase: u32,
    /// Whether a partition gives each word once with its count (the default), or else each occurrence
    /// separately, like a map without a combiner.
    #[serde(default = "yes")]
    pub combine: bool,
    /// A partition stops counting when its occurrences, each as an entry, have this many bytes. Default: no
    /// limit.
    #[serde(default)]
    pub bytes_max: Option<u64>,
}

fn all() -> String {
    "*".to_owned()
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

impl Default for WordsParams {
    fn default() -> Self {
        Self { query: all(), strict: false, phrase: one(), combine: yes(), bytes_max: None }
    }
}

/// `phrase` is out of its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("phrase is {0}; it must be 1 to {PHRASE_WORDS_MAX}")]
pub struct PhraseError(u32);

/// The last run that a partition made, with its parameters.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<Option<(WordsParams, Run)>>);

impl Kept {
    fn of(&self, params: &WordsParams) -> Option<Run> {
        // Code under this lock does not panic, and a stored run is complete.
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().filter(|(made_for, _)| made_for == params).map(|(_, run)| run.clone())
    }

    fn keep(&self, params: &WordsParams, run: &Run) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((params.clone(), run.clone()));
    }
}

/// The phrases of texts, and their positions: folded words, separated by one space.
#[derive(Default)]
struct Phrases {
    text: String,
    /// Start (inclusive) and end (exclusive) in bytes.
    places: Vec<(usize, usize)>,
    bytes: u64,
}

impl Phrases {
    /// Adds the phrases of one text; returns false once there are enough. No phrase spans two texts.
    fn add(&mut self, text: &str, params: &WordsParams) -> bool {
        let length = params.phrase as usize;
        let mut begins: Vec<usize> = Vec::new();
        for range in tokens::ranges(text) {
            if params.bytes_max.is_some_and(|most| self.bytes >= most) {
                return false;
            }
            begins.push(self.text.len());
            tokens::fold_into(&text[range], &mut self.text);
            let end = self.text.len();
            self.text.push(' ');
            if let Some(first) = begins.len().checked_sub(length) {
                let begin = begins[first];
                self.places.push((begin, end));
                self.bytes += (end - begin) as u64 + ENTRY_BYTES;
            }
        }
        true
    }

    fn run(mut self, combine: bool) -> Run {
        let Self { text, places, bytes } = &mut self;
        places.sort_unstable_by(|a, b| text[a.0..a.1].cmp(&text[b.0..b.1]));
        let mut writer = RunWriter::with_capacity(usize::try_from(*bytes).unwrap_or(0));
        for &mut (begin, end) in places {
            let phrase = &text[begin..end];
            if combine { writer.add(phrase, 1) } else { writer.add_apart(phrase, 1) }
        }
        writer.finish()
    }
}

/// The aggregation `words`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words;

impl Aggregation for Words {
    type Params = WordsParams;
    type Partial = Run;

    fn local(&self, partition: &Partition, params: &WordsParams) -> Result<Run> {
        if !(1..=PHRASE_WORDS_MAX).contains(&params.phrase) {
            return Err(PhraseError(params.phrase).into());
        }
        let shard = partition.data_as::<Shard>()?;
        if let Some(run) = shard.kept.of(params) {
            return Ok(run);
        }
        let query =
            query::parse(shard, &params.query, params.strict).map_err(OperatorError::invalid_params)?;
        let mut addresses: Vec<_> = shard.searcher.search(&*query, &DocSetCollector)?.into_iter().collect();
        addresses.sort_unstable();
        let mut phrases = Phrases::default();
        for address in addresses {
            let [_, _, body] = shard.stored(address)?;
            if !phrases.add(&body, params) {
                break;
            }
        }
        let run = phrases.run(params.combine);
        shard.kept.keep(params, &run);
        Ok(run)
    }

    fn reduce(&self, a: Run, b: Run, _: &WordsParams) -> Result<Run> {
        Ok(a.merged(&b))
    }

    fn reduce_all(&self, parts: Vec<Run>, _: &WordsParams) -> Result<Run> {
        Ok(Run::joined(&parts))
    }

    fn is_sliceable(&self) -> bool {
        true
    }

    fn split(&self, partial: Run, slices: u32, _: &WordsParams) -> Result<Vec<Run>> {
        Ok(partial.split(slices))
    }

    fn join(&self, parts: Vec<Run>, _: &WordsParams) -> Result<Run> {
        Ok(Run::joined(&parts))
    }

    fn finish(&self, partial: Run, _: &WordsParams) -> Result<Run> {
        Ok(partial.combined())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(texts: &[&str], params: &WordsParams) -> Vec<(String, u64)> {
        let mut phrases = Phrases::default();
        for text in texts {
            phrases.add(text, params);
        }
        phrases.run(params.combine).iter().map(|(word, count)| (word.to_owned(), count)).collect()
    }

    fn owned(entries: &[(&str, u64)]) -> Vec<(String, u64)> {
        entries.iter().map(|(word, count)| ((*word).to_owned(), *count)).collect()
    }

    #[test]
    fn words_are_counted_in_lower_case() {
        let params = WordsParams::default();
        assert_eq!(entries(&["A tree, a wave."], &params), owned(&[("a", 2), ("tree", 1), ("wave", 1)]));
        let apart = WordsParams { combine: false, ..params };
        let expected = owned(&[("a", 1), ("a", 1), ("tree", 1), ("wave", 1)]);
        assert_eq!(entries(&["A tree, a wave."], &apart), expected);
    }

    #[test]
    fn phrases_do_not_span_texts() {
        let params = WordsParams { phrase: 2, ..WordsParams::default() };
        assert_eq!(entries(&["a b c", "d"], &params), owned(&[("a b", 1), ("b c", 1)]));
    }

    #[test]
    fn counting_stops_at_bytes_max() {
        let params = WordsParams { bytes_max: Some(8), ..WordsParams::default() };
        assert_eq!(entries(&["aa bb cc dd"], &params), owned(&[("aa", 1), ("bb", 1)]));
    }
}
