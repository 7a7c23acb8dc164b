//! A gallery: a folder of known faces, `FOLDER/PERSON/PICTURE.pgm` or `.png`, split over partitions.
//!
//! A hash of a picture's path selects its partition, and is the same on every machine. A partition holds
//! coordinates only, about 300 bytes a face, and projects its pictures when it is opened. Faces are numbered
//! by the order of their paths in the whole folder, so equal distances rank the same for every number of
//! partitions.

use super::image::{Picture, PictureError};
use super::model::Model;
use crate::attributes::Gathering;
use crate::draw::Draw;
use crate::error::OpenError;
use crate::limits::{GALLERY_FILES_MAX, PARTITIONS_MAX};
use crate::metric::Metric;
use crate::shard::{Numbering, Shard};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::available_parallelism;

/// The attribute of a face that names its person.
pub(crate) const PERSON: &str = "person";
const ENDINGS: [&str; 2] = ["pgm", "png"];

/// A picture of a gallery.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The name of the person's folder.
    pub person: String,
    /// Path below the gallery, `PERSON/PICTURE`.
    pub path: String,
}

/// A folder of known faces.
#[derive(Clone, Debug)]
pub struct Gallery {
    folder: PathBuf,
    known: Vec<Known>,
}

/// One partition of a gallery: the data of a partition of the service.
#[derive(Debug)]
pub struct FacesShard {
    pub(crate) model: Arc<Model>,
    /// The coordinates of its faces; ids are paths.
    pub(crate) shard: Shard,
}

impl FacesShard {
    /// Faces of the partition.
    pub fn faces(&self) -> usize {
        self.shard.vectors()
    }
}

impl Gallery {
    /// Lists a folder. Files with other endings, and files that are in no person's folder, are ignored.
    ///
    /// # Errors
    /// [`OpenError::File`] if a folder cannot be listed, [`OpenError::Format`] if there are too many
    /// pictures, none, or a name that is not Unicode.
    pub fn list(folder: &Path) -> Result<Self, OpenError> {
        let mut known = Vec::new();
        for person in entries(folder)? {
            if !folder.join(&person).is_dir() {
                continue;
            }
            for file in entries(&folder.join(&person))? {
                let ending = Path::new(&file).extension().and_then(|ending| ending.to_str());
                if ending.is_some_and(|ending| ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known)))
                {
                    known.push(Known { path: format!("{person}/{file}"), person: person.clone() });
                }
            }
            if known.len() > GALLERY_FILES_MAX {
                return Err(OpenError::format(folder, format!("more than {GALLERY_FILES_MAX} pictures")));
            }
        }
        if known.is_empty() {
            return Err(OpenError::format(
                folder,
                "no pictures; expected PERSON/PICTURE.pgm or .png below it",
            ));
        }
        known.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(Self { folder: folder.to_owned(), known })
    }

    /// All pictures, in the order of their paths.
    pub fn known(&self) -> &[Known] {
        &self.known
    }

    /// Reads one of the pictures.
    ///
    /// # Errors
    /// [`OpenError::File`] or [`OpenError::Format`], naming the file.
    pub fn picture(&self, known: &Known) -> Result<Picture, OpenError> {
        read_picture(&self.folder.join(&known.path))
    }

    /// Opens these of `total` partitions: reads and projects their pictures, on all processors.
    ///
    /// # Errors
    /// Any [`OpenError`].
    pub fn open(
        &self,
        model: &Arc<Model>,
        partitions: &[u32],
        total: u32,
    ) -> Result<BTreeMap<u32, FacesShard>, OpenError> {
        if !(1..=PARTITIONS_MAX).contains(&total) {
            return Err(OpenError::Partitions(total));
        }
        let mut own: BTreeMap<u32, Vec<usize>> =
            partitions.iter().map(|partition| (*partition, Vec::new())).collect();
        for (number, known) in self.known.iter().enumerate() {
            if let Some(numbers) = own.get_mut(&partition_of(&known.path, total)) {
                numbers.push(number);
            }
        }
        let shard = |(partition, numbers): (u32, Vec<usize>)| {
            self.shard(model, &numbers).map(|shard| (partition, shard))
        };
        own.into_iter().map(shard).collect()
    }

    fn shard(&self, model: &Arc<Model>, numbers: &[usize]) -> Result<FacesShard, OpenError> {
        let project = |number: &usize| -> Result<Vec<f32>, OpenError> {
            let known = &self.known[*number];
            let projection = model.project(&self.picture(known)?);
            let refuse =
                |error: PictureError| OpenError::format(&self.folder.join(&known.path), format!("{error}"));
            Ok(projection.map_err(refuse)?.coordinates)
        };
        let part = numbers.len().div_ceil(available_parallelism().map_or(1, usize::from)).max(1);
        let all = |part: &[usize]| -> Result<Vec<f32>, OpenError> {
            part.iter().try_fold(Vec::new(), |mut values, number| {
                values.extend(project(number)?);
                Ok(values)
            })
        };
        let all = &all;
        let values = std::thread::scope(|scope| {
            let workers: Vec<_> = numbers.chunks(part).map(|part| scope.spawn(move || all(part))).collect();
            let joined = workers
                .into_iter()
                .map(|worker| worker.join().expect("invariant: projecting does not panic"));
            joined.collect::<Result<Vec<_>, _>>().map(|parts| parts.concat())
        })?;
        let mut gathering = Gathering::default();
        for number in numbers {
            let Known { person, path } = self.known[*number].clone();
            gathering.add(vec![("id".to_owned(), path), (PERSON.to_owned(), person)]);
        }
        let shard = Shard {
            metric: Metric::L2,
            dimensions: model.components(),
            values,
            numbering: Numbering::Listed(numbers.iter().map(|number| *number as u64).collect()),
            attributes: gathering.end(&[PERSON.to_owned()]),
            graph: None,
        };
        Ok(FacesShard { model: Arc::clone(model), shard })
    }
}

