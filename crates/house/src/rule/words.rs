//! Rejects words that must not be in a file: panics without a reason, unfinished work, paths of one machine,
//! and hosts of package registries.

use crate::Violation;
use crate::outline::words;
use crate::source::is_word;
use crate::workspace::{File, RustFile};

/// Marks of unfinished work. They are split here because this file would otherwise break its own rule.
const UNFINISHED: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX"), concat!("HA", "CK")];
/// Directories of one person's files.
const HOMES: [&str; 5] = [
    concat!("/ro", "ot"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("/tm", "p/w"),
    concat!("/wo", "rk/"),
];
/// Hosts of package registries. A mirror or a private registry must work as well.
const REGISTRIES: [&str; 6] = [
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("registry.npm", "js.org"),
    concat!("proxy.go", "lang.org"),
    concat!("npm", "js.com"),
];

/// Finds panics and unfinished work in code.
pub fn check_code(file: &RustFile) -> Vec<Violation> {
    let code = &file.source.code;
    let mut found = Vec::new();
    for (at, word) in words(code) {
        let (before, after) = (&code[..at], &code[at + word.len()..]);
        let rule = match word {
            "unwrap" if !file.is_test_at(at) && before.ends_with(['.', ':']) => {
                "use `expect` with the invariant that makes it safe; unwrap is for tests only".to_owned()
            }
            "todo" | "unimplemented" if after.starts_with('!') => format!("{word}! is unfinished work"),
            _ => continue,
        };
        found.push(Violation::at(&file.file.path, file.line(at), rule));
    }
    found.extend(unfinished(&file.file.path, &file.source.comments));
    found
}

/// Finds unfinished work, paths and hosts in any text.
pub fn check_text(file: &File) -> Vec<Violation> {
    let mut found = Vec::new();
    // In Rust only comments count, because a lexer may name these words in a string.
    if file.ending() != "rs" {
        found.extend(unfinished(&file.path, &file.text));
    }
    for (index, line) in file.text.lines().enumerate() {
        if let Some(home) = HOMES.iter().find(|home| names_home(line, home)) {
            let rule = format!("{home} is a path of one machine");
            found.push(Violation::at(&file.path, index + 1, rule));
        }
        if let Some(host) = REGISTRIES.iter().find(|host| line.contains(**host)) {
            let rule = format!("{host} is one package registry of many: name the package, not the host");
            found.push(Violation::at(&file.path, index + 1, rule));
        }
    }
    found
}

fn unfinished(path: &str, text: &str) -> Vec<Violation> {
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some((_, word)) = words(line).find(|(_, word)| UNFINISHED.contains(word)) {
            found.push(Violation::at(path, index + 1, format!("{word} is unfinished work")));
        }
    }
    found
}

/// Tells whether a line names this directory as the beginning of a path, and not as a part of another path.
fn names_home(line: &str, home: &str) -> bool {
    line.match_indices(home).any(|(at, _)| {
        let continues = |byte: &u8| is_word(*byte) || b"./}*-)>".contains(byte);
        let longer_word = |byte: &u8| !home.ends_with('/') && (is_word(*byte) || *byte == b'-');
        !line.as_bytes()[..at].last().is_some_and(continues)
            && !line.as_bytes()[at + home.len()..].first().is_some_and(longer_word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn unwrap_is_allowed_in_tests_only() {
        let text =
            "fn a() { b.unwrap(); c.unwrap_or(d); }\n#[cfg(test)]\nmod tests { fn e() { f.unwrap(); } }\n";
        let found = check_code(&RustFile::new(file("a.rs", text), false));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 1);
        assert!(check_code(&RustFile::new(file("a.rs", text), true)).is_empty());
    }

    #[test]
    fn unfinished_work_is_found_in_code_comments_and_prose() {
        let word = UNFINISHED[0];
        let source = format!("// {word}: more\nlet x = \"{word}\"; todo!()\n");
        let found = check_code(&RustFile::new(file("a.rs", &source), false));
        assert_eq!(found.iter().map(|one| one.line).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(check_text(&file("a.md", &format!("a\n{word}\n")))[0].line, 2);
    }

    #[test]
    fn a_home_directory_is_found_at_the_beginning_of_a_path_only() {
        let [root, home, ..] = HOMES;
        assert_eq!(check_text(&file("a.md", &format!("see `{root}/x` and {home}me"))).len(), 1);
        for fine in ["$HOME/rooted", "tree/root", "the /rooted tree", "apps/home/x"] {
            assert!(check_text(&file("a.md", fine)).is_empty(), "{fine}");
        }
    }

    #[test]
    fn hosts_of_package_registries_are_violations() {
        assert_eq!(check_text(&file("a.toml", &format!("url = \"https://{}/\"", REGISTRIES[0]))).len(), 1);
    }
}
