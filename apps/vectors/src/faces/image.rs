//! Pictures: reading PGM and PNG, scaling, and evening out the light.
//!
//! A picture may come from a caller, so its size is read and bounded before its pixels are.

use crate::limits::{FACE_PIXELS_MAX, PIXELS_MAX};
use std::io::Cursor;

const PNG_MAGIC: &[u8] = b"\x89PNG\r\n\x1a\n";
/// A picture whose pixels differ less than this, of 255, shows nothing.
const DEVIATION_MIN: f64 = 0.5;

/// A grey picture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    width: usize,
    height: usize,
    /// Row by row; 0 is black.
    pixels: Vec<u8>,
}

/// Why bytes are not a picture that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PictureError {
    /// The bytes begin like no known format.
    #[error("neither PGM (P2, P5) nor PNG; convert other pictures, for instance with ImageMagick")]
    Format,
    /// The picture is too large or has no pixels.
    #[error("a picture of {width} × {height} pixels; allowed: 1 to {PIXELS_MAX} in all")]
    Size {
        /// Its width in pixels.
        width: usize,
        /// Its height in pixels.
        height: usize,
    },
    /// The bytes are damaged.
    #[error("a damaged {format} file: {problem}")]
    Damaged {
        /// The format.
        format: &'static str,
        /// The part that does not fit.
        problem: String,
    },
    /// All pixels are about equal.
    #[error("the picture has one colour; there is nothing to recognise")]
    Blank,
}

impl Picture {
    /// A picture of these pixels, row by row.
    ///
    /// # Errors
    /// [`PictureError::Size`] if the numbers do not fit.
    pub fn new(width: usize, height: usize, pixels: Vec<u8>) -> Result<Self, PictureError> {
        match pixels.len() == bounded(width, height)? {
            true => Ok(Self { width, height, pixels }),
            false => Err(PictureError::Size { width, height }),
        }
    }

    /// Reads a PGM or PNG file. Colours become grey.
    ///
    /// # Errors
    /// Any [`PictureError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, PictureError> {
        match bytes {
            [b'P', b'2' | b'5', ..] => pgm(bytes),
            _ if bytes.starts_with(PNG_MAGIC) => png(bytes),
            _ => Err(PictureError::Format),
        }
    }

    /// The bytes of a PGM file.
    pub fn to_pgm(&self) -> Vec<u8> {
        let header = format!("P5\n{} {}\n255\n", self.width, self.height);
        [header.as_bytes(), &self.pixels].concat()
    }

    /// Width and height in pixels.
    pub fn size(&self) -> (usize, usize) {
        (self.width, self.height)
    }

    /// The picture at another size. Each new pixel is the average of the area that it covers.
    ///
    /// # Panics
    /// If a side is zero, or the new picture has more than [`FACE_PIXELS_MAX`] pixels.
    pub fn scaled(&self, width: usize, height: usize) -> Vec<f32> {
        assert!(
            width > 0 && height > 0 && width * height <= FACE_PIXELS_MAX,
            "the size of a face was checked before"
        );
        let columns = shares(self.width, width);
        let mut narrow = Vec::with_capacity(width * self.height);
        for row in self.pixels.chunks(self.width) {
            narrow.extend(columns.iter().map(|share| share.of(|at| f64::from(row[at]))));
        }
        let mut scaled = Vec::with_capacity(width * height);
        for share in shares(self.height, height) {
            scaled.extend((0..width).map(|x| share.of(|at| narrow[at * width + x]) as f32));
        }
        scaled
    }
}

/// Gives pixels an average of 0 and a deviation of 1, so that brightness and contrast do not matter.
///
/// # Errors
/// [`PictureError::Blank`] if all pixels are about equal.
pub fn even_out(pixels: &mut [f32]) -> Result<(), PictureError> {
    let count = pixels.len() as f64;
    let mean = pixels.iter().map(|pixel| f64::from(*pixel)).sum::<f64>() / count;
    let squares = pixels.iter().map(|pixel| (f64::from(*pixel) - mean).powi(2)).sum::<f64>();
    let deviation = (squares / count).sqrt();
    if deviation < DEVIATION_MIN {
        return Err(PictureError::Blank);
    }
    pixels.iter_mut().for_each(|pixel| *pixel = ((f64::from(*pixel) - mean) / deviation) as f32);
    Ok(())
}

