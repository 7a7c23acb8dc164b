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

/// The text before all sections: how figures, intervals and comparisons come about.
pub const RULES: &str = "\
### Seeds and intervals

These rules hold for every figure from here to the end of this part:

- **A figure is the mean over ten seeds**, and the brackets hold its 95 % interval: the percentile bootstrap over the ten
  seeds' figures (`crates/figures/src/interval.rs`). With ten values this interval is somewhat too narrow: its own test
  requires that it covers the true mean in 87 to 97 of 100 cases. In the JSON, `NAME_low` and `NAME_high` are the ends of
  `NAME`. A figure without an interval is the same with every seed, such as the price of a network; more runs would not
  change it. The pictures draw intervals as thin vertical lines.
- **Compared series are paired.** One seed gives every series the same arrivals and the same work for the same call. A
  change is computed for each seed; its mean and its interval are those of the ten changes.
- **\"Not decided\"** follows a change whose interval includes zero. The order of the two series then depends on the seed,
  and is no finding.
- **\"At 65/s\"** stands before a figure that holds at that rate only. If a row names the rate with the largest gain, then
  that rate was chosen after the runs, and the row is the best case; the rows for each rate have the others.
- Seeds without a figure, for instance when no call was answered, are left out of its mean.
- The text of each experiment gives the length of its runs. Intervals include the variation between runs of this length,
  but not the assumptions of the model.
";

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
