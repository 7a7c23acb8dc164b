//! Files of vectors: NumPy's `.npy`, and `.fvecs` of the research on nearest neighbours.
//!
//! - `.npy`: versions 1 to 3, C order, one or two dimensions, little-endian `f4` or `f8`, or `u1`. Its header
//!   is a Python literal of a fixed form, of which only this form is read.
//! - `.fvecs`: each row is its number of dimensions (32 bits, little-endian) and as many 32-bit floats.
//!
//! Rows are read one after the other; a file is never in memory as a whole. Sizes come from the file and are
//! compared with the file's length before any row is read, so a corrupt header allocates nothing.

use crate::error::OpenError;
use crate::limits::{DIMENSIONS_MAX, NPY_HEADER_BYTES_MAX};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

const NPY_MAGIC: &[u8] = b"\x93NUMPY";
const BUFFER_BYTES: usize = 1 << 20;

/// A number's form in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    F4,
    F8,
    U1,
}

impl Number {
    fn bytes(self) -> usize {
        match self {
            Self::F4 => 4,
            Self::F8 => 8,
            Self::U1 => 1,
        }
    }

    fn named(name: &str) -> Option<Self> {
        match name {
            "<f4" | "=f4" => Some(Self::F4),
            "<f8" | "=f8" => Some(Self::F8),
            "|u1" | "<u1" => Some(Self::U1),
            _ => None,
        }
    }
}

/// An open file of vectors.
#[derive(Debug)]
pub struct Rows {
    path: PathBuf,
    reader: BufReader<File>,
    number: Number,
    /// Bytes before each row that repeat the number of dimensions.
    prefix: usize,
    dimensions: usize,
    count: u64,
    /// The next row.
    at: u64,
    buffer: Vec<u8>,
}

