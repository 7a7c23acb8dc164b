//! Eigenfaces: the axes of the space of faces, found by a principal component analysis of some faces.
//!
//! With `n` pictures of `d` pixels, the axes are the eigenvectors of the covariance of pixels (`d` × `d`), or
//! follow from those of the products of pictures (`n` × `n`); training takes the smaller of the two. A model
//! is trained once and its file given to all nodes and clients, because two machines may round an axis
//! differently.

use super::image::{Picture, PictureError, even_out};
use crate::error::OpenError;
use crate::limits::{COMPONENTS_MAX, FACE_PIXELS_MAX, MODEL_BYTES_MAX, TRAINING_IMAGES_MAX};
use crate::metric::Metric;
use nalgebra::{DMatrix, SymmetricEigen};
use std::fs;
use std::path::Path;

const MAGIC: &[u8; 8] = b"TFFACES1";
/// Magic, width, height, number of axes, and whether light is evened out.
const HEADER_BYTES: usize = 8 + 4 * 4;
const CHECKSUM_BYTES: usize = 4;
/// Axes along which the pictures vary less than this share of the first axis are rounding errors.
const VARIANCE_MIN: f64 = 1e-9;

/// How a model is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Training {
    /// Width and height of faces after scaling.
    pub size: (usize, usize),
    /// Number of axes; fewer if the pictures have fewer.
    pub components: usize,
    /// True if brightness and contrast must not matter.
    pub evens_light: bool,
}

impl Default for Training {
    fn default() -> Self {
        Self { size: (64, 64), components: 64, evens_light: true }
    }
}

/// Why a model cannot be trained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrainingError {
    /// The size of faces is out of its range.
    #[error("size is {width}x{height}; it must be 2 to {FACE_PIXELS_MAX} pixels in all")]
    Size {
        /// Width in pixels.
        width: usize,
        /// Height in pixels.
        height: usize,
    },
    /// The number of axes is out of its range.
    #[error("components is {0}; it must be 1 to {COMPONENTS_MAX}")]
    Components(usize),
    /// Too few or too many pictures.
    #[error("{0} pictures to train on; it must be 2 to {TRAINING_IMAGES_MAX}")]
    Pictures(usize),
    /// All pictures are the same.
    #[error("all pictures are the same, so nothing tells people apart")]
    Same,
}

/// The axes of the space of faces.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    size: (usize, usize),
    evens_light: bool,
    /// The average face.
    mean: Vec<f32>,
    /// The axes, one after the other; each has length 1 and as many numbers as a face has pixels.
    axes: Vec<f32>,
}

/// A face as coordinates.
#[derive(Clone, Debug, PartialEq)]
pub struct Projection {
    /// One coordinate for each axis.
    pub coordinates: Vec<f32>,
    /// The share of the picture's difference from the average face that no axis explains, 0 to 1. Near 1, it
    /// is hardly a face.
    pub residual: f32,
}

impl Model {
    /// Finds the axes of these faces, which [`Model::prepare`]d with the same training.
    ///
    /// # Errors
    /// Any [`TrainingError`].
    pub fn train(faces: &[Vec<f32>], training: Training) -> Result<Self, TrainingError> {
        training.check()?;
        let count = faces.len();
        if !(2..=TRAINING_IMAGES_MAX).contains(&count) {
            return Err(TrainingError::Pictures(count));
        }
        let pixels = training.pixels();
        let mut centred = DMatrix::from_fn(count, pixels, |row, column| f64::from(faces[row][column]));
        let mean = centred.row_mean();
        centred.row_iter_mut().for_each(|mut row| row -= &mean);
        let is_wide = count <= pixels;
        let products = match is_wide {
            true => &centred * centred.transpose(),
            false => centred.transpose() * &centred,
        };
        let eigen = SymmetricEigen::new(products);
        let mut order: Vec<usize> = (0..eigen.eigenvalues.len()).collect();
        order.sort_by(|a, b| eigen.eigenvalues[*b].total_cmp(&eigen.eigenvalues[*a]).then(a.cmp(b)));
        let first = eigen.eigenvalues[order[0]];
        if first <= f64::EPSILON {
            return Err(TrainingError::Same);
        }
        let mut axes = Vec::new();
        let pictures = centred.transpose();
        for at in order.into_iter().take(training.components) {
            if eigen.eigenvalues[at] < VARIANCE_MIN * first {
                break;
            }
            let vector = eigen.eigenvectors.column(at);
            let mut axis = if is_wide { &pictures * vector } else { vector.into_owned() };
            // An axis may point either way. The one with its largest part above zero is taken.
            let length = axis.norm() * axis[axis.iamax()].signum();
            axis /= length;
            axes.extend(axis.iter().map(|part| *part as f32));
        }
        let mean = mean.iter().map(|pixel| *pixel as f32).collect();
        Ok(Self { size: training.size, evens_light: training.evens_light, mean, axes })
    }

