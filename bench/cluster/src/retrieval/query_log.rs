//! The queries of a run.
//!
//! The paper's trace "contains only uncached queries and exhibits little temporal locality". It is not public, so
//! a log is drawn from the folder's own words, by this rule:
//!
//! - The folder's words are ordered by frequency. Words of fewer than three or more than [`WORD_CHARS_MAX`]
//!   characters, and words with other characters than letters, do not count. The [`STOP_WORDS`] most frequent
//!   words are left out, as search engines did; the next [`VOCABULARY_MAX`] are the vocabulary.
//! - A word of rank r is drawn with a probability in proportion to 1/r (Zipf).
//! - A query has 1 + n different words, where n has a Poisson distribution of the mean 1.35: 2.35 words on average,
//!   as in AltaVista's log of a billion requests (Silverstein, Henzinger, Marais and Moricz, SIGIR Forum 33(1),
//!   1999). At most [`WORDS_MAX`].
//! - No query occurs twice: a cache would have answered it.
//!
//! The seed determines the log. It is saved as text, so that runs can share it, and so that a real log can be
//! played instead.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use treefold_cli::exit::Failure;
use treefold_core::random::Random;
use treefold_search::limits::QUERY_BYTES_MAX;

/// Number of the most frequent words that no query has.
const STOP_WORDS: usize = 100;

/// Most words of which queries consist.
const VOCABULARY_MAX: usize = 10_000;

/// Fewest words of which queries can consist.
const VOCABULARY_MIN: usize = 100;

/// Lengths of the words, in characters.
const WORD_CHARS_MIN: usize = 3;
const WORD_CHARS_MAX: usize = 20;

/// Mean number of words of a query after its first.
const FURTHER_WORDS_MEAN: f64 = 1.35;

/// Most words of a query.
const WORDS_MAX: usize = 8;

/// Draws for each query after which the vocabulary counts as too small.
const DRAWS_MAX: usize = 1000;

/// Most bytes of a log's file.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Different queries, in the order in which they are played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueryLog(Vec<String>);

impl QueryLog {
    /// Draws a log of `count` queries from words that are ordered by their frequency.
    ///
    /// # Errors
    /// If there are too few words.
    pub(super) fn drawn(words: &[String], count: usize, seed: u64) -> Result<Self, Failure> {
        let is_eligible = |word: &&String| {
            word.chars().all(char::is_alphabetic)
                && (WORD_CHARS_MIN..=WORD_CHARS_MAX).contains(&word.chars().count())
        };
        let eligible = words.iter().filter(is_eligible).skip(STOP_WORDS).take(VOCABULARY_MAX);
        let vocabulary: Vec<&str> = eligible.map(String::as_str).collect();
        let too_few = || {
            Failure::failed(format!(
                "{} words besides the {STOP_WORDS} most frequent ones are too few for {count} different queries; \
                 give a larger folder, or fewer --queries",
                vocabulary.len()
            ))
        };
        if vocabulary.len() < VOCABULARY_MIN {
            return Err(too_few());
        }
        let (zipf, mut random) = (Zipf::new(vocabulary.len()), Random::new(seed));
        let (mut queries, mut known) = (Vec::with_capacity(count), BTreeSet::new());
        let mut draws = 0;
        while queries.len() < count {
            draws += 1;
            if draws > count.saturating_mul(DRAWS_MAX) {
                return Err(too_few());
            }
            let length = words_drawn(&mut random);
            let mut ranks = Vec::with_capacity(length);
            while ranks.len() < length {
                let rank = zipf.drawn(&mut random);
                if !ranks.contains(&rank) {
                    ranks.push(rank);
                }
            }
            let query: Vec<&str> = ranks.iter().map(|&rank| vocabulary[rank]).collect();
            // The order of the words makes no other query.
            ranks.sort_unstable();
            if known.insert(ranks) {
                queries.push(query.join(" "));
            }
        }
        Ok(Self(queries))
    }