/// A new pixel's part of a row of old pixels.
struct Share {
    begin: f64,
    end: f64,
}

fn shares(old: usize, new: usize) -> Vec<Share> {
    let at = |number: usize| number as f64 * old as f64 / new as f64;
    (0..new).map(|number| Share { begin: at(number), end: at(number + 1) }).collect()
}

impl Share {
    /// The average of the values, each weighted by how much of it lies in this part.
    fn of(&self, value: impl Fn(usize) -> f64) -> f64 {
        let (first, past) = (self.begin.floor() as usize, self.end.ceil() as usize);
        let part = |at: usize| self.end.min((at + 1) as f64) - self.begin.max(at as f64);
        let (mut sum, mut weight) = (0.0, 0.0);
        for at in first..past {
            sum += value(at) * part(at);
            weight += part(at);
        }
        sum / weight
    }
}

fn bounded(width: usize, height: usize) -> Result<usize, PictureError> {
    let pixels = width.checked_mul(height).filter(|pixels| (1..=PIXELS_MAX).contains(pixels));
    pixels.ok_or(PictureError::Size { width, height })
}

fn pgm(bytes: &[u8]) -> Result<Picture, PictureError> {
    let damaged = |problem: &str| PictureError::Damaged { format: "PGM", problem: problem.to_owned() };
    let is_text = bytes[1] == b'2';
    let mut rest = &bytes[2..];
    let mut number = |what: &str| -> Result<usize, PictureError> {
        loop {
            rest = rest.trim_ascii_start();
            if rest.first() != Some(&b'#') {
                break;
            }
            let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
            rest = &rest[end..];
        }
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (text, after) = rest.split_at(digits);
        rest = after;
        let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        parsed.ok_or_else(|| damaged(&format!("it has no {what}")))
    };
    let (width, height, white) = (number("width")?, number("height")?, number("greatest value")?);
    let count = bounded(width, height)?;
    if !(1..=255).contains(&white) {
        return Err(damaged(&format!("its greatest value is {white}; allowed: 1 to 255")));
    }
    let raw: Vec<usize> = if is_text {
        // Every number of a text needs two bytes, so a short file ends here before it is allocated for.
        if bytes.len() < count {
            return Err(damaged("it ends early"));
        }
        (0..count).map(|_| number("further pixel")).collect::<Result<_, _>>()?
    } else {
        let pixels =
            rest.get(1..).and_then(|rest| rest.get(..count)).ok_or_else(|| damaged("it ends early"))?;
        pixels.iter().map(|pixel| usize::from(*pixel)).collect()
    };
    let pixels = raw.into_iter().map(|pixel| (pixel.min(white) * 255 / white) as u8).collect();
    Ok(Picture { width, height, pixels })
}

