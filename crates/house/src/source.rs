//! Separates code from comments and literals, and keeps every byte at its offset.
//!
//! The rules look for words, and a word in a string or a comment is not code. So a source is split into two
//! texts with the same length and the same lines. One holds only the code, the other only the comments; all
//! other bytes are spaces. The module handles the lexical structure of Rust that this needs (nested comments,
//! raw strings, lifetimes beside character literals) and nothing more.

/// One Rust source.
#[derive(Clone, Debug)]
pub struct Source {
    /// The code. Comments and the contents of literals are replaced by spaces.
    pub code: String,
    /// The comments. Everything else is replaced by spaces.
    pub comments: String,
}

/// The kind of a stretch of text that is not code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Comment,
    Literal,
}

impl Source {
    /// Splits a text. An unfinished comment or literal extends to the end of the text.
    pub fn new(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut code = bytes.to_vec();
        let mut comments = blank(bytes);
        let mut at = 0;
        while at < bytes.len() {
            let Some((kind, end)) = stretch(bytes, at) else {
                at += 1;
                continue;
            };
            if kind == Kind::Comment {
                comments[at..end].copy_from_slice(&bytes[at..end]);
            }
            let blanked = blank(&bytes[at..end]);
            code[at..end].copy_from_slice(&blanked);
            at = end;
        }
        let whole = "a stretch begins and ends at ASCII, so the remaining bytes are whole characters";
        Self {
            code: String::from_utf8(code).expect(whole),
            comments: String::from_utf8(comments).expect(whole),
        }
    }
}

/// Replaces all bytes except line ends by spaces.
fn blank(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().map(|&byte| if byte == b'\n' { byte } else { b' ' }).collect()
}

/// Whether a byte can be part of an identifier.
pub(crate) fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns the comment or literal that begins at `at`, and the offset of its end.
fn stretch(bytes: &[u8], at: usize) -> Option<(Kind, usize)> {
    let rest = &bytes[at..];
    match rest {
        [b'/', b'/', ..] => {
            let length = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
            Some((Kind::Comment, at + length))
        }
        [b'/', b'*', ..] => Some((Kind::Comment, at + block_comment_length(rest))),
        [b'"', ..] => Some((Kind::Literal, at + quoted_length(rest, b'"'))),
        [b'\'', ..] => Some((Kind::Literal, at + character_length(rest)?)),
        [b'r' | b'b' | b'c', ..] if at == 0 || !is_word(bytes[at - 1]) => {
            Some((Kind::Literal, at + raw_string_length(rest)?))
        }
        _ => None,
    }
}

/// Returns the length of a block comment. Block comments nest.
fn block_comment_length(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at + 1 < rest.len() {
        match [rest[at], rest[at + 1]] {
            [b'/', b'*'] => depth += 1,
            [b'*', b'/'] => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// Returns the length from the opening quote to the next quote that no backslash escapes.
fn quoted_length(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Returns the length of a character literal, or `None` for a lifetime or a label.
fn character_length(rest: &[u8]) -> Option<usize> {
    let first = *rest.get(1)?;
    if first == b'\\' {
        return Some(quoted_length(rest, b'\''));
    }
    let width = match first {
        0..0x80 => 1,
        0x80..0xe0 => 2,
        0xe0..0xf0 => 3,
        _ => 4,
    };
    (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

/// Returns the length of `r"…"`, `br##"…"##` and the like.
///
/// Returns `None` for all other text that begins with the same letters, such as raw identifiers.
fn raw_string_length(rest: &[u8]) -> Option<usize> {
    let after_prefix = rest.iter().position(|byte| !matches!(byte, b'b' | b'c' | b'r'))?;
    if !matches!(&rest[..after_prefix], b"r" | b"br" | b"cr") {
        return None;
    }
    let hashes = rest[after_prefix..].iter().take_while(|&&byte| byte == b'#').count();
    let body = after_prefix + hashes;
    if rest.get(body) != Some(&b'"') {
        return None;
    }
    let mut closing = vec![b'"'];
    closing.resize(1 + hashes, b'#');
    let found = rest[body + 1..].windows(closing.len()).position(|window| window == closing);
    Some(found.map_or(rest.len(), |length| body + 1 + length + closing.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        let source = Source::new(text);
        assert_eq!((source.code.len(), source.comments.len()), (text.len(), text.len()));
        source.code.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_are_not_code() {
        assert_eq!(code("a // b\nc /* d /* e */ f */ g"), "a c g");
        assert_eq!(Source::new("a // b").comments, "  // b");
    }

    #[test]
    fn literals_are_not_code() {
        assert_eq!(code(r#"a "b \" // c" d"#), "a d");
        assert_eq!(code(r##"a r#"b " c"# d br"e" f"##), "a d f");
        assert_eq!(code(r"a 'b' '\'' '\u{1f}' 'é' c"), "a c");
    }

    #[test]
    fn lifetimes_and_raw_identifiers_are_code() {
        assert_eq!(code("fn f<'a>(x: &'a str, r#type: bar)"), "fn f<'a>(x: &'a str, r#type: bar)");
    }

    #[test]
    fn lines_stay_where_they_are() {
        let source = Source::new("a /* b\nc */ d \"e\nf\" g");
        assert_eq!(source.code.lines().count(), 3);
        assert_eq!(source.code.lines().nth(2), Some("   g"));
    }
}
