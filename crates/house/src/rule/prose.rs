//! Plain English: sentences that name their actor.
//!
//! A comment line or a line of a document that begins with one of `FIRST_WORDS` nearly always inverts its sentence and
//! hides its subject. The rule counts lines, not sentences, since a line is what a reader
//! meets first. Some phrases are refused anywhere in prose and in strings, because they have a plain form.

use crate::Violation;
use crate::workspace::{File, RustFile};

/// First words that hide the actor.
const FIRST_WORDS: [&str; 6] =
    ["What", "Who", "Whose", concat!("Who", "ever"), concat!("What", "ever"), "Those"];
/// Phrases that have a plain form. Written in halves, or this file would be the first to break its rule.
const PHRASES: [&str; 5] = [
    concat!("how-", "manieth"),
    concat!("who", "ever"),
    concat!("what", "ever"),
    concat!("is ", "had"),
    concat!("what ", "stands"),
];

/// Checks the comments and the strings of a Rust file.
pub fn check_code(file: &RustFile) -> Vec<Violation> {
    let path = &file.file.path;
    let mut found = Vec::new();
    for (index, line) in file.file.text.lines().enumerate() {
        let comment = line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']));
        if let Some(text) = comment {
            found.extend(first_word(path, index, text));
        }
        found.extend(phrase(path, index, line));
    }
    found
}

/// Checks a document. Code blocks are other people's words.
pub fn check_text(file: &File) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            found.extend(first_word(
                &file.path,
                index,
                line.trim_start_matches(['#', '-', '*', '>', '|', ' ']),
            ));
            found.extend(phrase(&file.path, index, line));
        }
    }
    found
}

fn first_word(path: &str, index: usize, text: &str) -> Option<Violation> {
    let word = text.split_whitespace().next()?.trim_end_matches([',', '.', ':', ';']);
    let rule = "a line that begins with {word} hides its actor: name the node, the caller, the packet";
    FIRST_WORDS.contains(&word).then(|| Violation::at(path, index + 1, rule.replace("{word}", word)))
}

fn phrase(path: &str, index: usize, line: &str) -> Option<Violation> {
    let line = line.to_lowercase();
    let is_word = |at: usize, phrase: &str| {
        let letter =
            |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
        let bytes = line.as_bytes();
        !letter(at.checked_sub(1).and_then(|before| bytes.get(before)))
            && !letter(bytes.get(at + phrase.len()))
    };
    let found =
        PHRASES.iter().find(|phrase| line.match_indices(**phrase).any(|(at, _)| is_word(at, phrase)))?;
    Some(Violation::at(path, index + 1, format!("\"{found}\" has a plain form: name the actor")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    fn lines(found: &[Violation]) -> Vec<usize> {
        found.iter().map(|one| one.line).collect()
    }

    #[test]
    fn comment_lines_begin_with_their_actor() {
        let text =
            "//! Why.\n/// What is sent.\nfn a() {} // the node\n    // Who asks waits.\nlet what = 1;\n";
        assert_eq!(lines(&check_code(&RustFile::new(file("a.rs", text), false))), [2, 4]);
    }

    #[test]
    fn phrases_are_refused_in_comments_strings_and_documents() {
        let phrase = PHRASES[1];
        let text = format!("//! Why.\nlet a = \"{phrase} asks\";\nlet {phrase}_asks = 1;\n");
        assert_eq!(lines(&check_code(&RustFile::new(file("a.rs", &text), false))), [2]);
        let page = format!("# Page\n\n```text\n{phrase}\n```\nIt is {phrase}'s.\n- Those of it.\n");
        assert_eq!(lines(&check_text(&file("a.md", &page))), [6, 7]);
    }
}
