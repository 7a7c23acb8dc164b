//! Finds structs with their fields, and `impl` blocks with their methods.
//!
//! The size of a type matters more than the size of a file: a reader must understand a struct with 45 fields
//! as a whole, even in a small file. This module works on the code of a [`Source`](crate::source::Source),
//! like [`outline`](crate::outline).

use crate::outline::{definitions, item_end, words};
use crate::workspace::RustFile;
use std::ops::Range;

/// A struct outside tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Struct<'a> {
    /// Its name.
    pub name: &'a str,
    /// Byte offset of the keyword.
    pub at: usize,
    /// Named or numbered fields. If a macro of the same file writes the struct, the entries of the macro's
    /// calls.
    pub fields: usize,
    /// Its doc comment, without the slashes.
    pub docs: String,
}

/// An `impl` block, with or without a trait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impl<'a> {
    /// Path of the type, without its parameters: `Node` in `impl<P: Payload> Node<P>`.
    pub of: &'a str,
    /// Whether the block implements a trait.
    pub has_trait: bool,
    /// From the keyword to the closing brace.
    pub span: Range<usize>,
    /// Functions of the block. Functions inside functions do not count.
    pub methods: usize,
}

/// Finds the structs of a file; tests are left out.
pub fn structs(file: &RustFile) -> Vec<Struct<'_>> {
    let code = file.source.code.as_str();
    let defined = definitions(code).into_iter().filter(|found| found.keyword == "struct");
    defined
        .filter(|found| !file.is_test_at(found.at))
        .map(|found| {
            let name_end = found.at + code[found.at..].find(found.name).unwrap_or(0) + found.name.len();
            let body = struct_body(code, name_end);
            let fields = match macro_around(code, found.at) {
                Some(name) if code[body.clone()].contains("$(") => macro_entries(code, name),
                _ => entries(&code[body]),
            };
            Struct { name: found.name, at: found.at, fields, docs: docs_before(file, found.at) }
        })
        .collect()
}

/// Finds the `impl` blocks of a code. `impl Trait` in a type is not a block.
pub fn impls(code: &str) -> Vec<Impl<'_>> {
    let mut found = Vec::new();
    for (at, _) in words(code).filter(|&(at, word)| word == "impl" && begins_item(code, at)) {
        let Some(open) = code[at..].find('{').map(|offset| at + offset) else { continue };
        let end = item_end(code, at);
        let head = at + "impl".len()..open;
        let (of, has_trait) = type_path(&code[skip_parameters(code, head.start)..head.end]);
        found.push(Impl { of, has_trait, span: at..end, methods: functions_of(&code[open..end]) });
    }
    found
}

