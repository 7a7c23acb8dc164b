//! `treefold faces generate`: faces to try the service with.

use crate::commands::vectors::asked::unusable;
use crate::exit::{Failure, Verdict};
use crate::output::print;
use clap::Args;
use std::path::PathBuf;

/// Draw pictures of people who do not exist, in a folder for each person
///
/// The same seed gives the same people. Pictures of a person differ in light, place, expression and noise;
/// --first numbers them, so that a gallery and the pictures to recognise can have the same people and
/// different pictures.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Generate {
    /// The folder to write
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// Number of people
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    people: u32,

    /// Pictures of each person
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pictures: u32,

    /// Number of the first picture
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    first: u32,

    /// Another seed gives other people
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

const EXAMPLES: &str = "\
Examples:
  treefold faces generate people --people 40 --pictures 5
  treefold faces generate probes --people 40 --pictures 2 --first 5";

impl Generate {
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let numbers = self.first..self.first + self.pictures;
        treefold_vectors::faces::generate(&self.folder, self.people, numbers, self.seed)
            .map_err(|error| unusable(&error))?;
        print(format!(
            "{}: {} pictures of each of {} people",
            self.folder.display(),
            self.pictures,
            self.people
        ));
        Ok(Verdict::Full)
    }
}
