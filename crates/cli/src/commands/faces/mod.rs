//! `treefold faces`: recognition of faces from the command line.
//!
//! - [`train`]: finds the eigenfaces of a folder of pictures.
//! - [`recognise`]: names the person on a picture.
//! - [`check`]: recognises pictures of known people, and reports how many are named rightly.
//! - [`generate`]: draws faces to try the service with.

mod check;
mod generate;
mod recognise;
mod train;

use crate::exit::{Failure, Verdict};
use crate::output::Format;
use clap::{Args, Subcommand};

/// Train a model of faces, recognise people in a partitioned gallery, draw faces for trials
///
/// A node serves a gallery with `treefold node --serve faces=DIR:model=FILE:partitions=IDS/TOTAL`. Pictures
/// are PGM or PNG, in a folder for each person. docs/vectors.md has an example from the first picture to the
/// answer.
#[derive(Debug, Args)]
pub(crate) struct FacesArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Train(train::Train),
    Recognise(recognise::RecogniseArgs),
    Check(check::Check),
    Generate(generate::Generate),
}

impl FacesArgs {
    pub(crate) async fn run(self, format: Format) -> Result<Verdict, Failure> {
        match self.what {
            What::Train(train) => train.run(),
            What::Recognise(recognise) => recognise.run(format).await,
            What::Check(check) => check.run(format).await,
            What::Generate(generate) => generate.run(),
        }
    }
}

/// Reads an image file.
fn read_image(path: &std::path::Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::failed(format!("can't read {}: {error}", path.display())))
}