impl Rows {
    /// Opens a file and reads its header. The name's ending gives the format.
    ///
    /// # Errors
    /// [`OpenError::File`] if it cannot be read; [`OpenError::Format`] if it is no such file, or its header
    /// does not fit its length.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let file = File::open(path).map_err(OpenError::file(path))?;
        let length = file.metadata().map_err(OpenError::file(path))?.len();
        let reader = BufReader::with_capacity(BUFFER_BYTES, file);
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("npy") => Self::npy(path, reader, length),
            Some("fvecs") => Self::fvecs(path, reader, length),
            _ => Err(OpenError::format(path, "expected a file that ends with .npy or .fvecs")),
        }
    }

    fn npy(path: &Path, mut reader: BufReader<File>, length: u64) -> Result<Self, OpenError> {
        let refuse = |problem: String| OpenError::format(path, problem);
        let short = |_| refuse("the file ends inside its header".to_owned());
        let mut begin = [0; 8];
        reader.read_exact(&mut begin).map_err(short)?;
        let version = match begin {
            [magic @ .., version, _] if magic == NPY_MAGIC => version,
            _ => return Err(refuse("not a .npy file: it does not begin with \\x93NUMPY".to_owned())),
        };
        let (length_bytes, header_bytes) = match version {
            1 => {
                let mut bytes = [0; 2];
                reader.read_exact(&mut bytes).map_err(short)?;
                (2, usize::from(u16::from_le_bytes(bytes)))
            }
            2 | 3 => {
                let mut bytes = [0; 4];
                reader.read_exact(&mut bytes).map_err(short)?;
                (4, usize::try_from(u32::from_le_bytes(bytes)).unwrap_or(usize::MAX))
            }
            other => return Err(refuse(format!("version {other} of .npy; allowed: 1, 2, 3"))),
        };
        if header_bytes > NPY_HEADER_BYTES_MAX {
            return Err(refuse(format!(
                "a header of {header_bytes} bytes; at most {NPY_HEADER_BYTES_MAX} are allowed"
            )));
        }
        let mut header = vec![0; header_bytes];
        reader.read_exact(&mut header).map_err(short)?;
        let header = String::from_utf8(header).map_err(|_| refuse("its header is not text".to_owned()))?;
        let (number, count, dimensions) = parse_header(&header).map_err(refuse)?;
        let dimensions = bounded(path, dimensions)?;
        let before = (8 + length_bytes + header_bytes) as u64;
        let expected =
            count.checked_mul((dimensions * number.bytes()) as u64).and_then(|data| data.checked_add(before));
        if expected != Some(length) {
            let problem = format!(
                "its header promises {count} rows of {dimensions} numbers, which do not fill its {length} bytes"
            );
            return Err(refuse(problem));
        }
        Ok(Self {
            path: path.to_owned(),
            reader,
            number,
            prefix: 0,
            dimensions,
            count,
            at: 0,
            buffer: Vec::new(),
        })
    }

    fn fvecs(path: &Path, mut reader: BufReader<File>, length: u64) -> Result<Self, OpenError> {
        let mut first = [0; 4];
        reader.read_exact(&mut first).map_err(|_| OpenError::format(path, "the file has no first row"))?;
        reader.seek_relative(-4).map_err(OpenError::file(path))?;
        let dimensions = bounded(path, u64::from(u32::from_le_bytes(first)))?;
        let row_bytes = 4 + 4 * dimensions as u64;
        if !length.is_multiple_of(row_bytes) {
            let problem = format!("its {length} bytes are no whole number of rows of {dimensions} numbers");
            return Err(OpenError::format(path, problem));
        }
        let count = length / row_bytes;
        let number = Number::F4;
        Ok(Self {
            path: path.to_owned(),
            reader,
            number,
            prefix: 4,
            dimensions,
            count,
            at: 0,
            buffer: Vec::new(),
        })
    }

    /// Numbers of each row.
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Rows of the file.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Skips rows. More rows than are left end the file.
    ///
    /// # Errors
    /// [`OpenError::File`] if the file cannot be read.
    pub fn skip(&mut self, rows: u64) -> Result<(), OpenError> {
        let rows = rows.min(self.count - self.at);
        let bytes = rows * self.row_bytes() as u64;
        // The length of a file fits, so its rows do.
        let bytes = i64::try_from(bytes).expect("invariant: a file has less than 2^63 bytes");
        self.reader.seek_relative(bytes).map_err(OpenError::file(&self.path))?;
        self.at += rows;
        Ok(())
    }

    /// Appends the next row to `vectors`. Returns false at the end.
    ///
    /// # Errors
    /// [`OpenError::File`] if the file cannot be read, [`OpenError::Row`] if a number is not finite, or a row
    /// of `.fvecs` has another number of dimensions.
    pub fn next(&mut self, vectors: &mut Vec<f32>) -> Result<bool, OpenError> {
        if self.at == self.count {
            return Ok(false);
        }
        let row = self.at;
        self.buffer.resize(self.row_bytes(), 0);
        self.reader.read_exact(&mut self.buffer).map_err(OpenError::file(&self.path))?;
        self.at += 1;
        let (prefix, numbers) = self.buffer.split_at(self.prefix);
        let refuse = |problem: String| OpenError::Row { path: self.path.clone(), row, problem };
        if let Ok(own) = <[u8; 4]>::try_from(prefix)
            && u32::from_le_bytes(own) as usize != self.dimensions
        {
            let own = u32::from_le_bytes(own);
            return Err(refuse(format!("has {own} dimensions; the first row has {}", self.dimensions)));
        }
        let begin = vectors.len();
        match self.number {
            Number::F4 => {
                vectors.extend(numbers.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
            }
            Number::F8 => {
                vectors.extend(numbers.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes) as f32));
            }
            Number::U1 => vectors.extend(numbers.iter().map(|byte| f32::from(*byte))),
        }
        match vectors[begin..].iter().position(|x| !x.is_finite()) {
            None => Ok(true),
            Some(at) => Err(refuse(format!(
                "has {} at position {at}; only finite numbers are allowed",
                vectors[begin + at]
            ))),
        }
    }

    fn row_bytes(&self) -> usize {
        self.prefix + self.dimensions * self.number.bytes()
    }
}

