//! Words: how texts and queries are cut, and when two words are the same.
//!
//! Words are cut by Unicode's rules ([UAX 29](https://www.unicode.org/reports/tr29/)): a letter keeps its marks, and the
//! virama of Devanagari does not end a word. Where words are written without spaces, each ideograph or syllable is a word,
//! and a text of several is found as a phrase. One rule is changed, as the standard allows: punctuation of ASCII, and what
//! compatibility makes of it, always ends a word. So `snake_case`, `std::io`, `map.insert` and `don't` are two words each,
//! and both apostrophes are alike. Runs of ASCII need no tables then, and source code is mostly ASCII.
//!
//! A word is kept in the form `NFKC(fold(NFKC(word)))`, without characters that Unicode ignores by default, such as soft
//! hyphens. So words are equal in any case, any width, and any encoding of their accents.
//!
//! An index holds such words, so it can only be searched with the same tables: see [`version`].

use crate::limits::WORD_CHARS_MAX;
use icu_casemap::{CaseMapper, CaseMapperBorrowed};
use icu_normalizer::{ComposingNormalizer, ComposingNormalizerBorrowed};
use icu_properties::CodePointSetData;
use icu_properties::props::DefaultIgnorableCodePoint;
use std::ops::Range;
use tantivy::tokenizer::{TextAnalyzer, Token, TokenStream, Tokenizer, TokenizerManager};
use unicode_segmentation::{UNICODE_VERSION, UWordBoundIndices, UnicodeSegmentation};

/// The name under which the schema knows these words.
pub(crate) const NAME: &str = "words";

/// Increase this if words are cut or folded in another way, or the tables of folding change.
const RULES: u32 = 1;

/// Names the rules and the tables. An index with other ones is built again.
pub(crate) fn version() -> String {
    let (major, minor, patch) = UNICODE_VERSION;
    format!("{RULES}, Unicode {major}.{minor}.{patch}")
}

/// The index library's table of tokenizers, with this one.
pub(crate) fn tokenizers() -> TokenizerManager {
    let manager = TokenizerManager::new();
    manager.register(NAME, TextAnalyzer::from(WordTokenizer));
    manager
}

/// The words of a text, as ranges of its bytes.
pub(crate) fn ranges(text: &str) -> Ranges<'_> {
    Ranges { text, at: 0, run: None }
}

/// See [`ranges`].
pub(crate) struct Ranges<'a> {
    text: &'a str,
    at: usize,
    /// The start of a run that is not ASCII, and the rest of its segments.
    run: Option<(usize, UWordBoundIndices<'a>)>,
}

impl Iterator for Ranges<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        loop {
            if let Some((start, segments)) = &mut self.run {
                let is_word = |(_, segment): &(usize, &str)| segment.chars().any(char::is_alphanumeric);
                if let Some((at, segment)) = segments.find(is_word) {
                    return Some(*start + at..*start + at + segment.len());
                }
                self.run = None;
            }
            let (start, is_ascii) = self.next_run()?;
            if is_ascii {
                return Some(start..self.at);
            }
            self.run = Some((start, self.text[start..self.at].split_word_bound_indices()));
        }
    }
}

impl Ranges<'_> {
    /// Goes to the end of the next run without punctuation that ends words. Returns its start, and whether it is ASCII.
    fn next_run(&mut self) -> Option<(usize, bool)> {
        let bytes = self.text.as_bytes();
        let (mut start, mut is_ascii) = (None, true);
        while let Some(&byte) = bytes.get(self.at) {
            let (ends, width) = if byte.is_ascii() {
                (!byte.is_ascii_alphanumeric(), 1)
            } else {
                let character = self.text[self.at..].chars().next().expect("invariant: a byte follows");
                (ends_words(character), character.len_utf8())
            };
            match (ends, start) {
                (true, Some(_)) => break,
                (true, None) => {}
                (false, _) => {
                    start.get_or_insert(self.at);
                    is_ascii &= byte.is_ascii();
                }
            }
            self.at += width;
        }
        start.map(|start| (start, is_ascii))
    }
}

/// True for characters that are punctuation of ASCII in another form: quotes, small and wide forms, and low lines.
fn ends_words(character: char) -> bool {
    matches!(
        character,
        '\u{2018}'..='\u{201f}'
            | '\u{2024}'..='\u{2026}'
            | '\u{203f}'
            | '\u{2040}'
            | '\u{2054}'
            | '\u{fe10}'..='\u{fe19}'
            | '\u{fe30}'..='\u{fe6b}'
            | '\u{ff01}'..='\u{ff0f}'
            | '\u{ff1a}'..='\u{ff20}'
            | '\u{ff3b}'..='\u{ff40}'
            | '\u{ff5b}'..='\u{ff65}'
    )
}

