//! `treefold sim evaluate`: runs every experiment, writes its points and pictures, and writes the simulator's
//! part of the page that compares them with the papers.

use super::file::{self, Recorded};
use super::named::{NameReader, Named};
use super::plan::PlanArgs;
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use clap::Args;
use indicatif::HumanDuration;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Instant;
use treefold::CallError;
use treefold_sim::evaluation::document::splice;
use treefold_sim::evaluation::record::to_json;
use treefold_sim::evaluation::section::{RULES, Section, command_on};

/// Run every experiment, and write its points, its pictures and the simulator's part of the evaluation
///
/// For each experiment it writes its points to NAME.json and one SVG for each of its charts. Points in
/// NAME.real.json are drawn as hollow marks. The page is changed only between its lines <!-- sim:begin -->
/// and <!-- sim:end -->; if one of them is missing, no experiment is run. A full run takes about an hour on two
/// processors; after each experiment, standard error shows the time left.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Evaluate {
    /// Directory of points and pictures; must be below the page's directory, so that links stay valid if both
    /// are moved
    #[arg(long, value_name = "DIR", default_value = "docs/evaluation")]
    out: PathBuf,

    /// Page to change
    #[arg(long, value_name = "FILE", default_value = "docs/evaluation.md")]
    document: PathBuf,

    /// Experiments to run, separated by commas; the points of the others are read from their files [default:
    /// all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = NameReader, hide_possible_values = true)]
    only: Vec<Named>,

    #[command(flatten)]
    plan: PlanArgs,
}

const EXAMPLES: &str = "\
`make evaluation` does this in the repository, where the defaults fit. The written files are printed, one a
line; with -o json one line: {written: [FILE, …]}.

Examples:
  treefold sim evaluate
  treefold sim evaluate --only staged,waiting
  treefold sim evaluate --quick --out draft/evaluation --document draft/evaluation.md";

#[derive(Serialize)]
struct Written {
    written: Vec<PathBuf>,
}

/// The progress through the experiments of an evaluation.
struct Clock {
    begun: Instant,
    last: Instant,
    ended: usize,
    experiments: usize,
    /// The cost of the experiments that have ended, and of all.
    cost_s: f64,
    all_cost_s: f64,
}

impl Clock {
    fn start(all: impl Iterator<Item = Named>) -> Self {
        let costs: Vec<f64> = all.map(|named| named.0.cost_s).collect();
        let (now, experiments, all_cost_s) = (Instant::now(), costs.len(), costs.iter().sum());
        Self { begun: now, last: now, ended: 0, experiments, cost_s: 0.0, all_cost_s }
    }

    /// Returns the line of an experiment that has just ended: its time, the time so far, and the time left if the
    /// other experiments take as long in relation to their cost.
    fn ended(&mut self, named: Named) -> String {
        let (took, so_far) = (self.last.elapsed(), self.begun.elapsed());
        self.last = Instant::now();
        self.ended += 1;
        self.cost_s += named.0.cost_s;
        let left = so_far.mul_f64((self.all_cost_s / self.cost_s - 1.0).max(0.0));
        let [took, so_far, left] = [took, so_far, left].map(|time| HumanDuration(time).to_string());
        let (ended, experiments, name) = (self.ended, self.experiments, named.0.name);
        format!("{ended} of {experiments}: {name} took {took}; {so_far} so far, about {left} left")
    }
}

impl Evaluate {
    pub(crate) fn run(self, format: Format) -> Result<Verdict, Failure> {
        let files = files_seen_from(&self.document, &self.out)?;
        // Check now that everything can be written, and not after an hour of runs.
        let page = file::read(&self.document)?;
        self.spliced(&page, "")?;
        file::try_to_write(&self.document)?;
        for named in Named::all() {
            file::try_to_write(&file::points_of(&self.out, named))?;
            file::try_to_write_charts(&self.out, named)?;
        }
        let (mut written, mut sections) = (Vec::new(), Vec::new());
        let mut clock = Clock::start(Named::all().into_iter().filter(|named| self.is_run(*named)));
        for named in Named::all() {
            let kept = file::points_of(&self.out, named);
            let (points, command) = if self.is_run(named) {
                let points = self.plan.run(named);
                crate::tell!("treefold: {}", clock.ended(named));
                (points, self.plan.command(named))
            } else {
                // Only the page says how they were run.
                let said = command_on(&page, named.0.name).map(str::to_owned);
                (file::read_points(&kept)?, said.unwrap_or_else(|| PlanArgs::default().command(named)))
            };
            let findings = (named.0.findings)(&points);
            file::write(&kept, &(to_json(&points) + "\n"))?;
            let recorded = Recorded { points, real: file::read_real(&self.out, named)? };
            written.push(kept);
            written.extend(file::write_charts(&self.out, named, &recorded)?);
            let section =
                Section { experiment: named.0, findings: &findings, files: &files, command: &command };
            sections.push(section.to_string());
        }
        // Read the page again, because a user may have edited it during the runs.
        let page = file::read(&self.document)?;
        file::write(&self.document, &self.spliced(&page, &format!("{RULES}\n{}", sections.join("\n")))?)?;
        written.push(self.document);
        match format {
            Format::Json => print_json(&Written { written }),
            Format::Text => written.iter().for_each(|path| print(path.display())),
        }
        Ok(Verdict::Full)
    }

    fn is_run(&self, named: Named) -> bool {
        self.only.is_empty() || self.only.iter().any(|one| one.0.name == named.0.name)
    }

    fn spliced(&self, page: &str, part: &str) -> Result<String, Failure> {
        let name = self.document.display();
        splice(page, part).map_err(|no_place| Failure::failed(format!("{name}: {no_place}")))
    }
}

/// Returns the path of the directory `out` as links in `document` need it.
fn files_seen_from(document: &Path, out: &Path) -> Result<String, Failure> {
    let beside = document.parent().unwrap_or(Path::new(""));
    let below = out.strip_prefix(beside).ok().and_then(Path::to_str);
    below.map(|below| below.replace('\\', "/")).filter(|below| !below.is_empty()).ok_or_else(|| {
        let limit = format!("a directory beneath {:?}, where the page is", beside.display().to_string());
        Failure::Rejected(CallError::bad_field("out", out.display(), limit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_names_the_experiment_and_the_time_left() {
        let [first, second] = [Named::all()[0], Named::all()[1]];
        let mut clock = Clock::start([first, second].into_iter());
        let line = clock.ended(first);
        let start = format!("1 of 2: {} took ", first.0.name);
        assert!(line.starts_with(&start) && line.ends_with(" left"), "{line}");
        assert!(clock.ended(second).starts_with("2 of 2: "));
        assert_eq!(clock.cost_s, clock.all_cost_s);
    }

    #[test]
    fn links_are_relative_to_the_page() {
        let seen = |document: &str, out: &str| files_seen_from(Path::new(document), Path::new(out)).ok();
        assert_eq!(seen("docs/evaluation.md", "docs/evaluation").as_deref(), Some("evaluation"));
        assert_eq!(seen("evaluation.md", "out/figures").as_deref(), Some("out/figures"));
        assert_eq!(seen("docs/evaluation.md", "elsewhere"), None);
        assert_eq!(seen("docs/evaluation.md", "docs"), None);
    }
}
