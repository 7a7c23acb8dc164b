//! `treefold sim evaluate`: runs every experiment, writes its points and pictures, and writes the simulator's
//! part of the page that compares them with the papers.

use super::file::{self, Recorded};
use super::named::{NameReader, Named};
use super::plan::PlanArgs;
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use clap::Args;
use serde::Serialize;
use std::path::{Path, PathBuf};
use treefold::CallError;
use treefold_sim::evaluation::document::splice;
use treefold_sim::evaluation::record::to_json;
use treefold_sim::evaluation::section::{Section, command_on};

/// Run every experiment, and write its points, its pictures and the simulator's part of the evaluation
///
/// For each experiment it writes its points to NAME.json and one SVG for each of its charts. Points in
/// NAME.real.json are drawn as hollow marks. The page is changed only between its lines <!-- sim:begin -->
/// and <!-- sim:end -->; if one of them is missing, no experiment is run.
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
        for named in Named::all() {
            let kept = file::points_of(&self.out, named);
            let is_run = self.only.is_empty() || self.only.iter().any(|one| one.0.name == named.0.name);
            let (points, command) = if is_run {
                (self.plan.run(named), self.plan.command(named))
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
        file::write(&self.document, &self.spliced(&page, &sections.join("\n"))?)?;
        written.push(self.document);
        match format {
            Format::Json => print_json(&Written { written }),
            Format::Text => written.iter().for_each(|path| print(path.display())),
        }
        Ok(Verdict::Full)
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
    fn links_are_relative_to_the_page() {
        let seen = |document: &str, out: &str| files_seen_from(Path::new(document), Path::new(out)).ok();
        assert_eq!(seen("docs/evaluation.md", "docs/evaluation").as_deref(), Some("evaluation"));
        assert_eq!(seen("evaluation.md", "out/figures").as_deref(), Some("out/figures"));
        assert_eq!(seen("docs/evaluation.md", "elsewhere"), None);
        assert_eq!(seen("docs/evaluation.md", "docs"), None);
    }
}