fn bounded(path: &Path, dimensions: u64) -> Result<usize, OpenError> {
    let found =
        usize::try_from(dimensions).ok().filter(|dimensions| (1..=DIMENSIONS_MAX).contains(dimensions));
    found.ok_or_else(|| OpenError::dimensions(path, dimensions))
}

/// Reads `{'descr': '<f4', 'fortran_order': False, 'shape': (10, 3), }`, with its keys in any order.
fn parse_header(header: &str) -> Result<(Number, u64, u64), String> {
    let value = |key: &str| {
        let quoted = format!("'{key}'");
        let rest = header.split_once(&quoted).and_then(|(_, rest)| rest.trim_start().strip_prefix(':'));
        rest.map(str::trim_start).ok_or_else(|| format!("its header has no {key}"))
    };
    let descr = value("descr")?;
    let name =
        descr.strip_prefix('\'').and_then(|rest| rest.split_once('\'')).map_or(descr, |(name, _)| name);
    let number = Number::named(name).ok_or_else(|| {
        let found: String = name.chars().take(20).collect();
        format!("numbers of type {found}; allowed: <f4, <f8, |u1 (write it with array.astype('<f4'))")
    })?;
    if !value("fortran_order")?.starts_with("False") {
        return Err("it is in Fortran order; write it with numpy.ascontiguousarray".to_owned());
    }
    let shape =
        value("shape")?.strip_prefix('(').and_then(|rest| rest.split_once(')')).map(|(shape, _)| shape);
    let lengths: Option<Vec<u64>> = shape.and_then(|shape| {
        shape
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
            .map(|part| part.parse().ok())
            .collect()
    });
    match lengths.as_deref() {
        Some(&[count, dimensions]) => Ok((number, count, dimensions)),
        // One vector.
        Some(&[dimensions]) => Ok((number, 1, dimensions)),
        _ => Err(format!("its shape is ({}); expected (rows, dimensions)", shape.unwrap_or("?"))),
    }
}

