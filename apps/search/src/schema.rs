//! The fields of a document, and how its title is found.
//!
//! A document is a file: its *path* below the folder, its *title*, its *body*. All three are searched and
//! stored, cut into [words](crate::tokens).

use crate::limits::{TITLE_CHARS_MAX, TITLE_LINES_MAX};
use crate::tokens;
use tantivy::TantivyDocument;
use tantivy::schema::{Field, IndexRecordOption, Schema, TextFieldIndexing, TextOptions};

/// Increase this whenever indexes written before cannot be used any more: if the fields, the
/// definition of a title, the assignment of paths to partitions, or the index library's format changes. Words have a version
/// of their own ([`tokens::version`]).
pub(crate) const SCHEMA_VERSION: u32 = 4;

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
    let words = TextFieldIndexing::default()
        .set_tokenizer(tokens::NAME)
        .set_index_option(IndexRecordOption::WithFreqsAndPositions);
    let text = TextOptions::default().set_indexing_options(words).set_stored();
    let fields = Fields {
        path: builder.add_text_field("path", text.clone()),
        title: builder.add_text_field("title", text.clone()),
        body: builder.add_text_field("body", text),
    };
    (builder.build(), fields)
}

/// A file's title: Markdown's first heading, the title element of HTML, or the first comment of source code that says
/// something; for other texts the first meaningful line. Notices of licences say nothing here. Else the file's name.
fn title_of(path: &str, body: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or(path);
    let lines = || body.lines().take(TITLE_LINES_MAX);
    let says_something = |title: &&str| !title.is_empty() && !is_notice(title);
    let ending = name.rsplit_once('.').map_or_else(String::new, |(_, ending)| ending.to_ascii_lowercase());
    let title = match ending.as_str() {
        "html" | "htm" | "xhtml" => {
            let title = title_element(body).filter(|title| !title.is_empty());
            return title.unwrap_or_else(|| name.to_owned()).chars().take(TITLE_CHARS_MAX).collect();
        }
        "md" | "markdown" | "mdx" => {
            let heading = lines().filter(|line| is_heading(line)).map(bare).find(|title| !title.is_empty());
            heading.or_else(|| lines().map(bare).find(says_something))
        }
        ending if CODE.contains(&ending) => lines().filter_map(comment).map(bare).find(says_something),
        _ => lines().map(bare).find(says_something),
    };
    title.unwrap_or(name).chars().take(TITLE_CHARS_MAX).collect()
}

/// Endings of the names of source code.
const CODE: [&str; 24] = [
    "bash", "c", "cc", "cpp", "css", "go", "h", "hpp", "java", "js", "jsx", "lua", "mjs", "proto", "py",
    "rb", "rs", "sh", "swift", "toml", "ts", "tsx", "yaml", "yml",
];

/// The text of a line that is a comment, or that begins a text in three quotes.
fn comment(line: &str) -> Option<&str> {
    const MARKS: [&str; 8] = ["//!", "///", "//", "/*", "* ", "# ", "-- ", "\"\"\""];
    let line = line.trim_start();
    MARKS.iter().find_map(|mark| line.strip_prefix(mark))
}

/// True for a line about the owner or the licence of the text.
fn is_notice(title: &str) -> bool {
    const BEGINNINGS: [&str; 11] = [
        "copyright",
        "c) ",
        "spdx-",
        "licensed",
        "license",
        "licence",
        "permission is",
        "this file is",
        "all rights",
        "redistribution",
        "distributed under",
    ];
    let lower = title.to_ascii_lowercase();
    let is_about_a_licence = BEGINNINGS.iter().any(|beginning| lower.starts_with(beginning));
    is_about_a_licence || lower.contains("licensed under") || lower.contains("all rights reserved")
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

/// The line from its first letter, digit or backtick on, without the end of a comment or the start of a block.
fn bare(line: &str) -> &str {
    let begin = line.find(|c: char| c.is_alphanumeric() || c == '`').unwrap_or(line.len());
    line[begin..].trim_end_matches(['*', '/', '#', '-', '=', '>', '[', ']', '{', ';', ' ', '\t', '\r'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_is_heading_or_first_meaningful_line_or_file_name() {
        assert_eq!(title_of("docs/a.md", "[badge]: x\n\n## Getting started ##\n# Later"), "Getting started");
        assert_eq!(title_of("docs/a.md", "no heading here\n#hashtag"), "no heading here");
        assert_eq!(title_of("src/lib.rs", "\n#![no_std]\n//! Trees."), "Trees.");
        assert_eq!(title_of("src/lib.rs", "use std::io;\n\n/// `Tree`s of nodes.\n"), "`Tree`s of nodes.");
        assert_eq!(title_of("src/mod.rs", "mod a;\nmod b;\n"), "mod.rs");
        assert_eq!(title_of("run.sh", "#!/bin/sh\n# Runs it.\n"), "Runs it.");
        let notices =
            "// Copyright 2020 Somebody\n// SPDX-License-Identifier: MIT\n// A queue without locks.\n";
        assert_eq!(title_of("src/queue.c", notices), "A queue without locks.");
        assert_eq!(title_of("src/lib.rs", "\n//!\n//! Trees, and waves.\n"), "Trees, and waves.");
        assert_eq!(title_of("a.c", "/* One line. */\nint main;"), "One line.");
        let html = "<!DOCTYPE html>\n<HTML><head>\n<Title id=a>Heaps\n &amp; Queues</title></head><body>x";
        assert_eq!(title_of("docs/a.html", html), "Heaps & Queues");
        assert_eq!(title_of("docs/a.htm", "<html><body>no title"), "a.htm");
        assert_eq!(title_of("src/empty.txt", " \n---\n"), "empty.txt");
        assert_eq!(title_of("x", &"é".repeat(500)).chars().count(), TITLE_CHARS_MAX);
    }
}
