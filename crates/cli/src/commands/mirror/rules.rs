//! Files of rules, and their problems as compilers show them.

use crate::exit::Failure;
use crate::text::read_text;
use annotate_snippets::{AnnotationKind, Level, Origin, Renderer, Snippet};
use treefold_mirror::Name;
use treefold_mirror::rules::file::StateOptions;
use treefold_mirror::rules::{Problem, RuleFile};

/// Most bytes of a file of rules.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A file's name, its text, and the rules or problems in it.
pub(super) struct Rules {
    pub(super) name: String,
    pub(super) text: String,
    pub(super) read: Result<RuleFile, Vec<Problem>>,
}

impl Rules {
    /// Reads a file; `-` means standard input.
    pub(super) fn read(path: &str) -> Result<Self, Failure> {
        let (name, text) = read_text(path, FILE_BYTES_MAX)?;
        let read = RuleFile::read(&text);
        Ok(Self { name, text, read })
    }

    /// The rules, for a command that needs valid ones.
    pub(super) fn valid(self) -> Result<RuleFile, Failure> {
        self.read.map_err(|problems| {
            let (line, column) = problems[0].place(&self.text);
            let first = &problems[0].message;
            let name = &self.name;
            Failure::failed(format!(
                "{name}:{line}:{column}: {first}; `treefold mirror check` shows the line"
            ))
        })
    }
}

/// Says that a mirror's state has its options from the mirror's node, if the rules give some.
pub(super) fn warn_of_state(rules: &RuleFile) {
    let StateOptions { deletes, retention_ms } = &rules.state;
    if deletes.is_empty() && retention_ms.is_none() {
        return;
    }
    let mut wanted = String::new();
    if !deletes.is_empty() {
        let types: Vec<&str> = deletes.iter().map(Name::as_str).collect();
        wanted.push_str(&format!(":deletes={}", types.join(",")));
    }
    if let Some(ms) = retention_ms {
        wanted.push_str(&format!(":retention={ms}ms"));
    }
    crate::tell!(
        "treefold: [state] has no effect on mirrors that run: start each with `--serve mirror=…{wanted}`"
    );
}

/// Shows each problem with its line and a mark below the place.
pub(super) fn excerpts(problems: &[Problem], text: &str, name: &str, columns: usize) -> String {
    let renderer = Renderer::plain().term_width(columns);
    let shown = problems.iter().map(|problem| {
        let titled = Level::ERROR.primary_title(problem.message.as_str());
        if problem.span.is_empty() {
            return renderer.render(&[titled.element(Origin::path(name))]);
        }
        let wrong = AnnotationKind::Primary.span(problem.span.clone());
        let mut snippet = Snippet::source(text).path(name).annotation(wrong);
        if let Some((related, relation)) = &problem.beside {
            snippet =
                snippet.annotation(AnnotationKind::Context.span(related.clone()).label(relation.as_str()));
        }
        renderer.render(&[titled.element(snippet)])
    });
    shown.collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problem_is_shown_with_its_line_and_the_related_one() {
        let text = "[[rule]]\nname = \"drop\"\ndiscard = { type = \"pos\" }\n\n[[rule]]\nname = \"run\"\noverwrite = { type = \"pos\", run = 20 }\n";
        let problems = RuleFile::read(text).unwrap_err();
        assert_eq!(problems[0].place(text), (6, 8));
        assert_eq!(
            excerpts(&problems, text, "rules.toml", 100),
            "error: rule `run`: it never applies: `drop` discards all of its `pos` events\n \
             --> rules.toml:6:8\n  |\n\
             2 | name = \"drop\"\n  |        ------ discarded here\n...\n\
             6 | name = \"run\"\n  |        ^^^^^"
        );
    }

    #[test]
    fn problem_of_the_whole_file_names_the_file() {
        let problems = RuleFile::read("[checkpoint]\nevery_events = 0\n").unwrap_err();
        let shown = excerpts(&problems, "", "rules.toml", 100);
        assert!(shown.ends_with("--> rules.toml"), "{shown}");
    }
}
