//! The aggregation `recognise`: the known face that is nearest to a picture.
//!
//! The picture travels to every partition and is projected there: a projection takes less than a millisecond,
//! and callers need no model. Matches are ordered by distance and then by path, so every tree and every
//! number of partitions gives the same answer.

use super::gallery::{FacesShard, PERSON};
use super::image::{Picture, PictureError};
use crate::filter::Filter;
use crate::limits::{IMAGE_BYTES_MAX, K_MAX};
use crate::shard::Search;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::fmt;
use treefold_operators::{Aggregation, OperatorError, Partition, Placement, Result};

/// Matches of a call that gives no `k`.
const K_DEFAULT: u32 = 5;

/// The parameters of `recognise`. Only the image must be given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecogniseParams {
    /// A PGM or PNG file of at most [`IMAGE_BYTES_MAX`] bytes; in JSON as base64.
    pub image: Image,
    /// Number of matches, 1 to [`K_MAX`]. Default: 5.
    #[serde(default = "k_default")]
    pub k: u32,
    /// Distance beyond which a face counts as unknown. Default: none, and the nearest person is named.
    #[serde(default)]
    pub max_distance: Option<f32>,
}

fn k_default() -> u32 {
    K_DEFAULT
}

/// The bytes of an image file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image(pub Vec<u8>);

impl Serialize for Image {
    fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
        to.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Image {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        struct Visitor;

        impl serde::de::Visitor<'_> for Visitor {
            type Value = Image;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the bytes of an image, or base64 of them")
            }

            fn visit_bytes<E: serde::de::Error>(self, bytes: &[u8]) -> std::result::Result<Image, E> {
                Ok(Image(bytes.to_vec()))
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<Image, E> {
                STANDARD
                    .decode(text)
                    .map(Image)
                    .map_err(|error| E::custom(format_args!("image is no base64: {error}")))
            }
        }

        from.deserialize_bytes(Visitor)
    }
}

/// The parameter that is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ParamsError {
    /// The image is too large.
    #[error("image has {0} bytes; at most {IMAGE_BYTES_MAX} are allowed")]
    Bytes(usize),
    /// The image cannot be used.
    #[error("image")]
    Image(#[from] PictureError),
    /// `k` is out of its range.
    #[error("k is {0}; it must be 1 to {K_MAX}")]
    K(u32),
    /// `max_distance` is no distance.
    #[error("max_distance is {0}; it must be at least 0")]
    MaxDistance(f32),
}

impl RecogniseParams {
    /// The default parameters, for this image file.
    pub fn new(image: Vec<u8>) -> Self {
        Self { image: Image(image), k: K_DEFAULT, max_distance: None }
    }

    fn check(&self) -> std::result::Result<Picture, ParamsError> {
        if !(1..=K_MAX).contains(&self.k) {
            return Err(ParamsError::K(self.k));
        }
        if let Some(distance) = self.max_distance.filter(|distance| !distance.is_finite() || *distance < 0.0)
        {
            return Err(ParamsError::MaxDistance(distance));
        }
        if self.image.0.len() > IMAGE_BYTES_MAX {
            return Err(ParamsError::Bytes(self.image.0.len()));
        }
        Ok(Picture::decode(&self.image.0)?)
    }
}

/// A known face near the picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Match {
    /// The person's name.
    pub person: String,
    /// Its distance to the picture, in the space of faces.
    pub distance: f32,
    /// Path of the known picture below the gallery.
    pub picture: String,
}

impl Match {
    fn order(&self, other: &Self) -> Ordering {
        self.distance.total_cmp(&other.distance).then_with(|| self.picture.cmp(&other.picture))
    }
}

/// The nearest known faces of some partitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recognised {
    /// The nearest person; none if nobody is near enough.
    pub person: Option<String>,
    /// At most k of the known faces, nearest first.
    pub matches: Vec<Match>,
    /// The share of the picture that the model cannot explain, 0 to 1. Near 1, it is hardly a face.
    pub residual: f32,
    /// Number of known faces that were compared.
    pub compared: u64,
}

impl Recognised {
    /// Names the nearest person. A partial is an answer too, so this needs no last step at the caller.
    fn named(self, params: &RecogniseParams) -> Self {
        let is_near = |nearest: &&Match| params.max_distance.is_none_or(|most| nearest.distance <= most);
        let person = self.matches.first().filter(is_near).map(|nearest| nearest.person.clone());
        Self { person, ..self }
    }
}

/// The aggregation `recognise`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Recognise;

impl Aggregation for Recognise {
    type Params = RecogniseParams;
    type Partial = Recognised;

    fn local(&self, partition: &Partition, params: &RecogniseParams) -> Result<Recognised> {
        let FacesShard { model, shard } = partition.data_as::<FacesShard>()?;
        let picture = params.check().map_err(OperatorError::invalid_params)?;
        let projection = model.project(&picture);
        let projection =
            projection.map_err(|error| OperatorError::invalid_params(ParamsError::from(error)))?;
        let matching = Filter::default().compile(&shard.attributes)?;
        let (query, k) = (&projection.coordinates[..], params.k as usize);
        let (near, compared) = shard.search(&Search { query, k, ef: k, matching, exact: true })?;
        let known = |at: usize, distance| Match {
            person: shard.attributes.value(PERSON, at).unwrap_or_default().to_owned(),
            distance,
            picture: shard.id(at),
        };
        let matches = near.iter().map(|near| known(near.at as usize, near.distance)).collect();
        Ok(Recognised { person: None, matches, residual: projection.residual, compared }.named(params))
    }

    fn reduce(&self, a: Recognised, b: Recognised, params: &RecogniseParams) -> Result<Recognised> {
        let mut matches = a.matches;
        matches.extend(b.matches);
        matches.sort_by(Match::order);
        matches.truncate(params.k as usize);
        let compared = a.compared.saturating_add(b.compared);
        let both = Recognised { person: None, matches, residual: a.residual.max(b.residual), compared };
        Ok(both.named(params))
    }

    fn placement(&self) -> Placement {
        Placement::Measured
    }
}