/// Splits a comma-separated list and trims each part. Commas inside brackets of any kind do not separate.
pub fn split_list(list: &str) -> Vec<&str> {
    let bytes = list.as_bytes();
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_usize, 0);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            // The `>` of `->` and `=>` closes no bracket.
            b'>' if at > 0 && matches!(bytes[at - 1], b'-' | b'=') => {}
            b')' | b']' | b'}' | b'>' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(list[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(list[from..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

fn entries(list: &str) -> usize {
    split_list(list).len()
}

/// Returns the text between the brackets of a struct whose name ends at `from`; empty for a struct without
/// fields.
fn struct_body(code: &str, from: usize) -> Range<usize> {
    let from = skip_parameters(code, from);
    let is_bounded = code[from..].trim_start().starts_with("where");
    let opens = |byte: char| byte == '{' || byte == ';' || (byte == '(' && !is_bounded);
    match code[from..].find(opens).map(|offset| from + offset) {
        Some(open) if !code[open..].starts_with(';') => open + 1..bracket_end(code, open),
        _ => from..from,
    }
}

/// Returns the offset of the bracket that closes the bracket at `open`.
fn bracket_end(code: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth == 1 => return at,
            b')' | b']' | b'}' => depth -= 1,
            _ => {}
        }
    }
    code.len()
}

/// Returns the offset after `<…>`, if it begins at `from`.
fn skip_parameters(code: &str, from: usize) -> usize {
    let bytes = code.as_bytes();
    let begin = code.len() - code[from..].trim_start().len();
    if bytes.get(begin) != Some(&b'<') {
        return begin;
    }
    let mut depth = 0_usize;
    for at in begin..bytes.len() {
        match bytes[at] {
            b'<' => depth += 1,
            b'>' if bytes[at - 1] != b'-' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    bytes.len()
}

/// Returns the name of the macro whose definition contains the byte at `at`.
fn macro_around(code: &str, at: usize) -> Option<&str> {
    let begin = code[..at].rfind("macro_rules!")?;
    let (_, name) = words(&code[begin + "macro_rules!".len()..]).next()?;
    (item_end(code, begin) > at).then_some(name)
}

/// Counts the entries of all calls of a macro in the file that defines it.
fn macro_entries(code: &str, name: &str) -> usize {
    let calls = words(code).filter(|(at, word)| *word == name && code[at + word.len()..].starts_with('!'));
    calls
        .filter_map(|(at, _)| code[at..].find(['{', '(', '[']).map(|offset| at + offset))
        .map(|open| entries(&code[open + 1..bracket_end(code, open)]))
        .sum()
}

/// Returns the doc comment above the item whose keyword is at `at`, also if attributes are between them.
fn docs_before(file: &RustFile, at: usize) -> String {
    let begin = file.source.code[..at].rfind([';', '{', '}']).map_or(0, |end| end + 1);
    let lines = file.source.comments[begin..at].lines().map(str::trim);
    let docs: Vec<&str> = lines.filter_map(|line| line.strip_prefix("///")).map(str::trim).collect();
    docs.join("\n")
}

/// Tells whether a keyword at `at` can begin an item: the text before it ends an item or is `unsafe`.
fn begins_item(code: &str, at: usize) -> bool {
    let before = code[..at].trim_end();
    before.is_empty() || before.ends_with(['}', ';', ']', '{']) || before.ends_with("unsafe")
}

/// Returns the type in the head of an `impl` block, without parameters, and whether the head names a trait.
fn type_path(head: &str) -> (&str, bool) {
    let is_for = |&(at, word): &(usize, &str)| word == "for" && !head[at + 3..].trim_start().starts_with('<');
    let after_for = words(head).find(is_for).map(|(at, _)| &head[at + 3..]);
    let of = after_for.unwrap_or(head).trim_start().trim_start_matches('&').trim_start();
    let of = of.strip_prefix("mut ").or_else(|| of.strip_prefix("dyn ")).unwrap_or(of);
    let end = of.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_' && letter != ':');
    (&of[..end.unwrap_or(of.len())], after_for.is_some())
}

/// Counts the functions directly in a block. `block` includes its braces.
fn functions_of(block: &str) -> usize {
    let (mut depth, mut from, mut count) = (0_usize, 0, 0);
    for definition in definitions(block).iter().filter(|found| found.keyword == "fn") {
        for byte in block[from..definition.at].bytes() {
            match byte {
                b'{' => depth += 1,
                b'}' => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        from = definition.at;
        count += usize::from(depth == 1);
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::File;

    fn file(text: &str) -> RustFile {
        RustFile::new(File { path: "a.rs".to_owned(), text: text.to_owned() }, false)
    }

    fn fields(text: &str) -> Vec<(String, usize)> {
        structs(&file(text)).iter().map(|found| (found.name.to_owned(), found.fields)).collect()
    }

    #[test]
    fn commas_inside_field_types_do_not_count_as_fields() {
        let text = "struct A<T: Fn(u8) -> u8> { a: BTreeMap<u8, Vec<(u8, u8)>>, #[x(y, z)] b: fn(u8, u8) -> T, }\n\
                    struct B(u8, [u8; 2]);\nstruct C;\nstruct D<T> where T: Fn(u8, u8) { pub(crate) a: T }\nstruct E {}";
        let counted = [("A", 2), ("B", 2), ("C", 0), ("D", 1), ("E", 0)];
        assert_eq!(fields(text), counted.map(|(name, count)| (name.to_owned(), count)));
    }

    #[test]
    fn fields_of_a_macro_struct_are_the_entries_of_macro_calls() {
        let text = "macro_rules! table { ($($name:ident,)*) => { struct A { $($name: u64,)* } }; }\n\
                    table! { a, /* b, */ c, }\nstruct B { d: u8 }";
        assert_eq!(fields(text), [("A".to_owned(), 2), ("B".to_owned(), 1)]);
    }

    #[test]
    fn structs_of_tests_are_left_out() {
        assert!(fields("#[cfg(test)]\nmod tests { struct A { b: u8 } }").is_empty());
    }

    #[test]
    fn docs_are_found_above_attributes() {
        let text = "//! Essay.\n/// One.\n///\n/// Two.\n#[derive(Debug)]\npub(crate) struct A { /// Field.\n b: u8 }\nstruct B;";
        let docs: Vec<String> = structs(&file(text)).into_iter().map(|found| found.docs).collect();
        assert_eq!(docs, ["One.\n\nTwo.", ""]);
    }

    #[test]
    fn impl_block_has_its_type_and_method_count() {
        let code = "impl<P: Into<u8>> super::Node<P> where P: X { fn a(b: impl Fn()) { fn c() {} } pub fn d() {} }\n\
                    impl<T> Iterator for Rows<'_, T> { fn next() {} }\nfn e() -> impl F { }\nunsafe impl G for &mut H {}";
        let found: Vec<_> =
            impls(code).into_iter().map(|block| (block.of, block.has_trait, block.methods)).collect();
        assert_eq!(found, [("super::Node", false, 2), ("Rows", true, 1), ("H", true, 0)]);
    }
}