/// Reads a picture from a file.
///
/// # Errors
/// [`OpenError::File`] or [`OpenError::Format`].
pub fn read_picture(path: &Path) -> Result<Picture, OpenError> {
    let bytes = fs::read(path).map_err(OpenError::file(path))?;
    Picture::decode(&bytes).map_err(|error| OpenError::format(path, error.to_string()))
}

/// The names in a folder that do not begin with a dot, sorted.
fn entries(folder: &Path) -> Result<Vec<String>, OpenError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(OpenError::file(folder))? {
        let name = entry.map_err(OpenError::file(folder))?.file_name();
        let name = name.into_string().map_err(|name| {
            OpenError::format(folder, format!("the name {name:?} is not Unicode; rename the file"))
        })?;
        if !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// The partition, of `total`, of the picture at this path below its gallery.
pub fn partition_of(path: &str, total: u32) -> u32 {
    // FNV-1a, then a step that mixes its high bits.
    let hash = path
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    ((u128::from(Draw::new(hash).bits()) * u128::from(total)) >> 64) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_spread_evenly_and_never_move() {
        let mut counts = [0u32; 7];
        for number in 0..7_000 {
            counts[partition_of(&format!("p{}/{}.pgm", number / 10, number % 10), 7) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
        assert_eq!([1, 8, 1_000].map(|total| partition_of("ada/1.pgm", total)), PINNED);
    }

    #[test]
    fn folders_without_pictures_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("stray.pgm"), "P5 1 1 255\n0").unwrap();
        fs::create_dir(directory.path().join("ada")).unwrap();
        fs::write(directory.path().join("ada/notes.txt"), "").unwrap();
        let refused = Gallery::list(directory.path()).unwrap_err().to_string();
        assert!(refused.contains("expected PERSON/PICTURE.pgm"), "{refused}");
        fs::write(directory.path().join("ada/1.PGM"), "P5 1 1 255\n0").unwrap();
        let gallery = Gallery::list(directory.path()).unwrap();
        assert_eq!(gallery.known(), [Known { person: "ada".into(), path: "ada/1.PGM".into() }]);
    }

    const PINNED: [u32; 3] = [0, 0, 29];
}
