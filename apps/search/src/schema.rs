//! The fields of a document, and how its title is found.
//!
//! A document is a file: its *path* below the folder, its *title*, its *body*. All three are searched and
//! stored. Words are runs of letters and digits in lower case, at most 40 bytes long (tantivy's `default`
//! tokenizer): `snake_case` and `std::io` are two words each, `camelCase` is one. This works for source
//! code and prose without knowing their languages. It does not split text that is written without spaces.

use crate::limits::{TITLE_CHARS_MAX, TITLE_LINES_MAX};
use tantivy::TantivyDocument;
use tantivy::schema::{Field, STORED, Schema, TEXT};

/// Increase this whenever indexes written before cannot be used any more: if the fields, the tokenizer, the
/// definition of a title, the assignment of paths to partitions, or the index library's format changes.
pub(crate) const SCHEMA_VERSION: u32 = 2;

/// Weight of a match in the title, which says more about its document than any one line of the body.
pub(crate) const TITLE_BOOST: f32 = 2.0;

/// The handles of the three fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    pub(crate) path: Field,
    pub(crate) title: Field,
    pub(crate) body: Field,
}

impl Fields {
    /// The fields, in the order in which their scores are added.
    pub(crate) fn all(self) -> [Field; 3] {
        [self.title, self.path, self.body]
    }

    /// The document for a file.
    pub(crate) fn document(self, path: &str, body: &str) -> TantivyDocument {
        let mut document = TantivyDocument::default();
        document.add_text(self.path, path);
        document.add_text(self.title, title_of(path, body));
        document.add_text(self.body, body);
        document
    }
}

pub(crate) fn schema() -> (Schema, Fields) {
    let mut builder = Schema::builder();
    let fields = Fields {
        path: builder.add_text_field("path", TEXT | STORED),
        title: builder.add_text_field("title", TEXT | STORED),
        body: builder.add_text_field("body", TEXT | STORED),
    };
    (builder.build(), fields)
}

/// A file's title: Markdown's first heading, or the title element of HTML; else the first meaningful line without its
/// comment marks, else the file's name.
fn title_of(path: &str, body: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ends_with = |endings: &[&str]| {
        let name = name.to_ascii_lowercase();
        endings.iter().any(|ending| name.ends_with(ending))
    };
    if ends_with(&[".html", ".htm", ".xhtml"]) {
        let title = title_element(body).filter(|title| !title.is_empty());
        return title.unwrap_or_else(|| name.to_owned()).chars().take(TITLE_CHARS_MAX).collect();
    }
    let is_markdown = ends_with(&[".md", ".markdown", ".mdx"]);
    let lines = || body.lines().take(TITLE_LINES_MAX);
    let heading =
        lines().filter(|_| is_markdown).filter(|line| is_heading(line)).map(bare).find(|t| !t.is_empty());
    let first = || lines().map(bare).find(|title| !title.is_empty());
    let title = heading.or_else(first).unwrap_or(name);
    title.chars().take(TITLE_CHARS_MAX).collect()
}

/// The text of the first title element, with single spaces and without character references.
fn title_element(body: &str) -> Option<String> {
    let head: String = body.lines().take(TITLE_LINES_MAX).flat_map(|line| [line, " "]).collect();
    // Lower case of ASCII keeps the places of all characters.
    let lower = head.to_ascii_lowercase();
    let tag = lower.find("<title")?;
    let begin = tag + lower[tag..].find('>')? + 1;
    let end = begin + lower[begin..].find('<')?;
    let text = head[begin..end].split_whitespace().collect::<Vec<_>>().join(" ");
    let references =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", " "), ("&amp;", "&")];
    Some(references.iter().fold(text, |text, (reference, character)| text.replace(reference, character)))
}

fn is_heading(line: &str) -> bool {
    let rest = line.trim_start_matches('#');
    (1..=6).contains(&(line.len() - rest.len())) && rest.starts_with(' ')
}

/// The line from its first letter or digit on, without the end of a comment or the start of a block.
fn bare(line: &str) -> &str {
    let begin = line.find(char::is_alphanumeric).unwrap_or(line.len());
    line[begin..].trim_end_matches(['*', '/', '#', '-', '=', '>', '[', ']', '{', ';', ' ', '\t', '\r'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_is_heading_or_first_meaningful_line_or_file_name() {
        assert_eq!(title_of("docs/a.md", "[badge]: x\n\n## Getting started ##\n# Later"), "Getting started");
        assert_eq!(title_of("docs/a.md", "no heading here\n#hashtag"), "no heading here");
        assert_eq!(title_of("src/lib.rs", "\n#![no_std]\n//! Trees."), "no_std");
        assert_eq!(title_of("src/lib.rs", "\n//!\n//! Trees, and waves.\n"), "Trees, and waves.");
        assert_eq!(title_of("a.c", "/* One line. */\nint main;"), "One line.");
        let html = "<!DOCTYPE html>\n<HTML><head>\n<Title id=a>Heaps\n &amp; Queues</title></head><body>x";
        assert_eq!(title_of("docs/a.html", html), "Heaps & Queues");
        assert_eq!(title_of("docs/a.htm", "<html><body>no title"), "a.htm");
        assert_eq!(title_of("src/empty.txt", " \n---\n"), "empty.txt");
        assert_eq!(title_of("x", &"é".repeat(500)).chars().count(), TITLE_CHARS_MAX);
    }
}
