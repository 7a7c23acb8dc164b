//! An experiment's section of the page: its parameters, the paper's figures beside ours, its pictures and its
//! command.

use super::Finding;
use crate::experiment::Experiment;
use std::fmt;

/// The section of one experiment. Its text is Markdown.
pub struct Section<'a> {
    /// The experiment.
    pub experiment: &'a Experiment,
    /// The findings of its points.
    pub findings: &'a [Finding],
    /// Directory of its pictures and points, relative to the page.
    pub files: &'a str,
    /// The command that computes its points, and so each of our figures.
    pub command: &'a str,
}

impl fmt::Display for Section<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { experiment, findings, files, command } = self;
        let name = experiment.name;
        writeln!(f, "### {name}\n\n{}\n", sentence(experiment.about))?;
        writeln!(f, "The paper: {}\n", sentence(experiment.paper))?;
        if !findings.is_empty() {
            writeln!(f, "| what | paper | ours | command |\n|---|---|---|---|")?;
            for Finding { what, paper, ours } in *findings {
                writeln!(f, "| {} | {} | {} | `{}` |", cell(what), cell(paper), cell(ours), cell(command))?;
            }
            writeln!(f)?;
        }
        for chart in experiment.charts {
            writeln!(f, "![{}]({files}/{}.svg)\n", chart.title.replace(['[', ']'], ""), chart.file)?;
        }
        writeln!(f, "Points: [{name}.json]({files}/{name}.json). {AGAIN}{command}`")
    }
}

/// Returns the command that the page gives for the experiment `name`, if the page has a section of it.
pub fn command_on<'page>(page: &'page str, name: &str) -> Option<&'page str> {
    let start = format!("Points: [{name}.json](");
    let line = page.lines().find(|line| line.starts_with(&start))?;
    line.rsplit_once(AGAIN)?.1.strip_suffix('`')
}

/// The text before a section's command.
const AGAIN: &str = "Again: `";

/// Returns the text with a full stop at its end.
fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// Escapes a text so that it stays within its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::super::example::{EXAMPLE, findings, points};
    use super::*;

    #[test]
    fn section_shows_both_figures_and_links_pictures_and_points() {
        let findings = findings(&points());
        let section = Section {
            experiment: &EXAMPLE,
            findings: &findings,
            files: "evaluation",
            command: "treefold sim run example",
        };
        assert_eq!(
            section.to_string(),
            "### example\n\n\
             Load from 50 to 90 % under two shapes: response time.\n\n\
             The paper: Nobody, Some Proceedings, §1: adaptive is a third faster than flat.\n\n\
             | what | paper | ours | command |\n\
             |---|---|---|---|\n\
             | fastest \\| mean | 70 ms | 60 ms | `treefold sim run example` |\n\n\
             ![Response time by load, <24 nodes> & 2 processors](evaluation/example-response.svg)\n\n\
             ![The slowest hundredth](evaluation/example-tail.svg)\n\n\
             Points: [example.json](evaluation/example.json). Again: `treefold sim run example`\n"
        );
        assert_eq!(command_on(&section.to_string(), "example"), Some("treefold sim run example"));
        assert_eq!(command_on(&section.to_string(), "exam"), None);
    }
}
