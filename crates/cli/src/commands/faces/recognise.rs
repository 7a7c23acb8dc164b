//! `treefold faces recognise`: the person on a picture.

use super::read_image;
use crate::commands::vectors::asked::{Asked, print_verdict};
use crate::exit::{Failure, Verdict};
use crate::output::json::Answer;
use crate::output::style::Style;
use crate::output::table::{Align, Table};
use crate::output::{Format, print, print_json};
use clap::Args;
use std::path::PathBuf;
use treefold_vectors::faces::{RecogniseParams, Recognised};
use treefold_vectors::limits::K_MAX;

/// Name the person on a picture: the one with the nearest face in the gallery
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RecogniseArgs {
    /// The picture, PGM or PNG
    #[arg(value_name = "IMAGE")]
    image: PathBuf,

    #[command(flatten)]
    asked: Asked,

    /// Number of nearest faces to show
    #[arg(short, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=i64::from(K_MAX)))]
    k: u32,

    /// Distance beyond which the person is unknown [default: none]
    #[arg(long, value_name = "DISTANCE")]
    max_distance: Option<f32>,

    /// Name of the service
    #[arg(long, value_name = "NAME", default_value = treefold_vectors::faces::SERVICE)]
    service: String,
}

const EXAMPLES: &str = "\
Exit codes:
  0 full, 3 partial but at or above the minimum coverage, 4 below it, 5 no node reached or no provider in sight, 2 rejected

Examples:
  treefold faces recognise probe.png --at 127.0.0.1:7700
  treefold faces recognise probe.pgm --at 127.0.0.1:7700 --min-coverage 0.5 --max-distance 40 -o json";

impl RecogniseArgs {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let params = RecogniseParams {
            k: self.k,
            max_distance: self.max_distance,
            ..RecogniseParams::new(read_image(&self.image)?)
        };
        let asking = self.asked.connect().await?;
        let reply = asking.call::<Recognised>(&format!("{}/recognise", self.service), &params).await?;
        match format {
            Format::Json => print_json(&Answer::of(&reply)),
            Format::Text => {
                if let Some(recognised) = &reply.value {
                    print(render(recognised));
                }
                print_verdict(&reply);
            }
        }
        Ok(Verdict::of(&reply.status))
    }
}

fn render(recognised: &Recognised) -> String {
    let person = recognised.person.as_deref().unwrap_or("unknown");
    let mut table =
        Table::new(&[("distance", Align::Right), ("person", Align::Left), ("picture", Align::Left)]);
    for near in &recognised.matches {
        table.row(vec![format!("{:.3}", near.distance), near.person.clone(), near.picture.clone()]);
    }
    let residual = recognised.residual * 100.0;
    let compared = recognised.compared;
    format!(
        "{person}; {residual:.0}% of the picture is unlike the faces of the model; {compared} faces compared\n{}",
        table.render(Style::of_stdout())
    )
}
