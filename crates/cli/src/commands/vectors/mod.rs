//! `treefold vectors`: nearest neighbours from the command line.
//!
//! - [`nearest`]: asks for the neighbours of one vector.
//! - [`recall`]: asks many queries through the index and exactly, and compares.
//! - [`generate`]: writes vectors to try the service with.
//! - [`asked`]: the options and calls that these commands and `treefold faces` share.

pub(crate) mod asked;
mod generate;
mod nearest;
mod recall;

use crate::exit::{Failure, Verdict};
use crate::output::Format;
use clap::{Args, Subcommand};

/// Find nearest neighbours among vectors, measure the recall of an index, generate vectors
///
/// A node serves vectors with `treefold node --serve vectors=FILE:partitions=IDS/TOTAL:metric=METRIC`.
/// docs/vectors.md describes files, metrics, filters and indexes.
#[derive(Debug, Args)]
pub(crate) struct VectorsArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Nearest(nearest::Nearest),
    Recall(recall::Recall),
    Generate(generate::Generate),
}

impl VectorsArgs {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        match self.what {
            What::Nearest(nearest) => nearest.run(format).await,
            What::Recall(recall) => recall.run(format).await,
            What::Generate(generate) => generate.run(),
        }
    }
}
