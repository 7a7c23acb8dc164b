//! Recognition of faces by eigenfaces (M. Turk, A. Pentland, *Eigenfaces for Recognition*, 1991): the DAC paper's FACE.
//!
//! A picture of a face is a point in a space of thousands of dimensions, one for each pixel. Faces lie near a
//! flat part of that space, and a principal component analysis of some faces finds its axes, which look like
//! ghostly faces. A face is then a few dozen coordinates on these axes, and faces of one person lie near each
//! other.
//!
//! - [`image`]: reads pictures (PGM, PNG), scales them, and evens out their light.
//! - [`model`]: the axes: training, projection, and a file.
//! - [`gallery`]: a folder of known faces, split over partitions; each partition is a [`Shard`](crate::Shard)
//!   of coordinates.
//! - [`recognise`]: the aggregation: the known face that is nearest to a picture.
//! - [`generate`](mod@generate): drawn faces of people who do not exist, for trials and tests.

pub mod gallery;
pub mod generate;
pub mod image;
pub mod model;
pub mod recognise;

pub use gallery::{FacesShard, Gallery};
pub use generate::generate;
pub use image::Picture;
pub use model::{Model, Training};
pub use recognise::{Match, Recognise, RecogniseParams, Recognised};

use std::sync::Arc;
use treefold_operators::{Operator, erase};

/// The conventional name of the service: its aggregation is then `faces/recognise`.
pub const SERVICE: &str = "faces";

/// The service's aggregations by name. Each partition's data must be a [`FacesShard`].
pub fn aggregations() -> Vec<(&'static str, Arc<dyn Operator>)> {
    vec![("recognise", erase(Recognise))]
}
