//! Snippets: the part of a document that shows why it was found.
//!
//! Among all stretches of the requested length, the one with the rarest words wins (tantivy's generator).
//! Rarity uses the same figures as the document's score, so the stretch is the same for every split of the
//! folder. A long document is searched in steps, and the first step that has any of the words wins. A document that was found
//! only by its title or path, or whose words lie behind the limit, shows its beginning. White space and control
//! characters become single spaces: a snippet is one line, and printing a log full of terminal escapes is
//! harmless.

use crate::limits::{SNIPPET_CALL_BYTES_MAX, SNIPPET_SCAN_BYTES};
use crate::shard::Shard;
use crate::topk::TopKParams;
use std::collections::BTreeMap;
use std::ops::Range;
use tantivy::query::Bm25StatisticsProvider;
use tantivy::snippet::SnippetGenerator;
use tantivy::{Score, Term};

/// Makes the snippets for the hits of one query.
pub(crate) struct Snippets {
    generator: SnippetGenerator,
    chars_max: usize,
    /// Bytes of a document that are searched: its share of the call's, which is the same in every partition.
    bytes_max: usize,
}

impl Snippets {
    pub(crate) fn new<'a>(
        shard: &Shard,
        terms: impl Iterator<Item = &'a Term>,
        figures: &dyn Bm25StatisticsProvider,
        params: &TopKParams,
    ) -> tantivy::Result<Self> {
        let chars_max = params.snippet_chars as usize;
        let bytes_max = (SNIPPET_CALL_BYTES_MAX / params.k as usize).max(SNIPPET_SCAN_BYTES);
        let mut rarity: BTreeMap<String, Score> = BTreeMap::new();
        for term in terms.filter(|term| term.field() == shard.fields.body) {
            let value = term.value();
            if let Some(word) = value.as_str() {
                rarity.insert(word.to_owned(), 1.0 / (1.0 + figures.doc_freq(term)? as Score));
            }
        }
        let generator = SnippetGenerator::new(rarity, shard.tokenizer.clone(), shard.fields.body, chars_max);
        Ok(Self { generator, chars_max, bytes_max })
    }

    /// The snippet of a body, and the parts to highlight, in characters.
    pub(crate) fn of(&self, body: &str) -> (String, Vec<(u32, u32)>) {
        if self.chars_max == 0 {
            return Default::default();
        }
        let mut rest = &body[..body.floor_char_boundary(self.bytes_max)];
        while !rest.is_empty() {
            let (step, behind) = rest.split_at(step_bytes(rest));
            let found = self.generator.snippet(step);
            if !found.is_empty() {
                return one_line(found.fragment(), found.highlighted(), self.chars_max);
            }
            rest = behind;
        }
        one_line(body, &[], self.chars_max)
    }
}

/// Bytes of the next step, which ends between two words if there is white space in it.
fn step_bytes(text: &str) -> usize {
    if text.len() <= SNIPPET_SCAN_BYTES {
        return text.len();
    }
    let end = text.floor_char_boundary(SNIPPET_SCAN_BYTES);
    text[..end].rfind(char::is_whitespace).filter(|at| *at > 0).unwrap_or(end)
}

/// Returns `text` on one line of at most `chars_max` characters, and the `highlights` (byte ranges of
/// `text`) as characters of that line.
fn one_line(text: &str, highlights: &[Range<usize>], chars_max: usize) -> (String, Vec<(u32, u32)>) {
    let mut line = String::new();
    let (mut chars, mut blank) = (0usize, false);
    let (mut open, mut marks) = (None, Vec::new());
    let mut highlights = highlights.iter().peekable();
    for (at, character) in text.char_indices() {
        if highlights.next_if(|range| range.end <= at).is_some() {
            marks.extend(open.take().map(|begin| (begin, chars as u32)));
        }
        if chars == chars_max {
            break;
        }
        if character.is_whitespace() || character.is_control() {
            blank = !line.is_empty();
            continue;
        }
        if std::mem::take(&mut blank) {
            line.push(' ');
            chars += 1;
            if chars == chars_max {
                break;
            }
        }
        if highlights.peek().is_some_and(|range| range.contains(&at)) && open.is_none() {
            open = Some(chars as u32);
        }
        line.push(character);
        chars += 1;
    }
    marks.extend(open.map(|begin| (begin, chars as u32)));
    (line, marks)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn highlighted(text: &str, words: &[&str], chars_max: usize) -> (String, Vec<String>) {
        let ranges: Vec<_> = words
            .iter()
            .map(|word| text.find(word).unwrap()..text.find(word).unwrap() + word.len())
            .collect();
        let (line, marks) = one_line(text, &ranges, chars_max);
        let cut = |(begin, end): (u32, u32)| line.chars().take(end as usize).skip(begin as usize).collect();
        let marked = marks.into_iter().map(cut).collect();
        (line, marked)
    }

    #[test]
    fn highlights_survive_collapsed_white_space() {
        let (line, marked) =
            highlighted("  été \n\n\t où les arbres\x1b[31m rêvent", &["où", "arbres", "rêvent"], 100);
        assert_eq!(line, "été où les arbres [31m rêvent");
        assert_eq!(marked, ["où", "arbres", "rêvent"]);
    }

    #[test]
    fn a_line_is_cut_at_its_length_and_a_highlight_with_it() {
        assert_eq!(highlighted("trees and waves", &["trees", "waves"], 12).0, "trees and wa");
        assert_eq!(highlighted("trees and waves", &["trees", "waves"], 12).1, ["trees", "wa"]);
        assert_eq!(highlighted("trees and waves", &["waves"], 5), ("trees".to_owned(), vec![]));
        assert_eq!(highlighted("trees", &["trees"], 5), ("trees".to_owned(), vec!["trees".to_owned()]));
    }
}
