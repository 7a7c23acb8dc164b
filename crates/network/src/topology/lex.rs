//! The tokens of a topology file: words, `:`, `=>`, `;`. Spaces and line ends separate tokens, and `#` begins
//! a comment, as in MRNet's files. Brackets and their content are part of a word.

use super::problem::Span;
use std::iter::Peekable;
use std::str::CharIndices;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A host, a number, or a range of them.
    Word,
    /// `:`
    Colon,
    /// `=>`
    Arrow,
    /// `;`
    Semicolon,
    /// A character that belongs to no token.
    Unknown(char),
}

impl Token {
    /// The token's description in an error message. `text` is the token's text.
    pub(super) fn described(self, text: &str) -> String {
        match self {
            Self::Word => format!("`{text}`"),
            Self::Colon => "`:`".to_owned(),
            Self::Arrow => "`=>`".to_owned(),
            Self::Semicolon => "`;`".to_owned(),
            Self::Unknown(character) => format!("`{character}`"),
        }
    }
}

/// Splits a text into tokens.
pub(super) struct Lexer<'a> {
    text: &'a str,
    characters: Peekable<CharIndices<'a>>,
    ahead: Option<(Token, Span)>,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut characters = text.char_indices().peekable();
        // Some editors begin a file with a byte order mark.
        characters.next_if(|&(_, character)| character == '\u{feff}');
        Self { text, characters, ahead: None }
    }

    /// The text of a token.
    pub(super) fn slice(&self, span: Span) -> &'a str {
        &self.text[span.start..span.end]
    }

    /// Returns the next token without consuming it.
    pub(super) fn peek(&mut self) -> Option<(Token, Span)> {
        if self.ahead.is_none() {
            self.ahead = self.read();
        }
        self.ahead
    }

    /// Consumes the next token if it is of the wanted kind.
    pub(super) fn next_if(&mut self, wanted: Token) -> Option<Span> {
        let (token, span) = self.peek()?;
        (token == wanted).then(|| {
            self.ahead = None;
            span
        })
    }

    /// Consumes the next token.
    pub(super) fn next(&mut self) -> Option<(Token, Span)> {
        self.peek();
        self.ahead.take()
    }

    /// The end of the text, without trailing whitespace.
    pub(super) fn end(&self) -> Span {
        let end = self.text.trim_end().len();
        Span { start: end, end }
    }

    fn read(&mut self) -> Option<(Token, Span)> {
        loop {
            let (start, first) = self.characters.next()?;
            let mut end = start + first.len_utf8();
            let token = match first {
                space if space.is_whitespace() => continue,
                '#' => {
                    while self.characters.next_if(|&(_, character)| character != '\n').is_some() {}
                    continue;
                }
                ':' => Token::Colon,
                ';' => Token::Semicolon,
                '=' if self.characters.next_if(|&(_, next)| next == '>').is_some() => {
                    end += 1;
                    Token::Arrow
                }
                start_of_word if is_in_words(start_of_word) => {
                    end = self.end_of_word(start_of_word, end);
                    Token::Word
                }
                other => Token::Unknown(other),
            };
            return Some((token, Span { start, end }));
        }
    }

    /// Consumes the rest of a word and returns its end.
    fn end_of_word(&mut self, first: char, mut end: usize) -> usize {
        let mut in_brackets = first == '[';
        let belongs = |character: char, in_brackets: bool| match character {
            ';' | '#' => false,
            character if in_brackets => !character.is_whitespace(),
            character => is_in_words(character),
        };
        while let Some((at, character)) =
            self.characters.next_if(|&(_, character)| belongs(character, in_brackets))
        {
            in_brackets = character == '[' || in_brackets && character != ']';
            end = at + character.len_utf8();
        }
        end
    }
}

/// Letters of any script belong to words, so that an invalid name is reported as a whole and not per letter.
fn is_in_words(character: char) -> bool {
    character.is_alphanumeric() || "-._[]".contains(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        let mut lexer = Lexer::new(text);
        let mut all = Vec::new();
        while let Some((token, span)) = lexer.next() {
            all.push(token.described(lexer.slice(span)).trim_matches('`').to_owned());
        }
        all
    }

    #[test]
    fn tokens_need_no_space_between_them() {
        let expected = ["a-1.x_y", ":", "0", "=>", "b", ":", "[0-3,5]", ";"];
        assert_eq!(tokens("a-1.x_y:0=>b:[0-3,5];"), expected);
        assert_eq!(tokens("\u{feff}a-1.x_y : 0 =>\r\n\tb:[0-3,5] # c:0 ;\n;"), expected);
    }

    #[test]
    fn an_address_in_brackets_keeps_its_colons() {
        assert_eq!(tokens("[fe80::1]:0;"), ["[fe80::1]", ":", "0", ";"]);
    }

    #[test]
    fn an_unclosed_bracket_ends_at_whitespace() {
        assert_eq!(tokens("a[1-2 :0 ;"), ["a[1-2", ":", "0", ";"]);
    }

    #[test]
    fn unknown_characters_are_tokens() {
        assert_eq!(tokens("a:0 -> b:0, c"), ["a", ":", "0", "-", ">", "b", ":", "0", ",", "c"]);
    }
}
