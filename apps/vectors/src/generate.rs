//! Generated vectors with attributes, for trials and tests: groups of vectors around random centres, as embeddings are.

use crate::draw::Draw;
use crate::error::OpenError;
use crate::rows::npy;
use serde_json::json;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// How vectors are generated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Generated {
    /// Number of vectors.
    pub rows: usize,
    /// Numbers of each vector.
    pub dimensions: usize,
    /// Number of groups.
    pub groups: usize,
    /// The same seed gives the same vectors.
    pub seed: u64,
    /// The first vector to keep, of the endless list of the seed's vectors. Queries are taken from behind the
    /// stored ones.
    pub skip: usize,
}

impl Generated {
    /// The vectors, one after the other, and the group of each.
    pub fn vectors(&self) -> (Vec<f32>, Vec<usize>) {
        let mut draw = Draw::new(self.seed);
        let centres: Vec<f64> = (0..self.groups * self.dimensions).map(|_| draw.normal()).collect();
        let mut values = Vec::with_capacity(self.rows * self.dimensions);
        let mut groups = Vec::with_capacity(self.rows);
        for row in self.skip..self.skip + self.rows {
            let mut draw = Draw::new(draw.bits_of(row as u64));
            let group = (draw.bits() % self.groups as u64) as usize;
            let centre = &centres[group * self.dimensions..][..self.dimensions];
            values.extend(centre.iter().map(|x| (x + 0.7 * draw.normal()) as f32));
            groups.push(group);
        }
        (values, groups)
    }

    /// Writes the vectors to a `.npy` file, and their attributes (`id`, `group`, `year`) to a file that ends
    /// with `.jsonl`. Returns its path.
    ///
    /// # Errors
    /// [`OpenError::File`] if a file cannot be written.
    pub fn write(&self, path: &Path) -> Result<PathBuf, OpenError> {
        let (values, groups) = self.vectors();
        fs::write(path, npy(&values, self.dimensions)).map_err(OpenError::file(path))?;
        let mut lines = String::new();
        for (row, group) in (self.skip..).zip(groups) {
            let line =
                json!({"id": format!("v{row}"), "group": format!("g{group}"), "year": 2000 + row % 25});
            writeln!(lines, "{line}").expect("writing to a String cannot fail");
        }
        let attributes = path.with_extension("jsonl");
        fs::write(&attributes, lines).map_err(OpenError::file(&attributes))?;
        Ok(attributes)
    }
}