    /// The pixels of a picture in the form that training and projection take.
    ///
    /// # Errors
    /// [`PictureError::Blank`] if the picture shows nothing.
    pub fn prepare(
        picture: &Picture,
        size: (usize, usize),
        evens_light: bool,
    ) -> Result<Vec<f32>, PictureError> {
        let mut pixels = picture.scaled(size.0, size.1);
        if evens_light {
            even_out(&mut pixels)?;
        }
        Ok(pixels)
    }

    /// The number of axes.
    pub fn components(&self) -> usize {
        self.axes.len() / self.mean.len()
    }

    /// Width and height of faces.
    pub fn size(&self) -> (usize, usize) {
        self.size
    }

    /// The average face (at 0) or an axis (from 1), as a picture; `None` beyond the last one.
    pub fn picture(&self, number: usize) -> Option<Picture> {
        let pixels = self.mean.len();
        let values = match number.checked_sub(1) {
            None => &self.mean[..],
            Some(axis) => self.axes.chunks(pixels).nth(axis)?,
        };
        let (least, most) = values.iter().fold((f32::MAX, f32::MIN), |(a, b), x| (a.min(*x), b.max(*x)));
        let grey = |x: &f32| ((x - least) / (most - least).max(f32::MIN_POSITIVE) * 255.0).round() as u8;
        Picture::new(self.size.0, self.size.1, values.iter().map(grey).collect()).ok()
    }

    /// The coordinates of a picture.
    ///
    /// # Errors
    /// [`PictureError::Blank`] if the picture shows nothing.
    pub fn project(&self, picture: &Picture) -> Result<Projection, PictureError> {
        let mut pixels = Self::prepare(picture, self.size, self.evens_light)?;
        pixels.iter_mut().zip(&self.mean).for_each(|(pixel, mean)| *pixel -= mean);
        // The metric of inner products is their negation.
        let product = |a: &[f32], b: &[f32]| -Metric::Ip.rank(a, b);
        let coordinates: Vec<f32> =
            self.axes.chunks(self.mean.len()).map(|axis| product(axis, &pixels)).collect();
        let (all, explained) = (product(&pixels, &pixels), product(&coordinates, &coordinates));
        let residual = if all > 0.0 { (1.0 - explained / all).clamp(0.0, 1.0).sqrt() } else { 0.0 };
        Ok(Projection { coordinates, residual })
    }