    /// Reads a log: one query in each line; empty lines, and lines that begin with `#`, do not count.
    ///
    /// # Errors
    /// If the file can't be read, or has no queries or too long ones.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let failed = |problem: String| Failure::failed(format!("{}: {problem}", path.display()));
        let bytes = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
        if bytes > FILE_BYTES_MAX {
            return Err(failed(format!("{bytes} bytes; a log of queries has at most {FILE_BYTES_MAX}")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        let queries: Vec<String> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(str::to_owned)
            .collect();
        if queries.is_empty() {
            return Err(failed("no queries; expected one in each line".to_owned()));
        }
        match queries.iter().find(|query| query.len() > QUERY_BYTES_MAX) {
            Some(long) => {
                Err(failed(format!("a query of {} bytes; at most {QUERY_BYTES_MAX} are allowed", long.len())))
            }
            None => Ok(Self(queries)),
        }
    }

    /// Writes the log, with the rule by which it was made.
    ///
    /// # Errors
    /// If the file can't be written.
    pub(super) fn write(&self, path: &Path) -> Result<(), Failure> {
        let mut text = format!(
            "# {} queries of 1 + Poisson({FURTHER_WORDS_MEAN}) words, whose probability falls with 1/rank; the {STOP_WORDS} \
             most frequent words are left out\n",
            self.0.len()
        );
        self.0.iter().for_each(|query| {
            writeln!(text, "{query}").expect("invariant: a text takes any line");
        });
        std::fs::write(path, text)
            .map_err(|error| Failure::failed(format!("can't write {}: {error}", path.display())))
    }

    pub(super) fn queries(&self) -> &[String] {
        &self.0
    }

    /// Mean number of words of a query.
    pub(super) fn words_mean(&self) -> f64 {
        let words: usize = self.0.iter().map(|query| query.split_whitespace().count()).sum();
        words as f64 / self.0.len() as f64
    }
}

/// Draws a query's number of words.
fn words_drawn(random: &mut Random) -> usize {
    // Knuth's method: uniform factors until their product falls below e to the minus mean.
    let end = (-FURTHER_WORDS_MEAN).exp();
    let (mut words, mut product) = (1, random.unit());
    while product > end && words < WORDS_MAX {
        words += 1;
        product *= random.unit();
    }
    words
}

/// Ranks from 0, with probabilities in proportion to 1/(rank + 1).
struct Zipf {
    /// The probability of each rank or a lower one, times a constant.
    up_to: Vec<f64>,
}

impl Zipf {
    fn new(ranks: usize) -> Self {
        let up_to = (1..=ranks).scan(0.0, |sum, rank| {
            *sum += 1.0 / rank as f64;
            Some(*sum)
        });
        Self { up_to: up_to.collect() }
    }

    fn drawn(&self, random: &mut Random) -> usize {
        let all = self.up_to.last().copied().unwrap_or_default();
        let at = random.unit() * all;
        self.up_to.partition_point(|&sum| sum <= at).min(self.up_to.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words in the order of their frequency: stop words first, then the vocabulary.
    fn words(number: usize) -> Vec<String> {
        let letters =
            |at: usize| (0..4).map(|digit| (b'a' + (at / 26usize.pow(digit) % 26) as u8) as char).collect();
        (0..number).map(letters).collect()
    }

    #[test]
    fn seed_determines_different_queries_of_the_published_length() {
        let (words, count) = (words(5_000), 4_000);
        let log = QueryLog::drawn(&words, count, 1).unwrap();
        assert_eq!(QueryLog::drawn(&words, count, 1).unwrap(), log);
        assert_ne!(QueryLog::drawn(&words, count, 2).unwrap(), log);
        let sets: BTreeSet<BTreeSet<&str>> =
            log.queries().iter().map(|query| query.split(' ').collect()).collect();
        assert_eq!(sets.len(), count, "no query occurs twice, in any order of its words");
        // Short queries are refused as repeated ones more often than long ones, so the mean is a little higher.
        assert!((2.3..2.7).contains(&log.words_mean()), "{}", log.words_mean());
    }

    #[test]
    fn frequent_words_are_frequent_in_queries_and_stop_words_absent() {
        let words = words(2_000);
        let log = QueryLog::drawn(&words, 500, 1).unwrap();
        let number =
            |word: &str| log.queries().iter().filter(|query| query.split(' ').any(|w| w == word)).count();
        assert!(words[..STOP_WORDS].iter().all(|word| number(word) == 0));
        assert!(number(&words[STOP_WORDS]) > 4 * number(&words[STOP_WORDS + 30]));
    }

    #[test]
    fn too_few_words_are_refused() {
        let refused = QueryLog::drawn(&words(150), 10, 1).unwrap_err().to_string();
        assert!(refused.contains("50 words besides the 100 most frequent ones are too few"), "{refused}");
        let odd = vec!["x1".to_owned(); 400];
        assert!(QueryLog::drawn(&odd, 10, 1).is_err(), "short words and numbers do not count");
    }

    #[test]
    fn saved_log_reads_back() {
        let (folder, log) = (tempfile::tempdir().unwrap(), QueryLog::drawn(&words(500), 20, 1).unwrap());
        let path = folder.path().join("log.txt");
        log.write(&path).unwrap();
        assert_eq!(QueryLog::read(&path).unwrap(), log);
        std::fs::write(&path, "# nothing\n\n").unwrap();
        assert!(
            QueryLog::read(&path).unwrap_err().to_string().ends_with("no queries; expected one in each line")
        );
        std::fs::write(&path, "x".repeat(QUERY_BYTES_MAX + 1)).unwrap();
        assert!(QueryLog::read(&path).unwrap_err().to_string().contains("a query of 1025 bytes"));
        assert!(QueryLog::read(&folder.path().join("absent")).is_err());
    }
}
