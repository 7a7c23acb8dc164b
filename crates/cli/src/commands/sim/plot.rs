//! `treefold sim plot`: draws pictures of experiments, from a run or from files of points.

use super::file::{self, Recorded};
use super::named::{NameReader, Named};
use super::plan::PlanArgs;
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use treefold_sim::experiment::Point;

/// Draw experiments as SVG: one picture for each of their charts
///
/// Without --from the experiments are run. The same points give the same file, byte for byte. The paper's
/// results are drawn dashed, in the colour of the series of the same name.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Plot {
    /// Experiments to draw [default: all]
    #[arg(value_name = "EXPERIMENT", value_parser = NameReader, hide_possible_values = true)]
    experiments: Vec<Named>,

    /// Directory to read points from, as NAME.json, instead of running the experiments
    #[arg(long, value_name = "DIR", conflicts_with_all = ["seed", "repeat", "threads", "quick"])]
    from: Option<PathBuf>,

    /// File of points to draw as hollow marks, their series named "real …"; may be given several times
    #[arg(long, value_name = "FILE")]
    overlay: Vec<PathBuf>,

    /// Directory of the pictures
    #[arg(long, value_name = "DIR", default_value = "docs/evaluation")]
    out: PathBuf,

    #[command(flatten)]
    plan: PlanArgs,
}

const EXAMPLES: &str = "\
An overlay is a JSON array of points as `treefold sim run -o json` prints them; series and x are needed,
figures may be absent. With --from, points in DIR/NAME.real.json are drawn as well. The
written files are printed, one a line; with -o json one line: {written: [FILE, …]}.

Examples:
  treefold sim plot --quick --out pictures
  treefold sim plot scale --from docs/evaluation
  treefold sim plot scale --from docs/evaluation --overlay real-runs.json --out pictures";

#[derive(Serialize)]
struct Pictures {
    written: Vec<PathBuf>,
}

impl Plot {
    pub(crate) fn run(self, format: Format) -> Result<Verdict, Failure> {
        let overlays: Vec<Vec<Point>> =
            self.overlay.iter().map(|path| file::read_points(path)).collect::<Result<_, _>>()?;
        let overlaid = overlays.concat();
        let experiments = if self.experiments.is_empty() { Named::all() } else { self.experiments.clone() };
        experiments.iter().try_for_each(|&named| file::try_to_write_charts(&self.out, named))?;
        let mut written = Vec::new();
        for named in experiments {
            let mut recorded = self.recorded(named)?;
            recorded.real.extend(overlaid.iter().cloned());
            let pictures = file::write_charts(&self.out, named, &recorded)?;
            if format == Format::Text {
                pictures.iter().for_each(|path| print(path.display()));
            }
            written.extend(pictures);
        }
        if format == Format::Json {
            print_json(&Pictures { written });
        }
        Ok(Verdict::Full)
    }

    fn recorded(&self, named: Named) -> Result<Recorded, Failure> {
        match &self.from {
            Some(directory) => Ok(Recorded {
                points: file::read_points(&file::points_of(directory, named))?,
                real: file::read_real(directory, named)?,
            }),
            None => Ok(Recorded { points: self.plan.run(named), real: Vec::new() }),
        }
    }
}
