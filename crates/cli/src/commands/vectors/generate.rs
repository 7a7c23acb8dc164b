//! `treefold vectors generate`: vectors to try the service with.

use super::asked::unusable;
use crate::exit::{Failure, Verdict};
use crate::output::print;
use clap::Args;
use std::path::PathBuf;
use treefold_vectors::generate::Generated;
use treefold_vectors::limits::DIMENSIONS_MAX;

/// Write groups of random vectors to a .npy file, and their attributes to a .jsonl file beside it
///
/// The attributes are id, group and year. The same seed gives the same vectors, of which --skip leaves out
/// the first: stored vectors and queries of one seed lie in the same groups.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Generate {
    /// The file to write; it must end with .npy
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Number of vectors
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    rows: u64,

    /// Numbers of each vector
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=DIMENSIONS_MAX as u64))]
    dimensions: u64,

    /// Number of groups
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    groups: u64,

    /// Number of vectors to leave out at the beginning
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip: u32,

    /// Another seed gives other vectors
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

const EXAMPLES: &str = "\
Examples:
  treefold vectors generate stored.npy --rows 100000 --dimensions 128
  treefold vectors generate queries.npy --rows 100 --dimensions 128 --skip 100000";

impl Generate {
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        if self.file.extension().is_none_or(|ending| ending != "npy") {
            return Err(Failure::usage(format!("{} does not end with .npy", self.file.display())));
        }
        let number = |given: u64| usize::try_from(given).unwrap_or(usize::MAX);
        let generated = Generated {
            rows: number(self.rows),
            dimensions: number(self.dimensions),
            groups: number(self.groups),
            seed: self.seed,
            skip: self.skip as usize,
        };
        let attributes = generated.write(&self.file).map_err(|error| unusable(&error))?;
        print(format!(
            "{}: {} vectors of {} numbers; {}: their attributes",
            self.file.display(),
            self.rows,
            self.dimensions,
            attributes.display()
        ));
        Ok(Verdict::Full)
    }
}