    /// Writes the model to a file.
    ///
    /// # Errors
    /// [`OpenError::File`] if it cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), OpenError> {
        let next = path.with_extension(format!("next-{}", std::process::id()));
        fs::write(&next, self.encode()).map_err(OpenError::file(&next))?;
        fs::rename(&next, path).map_err(OpenError::file(path))
    }

    /// Reads a model from a file.
    ///
    /// # Errors
    /// [`OpenError::File`] if it cannot be read, [`OpenError::Format`] if it is no model.
    pub fn read(path: &Path) -> Result<Self, OpenError> {
        let bytes = fs::metadata(path).map_err(OpenError::file(path))?.len();
        if bytes > MODEL_BYTES_MAX {
            return Err(OpenError::format(
                path,
                format!("{bytes} bytes; a model has at most {MODEL_BYTES_MAX}"),
            ));
        }
        let bytes = fs::read(path).map_err(OpenError::file(path))?;
        Self::decode(&bytes).ok_or_else(|| {
            OpenError::format(
                path,
                "not a model of faces, or a damaged one; `treefold faces train` writes one",
            )
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let numbers = [self.size.0, self.size.1, self.components(), usize::from(self.evens_light)];
        bytes.extend(numbers.iter().flat_map(|number| (*number as u32).to_le_bytes()));
        bytes.extend(self.mean.iter().chain(&self.axes).flat_map(|number| number.to_le_bytes()));
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (body, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>()?;
        let (header, numbers) = body.split_at_checked(HEADER_BYTES)?;
        if !header.starts_with(MAGIC) || crc32c::crc32c(body) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let (header, []) = header[MAGIC.len()..].as_chunks::<4>() else { return None };
        let numbers_of_header: Vec<usize> =
            header.iter().map(|bytes| u32::from_le_bytes(*bytes) as usize).collect();
        let &[width, height, components, evens_light] = numbers_of_header.as_slice() else { return None };
        let size = (width, height);
        let training = Training { size, components, evens_light: evens_light == 1 };
        training.check().ok()?;
        let (numbers, []) = numbers.as_chunks::<4>() else { return None };
        let pixels = training.pixels();
        let mut numbers: Vec<f32> = numbers.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        if numbers.len() != pixels * (components + 1) || numbers.iter().any(|number| !number.is_finite()) {
            return None;
        }
        let axes = numbers.split_off(pixels);
        Some(Self { size, evens_light: training.evens_light, mean: numbers, axes })
    }
}

impl Training {
    /// Checks the size and the number of axes.
    ///
    /// # Errors
    /// [`TrainingError::Size`] or [`TrainingError::Components`].
    pub fn check(&self) -> Result<(), TrainingError> {
        let pixels = self.size.0.checked_mul(self.size.1);
        if !pixels.is_some_and(|pixels| (2..=FACE_PIXELS_MAX).contains(&pixels)) {
            let (width, height) = self.size;
            return Err(TrainingError::Size { width, height });
        }
        if !(1..=COMPONENTS_MAX).contains(&self.components) {
            return Err(TrainingError::Components(self.components));
        }
        Ok(())
    }

    fn pixels(&self) -> usize {
        self.size.0 * self.size.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Draw;

    const PLAIN: Training = Training { size: (4, 2), components: 3, evens_light: false };

    /// Faces that vary along two directions, and a little along all others.
    fn faces(count: usize) -> Vec<Vec<f32>> {
        let mut draw = Draw::new(3);
        let face = |draw: &mut Draw| {
            let (a, b) = (draw.normal() * 20.0, draw.normal() * 5.0);
            let axes = [
                [1.0, 0.0],
                [0.0, 1.0],
                [1.0, 0.0],
                [0.0, -1.0],
                [1.0, 0.0],
                [0.0, 0.0],
                [1.0, 0.0],
                [0.0, 0.0],
            ];
            axes.iter().map(|[x, y]| (128.0 + a * x + b * y + draw.normal() * 0.1) as f32).collect()
        };
        (0..count).map(|_| face(&mut draw)).collect()
    }

    #[test]
    fn axes_are_the_directions_of_the_greatest_variance() {
        // More pictures than pixels, and fewer: the two ways to the same axes.
        for count in [60, 6] {
            let model = Model::train(&faces(count), PLAIN).unwrap();
            assert_eq!(model.components(), 3);
            let first = &model.axes[..8];
            for (part, expected) in first.iter().zip([0.5, 0.0, 0.5, 0.0, 0.5, 0.0, 0.5, 0.0]) {
                assert!((part - expected).abs() < 0.15, "{count}: {first:?}");
            }
            let product: f32 = first.iter().zip(&model.axes[8..16]).map(|(a, b)| a * b).sum();
            assert!(product.abs() < 1e-4, "axes are at right angles");
            assert_eq!(Model::train(&faces(count), PLAIN).unwrap(), model);
        }
    }

    #[test]
    fn residual_tells_what_the_axes_do_not_explain() {
        let model = Model::train(&faces(60), Training { components: 2, ..PLAIN }).unwrap();
        let of = |pixels: [u8; 8]| model.project(&Picture::new(4, 2, pixels.to_vec()).unwrap()).unwrap();
        let like = of([168, 128, 168, 128, 168, 128, 168, 128]);
        assert!(like.residual < 0.2, "{like:?}");
        let unlike = of([128, 128, 128, 128, 128, 200, 128, 56]);
        assert!(unlike.residual > 0.8, "{unlike:?}");
    }

    #[test]
    fn a_written_model_is_read_again_and_a_damaged_one_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("model.faces");
        let model = Model::train(&faces(9), PLAIN).unwrap();
        model.write(&path).unwrap();
        assert_eq!(Model::read(&path).unwrap(), model);
        let good = model.encode();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(Model::decode(&bad), None, "byte {at}");
            assert_eq!(Model::decode(&good[..at]), None, "cut at {at}");
        }
        fs::write(&path, "no model").unwrap();
        assert!(Model::read(&path).unwrap_err().to_string().contains("not a model of faces"));
    }

    #[test]
    fn invalid_training_is_refused_with_the_valid_range() {
        let refused = |faces: &[Vec<f32>], training| Model::train(faces, training).unwrap_err().to_string();
        let one = Training { size: (1, 1), ..PLAIN };
        assert_eq!(refused(&faces(9), one), "size is 1x1; it must be 2 to 65536 pixels in all");
        let large = Training { size: (usize::MAX, 2), ..PLAIN };
        assert!(refused(&faces(9), large).contains("65536 pixels"));
        let none = Training { components: 0, ..PLAIN };
        assert_eq!(refused(&faces(9), none), "components is 0; it must be 1 to 512");
        assert_eq!(refused(&faces(1), PLAIN), "1 pictures to train on; it must be 2 to 2000");
        assert!(refused(&vec![vec![7.0; 8]; 3], PLAIN).contains("all pictures are the same"));
    }
}
