//! `treefold faces train`: the eigenfaces of a folder of pictures.

use crate::commands::vectors::asked::unusable;
use crate::exit::{Failure, Verdict};
use crate::output::print;
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use treefold::CallError;
use treefold_vectors::faces::{Gallery, Model, Training};
use treefold_vectors::limits::{COMPONENTS_MAX, TRAINING_IMAGES_MAX};

/// Find the eigenfaces of a folder of pictures and write them to a file, the model
///
/// If the folder has more than 2,000 pictures, 2,000 of them are taken, evenly over the folder. All nodes of
/// a service need the same model.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Train {
    /// Folder of pictures, DIR/PERSON/PICTURE.pgm or .png
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,

    /// Number of eigenfaces; fewer if the pictures have fewer
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=COMPONENTS_MAX as i64))]
    components: u32,

    /// Size to which pictures are scaled, in pixels
    #[arg(long, value_name = "WxH", default_value = "64x64", value_parser = size)]
    size: (usize, usize),

    /// Keep the brightness and contrast of pictures instead of evening them out
    #[arg(long)]
    plain: bool,

    /// Folder to write the average face and the eigenfaces to, as pictures
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  treefold faces train people --out people.model
  treefold faces train people --out people.model --components 32 --size 46x56 --pictures eigenfaces";

fn size(text: &str) -> Result<(usize, usize), CallError> {
    let parsed =
        text.split_once('x').and_then(|(width, height)| Some((width.parse().ok()?, height.parse().ok()?)));
    let training = parsed.map(|size| Training { size, ..Training::default() });
    let valid = training.filter(|training| training.check().is_ok()).map(|training| training.size);
    valid.ok_or_else(|| {
        CallError::bad_field("size", text, "width x height, as in 64x64, at most 65536 pixels in all")
    })
}

impl Train {
    pub(crate) fn run(self) -> Result<Verdict, Failure> {
        let training =
            Training { size: self.size, components: self.components as usize, evens_light: !self.plain };
        let gallery = Gallery::list(&self.folder).map_err(|error| unusable(&error))?;
        let all = gallery.known();
        let count = all.len().min(TRAINING_IMAGES_MAX);
        let mut faces = Vec::with_capacity(count);
        for number in 0..count {
            let known = &all[number * all.len() / count];
            let picture = gallery.picture(known).map_err(|error| unusable(&error))?;
            let face = Model::prepare(&picture, training.size, training.evens_light);
            faces.push(face.map_err(|error| Failure::failed(format!("{}: {error}", known.path)))?);
        }
        let model = Model::train(&faces, training).map_err(|error| Failure::usage(error.to_string()))?;
        model.write(&self.out).map_err(|error| unusable(&error))?;
        if let Some(folder) = &self.pictures {
            write_pictures(&model, folder)?;
        }
        print(format!(
            "{}: {} eigenfaces of {count} of {} pictures, {}x{}",
            self.out.display(),
            model.components(),
            all.len(),
            model.size().0,
            model.size().1
        ));
        Ok(Verdict::Full)
    }
}

/// Writes the average face as `0.pgm`, and the eigenfaces as `1.pgm` and so on.
fn write_pictures(model: &Model, folder: &Path) -> Result<(), Failure> {
    let failed =
        |error: std::io::Error| Failure::failed(format!("can't write {}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    for number in 0..=model.components() {
        let picture = model.picture(number).expect("invariant: every eigenface is a picture");
        fs::write(folder.join(format!("{number}.pgm")), picture.to_pgm()).map_err(failed)?;
    }
    Ok(())
}
