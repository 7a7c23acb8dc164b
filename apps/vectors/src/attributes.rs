//! Ids and attributes of rows: a file beside the vectors with one line for each row.
//!
//! - `.jsonl`: a JSON object a line. Values are texts, numbers, true, false or null.
//! - `.csv`: a line of names, then a line for each row.
//!
//! The attribute `id` names a row; without it the row's number does. Every other attribute is a column of
//! codes into the list of its distinct values, so that a filter decides once for each value, and then
//! compares codes only. All values are texts here; a value that reads as a number can also be compared as
//! one. Blank lines are no rows.

use crate::error::OpenError;
use crate::limits::{ATTRIBUTES_MAX, LINE_BYTES_MAX, VALUE_BYTES_MAX};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use treefold_operators::text::lines::LineError;
use treefold_operators::text::{self, Csv, LineReader, json};

/// The attribute that names a row.
const ID: &str = "id";
/// The code of a row without the attribute.
const ABSENT: u32 = u32::MAX;

/// One attribute of a partition's rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Column {
    /// Distinct values, in the order of their first rows.
    pub(crate) values: Vec<String>,
    codes: Vec<u32>,
}

impl Column {
    /// The code of a row's value.
    pub(crate) fn code(&self, at: usize) -> Option<usize> {
        self.codes.get(at).copied().filter(|code| *code != ABSENT).map(|code| code as usize)
    }
}

/// The ids and attributes of a partition's rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attributes {
    ids: Vec<String>,
    /// Row numbers by id.
    by_id: Vec<u32>,
    columns: BTreeMap<String, Column>,
}

impl Attributes {
    pub(crate) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.get(name)
    }

    /// The names of all attributes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.keys().map(String::as_str)
    }

    /// The id of a row, if ids were given.
    pub(crate) fn id(&self, at: usize) -> Option<&str> {
        self.ids.get(at).map(String::as_str)
    }

    /// Tells whether rows have ids.
    pub(crate) fn has_ids(&self) -> bool {
        !self.ids.is_empty()
    }

    /// The value of a row's attribute.
    pub(crate) fn value(&self, name: &str, at: usize) -> Option<&str> {
        let column = self.columns.get(name)?;
        column.code(at).map(|code| column.values[code].as_str())
    }

    /// The rows of this id.
    pub(crate) fn rows_of(&self, id: &str) -> impl Iterator<Item = usize> {
        let begin = self.by_id.partition_point(|row| self.ids[*row as usize].as_str() < id);
        let rest = self.by_id[begin..].iter().map(|row| *row as usize);
        rest.take_while(move |row| self.ids[*row] == id)
    }
}

/// Gathers the attributes of a partition row by row.
#[derive(Debug, Default)]
pub(crate) struct Gathering {
    made: Attributes,
    codes: BTreeMap<String, HashMap<String, u32>>,
    rows: usize,
}

impl Gathering {
    /// Adds the next row.
    pub(crate) fn add(&mut self, line: Line) {
        for (name, value) in line {
            if name == ID {
                self.made.ids.push(value);
                continue;
            }
            let column = self.made.columns.entry(name.clone()).or_default();
            column.codes.resize(self.rows, ABSENT);
            let codes = self.codes.entry(name).or_default();
            // A partition has fewer rows than codes.
            let next = column.values.len() as u32;
            let code = *codes.entry(value).or_insert_with_key(|value| {
                column.values.push(value.clone());
                next
            });
            column.codes.push(code);
        }
        self.rows += 1;
    }

    /// Ends with the names of the whole file, of which this partition may lack some.
    pub(crate) fn end(mut self, names: &[String]) -> Attributes {
        for name in names {
            self.made.columns.entry(name.clone()).or_default();
        }
        for column in self.made.columns.values_mut() {
            column.codes.resize(self.rows, ABSENT);
        }
        let ids = &self.made.ids;
        self.made.by_id = (0..ids.len() as u32).collect();
        self.made.by_id.sort_by(|a, b| ids[*a as usize].cmp(&ids[*b as usize]).then(a.cmp(b)));
        self.made
    }
}

/// Names and values of one row.
pub(crate) type Line = Vec<(String, String)>;

/// An open file of attributes.
pub(crate) struct Lines {
    path: PathBuf,
    form: Form,
    /// Names in the file so far, without `id`.
    names: Vec<String>,
    /// True if the first row has an id. All others must then have one too.
    has_ids: Option<bool>,
    row: u64,
}