/// Appends the form in which a word is kept.
pub(crate) fn fold_into(word: &str, out: &mut String) {
    if word.is_ascii() {
        let start = out.len();
        out.push_str(word);
        out[start..].make_ascii_lowercase();
        return;
    }
    const NFKC: ComposingNormalizerBorrowed<'static> = ComposingNormalizer::new_nfkc();
    const CASES: CaseMapperBorrowed<'static> = CaseMapper::new();
    let ignored = CodePointSetData::new::<DefaultIgnorableCodePoint>();
    let seen: String = word.chars().filter(|character| !ignored.contains(*character)).collect();
    let folded = CASES.fold_string(&NFKC.normalize(&seen)).into_owned();
    out.push_str(&NFKC.normalize(&folded));
}

#[derive(Clone, Copy)]
struct WordTokenizer;

impl Tokenizer for WordTokenizer {
    type TokenStream<'a> = WordStream<'a>;

    fn token_stream<'a>(&'a mut self, text: &'a str) -> WordStream<'a> {
        WordStream { ranges: ranges(text), token: Token::default() }
    }
}

struct WordStream<'a> {
    ranges: Ranges<'a>,
    token: Token,
}

impl TokenStream for WordStream<'_> {
    fn advance(&mut self) -> bool {
        while let Some(range) = self.ranges.next() {
            let token = &mut self.token;
            token.text.clear();
            fold_into(&self.ranges.text[range.clone()], &mut token.text);
            // A word that is left out keeps its place, so its neighbours are no phrase.
            token.position = token.position.wrapping_add(1);
            let is_long = token.text.len() > WORD_CHARS_MAX && token.text.chars().count() > WORD_CHARS_MAX;
            if !is_long && !token.text.is_empty() {
                (token.offset_from, token.offset_to) = (range.start, range.end);
                return true;
            }
        }
        false
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let folded = |range: Range<usize>| {
            let mut word = String::new();
            fold_into(&text[range], &mut word);
            word
        };
        ranges(text).map(folded).collect()
    }

    #[test]
    fn ascii_punctuation_ends_words() {
        assert_eq!(
            words("snake_case std::io map.insert(3.14)"),
            ["snake", "case", "std", "io", "map", "insert", "3", "14"]
        );
        assert_eq!(words("don't don’t"), ["don", "t", "don", "t"]);
        assert_eq!(words("l'été, l’ÉTÉ; ｆｏｏ＿ｂａｒ"), ["l", "été", "l", "été", "foo", "bar"]);
        assert_eq!(words("  ... — … 🙂 "), Vec::<String>::new());
    }

    #[test]
    fn equal_words_have_one_form() {
        for (one, other) in [
            ("Chambéry", "Chambe\u{301}ry"),
            ("STRASSE", "straße"),
            ("ΣΊΣΥΦΟΣ", "Σίσυφος"),
            ("Ｔｒｅｅ", "tree"),
            ("ﬁle", "FILE"),
            ("co\u{ad}operate", "cooperate"),
            ("ﾒｰﾄﾙ", "メートル"),
            ("Å", "\u{212b}"),
            ("가", "\u{1100}\u{1161}"),
        ] {
            assert_eq!(words(one), words(other), "{one}");
            assert_eq!(words(one).len(), 1, "{one}");
        }
    }

    #[test]
    fn marks_stay_with_their_letters_and_scripts_without_spaces_are_cut() {
        assert_eq!(words("हिन्दी में"), ["हिन्दी", "में"]);
        assert_eq!(words("日本語text カタカナ"), ["日", "本", "語", "text", "カタカナ"]);
        assert_eq!(words("ภาษา").concat(), "ภาษา");
        assert_eq!(words("\u{301}abx\u{301}"), ["abx\u{301}"]);
    }

    #[test]
    fn long_words_are_left_out_and_keep_their_place() {
        let mut tokenizer = tokenizers().get(NAME).unwrap();
        let text = format!("a {} {} b", "x".repeat(WORD_CHARS_MAX + 1), "न".repeat(WORD_CHARS_MAX));
        let mut found = Vec::new();
        tokenizer
            .token_stream(&text)
            .process(&mut |token| found.push((token.position, token.text.chars().count())));
        assert_eq!(found, [(0, 1), (2, WORD_CHARS_MAX), (3, 1)]);
    }
}
