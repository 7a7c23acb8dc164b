//! The shape of a file: its size, its essay, and advice about long functions.
//!
//! Small pieces can be read as a whole. The limits are those of the design (§3.2). Split a file that reaches
//! its limit.

use crate::Violation;
use crate::outline::{definitions, item_end};
use crate::workspace::RustFile;

/// Most lines of a file; its tests do not count.
pub const FILE_LINES_MAX: usize = 700;
/// Most lines of tests beside the code. More tests belong in `tests.rs` below it.
pub const TESTS_BESIDE_LINES_MAX: usize = 200;
/// Lines of a function, from its first to its closing brace, above which the house gives advice.
pub const FUNCTION_LINES_ADVISED: usize = 70;

/// Applies the rules of this file.
pub fn check(file: &RustFile) -> Vec<Violation> {
    let mut found = Vec::new();
    let path = &file.file.path;
    let first = file.file.text.lines().enumerate().find(|(_, line)| !line.trim().is_empty());
    if let Some((index, _)) = first.filter(|(_, line)| !line.starts_with("//!")) {
        found.push(Violation::at(
            path,
            index + 1,
            "a file must begin with `//!` lines that say why it exists",
        ));
    }

    let beside: usize = file.tests.iter().map(|span| lines_in(file, span.start, span.end)).sum();
    let own = file.file.text.lines().count() - beside;
    if own > FILE_LINES_MAX {
        found.push(Violation::at(path, 1, format!("{own} lines; a file has at most {FILE_LINES_MAX}")));
    }
    if !file.is_test && beside > TESTS_BESIDE_LINES_MAX {
        let line = file.tests.first().map_or(1, |span| file.line(span.start));
        let rule = format!(
            "{beside} lines of tests beside the code; move them to tests.rs above {TESTS_BESIDE_LINES_MAX} lines"
        );
        found.push(Violation::at(path, line, rule));
    }

    found
}

/// Functions that are longer than most readers like, as advice. A rule would breed functions with one caller.
pub fn advise(file: &RustFile) -> Vec<Violation> {
    let code = &file.source.code;
    let functions =
        definitions(code).into_iter().filter(|one| one.keyword == "fn" && !file.is_test_at(one.at));
    let mut found = Vec::new();
    for function in functions {
        let lines = lines_in(file, function.at, item_end(code, function.at));
        if lines > FUNCTION_LINES_ADVISED {
            let advice = format!("fn {} has {lines} lines: does a part of it have a name?", function.name);
            found.push(Violation::at(&file.file.path, file.line(function.at), advice));
        }
    }
    found
}

fn lines_in(file: &RustFile, from: usize, to: usize) -> usize {
    file.line(to) - file.line(from) + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::File;

    fn violations(text: String) -> Vec<String> {
        let file = RustFile::new(File { path: "a.rs".to_owned(), text }, false);
        check(&file).iter().map(ToString::to_string).collect()
    }

    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn a_file_must_begin_with_a_module_comment() {
        assert!(violations("\n//! Why.\n".to_owned()).is_empty());
        assert_eq!(
            violations("\nuse x;\n".to_owned())[0],
            "a.rs:2: a file must begin with `//!` lines that say why it exists"
        );
    }

    #[test]
    fn long_functions_are_advised_against_and_not_refused() {
        let advice = |lines| {
            let text = format!("//! Why.\n{}", function(lines));
            assert!(violations(text.clone()).is_empty());
            let file = RustFile::new(File { path: "a.rs".to_owned(), text }, false);
            advise(&file).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(advice(70), [""; 0]);
        assert_eq!(advice(71), ["a.rs:2: fn long has 71 lines: does a part of it have a name?"]);
    }

    #[test]
    fn tests_have_a_line_limit_apart_from_the_file() {
        let tests = |lines| format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "\n".repeat(lines));
        assert!(violations(format!("//! Why.\n{}{}", "\n".repeat(690), tests(150))).is_empty());
        assert_eq!(violations(format!("//! Why.\n{}{}", "\n".repeat(710), tests(150))).len(), 1);
        assert_eq!(violations(format!("//! Why.\n{}", tests(210))).len(), 1);
        assert!(violations(format!("//! Why.\n#[cfg(test)]\nmod tests {{\n{}}}\n", function(90))).is_empty());
    }
}