enum Form {
    Json(Box<LineReader<File>>),
    Csv(Box<csv::Reader<Csv<File>>>, csv::StringRecord),
}

impl Lines {
    /// Opens a file. The name's ending gives the format.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        let file = File::open(path).map_err(OpenError::file(path))?;
        let form = match path.extension().and_then(|ending| ending.to_str()) {
            Some("jsonl") => Form::Json(Box::new(LineReader::new(file, LINE_BYTES_MAX))),
            Some("csv") => {
                let mut reader = csv::Reader::from_reader(Csv::new(file));
                let names =
                    reader.headers().map_err(|error| OpenError::format(path, error.to_string()))?.clone();
                if let Some((at, name)) = text::csv::repeated(&names) {
                    let problem = format!("column {} of the header: `{name}` occurs twice", at + 1);
                    return Err(OpenError::format(path, problem));
                }
                Form::Csv(Box::new(reader), names)
            }
            _ => return Err(OpenError::format(path, "expected a file that ends with .jsonl or .csv")),
        };
        Ok(Self { path: path.to_owned(), form, names: Vec::new(), has_ids: None, row: 0 })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The names of the attributes so far.
    pub(crate) fn names(&self) -> &[String] {
        &self.names
    }

    /// Reads the next row. `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Line>, OpenError> {
        let refuse = |problem: String| OpenError::Row { path: self.path.clone(), row: self.row, problem };
        let line = match &mut self.form {
            Form::Json(reader) => match reader.next_line() {
                Ok(line) => line.map(parse_json),
                Err(LineError::Unreadable(error)) => return Err(OpenError::file(&self.path)(error)),
                Err(LineError::TooLong(_)) => Some(Err(format!("is longer than {LINE_BYTES_MAX} bytes"))),
            },
            Form::Csv(reader, names) => {
                let mut record = csv::StringRecord::new();
                match reader.read_record(&mut record) {
                    Ok(false) => None,
                    Ok(true) => Some(Ok(csv_line(names, &record))),
                    Err(error) => Some(Err(format!("can't be read: {error}"))),
                }
            }
        };
        let Some(line) = line else { return Ok(None) };
        let line = line.and_then(|line| self.check(line)).map_err(refuse)?;
        self.row += 1;
        Ok(Some(line))
    }

    fn check(&self, line: Line) -> Result<Line, String> {
        if let Some((name, value)) = line.iter().find(|(_, value)| value.len() > VALUE_BYTES_MAX) {
            return Err(format!(
                "has {} bytes in {name}; at most {VALUE_BYTES_MAX} are allowed",
                value.len()
            ));
        }
        let has_id = line.iter().any(|(name, _)| name == ID);
        if self.has_ids.is_some_and(|all| all != has_id) {
            return Err("has an id and the first row has none, or the other way round".to_owned());
        }
        Ok(line)
    }

    /// Notes the names of a line that was read.
    pub(crate) fn note(&mut self, line: &Line) -> Result<(), OpenError> {
        self.has_ids.get_or_insert_with(|| line.iter().any(|(name, _)| name == ID));
        for (name, _) in line.iter().filter(|(name, _)| name != ID) {
            if !self.names.iter().any(|known| known == name) {
                if self.names.len() == ATTRIBUTES_MAX {
                    let problem = format!("more than {ATTRIBUTES_MAX} attributes; {name} is one more");
                    return Err(OpenError::format(&self.path, problem));
                }
                self.names.push(name.clone());
            }
        }
        Ok(())
    }
}

fn parse_json(line: &[u8]) -> Result<Line, String> {
    use serde_json::Value;
    let object: BTreeMap<String, Value> =
        json::from_slice(line).map_err(|error| format!("is no JSON object: {error}"))?;
    let mut values = Vec::with_capacity(object.len());
    for (name, value) in object {
        let value = match value {
            Value::Null => continue,
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            Value::Array(_) | Value::Object(_) => {
                return Err(format!(
                    "has a list or an object in {name}; texts, numbers, true and false are allowed"
                ));
            }
        };
        values.push((name, value));
    }
    Ok(values)
}

