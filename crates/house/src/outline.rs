//! Finds the definitions of a source and the lines that are tests.
//!
//! It works on [`Source::code`](crate::source::Source), in which every brace is a brace of the code. A body
//! ends where its braces balance.

use crate::source::is_word;
use std::ops::Range;

/// A definition and the offset of its keyword.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition<'a> {
    /// The keyword: `fn`, `mod`, `struct` and so on.
    pub keyword: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Byte offset of the keyword.
    pub at: usize,
}

/// A test module: its bytes, and its name if its text is in another file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestItem<'a> {
    /// From the attribute to the item's end.
    pub span: Range<usize>,
    /// The name in `mod name;`.
    pub elsewhere: Option<&'a str>,
}

/// Every identifier with its byte offset.
pub fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let bytes = code.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let begin = at + bytes[at..].iter().position(|&byte| is_word(byte))?;
        let length = bytes[begin..].iter().position(|&byte| !is_word(byte)).unwrap_or(bytes.len() - begin);
        at = begin + length;
        Some((begin, &code[begin..at]))
    })
}

/// Finds every definition: a keyword and the name after it.
pub fn definitions(code: &str) -> Vec<Definition<'_>> {
    const KEYWORDS: [&str; 7] = ["fn", "mod", "struct", "enum", "union", "trait", "type"];
    let mut found = Vec::new();
    let mut before: Option<(usize, &str)> = None;
    for (at, word) in words(code) {
        if let Some((keyword_at, keyword)) = before
            && KEYWORDS.contains(&keyword)
            && code[keyword_at + keyword.len()..at].bytes().all(|byte| byte.is_ascii_whitespace())
        {
            found.push(Definition { keyword, name: word, at: keyword_at });
        }
        before = Some((at, word));
    }
    found
}

/// Returns the end of the item whose head begins at `from`: the end of its body, or of its semicolon.
pub fn item_end(code: &str, from: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 && byte == b'}' {
                    return offset + 1;
                }
            }
            b';' if depth == 0 => return offset + 1,
            _ => {}
        }
    }
    code.len()
}

/// Returns the bytes of every `impl Trait for Type`.
///
/// The trait, which may be of another crate, gives the names in such a block.
pub fn trait_impls(code: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for (at, _) in words(code).filter(|(_, word)| *word == "impl") {
        let head = code[at..].split(['{', ';']).next().unwrap_or_default();
        let for_type = |(offset, word): (usize, &str)| {
            word == "for" && !head[offset + word.len()..].trim_start().starts_with('<')
        };
        if words(head).any(for_type) {
            found.push(at..item_end(code, at));
        }
    }
    found
}

/// Items compiled for tests only.
pub fn test_items(code: &str) -> Vec<TestItem<'_>> {
    let mut found: Vec<TestItem<'_>> = Vec::new();
    for (at, _) in code.match_indices("#[cfg(") {
        if found.last().is_some_and(|item| item.span.contains(&at)) {
            continue;
        }
        let attribute_end = bracket_end(code, at + 1);
        let attribute = &code[at..attribute_end];
        let asks_for_test = words(attribute).any(|(offset, word)| {
            word == "test"
                && !attribute[..offset].ends_with("not(")
                && !attribute[offset..].starts_with("test =")
        });
        if !asks_for_test {
            continue;
        }
        let head = skip_attributes(code, attribute_end);
        let end = item_end(code, head);
        let elsewhere = definitions(&code[head..end])
            .first()
            .filter(|definition| definition.keyword == "mod" && code[..end].ends_with(';'))
            .map(|definition| definition.name);
        found.push(TestItem { span: at..end, elsewhere });
    }
    found
}

/// Returns the offset after the `]` that matches the `[` at `from`.
fn bracket_end(code: &str, from: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in code.bytes().enumerate().skip(from) {
        match byte {
            b'[' => depth += 1,
            b']' if depth == 1 => return offset + 1,
            b']' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

fn skip_attributes(code: &str, from: usize) -> usize {
    let mut at = from;
    loop {
        at = code.len() - code[at..].trim_start().len();
        if !code[at..].starts_with("#[") {
            return at;
        }
        at = bracket_end(code, at + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_keyword_and_name() {
        let code = "pub mod a; struct B { c: fn(u8) } impl B { pub fn d<'x>(&'x self) {} } type E = u8;";
        let named: Vec<_> =
            definitions(code).iter().map(|found| format!("{} {}", found.keyword, found.name)).collect();
        assert_eq!(named, ["mod a", "struct B", "fn d", "type E"]);
    }

    #[test]
    fn an_item_ends_with_its_body_or_its_semicolon() {
        let code = "fn f(x: [u8; 2]) -> S { if y { z() } } fn g();";
        assert_eq!(&code[..item_end(code, 0)], "fn f(x: [u8; 2]) -> S { if y { z() } }");
        assert_eq!(item_end(code, 39), code.len());
    }

    #[test]
    fn trait_impl_differs_from_other_uses_of_impl_and_for() {
        let code = "impl A { fn b(c: impl for<'d> Fn(&'d u8)) {} }\nimpl<T> E for F<T> { fn g() {} }";
        let found = trait_impls(code);
        assert_eq!(found.len(), 1);
        assert!(code[found[0].clone()].starts_with("impl<T> E for F<T>"));
    }

    #[test]
    fn test_items_are_found_whole() {
        let code =
            "fn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests { fn b() {} }\nfn c() {}\n#[cfg(test)] mod d;";
        let items = test_items(code);
        assert!(code[items[0].span.clone()].ends_with("mod tests { fn b() {} }"));
        assert_eq!((items[0].elsewhere, items[1].elsewhere), (None, Some("d")));
    }

    #[test]
    fn items_compiled_without_tests_are_not_tests() {
        assert!(test_items("#[cfg(not(test))] fn a() {} #[cfg(unix)] fn test() {}").is_empty());
        assert_eq!(test_items("#[cfg(all(test, unix))] fn a() {}").len(), 1);
    }
}
