//! Drawn faces of people who do not exist.
//!
//! A person is a set of proportions: the shape of the head, the place and size of eyes, brows, nose and
//! mouth, and the tones of skin and hair. A picture of the person adds what differs from photograph to
//! photograph: light from one side, a small shift, an expression, and noise. The same seed gives the same
//! bytes on every machine.

use super::image::Picture;
use crate::draw::Draw;
use crate::error::OpenError;
use std::fs;
use std::path::Path;

/// Width and height of generated pictures.
pub const SIZE: (usize, usize) = (64, 64);

/// Lengths and places are in parts of the picture's width.
struct Person {
    head: (f64, f64),
    eyes: (f64, f64, f64),
    brows: (f64, f64),
    nose: (f64, f64),
    mouth: (f64, f64),
    hair: f64,
    /// Tones of background, skin and hair.
    tones: (f64, f64, f64),
}

/// The differences of one photograph.
struct Light {
    shift: (f64, f64),
    /// Brightness that is added at the right and at the bottom.
    slope: (f64, f64),
    brightness: f64,
    /// How far the mouth is open.
    smile: f64,
    noise: f64,
}

impl Person {
    fn draw(draw: &mut Draw) -> Self {
        Self {
            head: (draw.between(0.24, 0.36), draw.between(0.32, 0.44)),
            eyes: (draw.between(0.10, 0.17), draw.between(-0.12, -0.02), draw.between(0.025, 0.05)),
            brows: (draw.between(0.05, 0.10), draw.between(0.010, 0.025)),
            nose: (draw.between(0.06, 0.16), draw.between(0.02, 0.05)),
            mouth: (draw.between(0.07, 0.16), draw.between(0.16, 0.24)),
            hair: draw.between(-0.30, -0.12),
            tones: (draw.between(20.0, 90.0), draw.between(120.0, 210.0), draw.between(10.0, 110.0)),
        }
    }

    /// The tone at a place, from the middle of the head.
    fn tone(&self, x: f64, y: f64, light: &Light) -> f64 {
        let (background, skin, hair) = self.tones;
        let ellipse =
            |x: f64, y: f64, (width, height): (f64, f64)| (x / width).powi(2) + (y / height).powi(2) <= 1.0;
        let (apart, eye_y, eye) = self.eyes;
        let side = x.abs() - apart;
        if !ellipse(x, y, self.head) {
            let is_hair = ellipse(x, y + 0.04, (self.head.0 * 1.12, self.head.1 * 1.08)) && y < 0.1;
            return if is_hair { hair } else { background };
        }
        if ellipse(side, y - eye_y, (eye * 0.45, eye * 0.45)) {
            15.0
        } else if ellipse(side, y - eye_y, (eye, eye * 0.6)) {
            235.0
        } else if side.abs() < self.brows.0 && (y - eye_y + self.brows.0).abs() < self.brows.1 {
            hair * 0.8
        } else if ellipse(x, y - self.mouth.1, (self.mouth.0, 0.015 + light.smile)) {
            skin * 0.45
        } else if x.abs() < self.nose.1 && y > eye_y && y < eye_y + self.nose.0 {
            skin * 0.85
        } else if y < self.hair {
            hair
        } else {
            skin
        }
    }

    fn picture(&self, draw: &mut Draw) -> Picture {
        let light = Light {
            shift: (draw.between(-0.012, 0.012), draw.between(-0.012, 0.012)),
            slope: (draw.between(-30.0, 30.0), draw.between(-15.0, 15.0)),
            brightness: draw.between(0.85, 1.1),
            smile: draw.between(0.0, 0.025),
            noise: draw.between(3.0, 8.0),
        };
        let (width, height) = SIZE;
        let mut pixels = Vec::with_capacity(width * height);
        for row in 0..height {
            for column in 0..width {
                let x = (column as f64 + 0.5) / width as f64 - 0.5;
                let y = (row as f64 + 0.5) / width as f64 - 0.5;
                let tone = self.tone(x - light.shift.0, y - light.shift.1, &light) * light.brightness;
                let lit = tone + light.slope.0 * x + light.slope.1 * y + draw.normal() * light.noise;
                pixels.push(lit.round().clamp(0.0, 255.0) as u8);
            }
        }
        Picture::new(width, height, pixels).expect("invariant: the size of generated pictures is allowed")
    }
}

/// Draws picture `number` of a person, of the people of a seed.
pub fn face(seed: u64, person: u32, number: u32) -> Picture {
    let stream = Draw::new(seed).bits() ^ (u64::from(person) << 32);
    let person = Person::draw(&mut Draw::new(stream));
    person.picture(&mut Draw::new(Draw::new(stream ^ (u64::from(number) + 1)).bits()))
}

/// Writes pictures `numbers` of each of `people` people into folders `p000`, `p001` and so on below `folder`, as PGM.
///
/// # Errors
/// [`OpenError::File`] if a file cannot be written.
pub fn generate(
    folder: &Path,
    people: u32,
    numbers: std::ops::Range<u32>,
    seed: u64,
) -> Result<(), OpenError> {
    for person in 0..people {
        let own = folder.join(format!("p{person:03}"));
        fs::create_dir_all(&own).map_err(OpenError::file(&own))?;
        for number in numbers.clone() {
            let path = own.join(format!("{number:02}.pgm"));
            fs::write(&path, face(seed, person, number).to_pgm()).map_err(OpenError::file(&path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_depend_on_seed_person_and_number_only() {
        assert_eq!(face(1, 2, 3), face(1, 2, 3));
        let others = [face(2, 2, 3), face(1, 3, 3), face(1, 2, 4)];
        assert!(others.iter().all(|other| *other != face(1, 2, 3)));
        let sum: u64 = face(1, 0, 0).to_pgm().iter().map(|byte| u64::from(*byte)).sum();
        assert_eq!(sum, PINNED, "the same on every machine");
    }

    const PINNED: u64 = 313_209;
}