/// An empty field is an absent value.
fn csv_line(names: &csv::StringRecord, record: &csv::StringRecord) -> Line {
    let fields = names.iter().zip(record.iter()).filter(|(_, value)| !value.is_empty());
    fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(ending: &str, text: &str) -> Result<Attributes, String> {
        let file = tempfile::Builder::new().suffix(ending).tempfile().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut lines = Lines::open(file.path()).map_err(|error| error.to_string())?;
        let mut gathering = Gathering::default();
        while let Some(line) = lines.next().map_err(|error| error.to_string())? {
            lines.note(&line).map_err(|error| error.to_string())?;
            gathering.add(line);
        }
        Ok(gathering.end(lines.names()))
    }

    #[test]
    fn both_formats_give_the_same_attributes() {
        let json = "{\"id\": \"a\", \"label\": 7, \"new\": true}\n{\"label\": \"x\", \"id\": \"b\"}\n{\"id\":\"a\",\"label\":7}";
        let csv = "id,label,new\na,7,true\nb,x,\na,7,\n";
        let of_json = read(".jsonl", json).unwrap();
        assert_eq!(of_json, read(".csv", csv).unwrap());
        assert_eq!(of_json.names().collect::<Vec<_>>(), ["label", "new"]);
        assert_eq!(
            of_json.column("label").map(|column| column.values.clone()),
            Some(vec!["7".to_owned(), "x".to_owned()])
        );
        assert_eq!(
            (of_json.value("label", 2), of_json.value("new", 1), of_json.value("x", 0)),
            (Some("7"), None, None)
        );
        assert_eq!(of_json.rows_of("a").collect::<Vec<_>>(), [0, 2]);
        assert_eq!(of_json.rows_of("0").count(), 0);
    }

    #[test]
    fn mark_blank_lines_and_carriage_returns_are_no_rows() {
        let plain = read(".jsonl", "{\"a\": 1}\n{\"a\": 2}\n").unwrap();
        let json = "\u{feff}{\"a\": 1}\r\n\r\n{\"a\": 2}\r\n\n \n";
        assert_eq!(read(".jsonl", json).unwrap(), plain);
        assert_eq!(read(".csv", "\u{feff}\"a\"\r\n1\r\n\r\n2\r\n\r\n").unwrap(), plain);
    }

    #[test]
    fn invalid_lines_are_refused_with_their_row() {
        let long = "x".repeat(VALUE_BYTES_MAX + 1);
        let many: Vec<String> = (0..=ATTRIBUTES_MAX).map(|at| format!("\"a{at}\": 1")).collect();
        for (text, problem) in [
            ("{}\nlabel: 7\n".to_owned(), "row 1 is no JSON object"),
            ("[1]\n".to_owned(), "row 0 is no JSON object"),
            ("{\"a\": [1]}\n".to_owned(), "row 0 has a list or an object in a"),
            ("{\"id\": 1}\n{}\n".to_owned(), "row 1 has an id and the first row has none"),
            (format!("{{\"a\": \"{long}\"}}"), "row 0 has 1025 bytes in a"),
            ("x".repeat(LINE_BYTES_MAX + 9), "row 0 is longer than 131072 bytes"),
            (format!("{{{}}}", many.join(",")), "more than 64 attributes"),
        ] {
            let refused = read(".jsonl", &text).unwrap_err();
            assert!(refused.contains(problem), "expected {problem:?}: {refused}");
        }
        assert!(read(".csv", "a,b\n1\n").unwrap_err().contains("row 0"));
        for (ending, text, problem) in [
            (".csv", "a,b\n1,2\n3,\"cut\n4,5\n", "the quote that opens in line 3 has no end"),
            (".csv", "a,\"b\n1,2\n", "the quote that opens in line 1 has no end"),
            (".csv", "a,b\n3,\"cut\n", "row 0 can't be read: the quote that opens in line 2"),
            (".csv", "id,a,a\n1,2,3\n", "column 3 of the header: `a` occurs twice"),
            (".csv", "id,id,n\n1,2,3\n", "column 2 of the header: `id` occurs twice"),
            (".jsonl", "{\"a\": 12345678901234567890123}\n", "has more than 64 bits"),
            (".jsonl", "{\"a\": 1, \"a\": 2}\n", "key `a` occurs twice"),
        ] {
            let refused = read(ending, text).unwrap_err();
            assert!(refused.contains(problem), "expected {problem:?}: {refused}");
        }
        assert!(read(".txt", "").unwrap_err().contains(".jsonl or .csv"));
    }
}
