//! `treefold faces check`: how many pictures of known people are named rightly.

use super::read_image;
use crate::commands::vectors::asked::{Asked, quantile_ms, unusable};
use crate::exit::{Failure, Verdict};
use crate::output::{Format, print, print_json};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use treefold_vectors::faces::{Gallery, RecogniseParams, Recognised};

/// Recognise all pictures of a folder of known people, and report how many are named rightly
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Check {
    /// Folder of pictures that are not in the gallery, DIR/PERSON/PICTURE.pgm or .png
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    #[command(flatten)]
    asked: Asked,

    /// Also measure calls per second, with this many calls in flight
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_024))]
    in_flight: Option<u32>,

    /// Duration of the measurement of calls per second, in seconds
    #[arg(long, value_name = "S", default_value_t = 3.0, value_parser = crate::parse::seconds)]
    seconds: f64,
}

const EXAMPLES: &str = "\
Every picture must be answered by all partitions. With -o json, one line:
  {pictures, right, accuracy, ms_p50, ms_p99, compared, calls_per_s, wrong: [{picture, named}]}

Examples:
  treefold faces check probes --at 127.0.0.1:7700
  treefold faces check probes --at 127.0.0.1:7700 --in-flight 16 -o json";

/// Pictures that are sent; the rest of a larger folder is not.
const PICTURES_MAX: usize = 100_000;

/// The measured figures.
#[derive(Serialize)]
struct Figures {
    pictures: usize,
    right: usize,
    accuracy: f64,
    #[serde(serialize_with = "crate::output::rounded")]
    ms_p50: f64,
    #[serde(serialize_with = "crate::output::rounded")]
    ms_p99: f64,
    /// Faces that each picture was compared with.
    compared: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    calls_per_s: Option<f64>,
    wrong: Vec<Wrong>,
}

/// A picture that was named wrongly.
#[derive(Serialize)]
struct Wrong {
    picture: String,
    named: Option<String>,
}

const KIND: &str = "faces/recognise";

impl Check {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        let gallery = Gallery::list(&self.folder).map_err(|error| unusable(&error))?;
        let known = &gallery.known()[..gallery.known().len().min(PICTURES_MAX)];
        let params = |path: &str| {
            read_image(&self.folder.join(path))
                .map(|image| RecogniseParams { k: 1, ..RecogniseParams::new(image) })
        };
        let all: Result<Vec<_>, Failure> = known.iter().map(|known| params(&known.path)).collect();
        let all = Rc::new(all?);
        let asking = Rc::new(self.asked.connect().await?);
        let (answers, mut times) = asking.each::<Recognised>(KIND, &all).await?;
        let calls_per_s = match self.in_flight {
            Some(in_flight) => {
                let during = Duration::from_secs_f64(self.seconds);
                Some(asking.throughput::<Recognised>(KIND, &all, in_flight, during).await?)
            }
            None => None,
        };
        let named = known.iter().zip(&answers);
        let wrong: Vec<Wrong> = named
            .filter(|(known, answer)| answer.person.as_ref() != Some(&known.person))
            .map(|(known, answer)| Wrong { picture: known.path.clone(), named: answer.person.clone() })
            .collect();
        let right = known.len() - wrong.len();
        let figures = Figures {
            pictures: known.len(),
            right,
            accuracy: right as f64 / known.len() as f64,
            ms_p50: quantile_ms(&mut times, 0.5),
            ms_p99: quantile_ms(&mut times, 0.99),
            compared: answers.first().map_or(0, |answer| answer.compared),
            calls_per_s,
            wrong,
        };
        match format {
            Format::Json => print_json(&figures),
            Format::Text => print(render(&figures)),
        }
        Ok(Verdict::Full)
    }
}

fn render(figures: &Figures) -> String {
    let Figures { pictures, right, accuracy, ms_p50, ms_p99, compared, .. } = figures;
    let throughput = figures.calls_per_s.map_or_else(String::new, |calls| format!("\n  {calls:.0} calls/s"));
    format!(
        "{right} of {pictures} pictures are named rightly ({:.1}%), each compared with {compared} faces\n  {ms_p50:.2} ms median, \
         {ms_p99:.2} ms at the 99th percentile{throughput}",
        accuracy * 100.0
    )
}