/// The bytes of a `.npy` file of rows of 32-bit floats, as NumPy writes it.
///
/// # Panics
/// If `values` is no whole number of rows.
pub fn npy(values: &[f32], dimensions: usize) -> Vec<u8> {
    assert!(dimensions > 0 && values.len().is_multiple_of(dimensions), "only whole rows have a shape");
    let rows = values.len() / dimensions;
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {dimensions}), }}");
    // NumPy aligns the data to 64 bytes.
    while !(NPY_MAGIC.len() + 4 + header.len() + 1).is_multiple_of(64) {
        header.push(' ');
    }
    header.push('\n');
    let mut bytes = [NPY_MAGIC, &[1, 0]].concat();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(ending: &str, bytes: &[u8]) -> tempfile::NamedTempFile {
        let file = tempfile::Builder::new().suffix(ending).tempfile().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    fn read(ending: &str, bytes: &[u8]) -> Result<(usize, Vec<f32>), String> {
        let file = file(ending, bytes);
        let mut rows = Rows::open(file.path()).map_err(|error| error.to_string())?;
        let mut all = Vec::new();
        while rows.next(&mut all).map_err(|error| error.to_string())? {}
        Ok((rows.dimensions(), all))
    }

    fn with_header(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = [NPY_MAGIC, &[1, 0]].concat();
        bytes.extend((header.len() as u16).to_le_bytes());
        bytes.extend(header.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn formats_of_numpy_and_fvecs_are_read() {
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        assert_eq!(read(".npy", &npy(&values, 3)), Ok((3, values.to_vec())));
        let header = "{'shape': (1, 2), 'fortran_order': False, 'descr': '<f8'}";
        let doubles: Vec<u8> = [0.5f64, -2.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        assert_eq!(read(".npy", &with_header(header, &doubles)), Ok((2, vec![0.5, -2.0])));
        let header = "{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }";
        assert_eq!(read(".npy", &with_header(header, &[0, 7, 255])), Ok((3, vec![0.0, 7.0, 255.0])));
        let row = |values: [f32; 2]| {
            [2u32.to_le_bytes(), values[0].to_le_bytes(), values[1].to_le_bytes()].concat()
        };
        let fvecs = [row([1.0, 2.0]), row([3.0, 4.0])].concat();
        assert_eq!(read(".fvecs", &fvecs), Ok((2, vec![1.0, 2.0, 3.0, 4.0])));
    }

    #[test]
    fn rows_can_be_skipped() {
        let file = file(".npy", &npy(&[0.0, 1.0, 2.0, 3.0, 4.0], 1));
        let mut rows = Rows::open(file.path()).unwrap();
        let mut found = Vec::new();
        rows.skip(1).unwrap();
        while rows.next(&mut found).unwrap() {
            rows.skip(1).unwrap();
        }
        assert_eq!(found, [1.0, 3.0]);
    }

    #[test]
    fn corrupt_files_are_refused_with_the_expected_form() {
        let header = |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
        let good = npy(&[1.0, f32::NAN], 2);
        let mut many = [NPY_MAGIC, &[2, 0]].concat();
        many.extend(u32::MAX.to_le_bytes());
        for (bytes, problem) in [
            (b"PK\x03\x04 not numpy".to_vec(), "does not begin with"),
            (good[..20].to_vec(), "ends inside its header"),
            (good[..good.len() - 1].to_vec(), "promises 1 rows of 2 numbers"),
            (good.clone(), "row 0 has NaN at position 1"),
            (many, "a header of 4294967295 bytes; at most 65536"),
            (with_header(&header("(9223372036854775807, 8192)"), &[]), "promises 9223372036854775807 rows"),
            (
                with_header(&header("(1, 999999999)"), &[]),
                "vectors of 999999999 dimensions; allowed: 1 to 8192",
            ),
            (with_header(&header("(1, 0)"), &[]), "vectors of 0 dimensions"),
            (with_header(&header("(2, 2, 2)"), &[0; 32]), "expected (rows, dimensions)"),
            (with_header(&header("(-1, 2)"), &[]), "expected (rows, dimensions)"),
            (
                with_header("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1)}", &[0; 4]),
                "Fortran order",
            ),
            (
                with_header("{'descr': '|O', 'fortran_order': False, 'shape': (1, 1)}", &[0; 4]),
                "numbers of type |O",
            ),
            (with_header("no dictionary", &[]), "its header has no descr"),
        ] {
            let refused = read(".npy", &bytes).unwrap_err();
            assert!(refused.contains(problem), "expected {problem:?}: {refused}");
        }
        assert!(read(".fvecs", &[0, 0, 0, 0]).unwrap_err().contains("0 dimensions"));
        assert!(read(".fvecs", &[]).unwrap_err().contains("no first row"));
        assert!(read(".fvecs", &[1, 0, 0, 0, 0, 0]).unwrap_err().contains("no whole number of rows"));
        let uneven = [1u32.to_le_bytes(), [0; 4], 2u32.to_le_bytes(), [0; 4]].concat();
        assert!(read(".fvecs", &uneven).unwrap_err().contains("row 1 has 2 dimensions; the first row has 1"));
        assert!(read(".txt", b"1 2").unwrap_err().contains(".npy or .fvecs"));
    }

    proptest! {
        /// Any bytes are rows or an error.
        #[test]
        fn no_file_panics(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), flips in 0usize..6, at in any::<u64>()) {
            for ending in [".npy", ".fvecs"] {
                let _ = read(ending, &bytes);
            }
            let good = npy(&[1.0, 2.0, 3.0, 4.0], 2);
            bytes = good;
            for flip in 0..flips {
                let place = (at as usize).wrapping_mul(flip + 1) % bytes.len();
                bytes[place] ^= (at >> (8 * flip)) as u8;
            }
            let _ = read(".npy", &bytes);
        }
    }
}
