//! Checks that the documentation's links to files of this repository have a target.

use crate::Violation;
use crate::workspace::File;
use std::path::Path;

/// Applies the rule to one Markdown file below `root`.
pub fn check(root: &Path, file: &File) -> Vec<Violation> {
    let directory = root.join(&file.path).parent().map(Path::to_owned).unwrap_or_default();
    let leads_nowhere = |target: &str| {
        let path = target.split(['#', '?']).next().unwrap_or_default();
        !path.is_empty() && !directory.join(path).exists()
    };
    let broken =
        targets(&file.text).into_iter().filter(|(_, target)| is_local(target) && leads_nowhere(target));
    broken
        .map(|(line, target)| {
            Violation::at(&file.path, line, format!("the link target {target} does not exist"))
        })
        .collect()
}

fn is_local(target: &str) -> bool {
    !target.contains("://") && !target.starts_with("mailto:") && !target.starts_with('#')
}

/// Returns every link target with its line. Code, fenced or inline, contains no links.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced {
            continue;
        }
        let prose = line.split('`').step_by(2);
        found.extend(prose.flat_map(inline_targets).map(|target| (index + 1, target)));
        found.extend(reference_target(line).map(|target| (index + 1, target)));
    }
    found
}

/// Returns the targets of `[text](target "title")`.
fn inline_targets(prose: &str) -> impl Iterator<Item = &str> {
    prose.split("](").skip(1).filter_map(|rest| {
        let inside = rest.split_once(')')?.0.trim();
        inside.split_whitespace().next().map(|target| target.trim_matches(['<', '>']))
    })
}

/// Returns the target of a line `[name]: target`.
fn reference_target(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix('[')?.split_once("]:")?;
    (!name.contains('[')).then_some(())?;
    rest.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_from_prose_only() {
        let text = "[a](b.md) and `[c](d.md)` ![e](f.svg \"g\")\n```\n[h](i.md)\n```\n[j]: k.md#l\n";
        assert_eq!(targets(text), [(1, "b.md"), (1, "f.svg"), (5, "k.md#l")]);
    }

    #[test]
    fn a_link_split_by_code_is_still_a_link() {
        assert_eq!(targets("[`code`](b.md)"), [(1, "b.md")]);
    }

    #[test]
    fn only_local_links_are_checked() {
        let text = "[a](https://example.org/x) [b](#here) [c](lib.rs) [d](nowhere.md#x)\n".to_owned();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let found = check(root, &File { path: "src/page.md".to_owned(), text });
        assert_eq!(found, [Violation::at("src/page.md", 1, "the link target nowhere.md#x does not exist")]);
    }
}