fn png(bytes: &[u8]) -> Result<Picture, PictureError> {
    let damaged =
        |error: png::DecodingError| PictureError::Damaged { format: "PNG", problem: error.to_string() };
    // Colours and 16 bits take at most eight bytes a pixel.
    let limits = png::Limits { bytes: 8 * PIXELS_MAX };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), limits);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().map_err(damaged)?;
    let (width, height) = (reader.info().width as usize, reader.info().height as usize);
    let count = bounded(width, height)?;
    let mut raw = vec![0; reader.output_buffer_size().ok_or(PictureError::Size { width, height })?];
    let frame = reader.next_frame(&mut raw).map_err(damaged)?;
    let samples = frame.color_type.samples();
    let pixel = |samples: &[u8]| match samples {
        [red, green, blue, ..] => {
            ((299 * u32::from(*red) + 587 * u32::from(*green) + 114 * u32::from(*blue) + 500) / 1_000) as u8
        }
        // Grey, with or without opacity.
        _ => samples[0],
    };
    let pixels: Vec<u8> = raw.chunks_exact(samples).take(count).map(pixel).collect();
    Picture::new(width, height, pixels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(width: u32, height: u32, colour: png::ColorType, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(colour);
        encoder.set_depth(png::BitDepth::Eight);
        encoder.write_header().unwrap().write_image_data(data).unwrap();
        bytes
    }

    #[test]
    fn pgm_and_png_give_the_same_picture() {
        let picture = Picture::new(3, 2, vec![0, 50, 100, 150, 200, 250]).unwrap();
        assert_eq!(Picture::decode(&picture.to_pgm()), Ok(picture.clone()));
        let text = b"P2\n# a comment\n3 2\n# another\n255\n0 50 100\n150 200 250\n";
        assert_eq!(Picture::decode(text), Ok(picture.clone()));
        assert_eq!(
            Picture::decode(&encoded(3, 2, png::ColorType::Grayscale, &picture.pixels)),
            Ok(picture.clone())
        );
        let colours: Vec<u8> = picture.pixels.iter().flat_map(|grey| [*grey, *grey, *grey, 9]).collect();
        assert_eq!(Picture::decode(&encoded(3, 2, png::ColorType::Rgba, &colours)), Ok(picture));
    }

    #[test]
    fn new_pixels_are_averages_of_areas() {
        let picture = Picture::new(4, 2, vec![0, 10, 20, 30, 40, 50, 60, 70]).unwrap();
        assert_eq!(picture.scaled(2, 1), [25.0, 45.0]);
        assert_eq!(picture.scaled(4, 2)[5], 50.0);
        assert_eq!(picture.scaled(8, 2)[..4], [0.0, 0.0, 10.0, 10.0]);
        let third = Picture::new(3, 1, vec![0, 30, 60]).unwrap().scaled(2, 1);
        assert!((third[0] - 10.0).abs() < 1e-4 && (third[1] - 50.0).abs() < 1e-4, "{third:?}");
    }

    #[test]
    fn light_is_evened_out() {
        let (mut dark, mut bright) = ([1.0, 3.0, 2.0, 2.0], [101.0, 141.0, 121.0, 121.0]);
        even_out(&mut dark).unwrap();
        even_out(&mut bright).unwrap();
        assert_eq!(dark, bright);
        assert_eq!(even_out(&mut [7.0, 7.0]), Err(PictureError::Blank));
    }

    #[test]
    fn hostile_sizes_are_refused_before_memory_is_taken() {
        let size = |bytes: &[u8]| matches!(Picture::decode(bytes), Err(PictureError::Size { .. }));
        assert!(
            size(b"P5 100000 100000 255\n")
                && size(b"P5 0 9 255\n")
                && size(b"P2 9223372036854775807 9 255\n")
        );
        let mut large = encoded(1, 1, png::ColorType::Grayscale, &[0]);
        large[16..24].copy_from_slice(&[0, 1, 0, 0, 0, 1, 0, 0]);
        assert!(Picture::decode(&large).is_err());
        for (bytes, problem) in [
            (&b"GIF89a"[..], "neither PGM"),
            (b"P5 2 2 255\nabc", "ends early"),
            (b"P5 2 2 65535\nabcdefgh", "greatest value is 65535"),
            (b"P2 2 2 255\n1 2 3", "no further pixel"),
            (b"P5 2", "no height"),
        ] {
            let refused = Picture::decode(bytes).unwrap_err().to_string();
            assert!(refused.contains(problem), "expected {problem:?}: {refused}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..99), at in any::<usize>(), flip in any::<u8>()) {
            let text = [b"P2 ", &bytes[..]].concat();
            let raw = [b"P5 ", &bytes[..]].concat();
            let mut png = encoded(4, 3, png::ColorType::Grayscale, &[7; 12]);
            let place = at % png.len();
            png[place] ^= flip;
            for bytes in [&bytes, &text, &raw, &png] {
                let _ = Picture::decode(bytes);
            }
        }
    }
}
