//! An experiment's part of the page: what it varies, the paper's figures beside ours, its pictures, its command.

use super::Finding;
use crate::experiment::Experiment;
use std::fmt;

/// What is shown of one experiment; its text is Markdown.
pub struct Section<'a> {
    /// What was run.
    pub experiment: &'a Experiment,
    /// What its points say.
    pub findings: &'a [Finding],
    /// Where its pictures and points are, seen from the page.
    pub files: &'a str,
    /// The command that gives its points, and so each of our figures.
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

/// The command that a page says gives the points of the experiment called `name`, if it has a section of it.
pub fn command_on<'page>(page: &'page str, name: &str) -> Option<&'page str> {
    let start = format!("Points: [{name}.json](");
    let line = page.lines().find(|line| line.starts_with(&start))?;
    line.rsplit_once(AGAIN)?.1.strip_suffix('`')
}

/// Before a section's command.
const AGAIN: &str = "Again: `";

/// The text with a full stop at its end.
fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

/// A text that stays within its cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::super::example::{EXAMPLE, findings, points};
    use super::*;

    #[test]
    fn a_section_has_the_paper_beside_ours_and_leads_to_pictures_and_points() {
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
